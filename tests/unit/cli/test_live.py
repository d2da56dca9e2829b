import io

import pytest
from rich.console import Console

from tests.contexts import call
from worker.cli.foreground import format_event, make_watcher
from worker.conversation.context import Outcome, Status
from worker.conversation.events import Answered, Asking, Milestone, Stage, ToolRan, TurnEnded
from worker.conversation.messages import Usage


def test_what_a_tool_was_called_with_is_shown_as_it_is_on_one_line() -> None:
    made = call("a", "sandbox_exec", '{"command": "sed \'s/[bold]\\\\[1\\\\]/x/\'\\n\\u001b[2J"}')
    shown = format_event(ToolRan(made, 1234, 56, 0.5, is_error=True)).plain
    assert shown == (
        "  sandbox_exec sed 's/[bold]\\[1\\]/x/' \ufffd[2J failed "
        "1,234 bytes, 56 shown to the model, 0.50 s"
    )


def test_a_name_that_a_model_invents_cannot_steer_the_terminal() -> None:
    made = call("a", "look\x1b[2J\n• forged", "{}")
    shown = format_event(ToolRan(made, 1, 1, 0.0, is_error=True)).plain
    assert shown.startswith("  look\ufffd[2J • forged  failed ")


def test_arguments_that_are_no_object_do_not_matter() -> None:
    for arguments in ("[1]", "{", "3", "", "[" * 3_000):
        assert "look" in format_event(ToolRan(call("a", "look", arguments), 1, 1, 0.0, False)).plain


def test_an_answer_tells_tokens_budget_and_cost() -> None:
    usage = Usage(uncached_input=300, cache_read=700, output=5)
    told = format_event(Answered(usage, 0.005, 0.0123, 1.26, "", ())).plain
    assert told == (
        "  model: 1,000 tokens in (70% cached), 5 out, 0.5% of the context budget, $0.0123, 1.3 s"
    )
    assert "cost unknown" in format_event(Answered(usage, 0.005, None, 1.26, "", ())).plain


def test_a_notice_and_the_end_of_a_turn_are_told() -> None:
    assert (
        format_event(Asking(8, 10, "80 % used.\nmore")).plain
        == "iteration 8 of at most 10  80 % used."
    )
    assert format_event(Stage("[red]x")).plain == "• [red]x"
    ended = TurnEnded(1, Outcome(Status.PARTIAL, "", "time"), "", "/tmp/x")
    assert format_event(ended).plain == "• turn 1 partial (time), stored: /tmp/x"


@pytest.mark.parametrize(("posts", "note"), [(True, "note posted: 1"), (False, "note not posted")])
def test_a_run_that_posts_nothing_does_not_say_it_has(posts: bool, note: str) -> None:
    written = io.StringIO()
    watch = make_watcher(Console(file=written), posts=posts)
    watch(Stage("note posted: 1", Milestone.NOTE))
    watch(Stage("sandbox started"))
    assert note in written.getvalue()
    assert ("note posted" in written.getvalue()) is posts
    assert "sandbox started" in written.getvalue()
