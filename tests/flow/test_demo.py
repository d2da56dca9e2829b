"""`sandpiper demo` on the real engine: where it ends, and that it leaves nothing behind."""

import os
import re
import signal
from dataclasses import dataclass, field
from pathlib import Path

import docker
import httpx
import pytest

from tests import forks
from tests.flow.product import Process, containers, list_files
from tests.simulators.anthropic import AnthropicSim
from worker.lab import story

pytestmark = pytest.mark.usefixtures("sandbox_image")

MODEL = "anthropic/claude-sonnet-5-5"


@dataclass
class Demo:
    """A demo in a folder of its own, which is also where its temporary files are."""

    folder: Path
    env: dict[str, str] = field(default_factory=dict)

    def start(self, *options: str) -> Process:
        """Start it."""
        log = self.folder / "demo.log"
        env = self.env | {"TMPDIR": str(self.temporary)}
        with log.open("w") as stream:
            words = (forks.SANDPIPER, "demo", *options)
            return Process(forks.start(words, env, self.folder, stream, stream), log)

    @property
    def temporary(self) -> Path:
        """Where its temporary files are."""
        made = self.folder / "tmp"
        made.mkdir(exist_ok=True)
        return made

    def find_session(self) -> str:
        """Return the id of its session, once anything is stored of it."""
        stored = list_files(self.temporary, ".json")
        found = re.findall(r"/sessions/501/1/([0-9a-f]{20})/", "\n".join(map(str, stored)))
        return str(found[0]) if found else ""


@pytest.fixture
def demo(tmp_path: Path) -> Demo:
    kept = {
        name: os.environ[name] for name in ("PATH", "HOME", "DOCKER_HOST") if name in os.environ
    }
    return Demo(tmp_path, kept)


def list_mounts(session: str) -> list[str]:
    """The kinds of what is mounted in the session's sandboxes."""
    client = docker.from_env()
    try:
        found = [client.containers.get(each) for each in containers(session)]
        return [mount["Type"] for container in found for mount in container.attrs["Mounts"]]
    finally:
        client.close()


def assert_nothing_left(demo: Demo, session: str) -> None:
    assert session
    assert list(demo.temporary.iterdir()) == []
    assert containers(session) == []


def test_it_ends_on_the_sessions_page_which_stays_until_it_is_interrupted(demo: Demo) -> None:
    running = demo.start("--open")
    running.until(lambda: "until you press Ctrl-C" in running.log.read_text(), "no page")
    told = running.log.read_text()
    session = demo.find_session()
    (page,) = re.findall(rf"(?m)^  (http://127\.0\.0\.1:\d+/sessions/{session}\?\S+)$", told)
    shown = httpx.get(page, timeout=30)
    assert shown.status_code == 200
    assert story.QUESTION in shown.text
    running.popen.send_signal(signal.SIGINT)
    assert running.popen.wait(60) == 0, running.log.read_text()
    assert "Traceback" not in running.log.read_text()
    assert_nothing_left(demo, session)


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["term", "int"]
)
def test_what_ends_it_in_the_middle_leaves_nothing_behind(
    number: signal.Signals, status: int, demo: Demo
) -> None:
    running = demo.start()
    running.until(lambda: "iteration 1 of" in running.log.read_text(), "no step was taken")
    session = demo.find_session()
    assert "volume" not in list_mounts(session)
    running.popen.send_signal(number)
    assert running.popen.wait(60) == status, running.log.read_text()
    assert "Traceback" not in running.log.read_text()
    assert_nothing_left(demo, session)


def test_a_failure_in_the_middle_leaves_nothing_behind(demo: Demo) -> None:
    with AnthropicSim(story.make_script(), key="sk-ant-of-no-worth") as model:
        demo.env |= {"ANTHROPIC_API_KEY": "sk-ant-another-one", "ANTHROPIC_BASE_URL": model.url}
        running = demo.start("--model", MODEL)
        running.until(lambda: demo.find_session(), "nothing was stored")
        session = demo.find_session()
        assert running.popen.wait(120) == 1, running.log.read_text()
    assert "the API key was refused" in running.log.read_text()
    assert "sandpiper demo --open" in running.log.read_text()
    assert_nothing_left(demo, session)
