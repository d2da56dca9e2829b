"""Answers of the Responses API: items, status, usage; and hostile ones."""

import json
from typing import Any

import pytest

from tests.linear import takes_linear_time
from tests.unit.models.answers import NO_ANSWERS
from tests.unit.models.openai_answers import response, said
from worker.conversation.messages import ToolCall, Usage
from worker.conversation.model import StopReason
from worker.models.openai_responses import OpenAIResponses

decode = OpenAIResponses.decode

REASONING = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAAA"}
OURS = ToolCall("call_1", "look", '{"a": 1}')


def call(**fields: Any) -> dict[str, Any]:
    made = {"call_id": "call_1", "name": "look", "arguments": '{"a": 1}'}
    return {"id": "fc_1", "type": "function_call", **made, **fields}


def refused(reason: str) -> dict[str, Any]:
    part = {"type": "refusal", "refusal": reason}
    return {"id": "msg_1", "type": "message", "role": "assistant", "content": [part]}


@pytest.mark.parametrize(
    ("status", "reason", "stop", "runs"),
    [
        ("completed", None, StopReason.TOOL_CALLS, True),
        (None, None, StopReason.TOOL_CALLS, True),
        ("incomplete", "max_output_tokens", StopReason.TRUNCATED, False),
        ("incomplete", "content_filter", StopReason.BLOCKED, False),
        ("incomplete", "steered", StopReason.MALFORMED, False),
        ("incomplete", None, StopReason.MALFORMED, False),
        ("incomplete", ["x"], StopReason.MALFORMED, False),
    ],
)
def test_each_status_is_mapped_and_only_whole_calls_are_returned(
    status: Any, reason: Any, stop: StopReason, runs: bool
) -> None:
    found = decode(
        response(said("so"), call(), status=status, incomplete_details={"reason": reason})
    )

    assert found.stop is stop
    assert found.calls == ((OURS,) if runs else ())
    assert found.dropped_calls == (0 if runs else 1)
    assert ("function_call" in found.wire) is runs
    assert found.max_retries == (stop is StopReason.MALFORMED)


def test_an_answer_without_calls_is_the_end() -> None:
    found = decode(response(REASONING, said("done")))

    assert (found.stop, found.text, found.thought) == (StopReason.END, "done", True)


def test_the_wire_form_is_the_very_text_of_the_output() -> None:
    output = '[ {"type" : "reasoning","id":"rs_1","summary":[],"n":1.50} ,\n{"type":"new_kind"}]'
    body = f'{{"output" : {output},"status":"completed"}}'

    assert decode(body.encode()).wire == output


@pytest.mark.parametrize(
    ("items", "wire"),
    [
        ([REASONING, call()], []),
        ([said("a"), REASONING, call()], [said("a")]),
        ([REASONING, said("a"), call()], [REASONING, said("a")]),
    ],
)
def test_a_cut_answer_keeps_neither_its_calls_nor_reasoning_at_its_end(
    items: list[Any], wire: list[Any]
) -> None:
    details = {"reason": "max_output_tokens"}
    found = decode(response(*items, status="incomplete", incomplete_details=details))

    assert json.loads(found.wire) == wire


def test_a_refusal_is_told_and_what_came_with_it_is_dropped() -> None:
    found = decode(response(REASONING, said("Sure"), refused("I can't help with that.")))

    assert (found.stop, found.detail) == (StopReason.REFUSED, "I can't help with that.")
    assert (found.text, found.wire, found.thought) == ("", "[]", False)


@pytest.mark.parametrize(
    ("items", "text"),
    [
        ([said("a"), said(""), said("b")], "a\n\nb"),
        ([said("looking", "commentary"), said("it is", "final_answer")], "it is"),
        ([said("looking", "commentary"), call()], "looking"),
        ([said("a\ud800b")], "a\ufffdb"),
        ([{"type": "message", "content": "text"}], ""),
    ],
)
def test_the_final_answer_is_the_text_where_it_is_told_apart(items: list[Any], text: str) -> None:
    assert decode(response(*items)).text == text


@pytest.mark.parametrize("code", ["server_error", "rate_limit_exceeded", None])
def test_a_response_that_failed_in_passing_is_worth_another_try(code: Any) -> None:
    with pytest.raises(ValueError, match=r"the response failed: \w+: upset"):
        decode(response(status="failed", error={"code": code, "message": "upset"}))


@pytest.mark.parametrize("code", ["invalid_prompt", "bio_policy", "brand_new"])
def test_a_response_that_failed_for_good_is_a_block(code: str) -> None:
    found = decode(response(said("x"), status="failed", error={"code": code, "message": "no"}))

    assert (found.stop, found.detail, found.wire) == (StopReason.BLOCKED, f"{code}: no", "[]")


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"input_tokens": 100, "output_tokens": 7}, Usage(uncached_input=100, output=7)),
        (
            {
                "input_tokens": 1000,
                "output_tokens": 50,
                "input_tokens_details": {"cached_tokens": 896, "cache_write_tokens": 100},
                "output_tokens_details": {"reasoning_tokens": 20},
            },
            Usage(uncached_input=4, cache_read=896, cache_write=100, output=50, reasoning=20),
        ),
        (None, Usage()),
    ],
)
def test_cached_and_written_tokens_are_part_of_the_input(usage: Any, expected: Usage) -> None:
    assert decode(response(said("x"), usage=usage)).usage == expected


@pytest.mark.parametrize(
    "body",
    [
        *NO_ANSWERS,
        b'{"error":{"message":"upstream failed"}}',
        b'{"output":{}}',
        b'{"output":[1],"status":"completed"}',
        b'{"output":[{}],"status":"completed"}',
        b'{"output":[{"type":{}}],"status":"completed"}',
        b'{"output":[],"status":"completed","usage":NaN}',
        response(status="in_progress"),
        response(status="queued"),
        response(status="cancelled"),
        response(status={}),
        response(status="failed"),
        response(status="failed", error="text"),
        response(call(name=["look"])),
        response(said("x") | {"content": [{"type": "output_text"}]}),
        b'{"output":' + b"[" * 100_000,
    ],
)
def test_what_is_no_finished_response_is_a_value_error(body: bytes) -> None:
    with pytest.raises(ValueError):
        decode(body)


def test_arguments_may_be_an_object() -> None:
    found = decode(response(call(arguments={"a": "é"})))

    assert found.calls == (ToolCall("call_1", "look", '{"a":"é"}'),)


def test_an_answer_of_very_many_calls_is_read_in_linear_time() -> None:
    begin, end = response(call(call_id="call_0")).decode().split("]", 1)
    assert takes_linear_time(
        lambda text: decode(text.encode()), f", {json.dumps(call())}", 200_000, begin, f"]{end}"
    )
