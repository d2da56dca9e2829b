"""How a job ends, in addition to the ends of a turn (`worker.turns.parts`)."""

from dataclasses import dataclass

from worker.conversation.context import SessionKey
from worker.errors import SandpiperError
from worker.verdict.aftermath import Feedback


class DebounceNotOver(SandpiperError):
    """The failure is so recent that a newer one may supersede it; try again in `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the failure rests for another {seconds:.1f} s (gitlab.debounce)", transient=True
        )
        self.seconds = seconds


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
