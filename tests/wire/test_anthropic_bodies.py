"""What the golden bodies cannot say in one look: laws over requests of the Messages API."""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tests.wire.codecs import CODECS
from tests.wire.conversations import (
    EVENT,
    NOTICE,
    asks,
    calls,
    conversations,
    found,
    own_thinking,
    sliding,
)
from worker.conversation.messages import Assistant, Message, ToolCall, ToolResult, User, WireForm
from worker.conversation.model import Request
from worker.models.base import Codec

ORIGIN = "anthropic/claude-sonnet-5-5"


def codec() -> Codec:
    return CODECS["anthropic"]()[0]


def encoded(request: Request, *, bare: bool = False) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(codec().encode(request, bare=bare))
    return body


def marked_messages(body: dict[str, Any]) -> list[int]:
    return [
        number
        for number, message in enumerate(body["messages"])
        if any("cache_control" in block for block in message["content"])
    ]


def test_the_marks_slide_behind_the_newest_messages() -> None:
    marks = [marked_messages(encoded(request)) for request in sliding().values()]

    assert marks == [[0], [0, 2], [2, 3], [3, 5], [5, 8]]


def test_a_session_s_requests_share_their_prefix_byte_for_byte() -> None:
    bodies = [codec().encode(request) for request in sliding().values()]
    plain = [body.replace(b',"cache_control":{"type":"ephemeral"}', b"") for body in bodies]
    notice = json.dumps({"type": "text", "text": NOTICE}, separators=(",", ":"))
    for earlier, later in pairwise(plain):
        stable = earlier.removesuffix(b"]}]}").removesuffix(b"," + notice.encode())
        assert later.startswith(stable)


def test_an_answer_goes_back_byte_for_byte() -> None:
    answer = own_thinking(ORIGIN)
    body = codec().encode(asks(EVENT, answer, found("toolu_1"), marks=(2,)))

    assert answer.wire is not None
    assert answer.wire.content.strip("[] ").encode() in body


def test_a_mark_is_spliced_into_a_verbatim_answer_and_changes_nothing_else() -> None:
    request = asks(EVENT, own_thinking(ORIGIN), found("toolu_1"))
    plain = codec().encode(request)
    marked = codec().encode(replace(request, marks=(1,)))

    assert json.loads(marked)["messages"][1]["content"][2]["cache_control"] == {"type": "ephemeral"}
    at = marked.index(b',"cache_control"', marked.index(b'"toolu_1"'))
    assert marked[:at] + marked[at + len(b',"cache_control":{"type":"ephemeral"}') :] == plain


def test_a_mark_never_sits_on_thinking() -> None:
    content = '[{"type":"text","text":"so"},{"type":"redacted_thinking","data":"x"}]'
    answer = Assistant("so", (), WireForm(ORIGIN, content))
    body = encoded(asks(EVENT, answer, User("and?"), marks=(1,)))

    assert "cache_control" in body["messages"][1]["content"][0]
    assert "cache_control" not in body["messages"][1]["content"][1]


@pytest.mark.parametrize("text", ["", "\\n\\n", " \\t"])
def test_an_empty_text_block_of_an_answer_is_left_out(text: str) -> None:
    empty = f'{{"type":"text","text":"{text}"}}'
    content = f'[{empty},{{"type":"tool_use","id":"a","name":"look","input":{{}} }}]'
    answer = replace(calls("a"), wire=WireForm(ORIGIN, content))
    body = codec().encode(asks(EVENT, answer, found("a")))

    assert b'"content":[{"type":"tool_use","id":"a","name":"look","input":{} }]' in body


@pytest.mark.parametrize("before", ["", '{"type":"text","text":"so"},'])
def test_without_the_empty_text_at_its_end_an_answer_does_not_end_in_thinking(before: str) -> None:
    thinking = '{"type":"thinking","thinking":"","signature":"x"}'
    content = f'[{before}{thinking},{{"type":"text","text":"\\n"}}]'
    answer = Assistant("\n", (), WireForm(ORIGIN, content))
    (block,) = encoded(asks(EVENT, answer, User("and?")))["messages"][1]["content"]

    assert block == {"type": "text", "text": "so" if before else "(empty)"}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        "not JSON",
        "[1]",
        '[{"type":"text","text":""}]',
        '[{"type":"tool_use","id":"other","name":"look","input":{}}]',
        '[{"type":"text","text":"no call"}]',
        '[{"type":"tool_use","id":"a","name":"look","input":{"x":"\ud800"}}]',
        "[" * 100_000,
    ],
)
def test_a_wire_form_that_does_not_fit_its_message_is_rebuilt(content: str) -> None:
    answer = replace(calls("a", text="Looking."), wire=WireForm(ORIGIN, content))
    body = encoded(asks(EVENT, answer, found("a")))

    assert body["messages"][1]["content"] == [
        {"type": "text", "text": "Looking."},
        {"type": "tool_use", "id": "a", "name": "look", "input": {"at": "a"}},
    ]


@pytest.mark.parametrize("arguments", ["", "[1]", '{"a":1e999}', "{", "null"])
def test_arguments_that_cannot_be_sent_become_an_empty_object(arguments: str) -> None:
    answer = Assistant("", (ToolCall("a", "look", arguments),))
    (block,) = encoded(asks(EVENT, answer, found("a")))["messages"][1]["content"]

    assert block["input"] == {}


@pytest.mark.parametrize(
    "origin", ["anthropic/claude-opus-5-5", "gemini/gemini-4-argon", "anthropic-vertex/claude"]
)
def test_a_wire_form_of_another_origin_is_never_sent(origin: str) -> None:
    body = codec().encode(asks(EVENT, own_thinking(origin), found("toolu_1")))

    assert b"signature" not in body
    assert b'"id":"toolu_1"' in body


def test_a_bare_request_drops_every_wire_form() -> None:
    request = conversations(ORIGIN)["thinking_verbatim"]
    kinds = [block["type"] for block in encoded(request, bare=True)["messages"][1]["content"]]

    assert kinds == ["text", "tool_use"]


def test_results_come_before_text_whatever_their_order() -> None:
    messages: tuple[Message, ...] = (EVENT, calls("a"), User("wait"), found("a"))
    content = encoded(asks(*messages))["messages"][2]["content"]

    assert [block["type"] for block in content] == ["tool_result", "text"]


def test_a_foreign_id_is_the_same_in_call_and_result_and_distinct_from_others() -> None:
    messages = (EVENT, calls("a.b", "a:b", "x" * 90), found("a.b"), found("a:b"), found("x" * 90))
    body = encoded(asks(*messages))
    called = [block["id"] for block in body["messages"][1]["content"]]
    answered = [block["tool_use_id"] for block in body["messages"][2]["content"]]

    assert called == answered
    assert len(set(called)) == 3
    assert all(len(call_id) <= 64 for call_id in called)


def test_no_sampling_parameter_is_ever_sent() -> None:
    for request in conversations(ORIGIN).values():
        names = set(encoded(request))
        assert names <= {"model", "max_tokens", "tools", "system", "messages", "tool_choice"}


def test_an_empty_system_text_is_left_out() -> None:
    assert "system" not in encoded(asks(EVENT, system=""))


def test_an_empty_user_text_is_said_to_be_empty() -> None:
    body = encoded(asks(User(" "), Assistant(""), ToolResult("a", "look", " ")))

    assert body["messages"][0]["content"] == [{"type": "text", "text": "(empty)"}]
    assert body["messages"][2]["content"][0]["content"] == "(no output)"
