"""Tiers: which model answers a turn, on which reasoning level, and why. Pure.

A tier is resolved once, at the start of a turn, and stored with its reason. Within a session it may
be raised, at most once per turn, but is never lowered: after a switch the whole prompt is paid for
again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from unicodedata import normalize

from worker.settings.models import TIERS, Signal
from worker.stored_keys import KEY

DEEP = "deep"
CODING = "coding"


REPLY = "reply"
"""Stands for the tier of a request that `models.reply` has answered."""

COSTLY_LEVELS = frozenset({"xhigh", "max"})
"""Reasoning levels that cost like the tier `deep`."""

LEAST_BUDGET = 0.3
"""The share of a run's dollars that must be left for a switch."""


@dataclass(frozen=True, slots=True)
class TierModel:
    """A model as `provider/model`, and its reasoning level, "" for the model's own."""

    model: str
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class TierChoice:
    """The tier of a turn, its model and level, and why it was chosen.

    `is_locked` says that a person has forced it, so nothing raises it. `raised_in` is the turn in
    which it was raised last, -1 if it never was.
    """

    tier: str
    model: str
    reasoning: str = ""
    reason: str = ""
    is_locked: bool = False
    raised_in: int = -1

    @property
    def served_by(self) -> TierModel:
        """Its model and level."""
        return TierModel(self.model, self.reasoning)

    def explain_no_switch(self, turn: int, budget_left: float) -> str:
        """Say why the tier of a turn cannot be raised now, "" if it can.

        `budget_left` is the share of the run's dollars that is left.
        """
        if self.is_locked:
            return f"the tier {self.tier} was {self.reason} by a person"
        if self.raised_in == turn:
            return "the model was changed once in this turn, and is not changed again"
        if budget_left < LEAST_BUDGET:
            return "too little of the run's budget is left for another model"
        return ""


@dataclass(frozen=True, slots=True)
class ReplyModel:
    """The model that answers a reply which needs no tools, in place of the session's own.

    `tier` is the tier whose model it is, "" for a model of its own. Its answer may have
    `max_output` tokens and take `timeout` seconds. `end_reason` says why the session's own model
    goes on, "" while this one answers.
    """

    model: str
    reasoning: str = ""
    tier: str = ""
    max_output: int = 0
    timeout: float = 60.0
    end_reason: str = ""

    @property
    def served_by(self) -> TierModel:
        """Its model and level."""
        return TierModel(self.model, self.reasoning)


@dataclass(frozen=True, slots=True)
class Preference:
    """What people chose for a merge request or a project: a tier, and other models for tiers.

    `where` says in words which of the two; `set_at` is when the tier was chosen (epoch seconds).
    """

    tier: str = ""
    is_forced: bool = field(default=False, metadata={KEY: "forced"})
    overrides: Mapping[str, TierModel] = field(default_factory=dict)
    set_at: float = 0.0
    where: str = ""


@dataclass(frozen=True, slots=True)
class TierRules:
    """What the operator has configured. Without `models` there are no tiers.

    `default` serves the tiers that are not in `models`; `tier` is used if nothing else sets one.
    `reply` answers replies that need no tools, also without tiers; None: the session's model does.
    `find_price` returns a model's price in dollars for a million tokens read and as many written,
    None if it is not known for sure.
    """

    models: Mapping[str, TierModel] = field(default_factory=dict)
    default: TierModel = TierModel("")
    tier: str = TIERS[0]
    upgrade: frozenset[Signal] = frozenset()
    find_price: Callable[[str], float | None] = lambda model: None
    reply: ReplyModel | None = None

    def __bool__(self) -> bool:
        return bool(self.models)

    def get_model(self, tier: str) -> TierModel:
        """Return the model and level that serve a tier."""
        return self.models.get(tier, self.default)

    def apply_preferences(self, preferences: Iterable[Preference]) -> "TierRules":
        """Return the rules with the models people chose for tiers; the first preference wins."""
        chosen: dict[str, TierModel] = {}
        for each in preferences:
            chosen = {**each.overrides, **chosen}
        return replace(self, models={**self.models, **chosen}) if self and chosen else self

    def choose(self, tier: str, reason: str, **fields: Any) -> TierChoice:
        """Choose a tier, with the model and level that serve it."""
        served = self.get_model(tier)
        return TierChoice(tier, served.model, served.reasoning, reason, **fields)

    def find_upgrade(self, choice: TierChoice, signal: Signal, turn: int) -> TierChoice | None:
        """Return the tier to which `signal` raises that of a turn, None if it does not.

        CODE raises it to `coding`, every other signal to the next higher tier that has another
        model or level.
        """
        if signal not in self.upgrade:
            return None
        higher = TIERS[_rank(choice.tier) + 1 :]
        for tier in [CODING] if signal is Signal.CODE else higher:
            if tier in higher and tier in self.models and self.models[tier] != choice.served_by:
                return self.choose(tier, f"raised: {signal}", raised_in=turn)
        return None

    def choose_on_request(self, choice: TierChoice, tier: str, turn: int) -> TierChoice | str:
        """Return the tier that the model itself has asked for, or why it does not get it."""
        if tier not in self.models:
            return f"there is no tier {tier!r}; there are: {', '.join(list_tiers(self))}"
        if _rank(tier) <= _rank(choice.tier):
            return f"the tier is {choice.tier} already, and is never lowered"
        return self.choose(tier, "asked for by the model", raised_in=turn)


