import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.contexts import call, context
from worker.conversation import context_json
from worker.conversation.context import CacheMark, CallCost, NoteRef, Outcome, Status
from worker.conversation.limits import TurnUsage
from worker.conversation.messages import Assistant, Message, ToolResult, Usage, User, WireForm

FULL = context(
    User("event ✓"),
    Assistant("look", (call("a", "look", '{"x": 1}'),), WireForm("p/m", '[{"type":"tool_use"}]')),
    ToolResult("a", "look", '{"error": "no"}', is_error=True),
    Assistant("because"),
    turn_usage=TurnUsage(
        started_at=1.5,
        iterations=2,
        usage=Usage(1, 2, 3, 4, 5),
        cost_usd=None,
        warned_budgets=frozenset({"cost", "wall clock"}),
        warned_share=0.85,
        final=frozenset({"cost"}),
    ),
    turn=1,
    turn_start=2,
    cache=CacheMark(3, 99.5),
    note=NoteRef(5, "d" * 40, "https://gitlab.example/x#note_5"),
    answered_notes=(11, 12),
    outcome=Outcome(Status.PARTIAL, "because", "time"),
    calls=(
        CallCost(0, "p/m", Usage(1, 2, 3, 4, 5), 0.25),
        CallCost(1, "q/n", Usage(6), None),
    ),
)


def test_a_session_survives_the_store_unchanged() -> None:
    assert context_json.load_context(context_json.dump_context(FULL)) == FULL
    assert context_json.load_context(context_json.dump_context(context())) == context()


def test_a_dumper_that_goes_on_writes_what_a_fresh_one_would() -> None:
    dumper = context_json.Dumper()
    steps = [replace(FULL, messages=FULL.messages[:count]) for count in (1, 3, 4, 2, 4)]
    steps.append(replace(FULL, system="another", tools=()))
    steps += [replace(FULL, model="p/n"), replace(FULL, turn=2), replace(FULL, note=None)]
    steps += [replace(FULL, answered_notes=(1,)), replace(FULL, outcome=None), FULL]
    for step in steps:
        assert dumper.dump(step) == context_json.dump_context(step)
        assert context_json.load_context(dumper.dump(step)) == step


def test_messages_are_stored_in_the_style_of_chat_completions() -> None:
    stored = json.loads(context_json.dump_context(FULL))
    assert stored["schema"] == 1
    assert [message["role"] for message in stored["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert stored["messages"][1]["tool_calls"][0] == {
        "id": "a",
        "type": "function",
        "function": {"name": "look", "arguments": '{"x": 1}'},
    }
    assert stored["messages"][2]["tool_call_id"] == "a"
    assert stored["tools"][0]["type"] == "function"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "cannot be read"),
        (b"[]", "cannot be read"),
        (b"{}", "schema"),
        (b'{"schema": 2}', "schema 2"),
        (b'{"schema": "1"}', "schema 1"),
        (context_json.dump_context(FULL)[:-20], "cannot be read"),
        (
            context_json.dump_context(FULL).replace(b'"role": "tool"', b'"role": "root"'),
            "unknown role 'root'",
        ),
        (context_json.dump_context(FULL).replace(b'"mr_iid"', b'"iid"'), "cannot be read"),
        (context_json.dump_context(FULL).replace(b'["cost"]', b'["luck"]'), "no budget 'luck'"),
    ],
)
def test_bytes_that_are_no_session_are_refused_with_the_reason(data: bytes, says: str) -> None:
    with pytest.raises(context_json.HistoryError, match=says):
        context_json.load_context(data)


def test_a_session_stored_by_the_first_schema_is_read() -> None:
    stored = context_json.load_context((Path(__file__).parent / "schema_1.json").read_bytes())
    assert (stored.turn, stored.turn_start, stored.answered_notes) == (1, 4, (5,))
    assert [type(message).__name__ for message in stored.messages] == [
        *("User", "Assistant", "ToolResult", "Assistant", "User", "Assistant")
    ]
    assert stored.outcome is not None
    assert stored.outcome.text == "Because."
    assert [each.cost_usd for each in stored.calls] == [0.2, None]
    assert (stored.losses, stored.handed_over) == ((), False)
    # It did not say whether the warning stays in the history, so the warning is given again.
    warned = stored.turn_usage
    assert (warned.warned_budgets, warned.warned_share) == (frozenset({"iterations"}), 0.0)
    assert context_json.load_context(context_json.dump_context(stored)) == stored


def test_calls_that_an_earlier_version_stored_under_one_id_get_their_own() -> None:
    def ids(*messages: Message) -> list[list[str]]:
        loaded = context_json.load_context(context_json.dump_context(context(*messages)))
        return [
            [each.id for each in message.calls]
            if isinstance(message, Assistant)
            else [message.call_id]
            for message in loaded.messages
            if not isinstance(message, User)
        ]

    twice = (Assistant("", (call("a"), call("a"))), ToolResult("a", "look", "1"))
    again = (Assistant("", (call("a"), call("b"))), ToolResult("b", "look", "3"))
    last = ToolResult("a", "look", "4")

    assert ids(User("event"), *twice, ToolResult("a", "look", "2"), *again, last) == [
        ["a", "a-2"],
        ["a"],
        ["a-2"],
        ["a-3", "b"],
        ["b"],
        ["a-3"],
    ]
