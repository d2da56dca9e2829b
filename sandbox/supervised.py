"""Watches over the runners in a container: nothing that a command did is left for the next one."""

import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import Protocol, Self

from sandbox.base import SandboxGone, SandboxTaken
from sandbox.spec import ContainerSpec
from sandbox.wire import BadReport, Ended, Session, StreamBroken, Wire

log = logging.getLogger("sandpiper.sandbox")

_CONNECT_SECONDS = 60
_NO_PROGRAM = (126, 127)
_ENDING_SECONDS, _ENDING_PAUSE = 5.0, 0.02
"""How long killed processes may take to end."""


class Container(Protocol):
    """What runners and commands run in. Methods raise SandboxGone if it is dead."""

    name: str
    """The name for messages, such as the image's."""

    def connect(self, deadline: float) -> Wire:
        """Start a runner by `deadline` (monotonic seconds)."""
        ...

    def kill_commands(self) -> None:
        """Kill all runners and commands. `count_processes` shows whether that worked."""
        ...

    def count_processes(self) -> int:
        """Count the runners and commands, without the container's own processes.

        The count is taken from outside, or by a process that commands cannot interfere with.
        """
        ...

    def is_running(self) -> bool:
        """Whether the container is alive."""
        ...

    def explain_end(self) -> str:
        """Return why the container ended, or "" if that is unknown. Never raises."""
        ...

    def assign_session(self, session: str) -> None:
        """Assign the container to a session, so that `Driver.adopt` finds it, and to this owner.

        Never raises.
        """
        ...

    def check_owner(self) -> None:
        """Raise SandboxTaken if another worker has taken the container over, or SandboxGone."""
        ...

    def kill(self) -> None:
        """End the container at once. Never raises."""
        ...

    def remove(self) -> bool:
        """End the container and remove all that belongs to it, unless another worker has it now.

        Returns whether it is settled, so that another attempt is not worth it. Never raises.
        """
        ...


class SupervisedContainer:
    """A container, its idle sessions with runners, and what the engine knows of its processes.

    Calls go through one session that lives as long as the container; a call made while it is busy
    opens another one. May be used from several threads.

    Nothing is believed of what is inside, not even that a command's processes have ended. After a
    command the engine is asked whether only the idle runner is left, in the background; until it
    has said so, the sandbox is in doubt, and the next call waits. (Beside another call it does not:
    the worker runs a command only while nothing else runs.) If more is left, or if the runner was
    lost, all processes are killed before another runner starts; if any survives, the sandbox is
    ended. Afterwards only what the host starts can run. This ends the runners of all threads: an
    epoch lasts from one such killing to the next.
    """

    def __init__(self, container: Container, spec: ContainerSpec) -> None:
        self.container = container
        self._spec = spec
        self._closed = self._ended = self._removed = False
        self._idle: list[Session] = []
        self._busy = 0
        self._doubtful = False
        """Whether a command has run since processes were last counted."""
        self._lock = threading.Lock()
        self._epoch = 0
        self._gate = threading.RLock()
        """Held while a runner starts, and while processes are counted or killed."""
        self._counter = ThreadPoolExecutor(1, thread_name_prefix="sandbox-count")

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
        with self._gate, self._lock:
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
                self._busy -= 1
                reusable = session.ready and not (self._closed or self._ended)
                if reusable:
                    self._idle.append(session)
                settling = reusable and self._doubtful and not self._busy
            if not reusable:
                session.wire.close()
            if settling:
                with suppress(RuntimeError):  # closed meanwhile
                    self._counter.submit(self._settle_behind)

    def _take_session(self) -> Session:
        with self._gate:
            while True:
                session = self._pop_session()
                if session and not session.is_usable():
                    session.wire.close()
                    self._recover(session, Ended("it ended between two calls"))
                elif not self._doubtful or self._busy or self._settle(session):
                    taken = session
                    if taken is None:
                        wire = self.container.connect(time.monotonic() + _CONNECT_SECONDS)
                        taken = Session(wire, self._epoch)
                    with self._lock:
                        self._busy += 1
                    return taken

    def _pop_session(self) -> Session | None:
        with self._lock:
            self._refuse_ended()
            return self._idle.pop() if self._idle else None

    def _settle_behind(self) -> None:
        """Settle in the background, while the host does something else."""
        with suppress(SandboxGone), self._gate:
            if self._doubtful and not self._busy:
                session = self._pop_session()
                if self._settle(session) and session:
                    with self._lock:
                        self._idle.append(session)
                        closed = self._closed
                    if closed:
                        self._drop_sessions()

    def _settle(self, session: Session | None) -> bool:
        """Ask the engine whether only the runner of `session` is left; if not, kill everything.

        Returns whether the session may be used; else it is closed. The caller holds the gate.
        """
        with self._lock:
            others, self._idle = self._idle, []
        for each in others:
            each.wire.close()  # a runner that a command has killed could hide a process of its own
        with ExitStack() as undo:
            if session:
                undo.callback(session.wire.close)
            if left := self._count_others(1 if session else 0):
                log.warning("%d processes have outlived their command: all are killed", left)
                self.kill_commands()
                return session is None
            undo.pop_all()
        self._doubtful = False
        return True

    def _refuse_ended(self) -> None:
        if self._closed or self._ended:
            raise SandboxGone(f"the sandbox was {'closed' if self._closed else 'ended'}")

    def _drop_sessions(self) -> None:
        with self._lock:
            dropped, self._idle = self._idle, []
        for session in dropped:
            session.wire.close()

    # ---------------------------------------------------------------------- ends and lost runners

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
        """End the sandbox for good, unless another worker has it; returns the error to raise."""
        self._ended = True
        self._drop_sessions()
        try:
            self.container.check_owner()
        except SandboxTaken as error:
            return error
        except SandboxGone as error:
            return SandboxGone(f"{why}; {error}")
        self.container.kill()
        return SandboxGone(why)

    def _recover(self, lost: Session, why: StreamBroken) -> None:
        """Kill the processes that a lost runner left, unless they were killed since it started."""
        with self._gate:
            if lost.epoch != self._epoch:
                self._refuse_ended()
                return
            if not self.container.is_running():
                self._drop_sessions()
                cause = self.container.explain_end() or why
                raise SandboxGone(f"the sandbox's container died ({cause})") from why
            self.kill_commands()

    def kill_commands(self) -> None:
        """Kill all runners and commands, if the sandbox is ours. If any survives, end the sandbox.

        Raises SandboxGone.
        """
        with self._gate:
            try:
                self.container.check_owner()
            except SandboxGone:
                self._ended = True
                self._drop_sessions()
                raise
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
            self._doubtful = False

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
            try:
                is_quiet = alive and not self._count_others(runners)
            except SandboxGone:  # one count has failed: what is killed is counted once more
                is_quiet = False
            if not is_quiet:
                self.kill_commands()

    def close(self) -> None:
        """See Sandbox.close. If the engine did not answer, another call tries again."""
        with self._lock:
            self._closed = True
            removed, self._removed = self._removed, True
        if not removed:
            self._counter.shutdown(wait=False, cancel_futures=True)
            if not self.container.remove():
                self._removed = False
            self._drop_sessions()
