"""Answers of the Messages API: stop reasons, calls, wire form, usage; and hostile ones."""

from typing import Any

import pytest

from tests.unit.models.answers import NO_ANSWERS, error, message, text, use
from worker.conversation.messages import ToolCall, Usage
from worker.conversation.model import StopReason
from worker.models.anthropic_messages import AnthropicMessages
from worker.models.base import Cause
from worker.models.error_bodies import classify_anthropic

decode = AnthropicMessages.decode

THINKING = {"type": "thinking", "thinking": "hm", "signature": "sig"}
MODIFIED = (
    "messages.3.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant "
    "message cannot be modified."
)
CALL = ToolCall("toolu_1", "look", '{"at":"a"}')


@pytest.mark.parametrize(
    ("reason", "stop", "runs"),
    [
        ("end_turn", StopReason.END, True),
        ("stop_sequence", StopReason.END, True),
        ("tool_use", StopReason.TOOL_CALLS, True),
        ("max_tokens", StopReason.TRUNCATED, False),
        ("pause_turn", StopReason.PAUSED, False),
        ("refusal", StopReason.REFUSED, False),
        ("model_context_window_exceeded", StopReason.CONTEXT_OVERFLOW, False),
        ("brand_new", StopReason.MALFORMED, False),
        (None, StopReason.MALFORMED, False),
        (["tool_use"], StopReason.MALFORMED, False),
    ],
)
def test_each_stop_reason_is_mapped_and_only_whole_calls_are_returned(
    reason: Any, stop: StopReason, runs: bool
) -> None:
    found = decode(message(text("so"), use(), stop=reason))

    assert found.stop is stop
    assert found.calls == ((CALL,) if runs else ())
    assert found.dropped_calls == (0 if runs else 1)
    assert ("tool_use" in found.wire) is runs


def test_the_wire_form_is_the_very_text_of_the_content() -> None:
    content = '[ {"type" : "text","text":"caf\\u00e9 \\/"} ,\n{"type":"text","text":"b","x":1.50}]'
    body = f'{{"content":[],"type":"message", "content" : {content},"stop_reason":"end_turn"}}'

    assert decode(body.encode()).wire == content


def test_thinking_is_kept_in_the_wire_form_only() -> None:
    found = decode(message(THINKING, text("so")))

    assert found.text == "so"
    assert found.thought
    assert '"signature": "sig"' in found.wire


@pytest.mark.parametrize(
    ("blocks", "wire", "thought"),
    [
        ([THINKING, use()], "[]", False),
        ([text("a"), THINKING, use()], '[{"type": "text", "text": "a"}]', False),
        ([text("a"), use()], '[{"type": "text", "text": "a"}]', False),
    ],
)
def test_a_cut_answer_keeps_neither_its_calls_nor_thinking_at_its_end(
    blocks: list[Any], wire: str, thought: bool
) -> None:
    found = decode(message(*blocks, stop="max_tokens"))

    assert (found.wire, found.thought) == (wire, thought)


def test_a_refusal_drops_the_partial_answer_and_says_why() -> None:
    details = {"category": "cyber", "explanation": "looks like an exploit"}
    found = decode(message(text("Sure, first"), stop="refusal", stop_details=details))

    assert (found.text, found.wire, found.detail) == ("", "[]", "cyber: looks like an exploit")


def test_texts_are_joined_and_blocks_of_unknown_kind_are_only_replayed() -> None:
    found = decode(message(text("a"), {"type": "new_kind", "x": 1}, text(""), text("b")))

    assert found.text == "a\n\nb"
    assert "new_kind" in found.wire


def test_arguments_are_compact_json_in_the_order_received() -> None:
    found = decode(message(use(input={"z": 1, "a": ["é", None]}), stop="tool_use"))

    assert found.calls[0].arguments == '{"z":1,"a":["é",null]}'


def test_half_surrogates_do_not_reach_the_session() -> None:
    body = message(text("a\ud800b"), use(input={"at": "\udfff"}), stop="tool_use")
    found = decode(body)

    assert found.text == "a\ufffdb"
    assert found.calls[0].arguments == '{"at":"\ufffd"}'
    assert found.wire.encode() in body


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"input_tokens": 3, "output_tokens": 4}, Usage(uncached_input=3, output=4)),
        (
            {
                "input_tokens": 3,
                "cache_read_input_tokens": 900,
                "cache_creation_input_tokens": 70,
                "output_tokens": 50,
                "output_tokens_details": {"thinking_tokens": 20},
            },
            Usage(uncached_input=3, cache_read=900, cache_write=70, output=50, reasoning=20),
        ),
        (
            {
                "input_tokens": 3,
                "cache_read_input_tokens": None,
                "output_tokens": "x",
                "output_tokens_details": None,
            },
            Usage(uncached_input=3),
        ),
        ({"input_tokens": -3}, Usage()),
        (None, Usage()),
    ],
)
def test_usage_is_mapped_with_the_cache_beside_the_input(usage: Any, expected: Usage) -> None:
    assert decode(message(text("x"), usage=usage)).usage == expected


@pytest.mark.parametrize(
    "body",
    [
        *NO_ANSWERS,
        b'{"type":"message"}',
        b'{"type":"message","content":"text"}',
        b'{"type":"message","content":[1]}',
        b'{"type":"message","content":[{}]}',
        b'{"type":"message","content":[{"type":{}}]}',
        b'{"type":"message","content":[{"type":"text"}]}',
        b'{"type":"message","content":[],"usage":NaN}',
        b'{"type":"message","content":[]} trailing',
        b'{"type":"message","content":[{"type":"tool_use"}],"stop_reason":"tool_use"}',
        message(use(input="text"), stop="tool_use"),
        message(use(id=7), stop="tool_use"),
        error("overloaded_error", "late"),
        b'{"type":"message","content":' + b"[" * 100_000,
    ],
)
def test_what_is_no_answer_is_a_value_error(body: bytes) -> None:
    with pytest.raises(ValueError):
        decode(body)


@pytest.mark.parametrize(
    ("status", "body", "cause", "transient"),
    [
        (400, error("invalid_request_error", "x"), Cause.INVALID, False),
        (400, error("invalid_request_error", "Prompt is too long: 5"), Cause.OVERFLOW, False),
        (400, error("invalid_request_error", MODIFIED), Cause.BOUND, False),
        (413, error("request_too_large", "Request exceeds 32 MB"), Cause.TOO_LARGE, False),
        (429, error("rate_limit_error", "x", "ramp_limit_exceeded"), Cause.RATE_LIMIT, True),
        (400, error("x", "y", "enforced_spend_limit_reached"), Cause.SPEND_LIMIT, False),
        (599, b"", Cause.OVERLOADED, True),
        (418, b"\xff", Cause.INVALID, False),
        (400, b'{"error":"text"}', Cause.INVALID, False),
        (400, b'{"error":{"details":["x"]}}', Cause.INVALID, False),
        (400, b"[" * 100_000, Cause.INVALID, False),
    ],
)
def test_a_failure_is_classified_by_status_and_code_whatever_its_body(
    status: int, body: bytes, cause: Cause, transient: bool
) -> None:
    found = classify_anthropic(status, body)

    assert (found.cause, found.transient) == (cause, transient)
