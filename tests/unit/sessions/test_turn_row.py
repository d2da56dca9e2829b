"""The row of a turn in the operators' list; and what a turn's calls know of their time."""

from dataclasses import replace

import pytest

from tests.contexts import SUBJECT, context
from worker.conversation import context_json
from worker.conversation.absorb import absorb_reply
from worker.conversation.context import GIVEN_UP, CallCost, Outcome, Status
from worker.conversation.decide import Ask
from worker.conversation.limits import TurnUsage
from worker.conversation.messages import Usage
from worker.conversation.model import Reply, StopReason
from worker.sessions import recent

REPLY = Reply("text", (), "[]", StopReason.END, Usage(1), 0.1)


def test_a_row_is_read_as_it_was_written() -> None:
    turn = context(
        subject=replace(SUBJECT, title="Count the tides", author="mara"),
        turn_usage=TurnUsage(1000.5, iterations=2, cost_usd=None),
        outcome=Outcome(Status.PARTIAL, "what was said", "why"),
        verdict="flaky",
        seconds=3.5,
    )
    row = recent.make_row(turn)
    assert recent.load_row(recent.dump_row(row)) == row
    assert (row.title, row.author) == ("Count the tides", "mara")
    assert (row.status, row.verdict, row.cost_usd, row.seconds) == ("partial", "flaky", None, 3.5)
    assert b"what was said" not in recent.dump_row(row)
    assert recent.make_row(replace(turn, outcome=None)).status == recent.RUNNING
    assert not row.given_up
    given_up = Outcome(Status.FAILED, "", f"{GIVEN_UP}3 workers died while they were at it")
    assert recent.make_row(replace(turn, outcome=given_up)).given_up


@pytest.mark.parametrize(
    ("turn", "dry_turns", "dry_run", "began_dry"),
    [
        *((0, (), False, False), (0, (0,), True, True)),
        *((2, (0, 1, 2), True, True), (1, (1,), True, False), (2, (1,), False, False)),
    ],
)
def test_a_turn_that_posted_nothing_is_told_from_a_session_of_which_nothing_was_posted(
    turn: int, dry_turns: tuple[int, ...], dry_run: bool, began_dry: bool
) -> None:
    at = context(turn=turn, dry_turns=dry_turns)
    row = recent.make_row(at)
    assert (row.dry_run, row.began_dry) == (dry_run, began_dry)
    assert recent.load_row(recent.dump_row(row)) == row
    assert context_json.load_context(context_json.dump_context(at)) == at


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"\xff", b'{"turn": "x"}', b"[" * 99_999])
def test_what_is_no_row_is_refused(data: bytes) -> None:
    with pytest.raises(recent.RowError):
        recent.load_row(data)


def test_a_call_knows_when_it_was_sent_what_it_took_and_where_its_answer_stands() -> None:
    before = context()
    after = absorb_reply(before, Ask(), REPLY, "p/m", "", at=1000.0, seconds=2.5)
    noticed = absorb_reply(before, Ask(), REPLY, "p/m", "a notice", at=1000.0, seconds=2.5)
    silent = absorb_reply(before, Ask(), replace(REPLY, text=""), "p/m", "", at=1000.0, seconds=2.5)
    assert [each.calls[0].message for each in (after, noticed, silent)] == [1, 2, -1]
    assert (after.calls[0].sent_at, after.calls[0].seconds) == (1000.0, 2.5)
    assert context_json.load_context(context_json.dump_context(after)).calls == after.calls


def test_a_session_of_an_older_version_knows_no_times() -> None:
    call = CallCost(0, "p/m", Usage(1), 0.1)
    data = context_json.dump_context(
        context(calls=(call,), note_text="note", verdict="flaky", seconds=2.0)
    )
    assert context_json.load_context(data).note_text == "note"
    old = data.replace(b', "at": 0.0, "seconds": 0.0, "message": -1', b"")
    old = old.replace(
        b', "said": "note", "unposted_note": "", "verdict": "flaky", "seconds": 2.0', b""
    )
    assert len(old) < len(data) - 80
    loaded = context_json.load_context(old)
    assert loaded.calls == (call,)
    assert (loaded.note_text, loaded.verdict, loaded.seconds) == ("", "", 0.0)
