"""How a job ends, in addition to the ends of a turn (`worker.turns.parts`)."""

from dataclasses import dataclass

from worker.conversation.context import SessionKey
from worker.verdict.aftermath import Feedback


@dataclass(frozen=True, slots=True)
class CommandAnswered:
    """A command was answered with a plain note."""

    text: str


@dataclass(frozen=True, slots=True)
class VotesCounted:
    """The votes on a session's note as they stand now."""

    key: SessionKey
    turn: int
    feedback: Feedback
