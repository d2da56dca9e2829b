"""A sandbox over sessions of the in-container runner, whatever the container is made of."""

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from types import TracebackType
from typing import Any, Protocol, Self

from sandbox.base import ExecResult, SandboxGone, SandboxLimit
from sandbox.image.preview import PREVIEW
from sandbox.report import exec_result, no_result, raise_refusal
from sandbox.spec import ContainerSpec
from sandbox.stream import Session, pieces
from sandbox.wire import BadReport, Ended, Silent, StreamBroken, Wire

COMMAND_CAP = 1 << 20
"""The longest command, in bytes."""

_CONNECT_SECONDS = 60
_NO_PROGRAM = (126, 127)
_ENDING_SECONDS, _ENDING_PAUSE = 5.0, 0.02
"""How long killed processes may take to be gone."""


class Vessel(Protocol):
    """What holds the runner and the commands. Methods raise SandboxGone where it is dead."""

    name: str
    """For messages: the image, or what stands for it."""

    def connect(self, deadline: float) -> Wire:
        """A new runner, as the uid of the commands, until `deadline` (monotonic seconds)."""
        ...

    def running(self) -> bool:
        """Whether it is alive."""
        ...

    def explain_end(self) -> str:
        """Why it is no longer alive, if that is known. Never raises."""
        ...

    def belong(self, session: str) -> None:
        """From now on it is this session's, to be found by `Driver.adopt`. Never raises."""
        ...

    def sweep(self) -> None:
        """Kill all that runs under the commands' uid. Whether it worked: `count_processes`."""
        ...

    def count_processes(self) -> int:
        """How many processes live there, but for those that keep it: runners and commands.

        Told from outside, or by what the commands' uid cannot touch.
        """
        ...

    def kill(self) -> None:
        """End it now. Never raises."""
        ...

    def remove(self) -> None:
        """End it and leave nothing behind. Never raises."""
        ...


