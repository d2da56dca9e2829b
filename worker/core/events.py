"""What a watcher of a run is told as it happens."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from worker.core.conversation.context import Context, Outcome
from worker.core.conversation.messages import ToolCall, Usage
from worker.core.failure.outcomes import Label
from worker.core.finding import Finding
from worker.core.triggers import Trigger


class Milestone(StrEnum):
    """What people wait for."""

    NONE = ""
    PLACEHOLDER = "placeholder"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Stage:
    """A step of the job outside the loop: "sandbox started", "note posted", …"""

    text: str
    milestone: Milestone = Milestone.NONE


@dataclass(frozen=True, slots=True)
class Asking:
    """A request goes to the model. `notice` is the ephemeral text sent with it, or ""."""

    iteration: int
    max_iterations: int
    notice: str = ""


@dataclass(frozen=True, slots=True)
class Answered:
    """The model answered. `context_share` is this call's input against the context limit."""

    usage: Usage
    context_share: float
    cost_usd: float | None
    seconds: float
    text: str
    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class ToolRan:
    """One call is answered. `size` is the bytes the tool produced, `shown_bytes` what the model
    sees."""

    call: ToolCall
    size: int
    shown_bytes: int
    seconds: float
    is_error: bool


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The turn is posted and stored. `context` is what was stored, `finding` what it has found,
    redacted and proven, None where it found nothing."""

    turn: int
    outcome: Outcome
    body: str
    location: str
    context: Context | None = None
    finding: Finding | None = None


@dataclass(frozen=True, slots=True)
class TriggerBegun:
    """A worker has a trigger from the queue, `wait_seconds` after it was put there (if known)."""

    trigger: Trigger
    wait_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class TriggerLeft:
    """The worker is done with the trigger for now. Always the last event after a `TriggerBegun`."""

    trigger: Trigger
    outcome: str


@dataclass(frozen=True, slots=True)
class Backlog:
    """What the journal holds: triggers that are not done, parked ones, the oldest's age (s)."""

    open_triggers: int
    parked_triggers: int
    oldest: float


@dataclass(frozen=True, slots=True)
class VotesChanged:
    """How often people gave a note 👍 and 👎 since the last look, and took them back."""

    given_votes: tuple[str, ...]
    withdrawn_votes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VerdictJudged:
    """What came after a verdict has confirmed or contradicted it."""

    verdict: str
    label: Label


RunEvent = Stage | Asking | Answered | ToolRan | TurnEnded
WorkEvent = TriggerBegun | TriggerLeft | Backlog | VotesChanged | VerdictJudged
Event = RunEvent | WorkEvent
Watcher = Callable[[Event], None]


def ignore_event(event: Event) -> None:
    """A watcher that does nothing."""
