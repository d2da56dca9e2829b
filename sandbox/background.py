"""Starts sandboxes in the background: during the first model call, or ahead of time.

    with closing(start_in_background(driver, "session-id", [archive])) as sandbox:
        …                       # the model is asked
        sandbox.exec(…)         # waits until the start is complete

Starting and restoring files takes seconds; the first answer of a model takes longer.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from typing import Protocol

from sandbox.base import (
    Driver,
    ExecResult,
    Sandbox,
    SandboxError,
    SandboxGone,
    SandboxNotStarted,
    SandboxRefused,
    SandboxUnavailable,
)
from sandbox.framed import FramedSandbox

log = logging.getLogger("sandpiper.sandbox")

Archive = AbstractContextManager[Iterable[bytes]]

POOL_LIFETIME = 1800.0
"""The longest time that a sandbox waits in a pool, in seconds."""

_START_SECONDS = 600
_ENGINE_SECONDS, _ENGINE_PAUSE = 60.0, 0.5
"""For how long, and at what interval, a failed replacement is tried again, in seconds."""

_REFILL_PAUSE = 30.0
_TRIAL_SECONDS = 5.0


class PoolableDriver(Driver, Protocol):
    """A driver whose sandboxes a pool can hold ready."""

    def check(self) -> None:
        """Raise SandboxUnavailable unless a sandbox can be started here."""
        ...

    def start(self, session: str, archive: Iterable[bytes] | None = None) -> FramedSandbox:
        """See sandbox.base.Driver.start."""
        ...


@dataclass(frozen=True, slots=True)
class StartState:
    """The files that a sandbox started with.

    With `is_adopted` it is a running container that was taken over, with all its files. Otherwise
    `archive_number` is the archive that was restored, counted from 1, or 0 for none; `failures`
    says why each archive that was tried before was not restored.
    """

    is_adopted: bool = False
    archive_number: int = 0
    failures: tuple[str, ...] = ()


class BackgroundSandbox:
    """A sandbox that is starting in a thread. The contract is sandbox.base.Sandbox.

    Every method waits for the start, and raises SandboxGone with the reason if the start failed.
    With `at_first_use` the sandbox starts at `begin` or when a method first needs it; `close`
    before that starts nothing.
    """

    def __init__(
        self, start: Callable[[], tuple[Sandbox, StartState]], *, at_first_use: bool = False
    ) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._begun: Future[tuple[Sandbox, StartState]] | None = None
        if not at_first_use:
            self.begin()

    def replace(self, start: Callable[[], tuple[Sandbox, StartState]]) -> None:
        """Close the present sandbox and use another one, which starts now."""
        self.close()
        with self._lock:
            self._start, self._begun = start, None
        self.begin()

    def begin(self) -> "Future[tuple[Sandbox, StartState]]":
        """Start now, if it has not been started; the future has the error of a failed start."""
        with self._lock:
            if self._begun is None:
                thread = ThreadPoolExecutor(1, thread_name_prefix="sandbox-start")
                self._begun = thread.submit(self._start)
                thread.shutdown(wait=False)
            return self._begun

    def get_start_state(self, *, wait: bool = False) -> StartState | None:
        """Return what the sandbox started with; None before the start or after a failed one.

        With `wait`, wait for the start first.
        """
        if wait:
            with suppress(SandboxError):
                self._get_sandbox()
        started = self.get_started()
        return started[1] if started else None

    def get_started(self) -> tuple[Sandbox, StartState] | None:
        """Return the sandbox itself and its files; None before its start or after a failed one."""
        begun = self._begun
        if begun is None or not begun.done() or begun.exception():
            return None
        return begun.result()

    def _get_sandbox(self) -> Sandbox:
        begun = self.begin()
        if wait([begun], _START_SECONDS).not_done:
            raise SandboxGone(f"the sandbox has not started in {_START_SECONDS} s")
        if error := begun.exception():
            raise SandboxNotStarted(f"the sandbox could not be started: {error}") from error
        return begun.result()[0]

    def exec(self, command: str, *, timeout: float, number: int, cwd: str = "/tmp") -> ExecResult:
        return self._get_sandbox().exec(command, timeout=timeout, number=number, cwd=cwd)

    def put(self, path: str, content: Iterable[bytes]) -> int:
        return self._get_sandbox().put(path, content)

    def get(self, path: str, *, limit: int) -> bytes:
        return self._get_sandbox().get(path, limit=limit)

    def export(self, tell_left_out: Callable[[str], object] | None = None) -> Iterator[bytes]:
        return self._get_sandbox().export(tell_left_out)

    def close(self) -> None:
        if self._begun is not None:
            with suppress(SandboxError):
                self._get_sandbox().close()


def start_in_background(
    driver: Driver,
    session: str,
    archives: Sequence[Archive] = (),
    *,
    adopt: bool = False,
    at_first_use: bool = False,
) -> BackgroundSandbox:
    """Start a sandbox in the background, with the files of the first usable archive.

    `archives` are opened and closed in the background too. With `adopt`, a container that another
    process left running is preferred; with `at_first_use`, the start waits for the first command
    or file. Raises nothing: the methods of BackgroundSandbox report a failed start.
    """

    def start() -> tuple[Sandbox, StartState]:
        adopted = driver.adopt(session) if adopt else None
        if adopted is not None:
            return adopted, StartState(is_adopted=True)
        return _start_with_session(driver, session, archives)

    return BackgroundSandbox(start, at_first_use=at_first_use)


def replace_in_background(
    sandbox: BackgroundSandbox,
    driver: Driver,
    session: str,
    open_archives: Callable[[], Sequence[Archive]],
) -> None:
    """Replace a dead sandbox with a new one that has the files of the first usable archive.

    If the start fails, it is tried again for a while, because the engine may be down; each attempt
    calls `open_archives`. Only the dead sandbox itself is removed: another one of this session may
    be another worker's by now. Raises nothing, like `start_in_background`.
    """

    dead = sandbox.get_started()

    def start() -> tuple[Sandbox, StartState]:
        deadline = time.monotonic() + _ENGINE_SECONDS
        while True:
            try:
                if dead:
                    dead[0].close()  # again, if the engine did not answer
                return _start_with_session(driver, session, open_archives())
            except SandboxError as error:
                if isinstance(error, SandboxRefused) or time.monotonic() > deadline:
                    raise
                time.sleep(_ENGINE_PAUSE)

    sandbox.replace(start)


def _start_with_session(
    driver: Driver, session: str, archives: Sequence[Archive]
) -> tuple[Sandbox, StartState]:
    """Start a sandbox with the files of an archive, or without files if none can be unpacked."""
    failures: list[str] = []
    for number, archive in enumerate(archives, 1):
        try:
            with archive as content:
                sandbox, restored = driver.start(session, content), number
            break
        except SandboxUnavailable:
            raise
        except SandboxError as error:
            log.warning("session %s: saved files not restored: %s", session, error)
            failures.append(str(error))
    else:
        sandbox, restored = driver.start(session), 0
    if isinstance(sandbox, FramedSandbox):
        _open_session(sandbox)
    return sandbox, StartState(False, restored, tuple(failures))


def _open_session(sandbox: FramedSandbox) -> None:
    """Open the sandbox's session; remove the sandbox if that fails. Raises SandboxGone."""
    with ExitStack() as undo:
        undo.callback(sandbox.close)
        sandbox.open_session()
        undo.pop_all()


