"""Budgets of a turn, in four dimensions, each with a warning and a limit.

At 80 % of a limit the model is warned once and keeps its tools; at 100 % the next request is the
final one: calls in its answer are not run.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from worker.core.conversation.folds.fold import FoldSettings
from worker.core.conversation.loop_rules import LoopRules
from worker.core.conversation.messages import Usage
from worker.core.routing.tiers import TierRules
from worker.core.stored_keys import KEY

SOFT = 0.8


class Dimension(StrEnum):
    """What a run may use up."""

    ITERATIONS = "iterations"
    CONTEXT = "context"
    CLOCK = "wall clock"
    COST = "cost"


@dataclass(frozen=True, slots=True)
class Limits:
    """The caps of one turn: model calls, tokens, seconds, dollars.

    `fold_settings` say how the conversation is kept within its tokens, `tier_rules` when another
    model takes over, `loop_rules` how often the model may do the same again.
    """

    max_iterations: int = 50
    context_tokens: int = 200_000
    wall_clock: float = 900.0
    cost_usd: float = 2.0
    fold_settings: FoldSettings = field(default_factory=FoldSettings)
    tier_rules: TierRules = field(default_factory=TierRules)
    loop_rules: LoopRules = field(default_factory=LoopRules)


@dataclass(frozen=True, slots=True)
class TurnUsage:
    """What one turn has used so far. It is stored with the context, so it survives a restart.

    `context_tokens` is the whole input of the last call, or after a fold an estimate of the next
    one's. `refused_at` is how many messages the session had when a provider last refused the
    request as too long, -1 if none did; `window` is then the most input tokens that the provider
    accepts, else 0. `refused_tokens` is how many tokens that request had, as counted by the
    provider, and `refused_folds` how many folds it was sent with. `cost_usd` is None once a call's
    price is unknown. `final` are the used-up budgets because of which the final answer was
    requested; `final_was_only_calls` says that it held only tool calls. `broken_answers` counts the
    answers in a row that were cut or malformed; `last_was_cut` says that the last one was cut.
    `halt` is the reason that ended the run from outside (the model is down, …). A postponed run has
    only waited since `paused_at` (epoch seconds; 0 for none), which does not count as its time.
    """

    started_at: float
    iterations: int = 0
    context_tokens: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    empty_answers: int = field(default=0, metadata={KEY: "empties"})
    warned_dimensions: frozenset[Dimension] = field(default=frozenset(), metadata={KEY: "warned"})
    final: frozenset[Dimension] = frozenset()
    final_was_only_calls: bool = field(default=False, metadata={KEY: "defied"})
    last_was_cut: bool = field(default=False, metadata={KEY: "truncated"})
    broken_answers: int = field(default=0, metadata={KEY: "broken"})
    halt: str = ""
    refused_at: int = -1
    window: int = 0
    refused_tokens: int = 0
    refused_folds: int = 0
    paused_at: float = 0.0

    def resume(self, now: float) -> "TurnUsage":
        """Return the usage of a run that goes on `now`: what it has waited is not its time."""
        if not self.paused_at:
            return self
        waited = max(0.0, now - self.paused_at)
        return replace(self, started_at=self.started_at + waited, paused_at=0.0)


def count_cost(limits: Limits, dollars: float | None) -> float:
    """Return the dollars that count against a day's budget: what is unknown is not free, and counts
    as much as a run may cost."""
    return limits.cost_usd if dollars is None else dollars


def find_room(limits: Limits, spent: TurnUsage) -> int:
    """The most input tokens that a request may have, as far as is known."""
    return min(limits.context_tokens, spent.window or limits.context_tokens)


def find_reached_limits(
    limits: Limits, spent: TurnUsage, now: float, share: float
) -> tuple[Dimension, ...]:
    """The dimensions of which the *next* request would use `share` of their limit or more."""
    used = {
        Dimension.ITERATIONS: (spent.iterations + 1) / limits.max_iterations,
        Dimension.CONTEXT: spent.context_tokens / find_room(limits, spent),
        Dimension.CLOCK: (now - spent.started_at) / limits.wall_clock,
    }
    if spent.cost_usd is not None:
        used[Dimension.COST] = spent.cost_usd / limits.cost_usd
    return tuple(name for name, part in used.items() if part >= share)
