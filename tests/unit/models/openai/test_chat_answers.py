"""Answers of Chat Completions, from OpenAI's own to the most careless server; and hostile ones."""

import json
from typing import Any

import pytest

from tests.linear import takes_linear_time
from tests.unit.models.answers import NO_ANSWERS
from tests.unit.models.openai_answers import completion
from worker.conversation.messages import ToolCall, Usage
from worker.conversation.model import StopReason
from worker.models.openai_chat import OpenAIChat

decode = OpenAIChat.decode

CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}}
OURS = ToolCall("call_1", "look", '{"a": 1}')


def call(call_id: Any = "call_1", name: Any = "look", arguments: Any = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("reason", "stop", "runs"),
    [
        ("stop", StopReason.TOOL_CALLS, True),
        ("tool_calls", StopReason.TOOL_CALLS, True),
        ("length", StopReason.TRUNCATED, False),
        ("content_filter", StopReason.BLOCKED, False),
        ("function_call", StopReason.MALFORMED, False),
        ("brand_new", StopReason.MALFORMED, False),
        (None, StopReason.TOOL_CALLS, True),
        (["stop"], StopReason.MALFORMED, False),
    ],
)
def test_each_finish_reason_is_mapped_and_only_whole_calls_are_returned(
    reason: Any, stop: StopReason, runs: bool
) -> None:
    found = decode(completion(reason, content="so", tool_calls=[CALL]))

    assert found.stop is stop
    assert found.calls == ((OURS,) if runs else ())
    assert found.dropped_calls == (0 if runs else 1)
    assert ("tool_calls" in found.wire) is runs
    assert found.max_retries == (stop is StopReason.MALFORMED)


@pytest.mark.parametrize("calls", [{}, {"tool_calls": None}, {"tool_calls": []}])
@pytest.mark.parametrize("reason", ["stop", "tool_calls"])
def test_an_answer_without_calls_is_the_end_whatever_its_reason(reason: str, calls: Any) -> None:
    found = decode(completion(reason, content="done", **calls))

    assert (found.stop, found.text, found.calls) == (StopReason.END, "done", ())


@pytest.mark.parametrize("choice", [{}, {"finish_reason": None}, {"finish_reason": ""}])
def test_a_server_that_never_says_why_it_stopped_is_believed(choice: dict[str, Any]) -> None:
    body = {"choices": [{"message": {"content": "done"}} | choice]}
    found = decode(json.dumps(body).encode())

    assert (found.stop, found.text, found.max_retries) == (StopReason.END, "done", 0)


def test_a_refusal_is_told_and_what_came_with_it_is_dropped() -> None:
    found = decode(completion(content="Sure, first", refusal="I can't help with that."))

    assert (found.stop, found.detail) == (StopReason.REFUSED, "I can't help with that.")
    assert (found.text, found.wire) == ("", "{}")


def test_a_filtered_answer_shows_nothing() -> None:
    found = decode(completion("content_filter", content="half of it"))

    assert (found.stop, found.text, found.wire) == (StopReason.BLOCKED, "", "{}")
    assert found.detail


