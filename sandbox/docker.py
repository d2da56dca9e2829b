"""Sandboxes in Docker containers.

    driver = DockerDriver(ContainerSpec(memory="1g"))
    with driver.start("session-id") as sandbox:
        result = sandbox.exec("ls -l", timeout=60, number=1)

Every sandbox has its own connection pool to the engine and may be used from several threads.
"""

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import PurePosixPath
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from docker import APIClient
from docker.errors import ImageNotFound

from sandbox.base import (
    ExecResult,
    SandboxError,
    SandboxGone,
    SandboxLimit,
    SandboxUnavailable,
)
from sandbox.engine import container_runs, engine_errors, open_engine
from sandbox.report import exec_result, no_result, raise_refusal
from sandbox.spec import CREATED_LABEL, RUNNER, SESSION_LABEL, ContainerSpec, create
from sandbox.stream import Ended, RunnerCall, Silent, StreamBroken, pieces

COMMAND_CAP = 1 << 20
"""The longest command, in bytes."""

_SWEEP = ["/bin/bash", "-c", "kill -9 -1"]
_SWEEP_SECONDS = 10
_LIMITS = {"MemoryLimit": "memory", "PidsLimit": "pids", "CpuCfsQuota": "cpus"}


class DockerSandbox:
    """A running container, made by DockerDriver.start. The contract is sandbox.base.Sandbox."""

    def __init__(self, api: APIClient, container: str, spec: ContainerSpec) -> None:
        self._api = api
        self._spec = spec
        self._closed = False
        self.container = container

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # ----------------------------------------------------------------------------------- commands

    def exec(self, command: str, *, timeout: float, number: int, cwd: str = "/tmp") -> ExecResult:
        """Run a command. One of more than 1 MiB is a SandboxLimit."""
        if len(command.encode("utf-8", "replace")) > COMMAND_CAP:
            raise SandboxLimit(f"the command is longer than {COMMAND_CAP:,} bytes: use a file")
        request = {
            "command": command,
            "cwd": cwd,
            "timeout": timeout,
            "number": number,
            "cap": self._spec.output_cap,
        }
        began = time.monotonic()
        call = self._call([*RUNNER, "exec"], timeout + self._spec.grace)
        try:
            with call:
                call.ask(request)
                report = call.report()
            return exec_result(report, number, time.monotonic() - began)
        except StreamBroken as error:
            self._sweep(error)
            self._blame(call, error)
            return no_result(time.monotonic() - began, timed_out=isinstance(error, Silent))

    def _call(self, argv: list[str], seconds: float) -> RunnerCall:
        if self._closed:
            raise SandboxGone("the sandbox was closed")
        return RunnerCall(self._api, self.container, argv, time.monotonic() + seconds)

    def _blame(self, call: RunnerCall, error: StreamBroken) -> None:
        """A runner that was killed was killed by the command; one that failed is our trouble."""
        code = call.exit_code() if isinstance(error, Ended) else None
        if code is not None and code < 128:
            raise SandboxGone(f"the runner in the image {self._spec.image} failed: {error}")

    def _sweep(self, why: StreamBroken) -> None:
        """Kill all that runs under the commands' uid; if that fails, the container."""
        if not container_runs(self._api, self.container):
            raise SandboxGone(f"the sandbox's container died ({why})") from why
        try:
            with self._call(_SWEEP, _SWEEP_SECONDS) as call:
                call.wait()
            swept = call.exit_code() in (0, 1)
        except Silent:
            swept = False
        if not swept:
            with suppress(SandboxError), engine_errors(SandboxGone, "killing the container"):
                self._api.kill(self.container)
            raise SandboxGone("the sandbox does not answer; it was ended") from why

    # -------------------------------------------------------------------------------------- files

    def put(self, path: str, content: Iterable[bytes]) -> int:
        target = inside_tmp(path)
        with self._transfer("put", f"writing {path}") as call:
            call.open({"path": target, "timeout": self._spec.transfer_timeout})
            size = self._send(call, content, self._spec.put_cap, path)
            raise_refusal(call.report(), path)
        return size

    def get(self, path: str, *, limit: int) -> bytes:
        with self._transfer("get", f"reading {path}") as call:
            call.ask({"path": path, "limit": limit, "timeout": self._spec.transfer_timeout})
            found = b"".join(self._receive(call, limit, path))
            raise_refusal(call.last(), path)
        return found

    def export(self) -> Iterator[bytes]:
        with self._transfer("pack", "saving the sandbox's files") as call:
            call.ask(self._spec.archive_caps)
            yield from self._receive(call, self._spec.archive_cap, "the sandbox's files")
            raise_refusal(call.last(), "the sandbox's files")

    def restore(self, archive: Iterable[bytes]) -> None:
        """Unpack what `export` gave, inside the container.

        Raises SandboxLimit past a cap, also where unpacking took more memory than there is, and
        SandboxError for what is no archive.
        """
        what = "the saved files of the session"
        try:
            with self._transfer("unpack", "restoring the files") as call:
                call.open(self._spec.archive_caps)
                self._send(call, archive, self._spec.archive_cap, what)
                raise_refusal(call.report(), what)
        except SandboxGone as error:
            raise SandboxLimit(f"{what} cannot be unpacked: {error}") from error

    def _send(self, call: RunnerCall, content: Iterable[bytes], cap: int, what: str) -> int:
        size, until = 0, time.monotonic() + self._spec.transfer_timeout
        for piece in pieces(content):
            size += len(piece)
            if size > cap:
                raise SandboxLimit(f"{what} has more than {cap:,} bytes")
            if time.monotonic() > until:
                raise SandboxLimit(f"{what} took over {self._spec.transfer_timeout:.0f} s to come")
            call.send(piece)
        call.end()
        return size

    def _receive(self, call: RunnerCall, cap: int, what: str) -> Iterator[bytes]:
        size = 0
        for piece in call.data():
            size += len(piece)
            if size > cap:
                raise SandboxLimit(f"{what} are more than {cap:,} bytes")
            yield piece

    @contextmanager
    def _transfer(self, verb: str, doing: str) -> Iterator[RunnerCall]:
        """A call that moves a file. What breaks it is the sandbox's end: nothing else runs now."""
        seconds = self._spec.transfer_timeout + self._spec.grace
        try:
            with self._call([*RUNNER, verb], seconds) as call:
                yield call
        except StreamBroken as error:
            self._sweep(error)
            raise SandboxGone(f"{doing}: the sandbox broke off ({error})") from error

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        with suppress(SandboxError), engine_errors(SandboxGone, "removing the sandbox"):
            self._api.remove_container(self.container, force=True, v=True)
        self._api.close()