class Pool:
    """A driver that holds `size` started sandboxes ready, each with an open session.

    A sandbox that waited over `lifetime` seconds is replaced, so that no sandbox in use is old
    enough to be removed as stale. Nothing is started before `fill` or the first `start`; `close`
    ends the waiting sandboxes.
    """

    def __init__(
        self, driver: PoolableDriver, size: int, *, lifetime: float = POOL_LIFETIME
    ) -> None:
        self._driver, self._size, self._lifetime = driver, size, lifetime
        self._waiting: list[tuple[float, FramedSandbox]] = []
        self._retired: list[FramedSandbox] = []
        """Sandboxes to close. The filler closes them, as a start must not wait for that."""
        self._change = threading.Condition()
        self._filler: threading.Thread | None = None
        self._closed = False

    def check(self) -> None:
        """See PoolableDriver.check."""
        self._driver.check()

    def start(self, session: str, archive: Iterable[bytes] | None = None) -> FramedSandbox:
        """Return a waiting sandbox that still works, or a new one. See sandbox.base.Driver.start.

        A container from the pool keeps its label `warm` and is renamed; a pod is labelled anew.
        """
        sandbox = self._take_ready()
        self.fill()
        if sandbox is None:
            return self._driver.start(session, archive)
        with ExitStack() as undo:
            undo.callback(sandbox.close)
            sandbox.container.assign_session(session)
            if archive is not None:
                sandbox.restore(archive)
            undo.pop_all()
        return sandbox

    def adopt(self, session: str) -> Sandbox | None:
        """See sandbox.base.Driver.adopt. Finds a pool's sandbox by the session assigned to it."""
        return self._driver.adopt(session)

    def _take_ready(self) -> FramedSandbox | None:
        while True:
            with self._change:
                self._retire_stale()
                if not self._waiting:
                    return None
                _, sandbox = self._waiting.pop(0)
            with suppress(SandboxError):
                # Only sending something shows that a connection is lost.
                if (
                    sandbox.has_session()
                    and sandbox.exec("true", timeout=_TRIAL_SECONDS, number=0).exit_code == 0
                ):
                    return sandbox
            with self._change:
                self._retired.append(sandbox)

    def fill(self) -> None:
        """Start the missing sandboxes in the background."""
        with self._change:
            if self._closed or self._size < 1:
                return
            if self._filler is None or not self._filler.is_alive():
                self._filler = threading.Thread(
                    target=self._refill, name="sandbox-pool", daemon=True
                )
                self._filler.start()
            self._change.notify_all()

    def count_ready(self) -> int:
        """Count the waiting sandboxes."""
        with self._change:
            return len(self._waiting)

    def _refill(self) -> None:
        while self._wait_for_need():
            self._close_retired()
            try:
                sandbox = self._driver.start("warm")
                _open_session(sandbox)
            except SandboxError as error:
                log.warning("the pool of sandboxes is not filled: %s", error)
                with self._change:
                    self._change.wait_for(lambda: self._closed, _REFILL_PAUSE)
                continue
            with self._change:
                if not self._closed:
                    self._waiting.append((time.monotonic(), sandbox))
                    continue
            sandbox.close()

    def _wait_for_need(self) -> bool:
        """Wait until a sandbox is missing or too old; returns False once the pool is closed."""
        with self._change:
            while not self._closed:
                self._retire_stale()
                if len(self._waiting) < self._size:
                    return True
                expiry = self._waiting[0][0] + self._lifetime
                self._change.wait(max(0.0, expiry - time.monotonic()))
            return False

    def _retire_stale(self) -> None:
        """Retire the sandboxes that waited too long. The caller holds the lock."""
        oldest = time.monotonic() - self._lifetime
        while self._waiting and self._waiting[0][0] <= oldest:
            self._retired.append(self._waiting.pop(0)[1])

    def _close_retired(self) -> None:
        with self._change:
            retired, self._retired = self._retired, []
        for sandbox in retired:
            sandbox.close()

    def close(self) -> None:
        """End the waiting sandboxes; the others belong to whoever started them."""
        with self._change:
            self._closed = True
            waiting, self._waiting = self._waiting, []
            self._change.notify_all()
            filler = self._filler
        for _, sandbox in waiting:
            sandbox.close()
        self._close_retired()
        if filler is not None:
            filler.join(_START_SECONDS)
