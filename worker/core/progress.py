"""What a watcher of a run is told as it happens."""

from collections.abc import Callable
from dataclasses import dataclass

from worker.core.context import Outcome
from worker.core.messages import ToolCall, Usage


@dataclass(frozen=True, slots=True)
class Stage:
    """A step of the job outside the loop: "sandbox started", "note posted", …"""

    text: str


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
    """One call is answered. `size` is the bytes the tool produced, `shown` what the model sees."""

    call: ToolCall
    size: int
    shown: int
    seconds: float
    is_error: bool


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The turn is posted and stored."""

    turn: int
    outcome: Outcome
    body: str
    location: str


Event = Stage | Asking | Answered | ToolRan | TurnEnded
Watcher = Callable[[Event], None]


def unwatched(event: Event) -> None:
    """A watcher that looks away."""
