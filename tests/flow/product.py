"""The product as an operator runs it: processes and the environment."""

import itertools
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, Protocol

import docker
import httpx

from tests import forks
from tests.flow import quotes
from tests.simulators.anthropic import AnthropicSim
from tests.simulators.gitlab import GitLabSim, Note, Receiver
from worker.lab import story
from worker.lab.cases import load_case
from worker.lab.running import Staged, stage_case
from worker.lab.script import Script

SECRET = "flow-webhook-secret-0123456789"
KEY = "sk-ant-flow-key-of-no-worth-at-all"
DEADLINE = 60.0
Driver = Literal["bubblewrap", "docker"]
BUBBLEWRAP: Driver = "bubblewrap"
DOCKER: Driver = "docker"
SETTINGS: Mapping[Driver, str] = {BUBBLEWRAP: "sandbox: {driver: bubblewrap}\n", DOCKER: ""}
"""What sandpiper.yaml says of the sandboxes' driver."""


class ModelSim(Protocol):
    """What the simulators of all model APIs have in common."""

    url: str
    requests: list[dict[str, Any]]
    raw: list[bytes]
    answers: list[dict[str, Any]]
    unexpected_requests: list[str]

    def fail_next(self, status: int, *, times: int = 1) -> None:
        """Answer the next requests with this status."""
        ...


