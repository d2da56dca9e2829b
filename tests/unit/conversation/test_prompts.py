import pytest

from worker.conversation import prompts
from worker.conversation.limits import Spending, find_budget
from worker.safety.markdown import Marker


def test_a_reply_comes_with_what_changed_and_the_text_last() -> None:
    said = prompts.write_continuation("why?", files="F.", seconds=7300, changes=["2 new commits"])
    assert "\nF.\n" in said
    assert "The last turn was 2 hours ago.\n2 new commits)" in said
    assert said.endswith("\nwhy?\n")


@pytest.mark.parametrize(
    ("kept", "used", "told"),
    [
        (None, -1, "no tool has been used"),
        (0, -1, "no tool has been used"),
        (None, 0, "files are lost"),
        (0, 0, "have been restored;"),
        (3, 1, "have been restored;"),
        (1, 3, "have been restored as turn 1 has left them"),
    ],
)
def test_a_reply_is_told_which_files_are_back(kept: int | None, used: int, told: str) -> None:
    assert told in prompts.tell_files(kept, used)


def test_an_unchanged_merge_request_is_said() -> None:
    said = prompts.write_continuation("why?", files="", seconds=-3, changes=[])
    assert "0 seconds ago.\nNothing has changed" in said


@pytest.mark.parametrize(
    ("seconds", "says"),
    [(90, "90 seconds"), (120, "2 minutes"), (7199, "120 minutes"), (200_000, "2 days")],
)
def test_time_is_told_in_a_fitting_unit(seconds: float, says: str) -> None:
    assert f"{says} ago" in prompts.write_continuation("x", files="", seconds=seconds, changes=[])


NOTE = f"{Marker('0123456789abcdef0123').text()}\n\n**Flaky**\n\nSo it is.\n\n<sub>x</sub>"


def test_a_posted_note_is_shown_as_a_quote_without_its_marker() -> None:
    said = prompts.tell_posted(NOTE.replace("\n\nSo", "\r\u2028So"), "It was the mirror.")
    assert said == (
        "Your last answer was posted as this note:\n> **Flaky**\n>\n> So it is.\n>\n> <sub>x</sub>"
    )


def test_an_answer_that_stands_in_the_note_is_not_shown_again() -> None:
    assert prompts.tell_posted(NOTE, "So it is.") == "Your last answer was posted as you wrote it."
    assert "> So it is." in prompts.tell_posted(NOTE, "")


def test_of_a_note_only_what_the_answer_above_does_not_hold_is_shown() -> None:
    cause = "The mirror was away while the packages were installed. No other job asked it then:"
    cause += "\nthe proxy remembers\nwhat it got for an hour, and shows how often."
    advice = "Retry the job; tell whoever keeps the mirror if it goes on like this."
    answer = f"## Verdict\nFlaky\n\n## Cause\n{cause}\n\n## What to do\n{advice}\n- Wait.\n"
    flat = " ".join(cause.split())
    note = f"**Flaky**\n\n{flat}\n\n**What to do:** {advice}\n- Wait.\n\n1 quote is not proven"
    said = prompts.tell_posted(note, answer.strip())
    assert "mirror" not in said.replace("[as you wrote it]", "")
    assert said.split("\n")[1:] == [
        *("> **Flaky**", ">", "> [as you wrote it]", ">", "> **What to do:** [as you wrote it]"),
        *("> - Wait.", ">", "> 1 quote is not proven"),
    ]


def test_of_a_long_note_the_beginning_is_shown() -> None:
    said = prompts.tell_posted(NOTE + "\né" * 9_000, "It was the mirror.")
    assert said.endswith("\n> [cut]")
    assert len(said.encode()) <= prompts.MOST_POSTED + 50


def test_notices_name_the_budget_and_a_plain_request_has_none() -> None:
    assert prompts.write_notice() == ""
    near = Spending(find_budget("iterations"), 18, 20), Spending(find_budget("cost"), 1.71, 2)
    assert prompts.write_notice(near) == (
        "Iteration 18 of 20, 85 % of your cost budget is used: "
        "finish, with only the calls you still need."
    )
    assert "empty" in prompts.write_notice(is_empty=True)
    final = prompts.write_notice(used_up=("wall clock",))
    assert "Your time is up." in final
    assert "final answer now" in final
