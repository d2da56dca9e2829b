import pytest

from worker.core import prompts
from worker.core.decide import Ask
from worker.core.limits import Dimension


def test_a_reply_comes_with_what_changed_and_the_text_last() -> None:
    said = prompts.continuation("why?", files=True, seconds=7300, changes=["2 new commits"])
    assert "have been restored" in said
    assert "The last turn was 2 hours ago.\n2 new commits)" in said
    assert said.endswith("\nwhy?\n")


def test_lost_files_and_unchanged_merge_requests_are_said() -> None:
    said = prompts.continuation("why?", files=False, seconds=-3, changes=[])
    assert "files are lost" in said
    assert "0 seconds ago.\nNothing has changed" in said


@pytest.mark.parametrize(
    ("seconds", "says"),
    [(90, "90 seconds"), (120, "2 minutes"), (7199, "120 minutes"), (200_000, "2 days")],
)
def test_time_is_told_in_a_fitting_unit(seconds: float, says: str) -> None:
    assert f"{says} ago" in prompts.continuation("x", files=True, seconds=seconds, changes=[])


def test_notices_name_the_budget_and_a_plain_request_has_none() -> None:
    assert prompts.notice(Ask()) == ""
    assert "80 % of your cost budget" in prompts.notice(Ask(soft=(Dimension.COST,)))
    assert "empty" in prompts.notice(Ask(empty=True))
    final = prompts.notice(Ask(final=(Dimension.CLOCK,)))
    assert "Your time is up." in final
    assert "final answer now" in final
