"""What a turn puts up with is all set by the operator."""

from dataclasses import asdict

import pytest
from pydantic import ValidationError

from worker.conversation.limits import LoopRules
from worker.settings import Settings
from worker.wiring.jobs import make_loop_rules

OTHERS = {
    "limits": {"max_identical_calls": 4, "identical_calls_after_hint": 3, "final_grace": 30.0},
    "loop": {"empty_retries": 0, "broken_answers": 5, "calls_per_answer": 12},
}


def test_every_rule_has_a_setting_and_its_default() -> None:
    assert make_loop_rules(Settings()) == LoopRules()
    before, after = asdict(LoopRules()), asdict(make_loop_rules(Settings.model_validate(OTHERS)))
    assert [name for name in before if before[name] == after[name]] == []
    assert (after["hint_at"], after["stop_at"]) == (4, 7)


@pytest.mark.parametrize(
    "wrong",
    [
        {"limits": {"max_identical_calls": 1}},
        {"limits": {"identical_calls_after_hint": 0}},
        {"limits": {"answer_tokens": 100}},
        {"limits": {"answer_tokens": 100_000}},
        {"limits": {"final_grace": -1}},
        {"loop": {"empty_retries": -1}},
        {"loop": {"broken_answers": 0}},
        {"loop": {"calls_per_answer": 0}},
        {"loop": {"find_tool_uses": 0}},
        {"context": {"cut_share": 0}},
        {"context": {"cut_least": 10}},
    ],
    ids=str,
)
def test_a_rule_that_could_not_be_kept_is_refused(wrong: dict[str, dict[str, float]]) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate(wrong)
