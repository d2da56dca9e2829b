"""Every row of the table of budgets has all that is made from it: words, a setting, a gauge."""

import re
from dataclasses import fields, replace

import pytest
from pydantic import ValidationError

from tests.contexts import answered, call, context
from tests.deploy import config_schema
from tests.fakes import EchoToolbox, HandClock, ScriptedModel, says
from worker.conversation import context_json, prompts
from worker.conversation.context import Outcome, Status
from worker.conversation.decide import Ask, decide
from worker.conversation.limits import Limits, TurnUsage, find_budget, measure_budgets
from worker.conversation.messages import Assistant, Usage, User
from worker.pages.view import FORMATS, StoredTurn, build_page
from worker.settings.limits import BUDGETS, LimitSettings
from worker.settings.reference import PAGE
from worker.turns.loop import LoopParts, run_loop

NOW = 80.0
SPENT = TurnUsage(0.0, iterations=79, context_tokens=80, usage=Usage(70, output=10), cost_usd=80.0)
"""Of every budget, 80 are used by the next request."""

SETTINGS = sorted(BUDGETS)


def limit(**limits: float) -> Limits:
    """The budgets that are named have these limits, the others wide ones."""
    return Limits(**(dict.fromkeys(BUDGETS, 10**9) | limits))  # type: ignore[arg-type]


def test_every_field_of_the_limits_is_a_budget_or_rules_for_something_else() -> None:
    others = {each.name for each in fields(Limits)} - set(BUDGETS)
    assert others == {"fold_settings", "tier_rules", "loop_rules"}


@pytest.mark.parametrize("words_of", ["name", "title", "soft", "final"])
def test_every_row_has_words_of_its_own(words_of: str) -> None:
    words = [getattr(row, words_of) for row in BUDGETS.values()]
    assert all(text.strip() for text in words)
    assert len(set(words)) == len(words)


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_row_is_a_setting_of_its_type_with_its_default_and_its_bounds(setting: str) -> None:
    default = getattr(Limits(), setting)
    made = getattr(LimitSettings(), setting)
    assert (made, type(made)) == (default, type(default))
    assert getattr(LimitSettings(**{setting: 1000}), setting) == 1000
    with pytest.raises(ValidationError, match=setting):
        LimitSettings(**{setting: -1})


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_row_stands_in_the_reference_and_in_the_charts_schema(setting: str) -> None:
    said = LimitSettings.model_fields[setting].description or ""
    assert said
    line = rf"^\| `limits\.{setting}` \|.*\| {re.escape(said)} \|$"
    assert re.search(line, PAGE.read_text("utf-8"), re.MULTILINE)
    assert setting in config_schema.current()["properties"]["limits"]["properties"]


@pytest.mark.parametrize("setting", SETTINGS)
def test_of_every_row_the_model_is_warned_and_at_its_limit_asked_for_the_last_time(
    setting: str,
) -> None:
    row, session = BUDGETS[setting], context(User("event"), *answered("a"), turn_usage=SPENT)
    assert decide(session, limit(), NOW) == Ask()
    assert decide(session, limit(**{setting: 101}), NOW) == Ask()

    near = decide(session, limit(**{setting: 100}), NOW)
    assert isinstance(near, Ask)
    assert [each.budget for each in near.soft] == [row]
    warning = prompts.write_notice(near.soft)
    assert "80" in warning
    assert "{" not in warning
    assert warning.endswith(": finish, with only the calls you still need.")

    final = decide(session, limit(**{setting: 80}), NOW)
    assert final == Ask(final=(row.name,))
    assert prompts.write_notice(used_up=final.final).startswith(f"{row.final}\n")


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_turn_that_was_stopped_by_any_row_says_so_and_is_stored(setting: str) -> None:
    row = BUDGETS[setting]
    session = context(
        User("event"), Assistant("why"), turn_usage=replace(SPENT, final=frozenset({row.name}))
    )
    stopped = decide(session, limit(), NOW)
    assert getattr(stopped, "outcome", None) == Outcome(
        Status.PARTIAL, "why", f"stopped at its limit of {row.name}"
    )
    warned = replace(session.turn_usage, warned_budgets=frozenset({row.name}), warned_share=0.9)
    stored = replace(session, turn_usage=warned)
    assert context_json.load_context(context_json.dump_context(stored)) == stored


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_row_has_its_gauge_on_the_page(setting: str) -> None:
    row = BUDGETS[setting]
    turn = StoredTurn(context(turn_usage=replace(SPENT, iterations=80), seconds=NOW))
    gauges = {
        each.title: each for each in build_page([turn], limit(**{setting: 100})).turns[0].gauges
    }
    assert list(gauges) == [row.title for row in BUDGETS.values()]

    gauge, write = gauges[row.title], FORMATS[row.unit]
    assert (gauge.amount, gauge.percent, gauge.is_near) == (write(80), 80.0, True)
    assert gauge.limit.startswith(write(100))
    assert not any(each.is_near for title, each in gauges.items() if title != row.title)


def test_a_budget_without_a_limit_or_of_unknown_use_limits_nothing() -> None:
    def measured(spent: TurnUsage, limits: Limits) -> set[str]:
        return {each.budget.name for each in measure_budgets(limits, spent, NOW)}

    names = {row.name for row in BUDGETS.values()}
    assert measured(SPENT, Limits()) == names - {"tokens"}
    assert measured(replace(SPENT, cost_usd=None), limit()) == names - {"cost"}


def test_a_name_of_no_budget_is_refused() -> None:
    assert all(find_budget(row.name) is row for row in BUDGETS.values())
    with pytest.raises(ValueError, match=r"no budget 'luck'.*tokens"):
        find_budget("luck")


def test_a_run_ends_when_what_it_has_read_and_written_comes_to_the_limit_of_tokens() -> None:
    usage = Usage(10, 20, 10, output=10)
    answers = [
        replace(says("", call(arguments=f"[{number}]")), usage=usage) for number in range(10)
    ]
    model, clock = ScriptedModel([*answers, says("in short: X")]), HandClock(0.0)
    parts = LoopParts(model, EchoToolbox(), clock, lambda _: None, lambda _: None)
    ended = run_loop(context(), replace(Limits(), tokens=500), parts)

    notices = [re.split("[:\n]", request.notice)[0] for request in model.requests]
    warnings = [f"{percent} % of your tokens are used" for percent in (80, 90)]
    assert notices == [*[""] * 8, *warnings, "Your tokens are used up."]
    reason = "stopped at its limit of tokens"
    assert ended.outcome == Outcome(Status.PARTIAL, "in short: X", reason)
