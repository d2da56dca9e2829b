from dataclasses import replace

import pytest

from tests.contexts import answered, call, called, context
from worker.answer.parse import find_unavailable
from worker.conversation.absorb import absorb_reply, close_calls, halt_turn
from worker.conversation.context import CallCost
from worker.conversation.decide import Ask
from worker.conversation.limits import Spending, find_budget
from worker.conversation.messages import (
    Assistant,
    ToolResult,
    Usage,
    User,
    WireForm,
    find_open_calls,
)
from worker.conversation.model import Reply, StopReason
from worker.settings.runs import LoopSettings

PLAIN = Reply(
    text="because",
    calls=(),
    wire='[{"type":"text"}]',
    stop=StopReason.END,
    usage=Usage(uncached_input=10, output=3),
    cost_usd=0.25,
)
WARNING = Ask(soft=(Spending(find_budget("cost"), 0.8, 1),))


def test_an_answer_is_appended_with_its_wire_form_and_charged() -> None:
    after = absorb_reply(context(), Ask(), PLAIN, "p/m", "")
    assert after.messages[-1] == Assistant("because", (), WireForm("p/m", '[{"type":"text"}]'))
    assert (after.turn_usage.iterations, after.turn_usage.context_tokens) == (1, 10)
    assert (after.turn_usage.cost_usd, after.cost_usd, after.usage) == (
        0.25,
        0.25,
        Usage(10, output=3),
    )


def test_every_call_is_kept_with_its_model_and_price() -> None:
    once = absorb_reply(context(), Ask(), PLAIN, "p/m", "")
    twice = absorb_reply(once, Ask(), replace(PLAIN, text=""), "q/n", "")
    assert twice.calls == (
        CallCost(0, "p/m", PLAIN.usage, 0.25, message=1),
        CallCost(0, "q/n", PLAIN.usage, 0.25, message=-1),
    )


def test_an_unknown_price_makes_the_sum_unknown_and_it_stays_so() -> None:
    once = absorb_reply(context(), Ask(), replace(PLAIN, cost_usd=None), "p/m", "")
    twice = absorb_reply(once, Ask(), PLAIN, "p/m", "")
    assert twice.turn_usage.cost_usd is None
    assert twice.cost_usd is None


def test_a_call_with_the_id_of_an_earlier_one_gets_another() -> None:
    before = context(User("event"), *answered("call_0"))
    reply = replace(PLAIN, calls=(call("call_0"), call("call_1")), stop=StopReason.TOOL_CALLS)
    after = absorb_reply(before, Ask(), reply, "p/m", "")
    answer = after.messages[-1]

    assert isinstance(answer, Assistant)
    assert [each.id for each in answer.calls] == ["call_0-2", "call_1"]


def test_an_empty_answer_leaves_the_history_clean() -> None:
    before = context()
    after = absorb_reply(before, Ask(), replace(PLAIN, text=" \n"), "p/m", "")
    assert after.messages == before.messages
    assert after.turn_usage.empty_answers == 1
    assert absorb_reply(after, Ask(empty=True), PLAIN, "p/m", "").turn_usage.empty_answers == 0


def test_calls_on_the_final_turn_are_not_kept_nor_is_a_wire_form_that_holds_them() -> None:
    reply = replace(PLAIN, calls=(call(),))
    after = absorb_reply(context(), Ask(final=("cost",)), reply, "p/m", "")
    assert after.messages[-1] == Assistant("because")


@pytest.mark.parametrize(
    "reply",
    [
        replace(PLAIN, text="", calls=(call(),)),
        replace(PLAIN, text=" ", stop=StopReason.TRUNCATED, dropped_calls=1),
    ],
)
def test_an_answer_of_calls_alone_defies_the_final_request_until_there_is_text(
    reply: Reply,
) -> None:
    final = Ask(final=("cost",))
    defied = absorb_reply(context(), final, reply, "p/m", "")
    assert (defied.turn_usage.final_was_only_calls, defied.turn_usage.empty_answers) == (True, 1)
    assert defied.messages == context().messages
    assert not absorb_reply(
        defied, replace(final, insist=True), PLAIN, "p/m", ""
    ).turn_usage.final_was_only_calls
    assert not absorb_reply(context(), Ask(), reply, "p/m", "").turn_usage.final_was_only_calls


def test_an_empty_final_answer_is_no_defiance() -> None:
    after = absorb_reply(context(), Ask(final=("cost",)), replace(PLAIN, text=""), "p/m", "")
    assert (after.turn_usage.final_was_only_calls, after.turn_usage.empty_answers) == (False, 1)


def test_a_final_answer_that_was_cut_in_its_calls_still_answers() -> None:
    reply = replace(PLAIN, stop=StopReason.TRUNCATED, dropped_calls=1)
    after = absorb_reply(context(), Ask(final=("cost",)), reply, "p/m", "")
    assert after.messages[-1] == Assistant("because")
    assert after.turn_usage.last_was_cut


CUT = replace(PLAIN, stop=StopReason.TRUNCATED)


@pytest.mark.parametrize("dropped", [0, 1])
def test_a_cut_answer_keeps_its_text_and_the_model_hears_that_it_was_cut(dropped: int) -> None:
    after = absorb_reply(context(), Ask(), replace(CUT, dropped_calls=dropped), "p/m", "")
    *_, answer, told = after.messages
    assert answer == Assistant("because")
    assert isinstance(told, User)
    assert "was cut at its length limit" in told.text
    assert ("tool calls were not run" in told.text) is bool(dropped)
    assert "empty" not in told.text
    assert (
        after.turn_usage.empty_answers,
        after.turn_usage.last_was_cut,
        after.calls[0].message,
    ) == (0, True, 1)


