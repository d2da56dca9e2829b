"""What the golden bodies cannot say in one look: laws over requests of OpenAI's two wires."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tests.simulators.openai import chat_checks, protocol, responses_checks
from tests.wire.codecs import CODECS
from tests.wire.conversations import (
    EVENT,
    NOTICE,
    TOOLS,
    asks,
    calls,
    conversations,
    found,
    own_thinking,
    sliding,
)
from worker.conversation.messages import Assistant, Message, ToolCall, User, WireForm
from worker.conversation.model import Request
from worker.models.base import Codec, Dialect, Target
from worker.models.openai_chat import OpenAIChat

CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "openai": responses_checks.check_body,
    "openai-responses": responses_checks.check_body,
    "openai-compatible": chat_checks.Server().check,
    "openai-chat": chat_checks.Server(own=True).check,
}
SAID = {"openai": "input", "openai-responses": "input"}
NAMES = list(CHECKS)
CHATS = ["openai-compatible", "openai-chat"]


def codec(name: str) -> Codec:
    return CODECS[name]()[0]


def encoded(name: str, request: Request, *, bare: bool = False) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(codec(name).encode(request, bare=bare))
    return body


def said(name: str, request: Request, *, bare: bool = False) -> list[dict[str, Any]]:
    """The messages or items."""
    found: list[dict[str, Any]] = encoded(name, request, bare=bare)[SAID.get(name, "messages")]
    return found


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", list(conversations("")))
def test_the_strict_simulator_takes_every_body(name: str, case: str) -> None:
    made, origin = CODECS[name]()
    for bare in (False, True):
        CHECKS[name](protocol.parse(made.encode(conversations(origin)[case], bare=bare)))


@pytest.mark.parametrize("name", NAMES)
def test_a_session_s_requests_share_their_prefix_byte_for_byte(name: str) -> None:
    bodies = [codec(name).encode(request) for request in sliding().values()]
    notice = json.dumps({"role": "user", "content": NOTICE}, separators=(",", ":"))
    for earlier, later in pairwise(bodies):
        stable = earlier.removesuffix(b"]}").removesuffix(b"," + notice.encode())
        assert later.startswith(stable)


@pytest.mark.parametrize("name", NAMES)
def test_results_follow_their_calls_at_once_whatever_their_order(name: str) -> None:
    messages: tuple[Message, ...] = (EVENT, calls("a", "b"), User("wait"), found("b"), found("a"))
    items = said(name, asks(*messages, notice=NOTICE))
    kinds = [item.get("role", item.get("type")) for item in items]
    result = "function_call_output" if name in SAID else "tool"

    assert kinds[kinds.index(result) :][:3] == [result, result, "user"]


@pytest.mark.parametrize("name", CHATS)
def test_texts_of_one_side_are_one_message(name: str) -> None:
    items = said(name, asks(EVENT, User(" "), User("and this"), notice=NOTICE))

    assert [item["role"] for item in items] == ["system", "user"]
    assert items[1]["content"] == f"{EVENT.text}\n\nand this\n\n{NOTICE}"


@pytest.mark.parametrize("name", NAMES)
def test_an_error_is_said_in_the_text(name: str) -> None:
    item = said(name, asks(EVENT, calls("a"), found("a", "no", is_error=True)))[-1]

    assert item.get("content", item.get("output")) == "ERROR: no"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "origin", ["anthropic/claude-opus-5-5", "gemini/gemini-4-argon", "openai/x"]
)
def test_a_wire_form_of_another_origin_is_never_sent(name: str, origin: str) -> None:
    answer = own_thinking(origin)
    body = codec(name).encode(asks(EVENT, answer, found("toolu_1")))

    assert b"signature" not in body.lower()
    assert b'encrypted_content":' not in body
    assert b"reasoning_content" not in body
    assert body.count(b'"toolu_1"') == 2


WIRES = {
    "openai": (
        '[{"type":"message","role":"assistant","id":"msg_1","content":[]} , {"type":'
        '"function_call","id":"fc_1","call_id":"a","name":"look","arguments":"{ }" }]'
    ),
    "openai-compatible": (
        '{"content":null,"tool_calls":[ {"id":"a","type":"function","function":'
        '{"arguments":"{ }","name":"look"} } ]}'
    ),
}


@pytest.mark.parametrize("name", WIRES)
def test_an_answer_goes_back_byte_for_byte(name: str) -> None:
    made, origin = CODECS[name]()
    answer = replace(calls("a"), wire=WireForm(origin, WIRES[name]))
    body = made.encode(asks(EVENT, answer, found("a")))
    start = WIRES[name].index("[")

    assert WIRES[name][start:].strip("[ ]}").encode() in body
    assert b"null" not in body


@pytest.mark.parametrize(
    ("name", "wire"),
    [
        *(
            (name, wire)
            for name in WIRES
            for wire in ("", "[]", "{}", "not JSON", "[1]", "[" * 100_000, '{"tool_calls":7}')
        ),
        ("openai", '[{"type":"function_call","call_id":"other","name":"look","arguments":""}]'),
        ("openai", '[{"type":"function_call","call_id":"a","name":"bad.name","arguments":""}]'),
        ("openai", '[{"type":"message","content":[]}]'),
        (
            "openai",
            '[{"type":"function_call","call_id":"a","name":"look"},{"type":"reasoning"}]',
        ),
        ("openai-compatible", '{"content":"only text"}'),
        ("openai-compatible", '{"tool_calls":[{"id":"a","type":"function"}]}'),
        ("openai-compatible", '{"tool_calls":[{"id":"a","function":{"name":"look"}}]}'),
        (
            "openai-compatible",
            '{"tool_calls":[{"id":"b","type":"function","function":{"name":"look"}}]}',
        ),
        ("openai-compatible", '{"content":"\ud800","tool_calls":[]}'),
    ],
)
def test_a_wire_form_that_does_not_fit_its_message_is_rebuilt(name: str, wire: str) -> None:
    made, origin = CODECS[name]()
    answer = calls("a", text="Looking.")
    kept = replace(answer, wire=WireForm(origin, wire))

    assert made.encode(asks(EVENT, kept, found("a"))) == made.encode(
        asks(EVENT, answer, found("a"))
    )


@pytest.mark.parametrize("arguments", [{"at": "a"}, None])
@pytest.mark.parametrize("name", WIRES)
def test_arguments_that_came_as_an_object_go_back_as_text(name: str, arguments: Any) -> None:
    made, origin = CODECS[name]()
    found_calls = json.loads(WIRES[name])
    call = found_calls[1] if name in SAID else found_calls["tool_calls"][0]["function"]
    call["arguments"] = arguments
    answer = replace(calls("a"), wire=WireForm(origin, json.dumps(found_calls)))
    request = asks(EVENT, answer, found("a"))

    CHECKS[name](protocol.parse(made.encode(request)))
    assert b'"arguments":"{\\"at\\":\\"a\\"}"' in made.encode(request)


@pytest.mark.parametrize("blank", ["", " ", "\n\n", None])
def test_a_blank_content_goes_back_as_nothing_and_the_calls_beside_it_as_they_came(
    blank: str | None,
) -> None:
    made, origin = CODECS["openai-compatible"]()
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{ }"}}
    wires = [{"content": blank, "tool_calls": [call]}, {"content": blank}]
    sent = [
        json.loads(made.encode(asks(EVENT, replace(answer, wire=wire), *results)))["messages"][2]
        for wire, answer, results in (
            (WireForm(origin, json.dumps(wires[0])), calls("a", text=blank or ""), [found("a")]),
            (WireForm(origin, json.dumps(wires[1])), Assistant(blank or ""), [User("?")]),
        )
    ]
    assert [message["content"] for message in sent] == ["", "(empty)"]
    assert sent[0]["tool_calls"] == [call]


@pytest.mark.parametrize("name", NAMES)
def test_a_bare_request_drops_every_wire_form(name: str) -> None:
    made, origin = CODECS[name]()
    answer = own_thinking(origin)
    request = asks(EVENT, answer, found("toolu_1"))

    assert made.encode(request, bare=True) == made.encode(
        replace(request, messages=(EVENT, replace(answer, wire=None), found("toolu_1")))
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_foreign_id_is_the_same_in_call_and_result_and_distinct_from_others(name: str) -> None:
    ids = ("a.b", "a:b", "x" * 90)
    body = json.dumps(said(name, asks(EVENT, calls(*ids), *map(found, ids))))
    sent = [item.split('"')[0] for item in body.split('call_id": "')[1:]]
    sent = (
        sent if name in SAID else sent + [item.split('"')[0] for item in body.split('"id": "')[1:]]
    )

    assert len(sent) == 6
    assert len(set(sent)) == 3
    assert all(len(call_id) <= 40 for call_id in sent)


@pytest.mark.parametrize("name", CHATS)
def test_ids_a_server_gave_are_given_back_to_it_however_odd(name: str) -> None:
    made, origin = CODECS[name]()
    odd = "functions.look:0"
    call = {"id": odd, "type": "function", "function": {"name": "look", "arguments": "{}"}}
    wire = WireForm(origin, json.dumps({"tool_calls": [call]}))
    answer = Assistant("", (ToolCall(odd, "look", "{}"),), wire)
    items = json.loads(made.encode(asks(EVENT, answer, found(odd))))["messages"]

    assert items[-1]["tool_call_id"] == odd
    assert items[-2]["tool_calls"][0]["id"] == odd


@pytest.mark.parametrize(
    ("reasoning", "origin", "sent"),
    [
        ("", "openai-compatible/m", None),
        ("reasoning_content", "openai-compatible/m", "hm"),
        ("reasoning_content", "gemini/m", "(not kept)"),
        ("reasoning", "openai-compatible/m", "(not kept)"),
    ],
)
def test_reasoning_goes_back_where_the_dialect_says_so(
    reasoning: str, origin: str, sent: str | None
) -> None:
    dialect = Dialect(reasoning=reasoning)
    made = OpenAIChat(Target("openai-compatible/m", 100, {"model": "m"}, dialect))
    wire = own_thinking("openai-compatible/m").wire
    assert wire is not None
    answer = replace(own_thinking(origin), wire=WireForm(origin, wire.content))
    message = json.loads(made.encode(asks(EVENT, answer, found("toolu_1"))))["messages"][2]

    assert message.get(reasoning) == sent
    assert {"reasoning", "reasoning_content"} & message.keys() == (
        {reasoning} if reasoning else set()
    )


def test_responses_are_stateless_flat_and_not_strict() -> None:
    for request in conversations("openai/gpt-6.2-sol").values():
        body = encoded("openai", request)
        assert body["store"] is False
        assert body["include"] == ["reasoning.encrypted_content"]
        assert "previous_response_id" not in body
        assert all(tool["strict"] is False for tool in body.get("tools", ()))


def test_the_cache_key_is_the_session_s_and_only_openai_gets_one() -> None:
    one, two = asks(EVENT, session="0123"), asks(EVENT, calls("a"), found("a"), session="0123")
    unnamed, other = asks(EVENT), asks(User("another event"))

    assert encoded("openai", one)["prompt_cache_key"] == "0123"
    assert encoded("openai", two)["prompt_cache_key"] == "0123"
    keys = {encoded("openai", each)["prompt_cache_key"] for each in (unnamed, other)}
    assert len(keys) == 2
    assert len(encoded("openai", asks(EVENT, session="x" * 99))["prompt_cache_key"]) == 64
    assert all("prompt_cache_key" not in encoded(name, one) for name in NAMES[1:])


@pytest.mark.parametrize("name", NAMES)
def test_no_sampling_parameter_is_ever_sent(name: str) -> None:
    known = {
        *("model", "tools", "tool_choice", "max_tokens", "max_completion_tokens", "messages"),
        *("reasoning_effort", "input", "instructions", "store", "include", "prompt_cache_key"),
        *("max_output_tokens", "stream"),
    }
    for request in conversations("").values():
        assert set(encoded(name, request)) <= known


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_system_text_is_left_out(name: str) -> None:
    body = encoded(name, asks(EVENT, system=""))

    assert "instructions" not in body
    assert body[SAID.get(name, "messages")][0]["role"] == "user"


@pytest.mark.parametrize("name", NAMES)
def test_with_the_tools_off_they_stay_in_the_body(name: str) -> None:
    body = encoded(name, asks(EVENT, tools_allowed=False))

    assert body["tool_choice"] == "none"
    assert len(body["tools"]) == len(TOOLS)
    assert "tool_choice" not in encoded(name, asks(EVENT, tools=(), tools_allowed=False))
