"""A sandbox that runs its calls through the runner in a container of any kind."""

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import Any, Protocol, Self

from sandbox.base import (
    ExecResult,
    SandboxError,
    SandboxGone,
    SandboxLimit,
    SandboxUnavailable,
)
from sandbox.image.preview import PREVIEW
from sandbox.report import make_empty_result, parse_result, raise_refusal
from sandbox.spec import ContainerSpec
from sandbox.stream import Session, split_content
from sandbox.wire import BadReport, Ended, Silent, StreamBroken, Wire

COMMAND_CAP = 1 << 20
"""The longest command, in bytes."""

_CONNECT_SECONDS = 60
_NO_PROGRAM = (126, 127)
_ENDING_SECONDS, _ENDING_PAUSE = 5.0, 0.02
"""How long killed processes may take to end."""


class Processes(Protocol):
    """The runners and commands in a container. Methods raise SandboxGone if it is dead."""

    def connect(self, deadline: float) -> Wire:
        """Start a runner as the commands' uid by `deadline` (monotonic seconds)."""
        ...

    def kill_commands(self) -> None:
        """Kill every process of the commands' uid. `count_processes` shows whether that worked."""
        ...

    def count_processes(self) -> int:
        """Count the runners and commands, without the container's own processes.

        The count is taken from outside, or by a process that commands cannot interfere with.
        """
        ...


class Container(Processes, Protocol):
    """What the runners and commands run in."""

    name: str
    """The name for messages, such as the image's."""

    def is_running(self) -> bool:
        """Whether the container is alive."""
        ...

    def explain_end(self) -> str:
        """Return why the container ended, or "" if that is unknown. Never raises."""
        ...

    def assign_session(self, session: str) -> None:
        """Assign the container to a session, so that `Driver.adopt` finds it. Never raises."""
        ...

    def kill(self) -> None:
        """End the container at once. Never raises."""
        ...

    def remove(self) -> None:
        """End the container and remove all that belongs to it. Never raises."""
        ...


