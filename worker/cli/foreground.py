"""A turn that a command takes itself: nobody goes on with it if it ends early."""

from collections.abc import Callable
from dataclasses import replace

from worker.cli.interrupts import StoppedBySignal, watch_signals
from worker.errors import HandedOver, LeaseLost, SandpiperError
from worker.turns.parts import Attempt, Deps, Ended
from worker.turns.placeholder import UnfinishedNote
from worker.turns.sandbox import remove_sandbox

STOPPED = "it was stopped by the one who ran it in a terminal"
"""What the note of a run says that Ctrl-C has ended."""


def take_turn(take: Callable[[Attempt], Ended], deps: Deps, run: Attempt, *, stopped: str) -> Ended:
    """Call `take` with a run that ends between two steps at Ctrl-C.

    If it ends without a result, its note says why, and its sandbox is gone. Raises StoppedBySignal
    with the message `stopped`, and what `take` raises.
    """
    note = UnfinishedNote(run.watch)

    def stop(number: int) -> None:
        deps.queue.leases.is_stopping = True

    def remove() -> None:
        deps.queue.leases.unregister()
        if session := note.session_id:
            remove_sandbox(session, deps)
        note.write_reason(STOPPED, deps, restores=True)

    with watch_signals(stop, remove) as came:
        try:
            return take(replace(run, watch=note.watch))
        except HandedOver:
            note.write_reason(STOPPED, deps, restores=True)
            raise StoppedBySignal(came[-1], stopped) from None
        except LeaseLost:
            raise  # another worker goes on, and its note is this one
        except SandpiperError as error:
            note.write_reason(str(error), deps)
            raise
        except StoppedBySignal:  # in the middle of a step
            note.write_reason(STOPPED, deps, restores=True)
            raise
