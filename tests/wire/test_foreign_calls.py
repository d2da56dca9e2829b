"""Ids and names that one provider gives its calls, sent to every other: long ones, ones with dots,
names that are null, ids that come again in the next answer."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any

import pytest

from tests.contexts import context
from tests.unit.models.gemini_bodies import answer as answer_gemini
from tests.unit.models.openai_answers import completion, response
from tests.wire.codecs import CODECS
from tests.wire.conversations import LOOK, RUN, SYSTEM
from tests.wire.simulators import WIRES, Simulator
from worker.conversation import context_json
from worker.conversation.messages import (
    Assistant,
    Message,
    ToolCall,
    ToolResult,
    User,
    WireForm,
    rename_repeated_calls,
)
from worker.conversation.model import Request
from worker.lab.script import Say

LONG = "chatcmpl-abc123.tool.call.very-long-identifier-from-provider"
DOTTED = "com.example.search.tool"
CALLS: list[tuple[str, str | None]] = [
    (LONG, DOTTED),
    ("functions.look:0", "look"),
    ("call_0", None),
    ("y" * 64, "x" * 70),
    ("\N{SNAKE}", "\N{SNAKE}"),
]
ANSWERS = 3
"""Answers with the same ids: some servers count the calls of each answer anew."""


def anthropic_body() -> bytes:
    blocks = [
        {"type": "tool_use", "id": call_id, "name": name, "input": {"at": call_id}}
        for call_id, name in CALLS
    ]
    return json.dumps({"type": "message", "content": blocks, "stop_reason": "tool_use"}).encode()


def gemini_body() -> bytes:
    parts = [
        {"functionCall": {"id": call_id, "name": name, "args": {"at": call_id}}}
        for call_id, name in CALLS
    ]
    return answer_gemini(*parts)


def chat_body() -> bytes:
    calls = [
        {
            "id": call_id,
            "type": "function",
            "function": {"name": name, "arguments": json.dumps({"at": call_id})},
        }
        for call_id, name in CALLS
    ]
    return completion("tool_calls", content=None, tool_calls=calls)


def responses_body() -> bytes:
    items = [
        {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": call_id,
            "name": name,
            "arguments": json.dumps({"at": call_id}),
        }
        for number, (call_id, name) in enumerate(CALLS)
    ]
    return response(*items)


BODIES: dict[str, Callable[[], bytes]] = {
    "anthropic": anthropic_body,
    "gemini": gemini_body,
    "openai": responses_body,
    "openai-compatible": chat_body,
}


def converse(source: str) -> list[Message]:
    """A conversation whose answers all came from `source` with the same calls."""
    codec, origin = CODECS[source]()
    messages: list[Message] = [User("event")]
    for turn in range(ANSWERS):
        decoded = codec.decode(BODIES[source]())
        calls = rename_repeated_calls(decoded.calls, messages)
        messages.append(Assistant(decoded.text, calls, WireForm(origin, decoded.wire)))
        messages += [
            ToolResult(call.id, call.name, f"result {turn} {number}")
            for number, call in enumerate(calls)
        ]
    return messages


def ask(messages: Sequence[Message]) -> Request:
    return Request(SYSTEM, (LOOK, RUN), tuple(messages), session="0123456789")


@pytest.fixture(scope="module")
def sims() -> Iterator[dict[str, Simulator]]:
    """A strict simulator of each wire that needs no Google account."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(wire.start(lambda asked: Say("done")))
            for name, wire in WIRES.items()
            if not name.endswith("-vertex")
        }


def list_calls(body: Any) -> tuple[list[tuple[Any, str]], list[tuple[Any, str]]]:
    """The calls of any wire's body as (id, name), and its results as (id, content)."""
    calls, results = [], []
    blocks = [
        part
        for message in body.get("messages") or body.get("contents") or ()
        for part in message.get("content") or message.get("parts") or ()
        if isinstance(part, dict)
    ]
    for block in [*blocks, *body.get("input", ())]:
        match block:
            case {"type": "tool_use"}:
                calls.append((block["id"], block["name"]))
            case {"type": "tool_result"}:
                results.append((block["tool_use_id"], block["content"]))
            case {"functionCall": call}:
                calls.append((call.get("id"), call["name"]))
            case {"functionResponse": result}:
                results.append((result.get("id"), result["response"]["output"]))
            case {"type": "function_call"}:
                calls.append((block["call_id"], block["name"]))
            case {"type": "function_call_output"}:
                results.append((block["call_id"], block["output"]))
    for message in body.get("messages", ()):
        for call in message.get("tool_calls", ()):
            calls.append((call["id"], call["function"]["name"]))
        if message["role"] == "tool":
            results.append((message["tool_call_id"], message["content"]))
    return calls, results