@dataclass
class Product:
    """The world of one flow test: both simulators and the environment that names them.

    `outside` are the lines of pages beside GitLab that notes may quote, by their addresses.
    With `forks` off, each command is a new interpreter, as the installed script starts it.

    `driver` says what sandboxes are made of. Those of bubblewrap are real as well, and take a
    third of the processor's time; with DOCKER run the tests in which the engine matters (it is
    away, its containers outlive their worker or are counted, limits, the image's tools) and one
    whole story of each kind.
    """

    gitlab: GitLabSim
    model: ModelSim
    scene: Staged
    folder: Path
    env: dict[str, str] = field(default_factory=dict)
    url: str = ""
    outside: dict[str, list[str]] = field(default_factory=dict)
    forks: bool = True
    driver: Driver = BUBBLEWRAP

    def use_docker(self) -> None:
        """Have the sandboxes be containers of the engine."""
        self.driver = DOCKER
        self.write_settings()

    def write_settings(self, text: str = "") -> None:
        """Write sandpiper.yaml: this, and the driver of the sandboxes."""
        (self.folder / "sandpiper.yaml").write_text(text + SETTINGS[self.driver])

    def list_sandboxes(self, session: str) -> list[str]:
        """List the sandboxes that one session has left; with bubblewrap, that any has left."""
        if self.driver == DOCKER:
            return containers(session)
        return [path.name for path in Path(self.env["TMPDIR"]).glob("sandpiper-box-*")]

    def run(
        self, *arguments: str, timeout: float = 3 * DEADLINE
    ) -> subprocess.CompletedProcess[str]:
        """One command to its end."""
        if self.forks:
            return forks.run((forks.SANDPIPER, *arguments), self.env, self.folder, timeout)
        return subprocess.run(
            _command(*arguments),
            env=self.env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    @contextmanager
    def process(self, *arguments: str) -> Iterator["Process"]:
        """A command in the background, ended by SIGTERM."""
        log = self.folder / f"{arguments[0]}.log"
        with log.open("w") as stream:
            popen = self._start(arguments, stream)
        with ending(popen):
            yield Process(popen, log)

    def _start(self, arguments: tuple[str, ...], stream: IO[str]) -> "Running":
        if self.forks:
            words = (forks.SANDPIPER, *arguments)
            return forks.start(words, self.env, self.folder, stream, stream)
        return subprocess.Popen(
            _command(*arguments), env=self.env, cwd=self.folder, stdout=stream, stderr=stream
        )

    @contextmanager
    def piped(self, *arguments: str) -> Iterator[tuple["subprocess.Popen[bytes]", IO[bytes]]]:
        """A command in the background, and the end of the pipe that it prints to."""
        popen = subprocess.Popen(
            _command(*arguments),
            env=self.env,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert popen.stdout
        with ending(popen):
            yield popen, popen.stdout

    @contextmanager
    def serve(self, *options: str) -> Iterator["Process"]:
        """`sandpiper serve` on a free port, with the simulated GitLab's webhook pointed at it."""
        port = free_port()
        with self.process("serve", "--port", str(port), *options) as process:
            self.url = f"http://127.0.0.1:{port}"
            process.until(lambda: healthy(self.url), "serve does not answer")
            self.gitlab.receiver = Receiver(f"{self.url}/webhooks/gitlab", SECRET)
            yield process

    def pipeline_failed(self) -> httpx.Response:
        """GitLab's webhook for the failed pipeline."""
        return self.gitlab.deliver(self.gitlab.make_pipeline_event(self.scene.pipeline))

    def notes(self) -> list[Note]:
        """The bot's notes on the merge request, oldest first."""
        return [note for note in self.scene.mr.list_notes() if note.author is self.scene.bot]

    def objects(self, name: str) -> list[Path]:
        """The folder store's objects of this name, in the order of their turns."""
        store = self.folder / "store"
        return [
            path
            for path in list_files(store / "sessions", name)
            if path.name == name and len(path.relative_to(store).parts) == 6
        ]

    def unfinished(self) -> list[Path]:
        """The folder store's records of accepted triggers that have not ended."""
        return list_files(self.folder / "store" / "journal", ".json")


def list_files(folder: Path, suffix: str) -> list[Path]:
    """The files below a folder whose names end so. `rglob` fails where a folder is removed."""
    found = (Path(at, name) for at, _, names in os.walk(folder) for name in names)
    return sorted(path for path in found if path.name.endswith(suffix))


Running = forks.Fork | subprocess.Popen[bytes]


@contextmanager
def ending(popen: Running) -> Iterator[None]:
    """End a process by SIGTERM, and by SIGKILL if that is not enough."""
    try:
        yield
    finally:
        popen.terminate()
        try:
            popen.wait(30)
        finally:
            popen.kill()


@dataclass
class Process:
    """A running command and its log."""

    popen: Running
    log: Path

    def until(
        self, condition: Callable[[], object], otherwise: str, within: float = DEADLINE
    ) -> None:
        """Wait for `condition`; fail with the process's log after `within` seconds."""
        deadline = time.monotonic() + within
        while not condition():
            dead = self.popen.poll() is not None
            if dead or time.monotonic() > deadline:
                raise AssertionError(f"{otherwise}\n{self.log.read_text()}")
            time.sleep(0.02)


@contextmanager
def product(
    folder: Path,
    script: Script,
    broker: str,
    simulator: Callable[..., AbstractContextManager[Any]] = AnthropicSim,
    key: str = KEY,
    driver: Driver = BUBBLEWRAP,
) -> Iterator[Product]:
    """The bundled case behind both simulators, and the environment for the product.

    Ends with a look at every quote in the bot's notes: each stands where it says.
    """
    with (
        GitLabSim() as gitlab,
        simulator(script, key=key) as model,
        tempfile.TemporaryDirectory(prefix="sp-") as temporary,
    ):
        scene = stage_case(gitlab, load_case(story.CASE))
        made = Product(gitlab, model, scene, folder, driver=driver)
        made.env = make_environment(made, broker, scene.read_token, scene.write_token) | {
            "TMPDIR": temporary
        }
        made.write_settings()
        yield made
        for note in made.notes():
            quotes.check(gitlab, note.body, made.outside)


def containers(session: str) -> list[str]:
    """The ids of the sandboxes that one session has left."""
    client = docker.from_env()
    try:
        found = client.containers.list(all=True, filters={"label": f"sandpiper.session={session}"})
        return [str(container.id) for container in found]
    finally:
        client.close()


def make_environment(made: Product, broker: str, read: str, write: str) -> dict[str, str]:
    """Return the environment that names both simulators; `read` and `write` are GitLab's tokens."""
    kept: Mapping[str, str] = {
        name: os.environ[name] for name in ("PATH", "HOME", "DOCKER_HOST") if name in os.environ
    }
    return {
        **kept,
        "GITLAB_URL": made.gitlab.url,
        "GITLAB_READ_TOKEN": read,
        "GITLAB_WRITE_TOKEN": write,
        "GITLAB_WEBHOOK_SECRET": SECRET,
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": made.model.url,
        "SANDPIPER_BROKER": broker,
        "SANDPIPER_STORE": f"file://{made.folder}/store",
    }


def _command(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).with_name("sandpiper")), *arguments]


def healthy(url: str) -> bool:
    try:
        # Reading the certificates of a machine takes longer than such a request.
        answer = httpx.get(f"{url}/healthz", timeout=2, verify=False)
        return answer.status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


_PORTS = itertools.count(10_000 + os.getpid() * 37 % 20_000)
"""Below the ports that the kernel gives to connections, and elsewhere for each test process."""


def free_port() -> int:
    """A port that nobody listens on, given out once in this process."""
    while True:
        port = 10_000 + next(_PORTS) % 20_000
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