def test_the_wire_form_keeps_what_goes_back_as_it_was_written() -> None:
    calls = '[ {"id":"call_1","type" : "function","index":0,"function":{"name":"look",'
    calls += '"arguments":"{\\u0022a\\u0022: 1}"},"extra_content":{"google":1.50}} ]'
    message = f'{{"refusal":null,"content" : "caf\\u00e9 \\/","tool_calls":{calls},"audio":null}}'
    body = f'{{"choices":[{{"message":{message},"finish_reason":"tool_calls"}}]}}'
    found = decode(body.encode())

    assert found.wire == f'{{"content":"caf\\u00e9 \\/","tool_calls":{calls}}}'
    assert (found.text, found.calls) == ("café /", (OURS,))


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "reasoning_details"])
def test_reasoning_is_kept_in_the_wire_form_only(field: str) -> None:
    found = decode(completion(content="so", **{field: "let me see"}))

    assert found.text == "so"
    assert json.loads(found.wire) == {"content": "so", field: "let me see"}
    assert not found.thought


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ("", ""),
        ([{"type": "text", "text": "a"}, {"type": "thinking", "thinking": []}, 7], "a"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\n\nb"),
        ({"text": "no"}, ""),
        ("a\ud800b", "a\ufffdb"),
    ],
)
def test_content_may_be_text_or_parts(content: Any, text: str) -> None:
    assert decode(completion(content=content)).text == text


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        *(("", ""), (None, ""), ('{"at": ', '{"at": '), ("[1]", "[1]"), ('{"a":1}', '{"a":1}')),
        *(({"a": {"b": "é"}}, '{"a":{"b":"é"}}'), ({}, "{}"), ([1], "[1]"), (7, "7")),
    ],
)
def test_arguments_are_kept_as_they_came(given: Any, arguments: str) -> None:
    found = decode(completion(tool_calls=[call(arguments=given)]))

    assert found.calls == (ToolCall("call_1", "look", arguments),)


@pytest.mark.parametrize("ids", [("", ""), (None, None), ("x", "x"), (7, 7)])
def test_calls_without_an_id_of_their_own_get_one(ids: tuple[Any, Any]) -> None:
    calls = [call(call_id, arguments="{}") for call_id in ids]
    first = decode(completion(tool_calls=calls)).calls
    again = decode(completion(tool_calls=calls)).calls

    assert len({found.id for found in first}) == 2
    assert all(first_call.id for first_call in first)
    assert first == again


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 100, "completion_tokens": 7}, Usage(uncached_input=100, output=7)),
        (
            {
                "prompt_tokens": 1000,
                "completion_tokens": 50,
                "prompt_tokens_details": {"cached_tokens": 896, "cache_write_tokens": 100},
                "completion_tokens_details": {"reasoning_tokens": 20},
            },
            Usage(uncached_input=4, cache_read=896, cache_write=100, output=50, reasoning=20),
        ),
        (
            {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 9}},
            Usage(cache_read=9),
        ),
        ({"prompt_tokens": "x", "prompt_tokens_details": None, "completion_tokens": -1}, Usage()),
        ({"prompt_tokens": 3, "prompt_tokens_details": [1]}, Usage(uncached_input=3)),
        ([], Usage()),
        (None, Usage()),
    ],
)
def test_cached_tokens_are_part_of_the_prompt(usage: Any, expected: Usage) -> None:
    assert decode(completion(usage=usage, content="x")).usage == expected


@pytest.mark.parametrize(
    "body",
    [
        *NO_ANSWERS,
        b'{"error":{"message":"upstream failed"}}',
        b'{"choices":{}}',
        b'{"choices":[]}',
        b'{"choices":[1]}',
        b'{"choices":[{}]}',
        b'{"choices":[{"message":null}]}',
        b'{"choices":[{"message":"text"}]}',
        b'{"choices":[{"message":{}}],"usage":NaN}',
        b'{"choices":[]} trailing',
        completion(tool_calls=7),
        completion(tool_calls=["look"]),
        completion(tool_calls=[{"id": "a"}]),
        completion(tool_calls=[call(name=7)]),
        b'{"choices":' + b"[" * 100_000,
    ],
)
def test_what_is_no_completion_is_a_value_error(body: bytes) -> None:
    with pytest.raises(ValueError):
        decode(body)


def test_an_error_in_a_200_is_quoted() -> None:
    with pytest.raises(ValueError, match="upstream failed"):
        decode(b'{"error":{"message":"upstream failed"}}')


def test_an_answer_of_very_many_calls_is_read_in_linear_time() -> None:
    begin, end = completion(tool_calls=[call("call_0")]).decode().split("]", 1)
    assert takes_linear_time(
        lambda text: decode(text.encode()), f", {json.dumps(call())}", 200_000, begin, f"]{end}"
    )