class FramedSandbox:
    """A running sandbox. The contract is sandbox.base.Sandbox.

    Commands go through one session that lives as long as the sandbox; a call that comes while it
    is busy gets another one. May be used from several threads.

    A runner that was lost may have been killed by a command that lives on. So before another runner
    begins, all that runs is killed, and if anything is left then, the sandbox is ended: where
    nothing lives, nothing can begin but what the host starts. An epoch lasts from one such clearing
    to the next, for a clearing ends the runners of all threads.
    """

    def __init__(self, vessel: Vessel, spec: ContainerSpec) -> None:
        self.vessel = vessel
        self._spec = spec
        self._closed = self._ended = False
        self._idle: list[Session] = []
        self._lock = threading.Lock()
        self._epoch = 0
        self._gate = threading.RLock()
        """Held while a runner begins, and while the sandbox is cleared."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # ----------------------------------------------------------------------------------- sessions

    def warm(self) -> None:
        """Have a session ready for the first command. Raises SandboxGone."""
        with self._session():
            pass

    def fresh(self) -> bool:
        """Whether a ready session still stands, which says that the sandbox does."""
        with self._lock:
            return bool(self._idle) and self._idle[-1].usable()

    @contextmanager
    def _session(self) -> Iterator[Session]:
        """A session of one's own, kept for the next call if this one was brought to its end."""
        session = self._take()
        try:
            yield session
        except BadReport as error:
            raise self._liar(session, error) from error
        finally:
            with self._lock:
                kept = session.ready and not (self._closed or self._ended)
                if kept:
                    self._idle.append(session)
            if not kept:
                session.wire.close()

    def _take(self) -> Session:
        while True:
            with self._lock:
                self._refuse_ended()
                session = self._idle.pop() if self._idle else None
            if session is None:
                return self._connect()
            if session.usable():
                return session
            session.wire.close()
            self._recover(session, Ended("it ended between two calls"))

    def _refuse_ended(self) -> None:
        if self._closed or self._ended:
            raise SandboxGone(f"the sandbox was {'closed' if self._closed else 'ended'}")

    def _connect(self) -> Session:
        with self._gate:
            self._refuse_ended()
            wire = self.vessel.connect(time.monotonic() + _CONNECT_SECONDS)
            return Session(wire, self._epoch)

    def _drop_sessions(self) -> None:
        with self._lock:
            dropped, self._idle = self._idle, []
        for session in dropped:
            session.wire.close()

    # ----------------------------------------------------------------------------------- commands

    def exec(self, command: str, *, timeout: float, number: int, cwd: str = "/tmp") -> ExecResult:
        """Run a command. One of more than 1 MiB is a SandboxLimit."""
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
            with self._session() as session:
                report = self._ask(session, request, timeout + self._spec.grace)
                if "error" in report:
                    raise_refusal({**report, "error": "failed"}, "the command was not begun")
                return exec_result(report, number, time.monotonic() - began)
        except StreamBroken as error:
            self._recover(session, error)
            return no_result(time.monotonic() - began, timed_out=isinstance(error, Silent))

    def _ask(self, session: Session, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """A runner that was killed was killed by the command; one that failed is our trouble."""
        try:
            session.ask(request, time.monotonic() + seconds)
            return session.report()
        except Ended as error:
            code = session.wire.exit_code() if self.vessel.running() else None
            if code is not None and code < 128:
                raise self._end(f"the runner in {self.vessel.name} failed: {error}") from error
            raise

    def _liar(self, session: Session, error: BadReport) -> SandboxGone:
        """What speaks for the runner is not ours any more: nothing it says can be shown.

        Where there is no runner, because the image is older than this code, the engine says so.
        """
        with suppress(SandboxGone):
            if session.wire.exit_code() in _NO_PROGRAM:
                return self._end(f"{self.vessel.name} has no runner that can begin: build it anew")
        return self._end(f"the sandbox sent what no runner sends ({error}); it was ended")

    def _end(self, why: str) -> SandboxGone:
        """End the sandbox, for good."""
        self._ended = True
        self._drop_sessions()
        self.vessel.kill()
        return SandboxGone(why)

    # ------------------------------------------------------------------------------- lost runners

    def _recover(self, lost: Session, why: StreamBroken) -> None:
        """Clear the sandbox of what the lost runner left, unless that was done since it began."""
        with self._gate:
            if lost.epoch != self._epoch:
                return
            if not self.vessel.running():
                self._drop_sessions()
                known = self.vessel.explain_end() or why
                raise SandboxGone(f"the sandbox's container died ({known})") from why
            self.clear()

    def clear(self) -> None:
        """Kill all that runs inside. Where anything lives on, the sandbox is ended: SandboxGone."""
        with self._gate:
            self._epoch += 1
            self._drop_sessions()
            try:
                self.vessel.sweep()
                left = self._others(0)
            except SandboxGone as error:
                known = self.vessel.explain_end() or error
                raise self._end(f"{known}; the sandbox was ended") from error
            if left:
                raise self._end(
                    f"{left} processes of a command lived on after all of them were killed, so "
                    "that nothing can be believed any more; the sandbox was ended"
                )

    def _others(self, runners: int) -> int:
        """How many processes live besides so many runners. What is ending gets time to end."""
        until = time.monotonic() + _ENDING_SECONDS
        while (others := self.vessel.count_processes() - runners) and time.monotonic() < until:
            time.sleep(_ENDING_PAUSE)
        return others

    def _isolate(self) -> None:
        """End what runs besides idle runners: it could change what is packed."""
        with self._gate:
            self._refuse_ended()
            with self._lock:
                runners = len(self._idle)
                alive = all(session.usable() for session in self._idle)
            if not alive or self._others(runners):
                self.clear()

    # -------------------------------------------------------------------------------------- files

    def put(self, path: str, content: Iterable[bytes]) -> int:
        target = inside_tmp(path)
        with self._transfer(f"writing {path}") as (session, deadline):
            session.begin(self._request("put", path=target), deadline)
            size = self._send(session, content, self._spec.put_cap, path)
            raise_refusal(session.report(), path)
        return size

    def get(self, path: str, *, limit: int) -> bytes:
        with self._transfer(f"reading {path}") as (session, deadline):
            session.ask(self._request("get", path=path, limit=limit), deadline)
            found = b"".join(self._receive(session, limit, path))
            raise_refusal(session.last(), path)
        return found

    def export(self) -> Iterator[bytes]:
        """As the contract says. Commands that still run are ended first."""
        self._isolate()
        what = "the sandbox's files"
        with self._transfer("saving the sandbox's files") as (session, deadline):
            session.ask(self._request("pack", **self._spec.archive_caps), deadline)
            yield from self._receive(session, self._spec.archive_cap, what)
            raise_refusal(session.last(), what)

    def restore(self, archive: Iterable[bytes]) -> None:
        """Unpack what `export` gave, inside the container.

        Raises SandboxLimit past a cap, also where unpacking took more memory than there is, and
        SandboxError for what is no archive.
        """
        what = "the saved files of the session"
        try:
            with self._transfer("restoring the files") as (session, deadline):
                session.begin(self._request("unpack", **self._spec.archive_caps), deadline)
                self._send(session, archive, self._spec.archive_cap, what)
                raise_refusal(session.report(), what)
        except SandboxGone as error:
            raise SandboxLimit(f"{what} cannot be unpacked: {error}") from error

    def _request(self, verb: str, **fields: object) -> dict[str, Any]:
        return {"verb": verb, "timeout": self._spec.transfer_timeout, **fields}

    def _send(self, session: Session, content: Iterable[bytes], cap: int, what: str) -> int:
        size, until = 0, time.monotonic() + self._spec.transfer_timeout
        for piece in pieces(content):
            size += len(piece)
            if size > cap:
                raise SandboxLimit(f"{what} has more than {cap:,} bytes")
            if time.monotonic() > until:
                raise SandboxLimit(f"{what} took over {self._spec.transfer_timeout:.0f} s to come")
            session.send(piece)
        session.end()
        return size

    def _receive(self, session: Session, cap: int, what: str) -> Iterator[bytes]:
        size = 0
        for piece in session.data():
            size += len(piece)
            if size > cap:
                raise SandboxLimit(f"{what} are more than {cap:,} bytes")
            yield piece

    @contextmanager
    def _transfer(self, doing: str) -> Iterator[tuple[Session, float]]:
        """A call that moves a file. What breaks it is the sandbox's end: nothing else runs now."""
        deadline = time.monotonic() + self._spec.transfer_timeout + self._spec.grace
        try:
            with self._session() as session:
                yield session, deadline
        except StreamBroken as error:
            self._recover(session, error)
            raise SandboxGone(f"{doing}: the sandbox broke off ({error})") from error

    def close(self) -> None:
        with self._lock:
            closed, self._closed = self._closed, True
        if not closed:
            self.vessel.remove()
            self._drop_sessions()


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
