"""Which tier a turn has: who goes before whom, what raises it, what does not."""

import pytest

from worker.conversation.tiers import (
    LEAST_BUDGET,
    Preference,
    TierChoice,
    TierModel,
    TierRules,
    costs_like_deep,
    resolve_tier,
)
from worker.sessions.projects import dump_preference, load_preference
from worker.settings.models import Signal

SMALL, MIDDLE, CODER, BIG = (
    TierModel("a/small", "medium"),
    TierModel("a/middle", "high"),
    TierModel("a/middle", "medium"),
    TierModel("b/big", "xhigh"),
)
EVERY = frozenset(Signal)
RULES = TierRules(
    {"balanced": SMALL, "smart": MIDDLE, "coding": CODER, "deep": BIG},
    TierModel("c/default"),
    upgrade=EVERY,
)
NONE = Preference(where="this merge request")
MR, PROJECT = "this merge request", "this project"


@pytest.mark.parametrize(
    ("workflow", "mine", "projects", "tier", "reason", "locked"),
    [
        ("", NONE, NONE, "balanced", "the default", False),
        ("coding", NONE, NONE, "coding", "the workflow's", False),
        ("", Preference("smart", where=MR), NONE, "smart", f"chosen for {MR}", False),
        ("", NONE, Preference("smart", where=PROJECT), "smart", f"chosen for {PROJECT}", False),
        ("", Preference("smart", where=MR), Preference("deep"), "smart", f"chosen for {MR}", False),
        ("coding", Preference("smart", where=MR), NONE, "coding", "the workflow's", False),
        ("coding", Preference("smart", True, where=MR), NONE, "smart", f"forced for {MR}", True),
        (
            *("coding", Preference("smart", where=MR), Preference("deep", True, where=PROJECT)),
            *("deep", f"forced for {PROJECT}", True),
        ),
    ],
)
def test_the_order_of_those_who_choose(
    workflow: str, mine: Preference, projects: Preference, tier: str, reason: str, locked: bool
) -> None:
    chosen = resolve_tier(RULES, workflow, [mine, projects])
    assert chosen is not None
    assert (chosen.tier, chosen.reason, chosen.is_locked) == (tier, reason, locked)
    assert chosen.served_by == RULES.models[tier]


def test_without_tiers_there_is_no_choice() -> None:
    assert resolve_tier(TierRules(), "deep", [Preference("deep", True)]) is None


def test_a_tier_that_is_not_configured_is_the_default_model() -> None:
    chosen = resolve_tier(TierRules({"deep": BIG}, TierModel("c/default")), "", [])
    assert chosen is not None
    assert (chosen.tier, chosen.model, chosen.reasoning) == ("balanced", "c/default", "")


def test_the_merge_requests_model_of_a_tier_goes_before_the_projects() -> None:
    mine = Preference(overrides={"smart": TierModel("x/mine")}, where=MR)
    projects = Preference(
        overrides={"smart": TierModel("x/theirs"), "deep": TierModel("x/theirs")}, where=PROJECT
    )
    rules = RULES.apply_preferences([mine, projects])
    assert rules.models["smart"] == TierModel("x/mine")
    assert rules.models["deep"] == TierModel("x/theirs")
    assert rules.models["balanced"] == SMALL


@pytest.mark.parametrize(
    ("tier", "signal", "raised"),
    [
        ("balanced", Signal.UNCLEAR, "smart"),
        ("smart", Signal.UNPROVEN, "coding"),
        ("coding", Signal.MALFORMED, "deep"),
        ("deep", Signal.UNCLEAR, None),
        ("balanced", Signal.CODE, "coding"),
        ("smart", Signal.CODE, "coding"),
        ("coding", Signal.CODE, None),
        ("deep", Signal.CODE, None),
    ],
)
def test_a_signal_raises_and_never_lowers(tier: str, signal: Signal, raised: str | None) -> None:
    served = RULES.models[tier]
    found = RULES.find_upgrade(TierChoice(tier, served.model, served.reasoning), signal, 3)
    assert (found.tier if found else None) == raised
    assert found is None or found.raised_in == 3


