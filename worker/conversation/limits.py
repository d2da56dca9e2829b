"""The budgets of a turn: one table, each row with a warning and a limit.

From 80 % of a limit on the model is warned with every request, and keeps its tools; at 100 % the
next request is the final one: calls in its answer are not run.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any

from worker.conversation.folds import FoldSettings
from worker.conversation.messages import Usage
from worker.conversation.tiers import TierRules
from worker.stored_keys import KEY

SOFT = 0.8
_AGAIN = 0.05
"""A warning that stays in the history is repeated when its budget is further on by this share."""


class Unit(StrEnum):
    """What a budget is counted in."""

    TIMES = "times"
    TOKENS = "tokens"
    SECONDS = "seconds"
    DOLLARS = "dollars"


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
    empty_answers: int = field(default=0, metadata={KEY: "empties"})
    warned_budgets: frozenset[str] = field(default=frozenset(), metadata={KEY: "warned"})
    warned_share: float = 0.0
    final: frozenset[str] = frozenset()
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


MOST_CALLS = 1000
"""The most tool calls that one answer can be allowed."""


@dataclass(frozen=True, slots=True)
class LoopRules:
    """The patience of one turn. Each is a setting of `limits:` or `loop:`."""

    hint_at: int = 3
    """This many same calls in a row are not run any more: the model is told so instead."""
    stop_at: int = 5
    """This many of them end the run."""
    empty_retries: int = 2
    """How often the model is reminded after an empty answer."""
    broken_answers: int = 3
    """This many cut or broken answers in a row end the run."""
    calls_per_answer: int = 64
    """The most tool calls of one answer; of an answer with more of them, none is run."""
    final_grace: float = 120.0
    """Seconds past the wall-clock limit that the final answer may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A row of the table: what a turn may use up. All that names a budget is made from it."""

    name: str
    """What the note of a turn says that it was stopped at. It is stored."""
    title: str
    """Its heading on the session's page."""
    unit: Unit
    count_use: Callable[[TurnUsage, float], float | None]
    """What a turn has used at an epoch second; None if that is unknown, and so limits nothing."""
    adds: float = 0.0
    """What the next request is certain to use."""
    soft: str
    """What the model is told from `SOFT` on; `{used}`, `{limit}` and `{percent}` are numbers."""
    final: str
    """What the model is told with the final request."""
    setting: str
    """What the limit's setting does."""
    bounds: Mapping[str, Any]
    """The values that the setting may have, as pydantic's `Field` takes them. Where it may be 0,
    there is no limit then."""
    limit: Callable[["Limits", TurnUsage, float], float] = lambda limits, spent, stated: stated
    """The limit that holds, given the stated one."""


