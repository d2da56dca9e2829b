"""Answers of generateContent: finish reasons, calls, wire form, usage; and hostile ones."""

import json
from typing import Any

import pytest

from tests.unit.models.answers import NO_ANSWERS
from tests.unit.models.gemini_bodies import answer, call, candidate, text
from worker.conversation.messages import ToolCall, Usage
from worker.conversation.model import StopReason
from worker.models.gemini import NO_ID, GenerateContent

decode = GenerateContent.decode

CALL = ToolCall("c1", "look", '{"at":"a"}')
BLOCKING = (
    *("SAFETY", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "ESCALATION"),
    *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_OTHER", "IMAGE_RECITATION", "NO_IMAGE"),
)


@pytest.mark.parametrize(
    ("reason", "stop", "kept", "tries"),
    [
        ("STOP", StopReason.TOOL_CALLS, "all", 0),
        ("MAX_TOKENS", StopReason.TRUNCATED, "text", 0),
        ("MALFORMED_FUNCTION_CALL", StopReason.MALFORMED, "", 2),
        ("UNEXPECTED_TOOL_CALL", StopReason.MALFORMED, "", 2),
        ("MALFORMED_RESPONSE", StopReason.MALFORMED, "", 2),
        ("MISSING_THOUGHT_SIGNATURE", StopReason.MALFORMED, "", 0),
        ("TOO_MANY_TOOL_CALLS", StopReason.MALFORMED, "", 0),
        ("RECITATION", StopReason.BLOCKED, "", 1),
        *((reason, StopReason.BLOCKED, "", 0) for reason in BLOCKING),
        ("OTHER", StopReason.MALFORMED, "", 1),
        ("BRAND_NEW", StopReason.MALFORMED, "", 1),
        (None, StopReason.MALFORMED, "", 1),
        (["STOP"], StopReason.MALFORMED, "", 1),
    ],
)
def test_each_finish_reason_is_mapped_and_only_whole_answers_are_kept(
    reason: Any, stop: StopReason, kept: str, tries: int
) -> None:
    found = decode(answer(text("so"), call(), reason=reason))

    assert (found.stop, found.max_retries) == (stop, tries)
    assert found.text == ("so" if kept else "")
    assert found.calls == ((CALL,) if kept == "all" else ())
    assert found.dropped_calls == (0 if kept == "all" else 1)
    assert ("functionCall" in found.wire) is (kept == "all")
    assert found.needs_bare_request is (reason == "MISSING_THOUGHT_SIGNATURE")
    assert bool(found.detail) is (reason != "STOP")


def test_a_stop_without_calls_is_the_end() -> None:
    assert decode(answer(text("done"))).stop is StopReason.END


@pytest.mark.parametrize(
    "content", [None, {}, {"role": "model"}, {"parts": None}, {"role": "model", "parts": []}]
)
def test_an_answer_without_parts_is_empty(content: Any) -> None:
    body = {"candidates": [{"content": content, "finishReason": "STOP"}]}
    found = decode(json.dumps(body).encode())

    assert (found.stop, found.text, found.wire) == (StopReason.END, "", "[]")


def test_a_candidate_without_content_is_empty() -> None:
    assert decode(b'{"candidates":[{"finishReason":"MAX_TOKENS"}]}').stop is StopReason.TRUNCATED