def test_only_the_signals_that_are_configured_raise() -> None:
    rules = TierRules(RULES.models, RULES.default, upgrade=frozenset({Signal.UNCLEAR}))
    assert rules.find_upgrade(TierChoice("balanced", "a/small"), Signal.CODE, 0) is None


def test_a_tier_with_the_same_model_and_level_is_passed_over() -> None:
    rules = TierRules({"balanced": SMALL, "smart": SMALL, "deep": BIG}, SMALL, upgrade=EVERY)
    choice = TierChoice("balanced", SMALL.model, SMALL.reasoning)
    found = rules.find_upgrade(choice, Signal.UNCLEAR, 0)
    assert found is not None
    assert found.tier == "deep"


@pytest.mark.parametrize(
    ("choice", "left", "why"),
    [
        (TierChoice("smart", "a/b", is_locked=True, reason="forced for this project"), 1, "forced"),
        (TierChoice("smart", "a/b", raised_in=2), 1, "once in this turn"),
        (TierChoice("smart", "a/b", raised_in=1), LEAST_BUDGET - 0.01, "budget"),
        (TierChoice("smart", "a/b", raised_in=1), LEAST_BUDGET, ""),
    ],
)
def test_when_a_model_is_not_changed(choice: TierChoice, left: float, why: str) -> None:
    said = choice.explain_no_switch(2, left)
    assert why in said
    assert bool(why) == bool(said)


def test_the_model_asks_for_a_higher_tier_only() -> None:
    choice = TierChoice("smart", "a/middle", "high")
    assert isinstance(RULES.choose_on_request(choice, "deep", 0), TierChoice)
    assert "never lowered" in str(RULES.choose_on_request(choice, "balanced", 0))
    assert "there are: balanced" in str(RULES.choose_on_request(choice, "huge", 0))


RAISED = TierChoice("deep", BIG.model, BIG.reasoning, "raised: unclear", raised_in=0)


@pytest.mark.parametrize(
    ("mine", "tier"),
    [
        (NONE, "deep"),
        (Preference("smart", set_at=5.0, where=MR), "deep"),
        (Preference("smart", set_at=50.0, where=MR), "smart"),
        (Preference("smart", True, set_at=5.0, where=MR), "smart"),
    ],
)
def test_a_raised_tier_stays_until_somebody_chooses(mine: Preference, tier: str) -> None:
    chosen = resolve_tier(RULES, "", [mine, NONE], RAISED, before_at=10.0)
    assert chosen is not None
    assert chosen.tier == tier
    assert chosen.raised_in == (0 if tier == "deep" else -1)


@pytest.mark.parametrize(
    ("tier", "served", "costly"),
    [
        ("deep", SMALL, True),
        ("smart", BIG, True),
        ("smart", TierModel("a/small", "max"), True),
        ("smart", MIDDLE, False),
        ("", TierModel("b/big"), True),
        ("", TierModel("a/small"), False),
    ],
)
def test_what_costs_like_deep(tier: str, served: TierModel, costly: bool) -> None:
    assert costs_like_deep(RULES, tier, served) is costly


def test_a_preference_is_read_as_it_was_written() -> None:
    made = Preference("deep", True, {"smart": TierModel("a/b", "low")}, 12.5, MR)
    assert load_preference(dump_preference(made), MR) == made


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"no json",
        b"[]",
        b'{"models": 3}',
        b'{"models": {"smart": {}}}',
        b'{"set_at": "soon"}',
        b'{"tier": "huge"}',
        b'{"tier": ["deep"]}',
        b'{"models": {"huge": {"model": "x", "reasoning": ""}}}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_preference_is_none(data: bytes | None) -> None:
    assert load_preference(data, MR) == Preference(where=MR)
