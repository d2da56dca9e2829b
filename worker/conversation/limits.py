"""What a turn has used of its budgets, which `LimitSettings` lists.

From 80 % of a limit on the model is warned with every request, and keeps its tools; at 100 % the
next request is the final one: calls in its answer are not run.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from pydantic import SkipValidation

from worker.conversation.messages import Usage
from worker.conversation.tiers import TierRules
from worker.settings.limits import BUDGETS, Budget, LimitSettings, Used
from worker.settings.runs import ContextSettings, LoopSettings
from worker.stored_keys import FORMER, KEY

SOFT = 0.8
_AGAIN = 0.05
"""A warning that stays in the history is repeated when its budget is further on by this share."""


@dataclass(frozen=True, slots=True)
class TurnUsage:
    """What one turn has used so far. It is stored with the context, so it survives a restart.

    `context_tokens` is the whole input of the last call, or after a fold an estimate of the next
    one's. `refused_at` is how many messages the session had when a provider last refused the
    request as too long, -1 if none did; `window` is then the most input tokens that the provider
    accepts, else 0. `refused_tokens` is how many tokens that request had, as counted by the
    provider, and `refused_folds` how many folds it was sent with. `cost_usd` is None once a call's
    price is unknown. `warned_budgets` are the budgets that the newest warning in the history names,
    and `warned_share` is how far the furthest of them was used then; 0 says that no warning can be
    seen there. `final` are the used-up budgets because of which the final answer was requested;
    `final_was_only_calls` says that it held only tool calls. `broken_answers` counts the answers in
    a row that were cut or malformed; `last_was_cut` says that the last one was cut. `halt` is the
    reason that ended the run from outside (the model is down, …). A postponed run has only waited
    since `paused_at` (epoch seconds; 0 for none), which does not count as its time.
    """

    started_at: float
    iterations: int = 0
    context_tokens: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    empty_answers: int = field(default=0, metadata={FORMER: "empties"})
    warned_budgets: frozenset[str] = field(default=frozenset(), metadata={KEY: "warned"})
    warned_share: float = 0.0
    final: frozenset[str] = frozenset()
    final_was_only_calls: bool = field(default=False, metadata={FORMER: "defied"})
    last_was_cut: bool = field(default=False, metadata={KEY: "truncated"})
    broken_answers: int = field(default=0, metadata={KEY: "broken"})
    halt: str = ""
    refused_at: int = -1
    window: int = 0
    refused_tokens: int = 0
    refused_folds: int = 0
    paused_at: float = 0.0

    def add_up(self, now: float) -> Used:
        """Add up what the turn has used until `now`."""
        return Used(
            iterations=self.iterations,
            context_tokens=self.context_tokens,
            window=self.window,
            seconds=now - self.started_at,
            cost_usd=self.cost_usd,
            tokens=self.usage.input + self.usage.output,
        )

    def needs_warning(self, near: Collection["Spending"]) -> bool:
        """Whether the next request warns of the budgets `near` their limits.

        A warning is gone with its request, so the next one has it again. Only where it stays in the
        history (see `absorb`) every copy is sent with all later requests: there it is repeated for
        a budget that it does not name, and when one is further on by `_AGAIN` of its limit.
        """
        if not near:
            return False
        names = {each.budget.name for each in near}
        further = max(each.share for each in near) - self.warned_share
        return not names <= self.warned_budgets or round(further, 6) >= _AGAIN

    def resume(self, now: float) -> "TurnUsage":
        """Return the usage of a run that goes on `now`: what it has waited is not its time."""
        if not self.paused_at:
            return self
        waited = max(0.0, now - self.paused_at)
        return replace(self, started_at=self.started_at + waited, paused_at=0.0)


class Limits(LimitSettings):
    """`limits:` as it holds in one turn, tightened by its workflow and its model's window, with
    `context:`, `loop:` and the rules by which another model takes over."""

    context: ContextSettings = ContextSettings()
    loop: LoopSettings = LoopSettings()
    tier_rules: SkipValidation[TierRules] = TierRules()

    @property
    def most_same_calls(self) -> int:
        """How many of the same calls in a row end the run."""
        return self.max_identical_calls + self.identical_calls_after_hint


_BY_NAME = {budget.name: budget for budget in BUDGETS.values()}


def find_budget(name: str) -> Budget:
    """Return the budget of this name. Raises ValueError if there is none."""
    if name not in _BY_NAME:
        raise ValueError(f"there is no budget {name!r:.40}; there are {', '.join(_BY_NAME)}")
    return _BY_NAME[name]


@dataclass(frozen=True, slots=True)
class Spending:
    """How much of a limited budget is used."""

    budget: Budget
    amount: float
    limit: float

    @property
    def share(self) -> float:
        """The used part of the limit; 1 is all of it."""
        return self.amount / self.limit

    def describe(self) -> str:
        """Say in the budget's words how much is used."""
        used, limit, percent = int(self.amount), int(self.limit), int(100 * self.share)
        return self.budget.soft.format(used=used, limit=limit, percent=percent)


def measure_budgets(
    limits: LimitSettings, spent: TurnUsage, now: float, *, ahead: bool = False
) -> tuple[Spending, ...]:
    """Measure every budget that has a limit and whose use is known; with `ahead`, as the next
    request will find it."""
    use = spent.add_up(now)
    measured = (
        (row, row.count(use), row.find_limit(use, getattr(limits, setting)))
        for setting, row in BUDGETS.items()
    )
    return tuple(
        Spending(row, used + row.adds * ahead, limit)
        for row, used, limit in measured
        if used is not None and limit > 0
    )


def count_cost(limits: LimitSettings, dollars: float | None) -> float:
    """Return the dollars that count against a day's budget: what is unknown is not free, and counts
    as much as a run may cost."""
    return limits.cost_usd if dollars is None else dollars


def find_room(limits: LimitSettings, spent: TurnUsage) -> int:
    """The most input tokens that a request may have, as far as is known."""
    return min(limits.context_tokens, spent.window or limits.context_tokens)


def is_time_up(limits: LimitSettings, spent: TurnUsage, now: float) -> bool:
    """Whether the turn has had its time."""
    return now - spent.started_at >= limits.wall_clock


def find_reached_limits(
    limits: LimitSettings, spent: TurnUsage, now: float, share: float
) -> tuple[Spending, ...]:
    """The budgets of which the *next* request would use `share` of their limit or more."""
    measured = measure_budgets(limits, spent, now, ahead=True)
    return tuple(each for each in measured if each.share >= share)