class FramedSandbox:
    """A running sandbox. The contract is sandbox.base.Sandbox.

    Commands go through one session that lives as long as the sandbox; a call made while it is busy
    opens another one. May be used from several threads.

    A runner that was lost may have been killed by a command that still runs. So before another
    runner starts, all processes are killed; if any survives, the sandbox is ended. Afterwards only
    what the host starts can run. This ends the runners of all threads: an epoch lasts from one
    such killing to the next.
    """

    def __init__(self, container: Container, spec: ContainerSpec) -> None:
        self.container = container
        self._spec = spec
        self._closed = self._ended = False
        self._idle: list[Session] = []
        self._lock = threading.Lock()
        self._epoch = 0
        self._gate = threading.RLock()
        """Held while a runner starts and while all commands are killed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # ----------------------------------------------------------------------------------- sessions

    def open_session(self) -> None:
        """Open a session for the first command ahead of time. Raises SandboxGone."""
        with self._borrow_session():
            pass

    def has_session(self) -> bool:
        """Whether an open session still works, which means that the sandbox does too."""
        with self._lock:
            return bool(self._idle) and self._idle[-1].is_usable()

    @contextmanager
    def _borrow_session(self) -> Iterator[Session]:
        """Borrow a session for one call; it is kept for the next call if this one is completed."""
        session = self._take_session()
        try:
            yield session
            self._refuse_ended()  # if it was ended meanwhile, its answer must not be shown
        except BadReport as error:
            raise self._end_after_bad_report(session, error) from error
        finally:
            with self._lock:
                reusable = session.ready and not (self._closed or self._ended)
                if reusable:
                    self._idle.append(session)
            if not reusable:
                session.wire.close()

    def _take_session(self) -> Session:
        while True:
            with self._lock:
                self._refuse_ended()
                session = self._idle.pop() if self._idle else None
            if session is None:
                return self._connect()
            if session.is_usable():
                return session
            session.wire.close()
            self._recover(session, Ended("it ended between two calls"))

    def _refuse_ended(self) -> None:
        if self._closed or self._ended:
            raise SandboxGone(f"the sandbox was {'closed' if self._closed else 'ended'}")

    def _connect(self) -> Session:
        with self._gate:
            self._refuse_ended()
            wire = self.container.connect(time.monotonic() + _CONNECT_SECONDS)
            return Session(wire, self._epoch)

    def _drop_sessions(self) -> None:
        with self._lock:
            dropped, self._idle = self._idle, []
        for session in dropped:
            session.wire.close()

    # ----------------------------------------------------------------------------------- commands

    def exec(self, command: str, *, timeout: float, number: int, cwd: str = "/tmp") -> ExecResult:
        """Run a command. Raises SandboxLimit if it is longer than 1 MiB."""
        if len(command.encode("utf-8", "replace")) > COMMAND_CAP:
            raise SandboxLimit(f"the command is longer than {COMMAND_CAP:,} bytes: use a file")
        request = {
            "verb": "exec",
            "command": command,
            "cwd": cwd,
            "timeout": timeout,
            "number": number,
            "cap": self._spec.output_cap,
            "preview": min(self._spec.preview, PREVIEW),
        }
        began = time.monotonic()
        try:
            with self._borrow_session() as session:
                report = self._ask(session, request, timeout + self._spec.grace)
                if "error" in report:
                    raise_refusal({**report, "error": "failed"}, "the command was not begun")
                return parse_result(report, number, time.monotonic() - began)
        except StreamBroken as error:
            self._recover(session, error)
            return make_empty_result(time.monotonic() - began, timed_out=isinstance(error, Silent))

    def _ask(self, session: Session, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Send a request and read its report.

        A killed runner was killed by its command. A runner that exits with 0 has lost the
        connection. Any other exit code is a bug of the runner, and the sandbox is ended.
        """
        try:
            session.send_request(request, time.monotonic() + seconds)
            return session.read_report()
        except Ended as error:
            code = session.wire.get_exit_code() if self.container.is_running() else None
            if code is not None and 0 < code < 128:
                raise self._end(f"the runner in {self.container.name} failed: {error}") from error
            raise

    def _end_after_bad_report(self, session: Session, error: BadReport) -> SandboxGone:
        """End the sandbox after a report that no runner sends; nothing from it can be trusted.

        Exit codes 126 and 127 show that the image has no runner, as it is older than this code.
        """
        with suppress(SandboxGone):
            if not self.container.is_running():
                return self._end(f"the sandbox's container died ({error})")
            if session.wire.get_exit_code() in _NO_PROGRAM:
                return self._end(
                    f"{self.container.name} has no runner that can begin: build it anew"
                )
        return self._end(f"the sandbox sent what no runner sends ({error}); it was ended")

    def _end(self, why: str) -> SandboxGone:
        """End the sandbox for good; returns the error to raise."""
        self._ended = True
        self._drop_sessions()
        self.container.kill()
        return SandboxGone(why)

    # ------------------------------------------------------------------------------- lost runners

    def _recover(self, lost: Session, why: StreamBroken) -> None:
        """Kill the processes that a lost runner left, unless they were killed since it started."""
        with self._gate:
            if lost.epoch != self._epoch:
                return
            if not self.container.is_running():
                self._drop_sessions()
                cause = self.container.explain_end() or why
                raise SandboxGone(f"the sandbox's container died ({cause})") from why
            self.kill_commands()

    def kill_commands(self) -> None:
        """Kill all runners and commands. If any survives, end the sandbox and raise SandboxGone."""
        with self._gate:
            self._epoch += 1
            self._drop_sessions()
            try:
                self.container.kill_commands()
                left = self._count_others(0)
            except SandboxGone as error:
                cause = self.container.explain_end() or error
                raise self._end(f"{cause}; the sandbox was ended") from error
            if left:
                raise self._end(
                    f"{left} processes of a command lived on after all of them were killed, so "
                    "that nothing can be believed any more; the sandbox was ended"
                )

    def _count_others(self, runners: int) -> int:
        """Count the processes besides `runners`, after giving killed processes time to end."""
        until = time.monotonic() + _ENDING_SECONDS
        while (others := self.container.count_processes() - runners) and time.monotonic() < until:
            time.sleep(_ENDING_PAUSE)
        return others

    def _end_commands(self) -> None:
        """End all commands, which could otherwise change files while they are packed."""
        with self._gate:
            self._refuse_ended()
            with self._lock:
                runners = len(self._idle)
                alive = all(session.is_usable() for session in self._idle)
            if not alive or self._count_others(runners):
                self.kill_commands()

    # -------------------------------------------------------------------------------------- files

    def put(self, path: str, content: Iterable[bytes]) -> int:
        target = resolve_tmp_path(path)
        with self._transfer(f"writing {path}") as (session, deadline):
            session.begin_request(self._request("put", path=target), deadline)
            size = self._send(session, content, self._spec.put_cap, path)
            raise_refusal(session.read_report(), path)
        return size

    def get(self, path: str, *, limit: int) -> bytes:
        with self._transfer(f"reading {path}") as (session, deadline):
            session.send_request(self._request("get", path=path, limit=limit), deadline)
            content = b"".join(self._receive(session, limit, path))
            raise_refusal(session.read_last_report(), path)
        return content

    def export(self) -> Iterator[bytes]:
        """See Sandbox.export. Commands that still run are ended first."""
        self._end_commands()
        what = "the sandbox's files"
        with self._transfer("saving the sandbox's files") as (session, deadline):
            session.send_request(self._request("pack", **self._spec.archive_caps), deadline)
            yield from self._receive(session, self._spec.archive_cap, what)
            raise_refusal(session.read_last_report(), what)

    def restore(self, archive: Iterable[bytes]) -> None:
        """Unpack an archive from `export` inside the container.

        Raises SandboxLimit if a cap is exceeded or unpacking runs out of memory, SandboxError if it
        is no archive, and SandboxUnavailable if the connection is lost: another start may succeed.
        """
        what = "the saved files of the session"
        try:
            with self._transfer("restoring the files") as (session, deadline):
                try:
                    self._unpack(session, deadline, archive, what)
                except Ended as error:
                    if self._is_connection_lost(session):
                        raise SandboxUnavailable(f"restoring the files: {error}") from error
                    raise
        except SandboxGone as error:
            raise self._explain_unrestored(error, what) from error

    def _unpack(
        self, session: Session, deadline: float, archive: Iterable[bytes], what: str
    ) -> None:
        session.begin_request(self._request("unpack", **self._spec.archive_caps), deadline)
        self._send(session, archive, self._spec.archive_cap, what)
        raise_refusal(session.read_report(), what)

    def _is_connection_lost(self, session: Session) -> bool:
        """Whether a stream ended although neither the runner nor the container failed."""
        if session.wire.get_exit_code() not in (None, 0):
            return False
        # The engine may report the container's end with a delay, which `explain_end` waits out.
        return not self.container.explain_end() and self.container.is_running()

    def _explain_unrestored(self, error: SandboxGone, what: str) -> SandboxError:
        """Make the error to raise; the archive is blamed only if the engine still answers."""
        with suppress(SandboxGone):
            self.container.is_running()
            return SandboxLimit(f"{what} cannot be unpacked: {error}")
        return SandboxUnavailable(f"restoring the files: {error}")

    def _request(self, verb: str, **fields: object) -> dict[str, Any]:
        return {"verb": verb, "timeout": self._spec.transfer_timeout, **fields}

    def _send(self, session: Session, content: Iterable[bytes], cap: int, what: str) -> int:
        size, until = 0, time.monotonic() + self._spec.transfer_timeout
        for piece in split_content(content):
            size += len(piece)
            if size > cap:
                raise SandboxLimit(f"{what} has more than {cap:,} bytes")
            if time.monotonic() > until:
                raise SandboxLimit(f"{what} took over {self._spec.transfer_timeout:.0f} s to come")
            session.send_data(piece)
        session.end_data()
        return size

    def _receive(self, session: Session, cap: int, what: str) -> Iterator[bytes]:
        size = 0
        for piece in session.read_data():
            size += len(piece)
            if size > cap:
                raise SandboxLimit(f"{what} are more than {cap:,} bytes")
            yield piece

    @contextmanager
    def _transfer(self, doing: str) -> Iterator[tuple[Session, float]]:
        """Open a call that moves files. If its stream breaks, recover and raise SandboxGone."""
        deadline = time.monotonic() + self._spec.transfer_timeout + self._spec.grace
        try:
            with self._borrow_session() as session:
                yield session, deadline
        except StreamBroken as error:
            self._recover(session, error)
            raise SandboxGone(f"{doing}: the sandbox broke off ({error})") from error

    def close(self) -> None:
        with self._lock:
            closed, self._closed = self._closed, True
        if not closed:
            self.container.remove()
            self._drop_sessions()


def resolve_tmp_path(path: str) -> str:
    """Return `path` normalised. Raises ValueError if it is not a file's path under /tmp."""
    pure = PurePosixPath(path)
    parts = [part for part in pure.parts if part not in ("/", "//")]
    if "\0" in path or ".." in parts or not pure.is_absolute() or parts[:1] != ["tmp"]:
        raise ValueError(f"{path!r} is not a path under /tmp")
    sizes = [len(part.encode("utf-8", "surrogateescape")) for part in parts]
    if len(parts) < 2 or path.endswith("/"):
        raise ValueError(f"{path!r} names a folder, not a file")
    if max(sizes) > 255 or sum(sizes) + len(sizes) > 1024:
        raise ValueError(f"{path[:100]!r}… is too long for a path")
    return "/" + "/".join(parts)