class DockerDriver:
    """Starts containers of one spec at one engine; see sandbox.base.Driver for the contract.

    `base_url` is such as unix:///run/docker.sock or tcp://host:2375; without it the engine is
    Docker's usual choice. Nothing is contacted before `start`.
    """

    def __init__(self, spec: ContainerSpec, base_url: str | None = None) -> None:
        self._spec = spec
        self._base_url = base_url

    def check(self) -> None:
        """Raises SandboxUnavailable unless the engine answers, limits, and has the image."""
        with closing(open_engine(self._base_url)) as api:
            refuse_unlimited(api)
            with self._explained("looking for the sandbox image"):
                api.inspect_image(self._spec.image)  # type: ignore[no-untyped-call]

    def start(self, session: str, archive: Iterable[bytes] | None = None) -> DockerSandbox:
        with ExitStack() as undo:
            api = open_engine(self._base_url)
            undo.callback(api.close)
            refuse_unlimited(api)
            with self._explained("creating the sandbox"):
                created = create(api, self._spec, session)
            sandbox = DockerSandbox(api, created["Id"], self._spec)
            undo.callback(sandbox.close)
            refuse_warnings(created)
            with self._explained("starting the sandbox"):
                api.start(sandbox.container)
            if archive is not None:
                sandbox.restore(archive)
            undo.pop_all()
        return sandbox

    @contextmanager
    def _explained(self, doing: str) -> Iterator[None]:
        """The engine's refusals, as what is wrong with the configuration."""
        try:
            with engine_errors(SandboxUnavailable, doing):
                yield
        except SandboxUnavailable as error:
            if isinstance(error.__cause__, ImageNotFound):
                raise SandboxUnavailable(
                    f"the sandbox image {self._spec.image} is not on the Docker engine: build it "
                    "with `python -m sandbox.build`"
                ) from error
            if re.search(r"(unknown|invalid)[^:]* runtime", str(error), re.IGNORECASE):
                raise SandboxUnavailable(
                    f"the Docker engine has no runtime {self._spec.runtime!r}: install it there, "
                    f"or set sandbox.runtime to one it has ({error})"
                ) from error
            raise