def test_of_an_answer_with_too_many_calls_none_is_kept_and_the_model_hears_why() -> None:
    most = tuple(call(str(number)) for number in range(LoopSettings().calls_per_answer))
    kept = absorb_reply(context(), Ask(), replace(PLAIN, calls=most), "p/m", "")
    assert find_open_calls(kept.messages) == most
    after = absorb_reply(context(), Ask(), replace(PLAIN, calls=(*most, call("z"))), "p/m", "")
    *_, answer, told = after.messages
    assert answer == Assistant("because")
    assert isinstance(told, User)
    assert "65 tool calls, and at most 64 are allowed" in told.text
    assert after.turn_usage.broken_answers == 1


def test_a_cut_answer_of_nothing_is_told_of_too() -> None:
    after = absorb_reply(context(), Ask(), replace(CUT, text="", dropped_calls=1), "p/m", "")
    assert [type(message) for message in after.messages] == [User, User]
    assert (after.turn_usage.empty_answers, after.calls[0].message) == (0, -1)


def test_after_the_second_cut_answer_the_model_hears_how_to_go_on_and_the_third_is_the_last() -> (
    None
):
    after = context()
    told = []
    for _ in range(3):
        after = absorb_reply(after, Ask(), CUT, "p/m", "")
        told.append(after.messages[-1])
    assert "in pieces" not in told[0].text  # type: ignore[union-attr]
    assert "in pieces" in told[1].text  # type: ignore[union-attr]
    assert told[2] == Assistant("because")
    assert absorb_reply(after, Ask(), PLAIN, "p/m", "").turn_usage.broken_answers == 0


@pytest.mark.parametrize("stop", [StopReason.MALFORMED, StopReason.PAUSED])
def test_a_broken_answer_keeps_its_text_and_is_no_end(stop: StopReason) -> None:
    after = absorb_reply(context(), Ask(), replace(PLAIN, stop=stop), "p/m", "")
    *_, answer, told = after.messages
    assert answer == Assistant("because")
    assert isinstance(told, User)
    assert "came out broken" in told.text
    assert not after.turn_usage.last_was_cut


def test_once_verbatim_parts_are_refused_the_session_goes_on_without_them() -> None:
    once = absorb_reply(context(), Ask(), PLAIN, "p/m", "")
    other = absorb_reply(once, Ask(), PLAIN, "q/n", "")
    bare = absorb_reply(other, Ask(), replace(PLAIN, text="so", bare=True), "p/m", "")
    assert bare.messages[1:] == (
        Assistant("because"),
        Assistant("because", (), WireForm("q/n", PLAIN.wire)),
        Assistant("so", (), WireForm("p/m", PLAIN.wire)),
    )


def test_a_refusal_halts_and_says_why() -> None:
    reply = replace(PLAIN, stop=StopReason.REFUSED, detail="cyber")
    after = absorb_reply(context(), Ask(), reply, "p/m", "")
    assert after.turn_usage.halt == "the model refused to answer: cyber"
    assert len(after.messages) == 1


def test_a_notice_that_thinking_was_signed_under_stays_where_it_was() -> None:
    after = absorb_reply(context(), WARNING, PLAIN, "p/m", "wrap up")
    assert after.messages[1:] == (
        User("wrap up"),
        Assistant("because", (), WireForm("p/m", PLAIN.wire)),
    )
    spent = after.turn_usage
    assert (spent.warned_budgets, spent.warned_share) == (frozenset({"cost"}), 0.8)


@pytest.mark.parametrize(
    ("reply", "notice"),
    [(PLAIN, ""), (replace(PLAIN, text=""), "wrap up"), (replace(CUT, dropped_calls=1), "wrap up")],
)
def test_a_warning_that_does_not_stay_in_the_history_counts_as_not_given(
    reply: Reply, notice: str
) -> None:
    after = absorb_reply(context(), WARNING, reply, "p/m", notice)
    assert (after.turn_usage.warned_budgets, after.turn_usage.warned_share) == (frozenset(), 0.0)


def test_a_notice_goes_when_the_thinking_under_it_goes() -> None:
    reply = replace(PLAIN, calls=(call(),))
    after = absorb_reply(context(), Ask(final=("cost",)), reply, "p/m", "time is up")
    assert after.messages[1:] == (Assistant("because"),)


def test_orphaned_calls_are_answered_so_that_the_history_can_be_sent_again() -> None:
    closed = close_calls(halt_turn(context(User("e"), *called("a", "b")), "down"), "down")
    results = closed.messages[-2:]
    assert [result.call_id for result in results] == ["a", "b"]  # type: ignore[union-attr]
    assert all(result.is_error for result in results)  # type: ignore[union-attr]
    assert close_calls(closed, "down") == closed


def test_what_sources_could_not_give_is_listed_once() -> None:
    batch = '{"results": [{"source": "s", "unavailable": "404"}, {"saved_to": "/tmp/data/x"}]}'
    single = '{"unavailable": "rate limited"}'
    messages = (
        User("e"),
        ToolResult("1", "fetch_batch_to_sandbox", batch),
        ToolResult("2", "gitlab_get_file", single, True),
        ToolResult("3", "gitlab_get_file", single, True),
    )
    assert find_unavailable(context(*messages)) == ("s: 404", "gitlab_get_file: rate limited")
