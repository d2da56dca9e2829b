"""Sandboxes that start while something else goes on: behind the first model call, or ahead of need.

    with closing(start_soon(driver, "session-id", [archive])) as sandbox:
        …                       # the model is asked
        sandbox.exec(…)         # waits for what is left of the start

A start costs seconds where files are restored; asking a model takes longer.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sandbox.base import ExecResult, Sandbox, SandboxError, SandboxGone, SandboxUnavailable
from sandbox.framed import FramedSandbox

log = logging.getLogger("sandpiper.sandbox")

Archive = AbstractContextManager[Iterable[bytes]]

POOL_LIFETIME = 1800.0
"""Seconds a sandbox waits in a pool at most."""

_START_SECONDS = 600
_REFILL_PAUSE = 30.0


class Warmable(Protocol):
    """What can be kept ahead of need: a driver of framed sandboxes."""

    def check(self) -> None:
        """See sandbox.docker.DockerDriver.check."""
        ...

    def start(self, session: str, archive: Iterable[bytes] | None = None) -> FramedSandbox:
        """See sandbox.base.Driver.start."""
        ...

    def adopt(self, session: str) -> Sandbox | None:
        """See sandbox.base.Driver.adopt."""
        ...


class Starter(Protocol):
    """What `start_soon` needs of a driver."""

    def start(self, session: str, archive: Iterable[bytes] | None = None) -> Sandbox:
        """See sandbox.base.Driver.start."""
        ...

    def adopt(self, session: str) -> Sandbox | None:
        """See sandbox.base.Driver.adopt."""
        ...


@dataclass(frozen=True, slots=True)
class Began:
    """What a sandbox began with.

    `adopted` is a container that was running, with all its files. Else `restored` counts from 1
    which of the archives was unpacked, 0 if none; `failures` say why those before it were not.
    """

    adopted: bool = False
    restored: int = 0
    failures: tuple[str, ...] = ()


class SoonSandbox:
    """A sandbox that is being started. The contract is sandbox.base.Sandbox.

    Every method waits for the start; where that failed, it raises SandboxGone with the reason.
    `wait` raises the reason itself.
    """

    def __init__(self, start: Callable[[], tuple[Sandbox, Began]]) -> None:
        thread = ThreadPoolExecutor(1, thread_name_prefix="sandbox-start")
        self._future = thread.submit(start)
        thread.shutdown(wait=False)

    def wait(self) -> None:
        """Until it has started. Raises what the start raised, and what reading the archive did."""
        try:
            self._future.result(_START_SECONDS)
        except FutureTimeout as error:
            raise SandboxGone(f"the sandbox has not started in {_START_SECONDS} s") from error

    def began(self, *, wait: bool = False) -> Began | None:
        """What it began with; None if it has not started (yet). `wait` waits for that."""
        if wait:
            with suppress(SandboxError):
                self._started()
        if not self._future.done() or self._future.exception():
            return None
        return self._future.result()[1]

    def _started(self) -> Sandbox:
        if wait([self._future], _START_SECONDS).not_done:
            raise SandboxGone(f"the sandbox has not started in {_START_SECONDS} s")
        if error := self._future.exception():
            raise SandboxGone(f"the sandbox could not be started: {error}") from error
        return self._future.result()[0]

    def exec(self, command: str, *, timeout: float, number: int, cwd: str = "/tmp") -> ExecResult:
        return self._started().exec(command, timeout=timeout, number=number, cwd=cwd)

    def put(self, path: str, content: Iterable[bytes]) -> int:
        return self._started().put(path, content)

    def get(self, path: str, *, limit: int) -> bytes:
        return self._started().get(path, limit=limit)

    def export(self) -> Iterator[bytes]:
        return self._started().export()

    def close(self) -> None:
        with suppress(SandboxError):
            self._started().close()


def start_soon(
    driver: Starter, session: str, archives: Sequence[Archive] = (), *, adopt: bool = False
) -> SoonSandbox:
    """Start a sandbox in the background, with the files of the first of `archives` that is whole.

    `archives` are entered and left there as well. With `adopt` a container that another process
    has left is taken on instead. Nothing is raised here: see SoonSandbox.
    """

    def start() -> tuple[Sandbox, Began]:
        left = driver.adopt(session) if adopt else None
        if left is not None:
            return left, Began(adopted=True)
        sandbox, began = _restored(driver, session, archives)
        if isinstance(sandbox, FramedSandbox):
            _warm(sandbox)
        return sandbox, began

    return SoonSandbox(start)


def _warm(sandbox: FramedSandbox) -> None:
    """Have a session ready, or leave nothing of it behind. Raises SandboxGone."""
    with ExitStack() as undo:
        undo.callback(sandbox.close)
        sandbox.warm()
        undo.pop_all()


def _restored(driver: Starter, session: str, archives: Sequence[Archive]) -> tuple[Sandbox, Began]:
    """A sandbox with files, or without any where no archive can be unpacked."""
    failures: list[str] = []
    for number, archive in enumerate(archives, 1):
        try:
            with archive as content:
                return driver.start(session, content), Began(False, number, tuple(failures))
        except SandboxUnavailable:
            raise
        except SandboxError as error:
            log.warning("session %s: saved files not restored: %s", session, error)
            failures.append(str(error))
    return driver.start(session), Began(failures=tuple(failures))


class Pool:
    """A driver that keeps `size` sandboxes started, each with a session ready.

    One that waited over `lifetime` seconds is replaced, so that no reaper comes for one in use.
    Nothing is started before `fill` or the first `start`; `close` ends those that wait.
    """

    def __init__(self, driver: Warmable, size: int, *, lifetime: float = POOL_LIFETIME) -> None:
        self._driver, self._size, self._lifetime = driver, size, lifetime
        self._waiting: list[tuple[float, FramedSandbox]] = []
        self._change = threading.Condition()
        self._filler: threading.Thread | None = None
        self._closed = False

    def check(self) -> None:
        """As the driver's."""
        self._driver.check()

    def start(self, session: str, archive: Iterable[bytes] | None = None) -> FramedSandbox:
        """One that waited, if one still stands; else a new one. See sandbox.base.Driver.start.

        A sandbox that waited bears the label `warm` and its session's name.
        """
        sandbox = self._take()
        self.fill()
        if sandbox is None:
            return self._driver.start(session, archive)
        sandbox.vessel.belong(session)
        if archive is not None:
            try:
                sandbox.restore(archive)
            except (SandboxError, OSError):
                sandbox.close()
                raise
        return sandbox

    def adopt(self, session: str) -> Sandbox | None:
        """As the driver's: sandboxes that were taken bear their sessions' names."""
        return self._driver.adopt(session)

    def _take(self) -> FramedSandbox | None:
        while True:
            with self._change:
                if not self._waiting:
                    return None
                since, sandbox = self._waiting.pop(0)
            if time.monotonic() - since < self._lifetime and sandbox.fresh():
                return sandbox
            sandbox.close()

    def fill(self) -> None:
        """Start what is missing, in the background."""
        with self._change:
            if self._closed or self._size < 1:
                return
            if self._filler is None or not self._filler.is_alive():
                self._filler = threading.Thread(target=self._keep, name="sandbox-pool", daemon=True)
                self._filler.start()
            self._change.notify_all()

    def ready(self) -> int:
        """How many wait."""
        with self._change:
            return len(self._waiting)

    def _keep(self) -> None:
        while self._wait_for_need():
            try:
                sandbox = self._driver.start("warm")
                _warm(sandbox)
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
        """False when the pool was closed."""
        with self._change:
            self._change.wait_for(lambda: self._closed or len(self._waiting) < self._size)
            return not self._closed

    def close(self) -> None:
        """End those that wait; those that were taken are their owners'."""
        with self._change:
            self._closed = True
            waiting, self._waiting = self._waiting, []
            self._change.notify_all()
            filler = self._filler
        for _, sandbox in waiting:
            sandbox.close()
        if filler is not None:
            filler.join(_START_SECONDS)


if TYPE_CHECKING:
    from sandbox.base import Driver

    def _conforms(sandbox: SoonSandbox, pool: Pool) -> tuple[Sandbox, Driver]:
        return sandbox, pool
