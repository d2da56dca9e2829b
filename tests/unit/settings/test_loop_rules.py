"""What a turn puts up with is set by the operator, within bounds."""

import pytest
from pydantic import ValidationError

from worker.settings import Settings


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