_ROW = "budget"
"""Where a field of `Limits` has its row."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The caps of one turn, by the names of their settings in `limits:`. This is the table of
    budgets: to add one is to add its field with its row.

    `fold_settings` say how the conversation is kept within its tokens, `tier_rules` when another
    model takes over, `loop_rules` how often the model may do the same again.
    """

    max_iterations: int = field(
        default=50,
        metadata={
            _ROW: Budget(
                name="iterations",
                title="Iterations",
                unit=Unit.TIMES,
                count_use=lambda spent, now: spent.iterations,
                adds=1,
                soft="Iteration {used} of {limit}",
                final="This is your last iteration.",
                setting="Model calls of one run; a workflow may set less.",
                bounds={"ge": 1, "le": 1000},
            )
        },
    )
    context_tokens: int = field(
        default=200_000,
        metadata={
            _ROW: Budget(
                name="context",
                title="Context",
                unit=Unit.TOKENS,
                count_use=lambda spent, now: spent.context_tokens,
                limit=lambda limits, spent, stated: find_room(limits, spent),
                soft="{percent} % of your context is used",
                final="Your context is full.",
                setting="Tokens of one prompt; the model's window, if that is smaller.",
                bounds={"ge": 1000},
            )
        },
    )
    wall_clock: float = field(
        default=900.0,
        metadata={
            _ROW: Budget(
                name="wall clock",
                title="Time",
                unit=Unit.SECONDS,
                count_use=lambda spent, now: now - spent.started_at,
                soft="{used} of your {limit} seconds are over",
                final="Your time is up.",
                setting="Seconds of one run.",
                bounds={"gt": 0},
            )
        },
    )
    cost_usd: float = field(
        default=2.0,
        metadata={
            _ROW: Budget(
                name="cost",
                title="Cost",
                unit=Unit.DOLLARS,
                count_use=lambda spent, now: spent.cost_usd,
                soft="{percent} % of your cost budget is used",
                final="Your cost budget is used up.",
                setting="Dollars of one run. If it is set, or a cap on a day is, a model without a "
                "known price is refused.",
                bounds={"gt": 0},
            )
        },
    )
    tokens: int = field(
        default=0,
        metadata={
            _ROW: Budget(
                name="tokens",
                title="Tokens",
                unit=Unit.TOKENS,
                count_use=lambda spent, now: spent.usage.input + spent.usage.output,
                soft="{percent} % of your tokens are used",
                final="Your tokens are used up.",
                setting="Tokens of all model calls of one run together, read (also from the cache) "
                "and written; 0: no cap.",
                bounds={"ge": 0},
            )
        },
        kw_only=True,
    )
    fold_settings: FoldSettings = field(default_factory=FoldSettings)
    tier_rules: TierRules = field(default_factory=TierRules)
    loop_rules: LoopRules = field(default_factory=LoopRules)


BUDGETS: Mapping[str, Budget] = {
    each.name: each.metadata[_ROW] for each in fields(Limits) if _ROW in each.metadata
}
"""All rows, by the names of their settings."""

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
    limits: Limits, spent: TurnUsage, now: float, *, ahead: bool = False
) -> tuple[Spending, ...]:
    """Measure every budget that has a limit and whose use is known; with `ahead`, as the next
    request will find it."""
    measured = (
        (
            budget,
            budget.count_use(spent, now),
            budget.limit(limits, spent, getattr(limits, setting)),
        )
        for setting, budget in BUDGETS.items()
    )
    return tuple(
        Spending(budget, used + budget.adds * ahead, limit)
        for budget, used, limit in measured
        if used is not None and limit > 0
    )


def count_cost(limits: Limits, dollars: float | None) -> float:
    """Return the dollars that count against a day's budget: what is unknown is not free, and counts
    as much as a run may cost."""
    return limits.cost_usd if dollars is None else dollars


def find_room(limits: Limits, spent: TurnUsage) -> int:
    """The most input tokens that a request may have, as far as is known."""
    return min(limits.context_tokens, spent.window or limits.context_tokens)


def is_time_up(limits: Limits, spent: TurnUsage, now: float) -> bool:
    """Whether the turn has had its time."""
    return now - spent.started_at >= limits.wall_clock


def find_reached_limits(
    limits: Limits, spent: TurnUsage, now: float, share: float
) -> tuple[Spending, ...]:
    """The budgets of which the *next* request would use `share` of their limit or more."""
    measured = measure_budgets(limits, spent, now, ahead=True)
    return tuple(each for each in measured if each.share >= share)


def needs_warning(spent: TurnUsage, near: Collection[Spending]) -> bool:
    """Whether the next request warns of the budgets `near` their limits.

    A warning is gone with its request, so the next one has it again. Only where it stays in the
    history (see `absorb`) every copy is sent with all later requests: there it is repeated for a
    budget that it does not name, and when one is further on by `_AGAIN` of its limit.
    """
    if not near:
        return False
    names = {each.budget.name for each in near}
    further = max(each.share for each in near) - spent.warned_share
    return not names <= spent.warned_budgets or round(further, 6) >= _AGAIN
