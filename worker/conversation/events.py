"""The events of a run that a watcher receives as they happen."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from worker.conversation.context import Context, NoteRef, Outcome, Subject
from worker.conversation.messages import ToolCall, Usage
from worker.conversation.triggers import Trigger
from worker.incidents.record import Incident
from worker.safety.markdown import Marker
from worker.verdict.aftermath import Label
from worker.verdict.finding import Finding


class Milestone(StrEnum):
    """Results that people wait for."""

    NONE = ""
    PLACEHOLDER = "placeholder"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Stage:
    """A step of the job outside the loop: "sandbox started", "note posted", …"""

    text: str
    milestone: Milestone = Milestone.NONE


@dataclass(frozen=True, slots=True)
class NotePlaced:
    """A turn has its note, `note` on the merge request of `subject`: a placeholder, until the turn
    reaches Milestone.NOTE. `earlier` is what stood there before, if it is the note of a failure
    that has come again."""

    subject: Subject
    marker: Marker
    note: NoteRef
    earlier: str = ""


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
    """A tool call is answered.

    `size` is the number of bytes the tool produced, `shown_bytes` how many the model sees.
    """

    call: ToolCall
    size: int
    shown_bytes: int
    seconds: float
    is_error: bool


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The turn is posted and stored.

    `context` is what was stored, `finding` its finding, redacted and proven, None if there is none.
    """

    turn: int
    outcome: Outcome
    body: str
    location: str
    context: Context | None = None
    finding: Finding | None = None


@dataclass(frozen=True, slots=True)
class TriggerBegun:
    """A worker took a trigger from the queue, `wait_seconds` after it was put there (if known)."""

    trigger: Trigger
    wait_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class TriggerLeft:
    """The worker is done with the trigger for now. Always the last event after a `TriggerBegun`.

    `ran` is False if its job was not run: it waits for a slot, another worker has it, or it has
    ended already.
    """

    trigger: Trigger
    outcome: str
    ran: bool


@dataclass(frozen=True, slots=True)
class Backlog:
    """Counts of unfinished and of parked triggers, and the age of the oldest unfinished one (s)."""

    open_triggers: int
    parked_triggers: int
    oldest: float


@dataclass(frozen=True, slots=True)
class VotesChanged:
    """The 👍 and 👎 that people gave a note since the last look, and those they took back."""

    given_votes: tuple[str, ...]
    withdrawn_votes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VerdictJudged:
    """Later events confirmed or contradicted a verdict."""

    verdict: str
    label: Label


@dataclass(frozen=True, slots=True)
class IncidentOpened:
    """A watched branch is red, and people are told. Once for each incident, and once more if it is
    opened anew."""

    incident: Incident


@dataclass(frozen=True, slots=True)
class IncidentClosed:
    """An incident that was open is over: closed, or withdrawn because it was a flake."""

    incident: Incident


@dataclass(frozen=True, slots=True)
class JobRetried:
    """A job was run again because of a `verdict`; or, with `came`, it has "passed" or "failed"."""

    verdict: str
    came: str


RunEvent = Stage | Asking | Answered | ToolRan | TurnEnded
IncidentEvent = IncidentOpened | IncidentClosed
QueueEvent = TriggerBegun | TriggerLeft | Backlog
Event = (
    RunEvent | NotePlaced | QueueEvent | VotesChanged | VerdictJudged | IncidentEvent | JobRetried
)
Watcher = Callable[[Event], None]


def ignore_event(event: Event) -> None:
    """A watcher that does nothing."""