@pytest.mark.parametrize(
    "reason", ["SAFETY", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "MODEL_ARMOR", "JAILBREAK"]
)
def test_a_blocked_prompt_says_why(reason: str) -> None:
    feedback = {"blockReason": reason, "blockReasonMessage": "no"}
    body = {"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 7}}
    found = decode(json.dumps(body).encode())

    assert (found.stop, found.detail) == (StopReason.BLOCKED, f"{reason}: no")
    assert found.usage == Usage(uncached_input=7)


def test_a_finish_message_is_told() -> None:
    found = decode(answer(reason="SAFETY", finishMessage="looks harmful"))

    assert found.detail == "SAFETY: looks harmful"


def test_the_wire_form_is_the_very_text_of_the_parts() -> None:
    parts = (
        '{"text" : "caf\\u00e9 \\/"} ,\n {"functionCall":{"name":"look","args":{"x":1.50}},'
        '"thoughtSignature":"c2ln+/=="}'
    )
    body = (
        f'{{"candidates":[{{"finishReason":"STOP","content":{{"parts":[ {parts} ],'
        '"role":"model"}}]}'
    )
    found = decode(body.encode())

    assert json.loads(found.wire) == json.loads(f"[{parts}]")
    for part in parts.split(" ,\n "):
        assert part in found.wire
    assert found.thought


def test_a_thought_is_never_shown_and_kept_only_for_its_signature() -> None:
    thoughts = [
        {"text": "hm", "thought": True},
        {"text": "so", "thought": True, "thoughtSignature": "c2ln"},
    ]
    found = decode(answer(*thoughts, text("done")))

    assert found.text == "done"
    assert json.loads(found.wire) == [thoughts[1], text("done")]


def test_a_signed_empty_text_at_the_end_is_kept() -> None:
    end = {"text": "", "thoughtSignature": "c2ln"}
    found = decode(answer(text("done"), end))

    assert found.text == "done"
    assert json.loads(found.wire) == [text("done"), end]


def test_texts_are_one_text() -> None:
    assert decode(answer(text("a"), text("b"), {"executableCode": {}})).text == "ab"


def test_calls_without_ids_get_ones_that_are_distinct() -> None:
    body = answer(call(id=None), call(id=""), {"functionCall": {"name": "look"}})
    found = decode(body)
    ids = {made.id for made in found.calls}

    assert len(ids) == 3
    assert all(made.startswith(NO_ID) for made in ids)
    assert found.calls[2].arguments == "{}"
    assert decode(body) == found
    assert not ids & {made.id for made in decode(body + b" ").calls}


def test_an_interrupted_answer_says_how_to_go_on() -> None:
    found = decode(answer(text("so f"), reason="CONTINUATION", continuationToken="dG9r"))

    assert (found.stop, found.text) == (StopReason.PAUSED, "so f")
    assert found.continuation_fields == {"continuationToken": "dG9r"}


def test_half_surrogates_do_not_reach_the_session() -> None:
    body = answer(text("a\ud800b"), call(args={"at": "\udfff"}))
    found = decode(body)

    assert found.text == "a\ufffdb"
    assert found.calls[0].arguments == '{"at":"\ufffd"}'


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            {
                "promptTokenCount": 1000,
                "cachedContentTokenCount": 900,
                "candidatesTokenCount": 30,
                "thoughtsTokenCount": 20,
                "totalTokenCount": 1050,
            },
            Usage(uncached_input=100, cache_read=900, output=50, reasoning=20),
        ),
        ({"promptTokenCount": 10, "toolUsePromptTokenCount": 5}, Usage(uncached_input=15)),
        ({"promptTokenCount": 10, "cachedContentTokenCount": 12}, Usage(cache_read=10)),
        ({"thoughtsTokenCount": 5}, Usage(output=5, reasoning=5)),
        ({"promptTokenCount": "10", "candidatesTokenCount": None}, Usage()),
        ({"promptTokenCount": -3}, Usage()),
        (None, Usage()),
        ([], Usage()),
    ],
)
def test_usage_is_mapped_with_the_cache_beside_the_input(usage: Any, expected: Usage) -> None:
    assert decode(answer(text("x"), usage=usage)).usage == expected


@pytest.mark.parametrize(
    "body",
    [
        *NO_ANSWERS,
        b'{"candidates":[]}',
        b'{"candidates":{"a":1}}',
        b'{"candidates":["text"]}',
        b'{"promptFeedback":{}}',
        b'{"promptFeedback":"SAFETY"}',
        b'{"candidates":[{"content":"text","finishReason":"STOP"}]}',
        b'{"candidates":[{"content":{"parts":{}},"finishReason":"STOP"}]}',
        b'{"candidates":[{"content":{"parts":["text"]},"finishReason":"STOP"}]}',
        b'{"candidates":[{"content":{"parts":[{"text":7}]},"finishReason":"STOP"}]}',
        b'{"candidates":[{"content":{},"finishReason":"STOP"}],"usageMetadata":NaN}',
        b'{"candidates":[{"content":{},"finishReason":"STOP"}]} trailing',
        candidate({"functionCall": "look"}),
        candidate({"functionCall": {"name": 7}}),
        candidate({"functionCall": {"name": "look", "args": [1]}}),
        candidate({"functionCall": {"name": "look", "id": 7}}),
        b'{"candidates":[{"content":{"parts":[{"functionCall":{"name":"a","args":{"x":1e999}}}]},'
        b'"finishReason":"STOP"}]}',
        answer(text("so"), reason="CONTINUATION"),
        answer(text("so"), reason="CONTINUATION", continuationToken=7),
        b'{"candidates":' + b"[" * 100_000,
    ],
)
def test_what_is_no_answer_is_a_value_error(body: bytes) -> None:
    with pytest.raises(ValueError):
        decode(body)
