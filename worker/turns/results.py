"""How a turn ends, or why there was none."""

from dataclasses import dataclass

from worker.conversation.context import NoteRef, Outcome
from worker.conversation.session_id import SessionKey
from worker.errors import SandpiperError


@dataclass(frozen=True, slots=True)
class Skipped:
    """Nothing was to be done, for `reason`. `at_work` says that another worker is doing it,
    `is_certain` that no answer of GitLab's can change that."""

    reason: str
    at_work: bool = False
    is_certain: bool = False


@dataclass(frozen=True, slots=True)
class Finished:
    """A turn was taken: its outcome, the note's body, and the turn's place in the store."""

    key: SessionKey
    turn: int
    outcome: Outcome
    body: str
    note: NoteRef
    location: str


class Busy(SandpiperError):
    """Another trigger is at work on the session: try again later."""

    def __init__(self, message: str) -> None:
        super().__init__(message, transient=True)


Ended = Skipped | Finished


class Stopped(SandpiperError):
    """The run must end with what it has so far; the message is the reason that is posted."""


@dataclass(frozen=True, slots=True)
class NotesMarked:
    """A pipeline passed: the sessions whose notes say so now."""

    pipeline_id: int
    sessions: tuple[str, ...]