NAMES = {"gemini": re.compile(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}")}
ANY_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
IDS = {
    "openai-compatible": re.compile(r"[a-zA-Z0-9_-]{1,40}"),
    "openai-chat": re.compile(r"[a-zA-Z0-9_-]{1,40}"),
    "openai-chat-thinking": re.compile(r"[a-zA-Z0-9]{9}"),
}
ANY_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@pytest.mark.parametrize("target", [name for name in WIRES if not name.endswith("-vertex")])
@pytest.mark.parametrize("source", BODIES)
def test_every_call_and_its_result_go_to_every_other_wire(
    source: str, target: str, sims: dict[str, Simulator]
) -> None:
    sim = sims[target]
    before = len(sim.unexpected_requests)
    with closing(WIRES[target].model(sim)) as model:
        reply = model.reply(ask(converse(source)))
    calls, results = list_calls(json.loads(sim.raw[-1]))

    assert sim.unexpected_requests[before:] == []
    assert reply.text == "done"
    assert [call_id for call_id, _ in calls] == [call_id for call_id, _ in results]
    assert len({call_id for call_id, _ in calls}) == ANSWERS * len(CALLS)
    expected = [
        f"result {turn} {number}" for turn in range(ANSWERS) for number in range(len(CALLS))
    ]
    assert [content for _, content in results] == expected
    same = WIRES[target].spec == CODECS[source]()[1]
    for call_id, name in calls:
        assert same or IDS.get(target, ANY_ID).fullmatch(call_id)
        assert NAMES.get(target, ANY_NAME).fullmatch(name)


@pytest.mark.parametrize("target", CODECS)
@pytest.mark.parametrize("source", BODIES)
def test_the_same_call_is_sent_under_the_same_id_ever_after(source: str, target: str) -> None:
    messages = converse(source)
    stored = context_json.load_context(context_json.dump_context(context(*messages))).messages
    codec, _ = CODECS[target]()
    body = codec.encode(ask(messages))
    first = codec.encode(ask(messages[: 1 + 1 + len(CALLS)]))
    calls, results = list_calls(json.loads(body))

    assert CODECS[target]()[0].encode(ask(stored)) == body
    assert CODECS[target]()[0].encode(ask(messages)) == body
    assert list_calls(json.loads(first)) == (calls[: len(CALLS)], results[: len(CALLS)])


@pytest.mark.parametrize("target", ["anthropic", "openai", "openai-compatible"])
def test_the_names_of_the_seed_are_sent_as_it_says(target: str) -> None:
    calls, _ = list_calls(json.loads(CODECS[target]()[0].encode(ask(converse("gemini")))))

    assert [name for _, name in calls[:3]] == ["com_example_search_tool", "look", "unknown"]


@pytest.mark.parametrize("source", BODIES)
def test_an_answer_without_a_name_is_a_call_of_an_unknown_tool(source: str) -> None:
    decoded = CODECS[source]()[0].decode(BODIES[source]())

    assert [call.id for call in decoded.calls] == [call_id for call_id, _ in CALLS]
    assert [call.name for call in decoded.calls[:3]] == [DOTTED, "look", "unknown"]


@pytest.mark.parametrize("source", ["openai", "openai-compatible"])
def test_a_server_that_repeats_its_ids_gets_its_own_answers_back_verbatim(source: str) -> None:
    codec, origin = CODECS[source]()
    whole = BODIES[source]().replace(b'"functions.look:0"', b'"call_1"')
    chosen = json.loads(whole)
    calls = (
        chosen["output"] if source == "openai" else chosen["choices"][0]["message"]["tool_calls"]
    )
    del calls[0], calls[1:]
    messages: list[Message] = [User("event")]
    for turn in range(ANSWERS):
        decoded = codec.decode(json.dumps(chosen).encode())
        made = rename_repeated_calls(decoded.calls, messages)
        messages.append(Assistant("", made, WireForm(origin, decoded.wire)))
        messages.append(ToolResult(made[0].id, "look", f"result {turn}"))
    sent, results = list_calls(json.loads(codec.encode(ask(messages))))
    ours = [call.id for each in messages if isinstance(each, Assistant) for call in each.calls]

    assert ours == ["call_1", "call_1-2", "call_1-3"]
    assert sent == [("call_1", "look")] * ANSWERS
    assert [call_id for call_id, _ in results] == ["call_1"] * ANSWERS


def test_ids_are_made_unique_in_order_and_within_an_answer() -> None:
    before = [Assistant("", (ToolCall("a", "look", "{}"), ToolCall("a-2", "look", "{}")))]
    calls = [ToolCall(call_id, "look", "{}") for call_id in ("a", "b", "b", "a-2", "c")]

    assert [call.id for call in rename_repeated_calls(calls, before)] == [
        "a-3",
        "b",
        "b-2",
        "a-2-2",
        "c",
    ]