def resolve_tier(
    rules: TierRules,
    workflow_tier: str,
    preferences: Sequence[Preference],
    before: TierChoice | None = None,
    before_at: float = 0.0,
) -> TierChoice | None:
    """Return the tier of a turn, or None where there are no tiers.

    The order: forced by a person, the workflow's, a person's preference, the operator's.
    `preferences` are the merge request's, then the project's. `before` is the tier of the session's
    last turn, which began at `before_at`. If that tier was raised and is higher than the one found
    now, it stays, unless a person has chosen a tier since.
    """
    if not rules:
        return None
    rules = rules.apply_preferences(preferences)
    wanted = next((each for each in preferences if each.tier), Preference())
    forced = next((each for each in preferences if each.tier and each.is_forced), None)
    if forced:
        return rules.choose(forced.tier, f"forced for {forced.where}", is_locked=True)
    if workflow_tier:
        chosen = rules.choose(workflow_tier, "the workflow's")
    elif wanted.tier:
        chosen = rules.choose(wanted.tier, f"chosen for {wanted.where}")
    else:
        chosen = rules.choose(rules.tier, "the default")
    stays = before is not None and before.raised_in >= 0 and wanted.set_at <= before_at
    if before and stays and _rank(before.tier) > _rank(chosen.tier):
        reason = "raised earlier in this conversation"
        return rules.choose(before.tier, reason, raised_in=before.raised_in)
    return chosen


def choose_reply_model(
    rules: TierRules, chosen: TierChoice | None, preferences: Sequence[Preference]
) -> ReplyModel | None:
    """Return the model that answers a reply which needs no tools, None if the session's own does.

    `chosen` is the tier of the turn. If people have chosen a tier, or another model for the turn's,
    that is what answers.
    """
    reply, tier = rules.reply, chosen.tier if chosen else ""
    if reply is None or any(each.tier or tier in each.overrides for each in preferences):
        return None
    if reply.tier:
        served = rules.apply_preferences(preferences).get_model(reply.tier)
        level = reply.reasoning or served.reasoning
        reply = replace(reply, model=served.model, reasoning=level)
    own = chosen.served_by if chosen else rules.default
    return None if reply.served_by == own else reply


def _rank(tier: str) -> int:
    return TIERS.index(tier) if tier in TIERS else -1


def list_tiers(rules: TierRules) -> list[str]:
    """List the tiers that have a model of their own, from the cheapest to the strongest."""
    return [tier for tier in TIERS if tier in rules.models]


def costs_like_deep(rules: TierRules, tier: str, served: TierModel) -> bool:
    """Whether the model and level that serve a tier cost like `deep`, by the operator's `rules`.

    That is so for `deep` itself, for COSTLY_LEVELS, and for every model but those of the other
    tiers that is not known to be cheaper than that of `deep`.
    """
    if tier == DEEP or served.reasoning in COSTLY_LEVELS:
        return True
    others = {each.model for name, each in rules.models.items() if name != DEEP}
    if DEEP not in rules.models or served.model in others | {rules.default.model}:
        return False
    deep = rules.models[DEEP].model
    price, limit = rules.find_price(served.model), rules.find_price(deep)
    if price is None and limit is None:
        # Names, of any provider, may be of one model or of variants of it.
        one, two = (
            normalize("NFKC", each.rpartition("/")[2]).strip().casefold()
            for each in (served.model, deep)
        )
        return one.startswith(two) or two.startswith(one)
    # Names are many for one model; an unknown one may be that of `deep`, or a dearer one.
    return price is None or limit is None or price >= limit
