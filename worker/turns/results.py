"""How a turn ends, or why there was none."""

from dataclasses import dataclass

from worker.core.conversation.context import NoteRef, Outcome
from worker.core.ports import SessionKey
from worker.errors import SandpiperError


@dataclass(frozen=True, slots=True)
class Skipped:
    """Nothing was to be done; the reason is recorded. `at_work` says that somebody else does it."""

    reason: str
    at_work: bool = False


@dataclass(frozen=True, slots=True)
class Finished:
    """A turn was taken: what came out, the note's body, and where the session lies."""

    key: SessionKey
    turn: int
    outcome: Outcome
    body: str
    note: NoteRef
    location: str


class Busy(SandpiperError):
    """Another trigger is at work on the session: come back later."""

    def __init__(self, message: str) -> None:
        super().__init__(message, transient=True)


Ended = Skipped | Finished


class Stopped(SandpiperError):
    """The run is to end with what there is; the message is the reason that is posted."""


@dataclass(frozen=True, slots=True)
class NotesMarked:
    """A pipeline passed: the sessions whose notes say so now."""

    pipeline_id: int
    sessions: tuple[str, ...]