def refuse_unlimited(api: APIClient) -> None:
    """Raises SandboxUnavailable if the engine says that it cannot enforce a limit."""
    with engine_errors(SandboxUnavailable, "asking the engine for its limits"):
        info = api.info()
    missing = [limit for key, limit in _LIMITS.items() if info.get(key) is False]
    if missing:
        raise SandboxUnavailable(
            f"the Docker engine cannot limit {', '.join(missing)}: a sandbox needs it. A rootless "
            "engine needs cgroup v2 with the controllers delegated to its user"
        )


def refuse_warnings(created: dict[str, Any]) -> None:
    """Raises SandboxUnavailable if the engine took the container but not all of its limits."""
    warnings = created.get("Warnings") or []
    if warnings:
        raise SandboxUnavailable(
            f"the Docker engine would not enforce a limit of the sandbox: {'; '.join(warnings)}"
        )


def reap(base_url: str | None, older_than: float) -> list[str]:
    """Remove sandboxes made more than `older_than` seconds ago; the sessions they belonged to.

    For what a killed worker left behind. Raises SandboxUnavailable.
    """
    api = open_engine(base_url)
    reaped = []
    try:
        with engine_errors(SandboxUnavailable, "looking for old sandboxes"):
            found = api.containers(all=True, filters={"label": SESSION_LABEL})
        for container in found:
            labels = container["Labels"]
            made = labels.get(CREATED_LABEL, "")
            age = time.time() - (int(made) if made.isdigit() else container["Created"])
            if age <= older_than:
                continue
            # Somebody else may be removing it.
            with suppress(SandboxError), engine_errors(SandboxGone, "removing an old sandbox"):
                api.remove_container(container["Id"], force=True, v=True)
                reaped.append(labels[SESSION_LABEL])
    finally:
        api.close()
    return reaped


def inside_tmp(path: str) -> str:
    """`path` without detours. Raises ValueError if it is not a file's path under /tmp."""
    pure = PurePosixPath(path)
    named = [part for part in pure.parts if part not in ("/", "//")]
    if "\0" in path or ".." in named or not pure.is_absolute() or named[:1] != ["tmp"]:
        raise ValueError(f"{path!r} is not a path under /tmp")
    sizes = [len(part.encode("utf-8", "surrogateescape")) for part in named]
    if len(named) < 2 or path.endswith("/"):
        raise ValueError(f"{path!r} names a folder, not a file")
    if max(sizes) > 255 or sum(sizes) + len(sizes) > 1024:
        raise ValueError(f"{path[:100]!r}… is too long for a path")
    return "/" + "/".join(named)


if TYPE_CHECKING:
    from sandbox.base import Driver, Sandbox

    def _conforms(driver: DockerDriver, sandbox: DockerSandbox) -> tuple[Driver, Sandbox]:
        return driver, sandbox
