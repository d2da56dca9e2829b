"""Decodes answers of Gemini's generateContent: finish reasons, calls, wire form, usage.

See https://ai.google.dev/api/generate-content.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from worker.conversation.messages import ToolCall, Usage
from worker.conversation.model import StopReason
from worker.models.base import Decoded
from worker.models.codec.json_slices import (
    Slice,
    dump_json,
    get_count,
    get_value,
    join_array,
    parse_elements,
    parse_members,
    repair_surrogates,
)
from worker.models.codec.names import read_tool_name

NO_ID = "noid_"
"""The prefix of the ids that we give to calls without an id; such ids are never sent."""

_STOPS = {
    "STOP": StopReason.END,
    "MAX_TOKENS": StopReason.TRUNCATED,
    "CONTINUATION": StopReason.PAUSED,
    **dict.fromkeys(
        (
            *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"),
            *("MODEL_ARMOR", "ESCALATION", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT"),
            *("IMAGE_OTHER", "IMAGE_RECITATION", "NO_IMAGE", "PUP_LIMITED_DISABLED"),
        ),
        StopReason.BLOCKED,
    ),
}
_TRIES = {
    "MALFORMED_FUNCTION_CALL": 2,
    "UNEXPECTED_TOOL_CALL": 2,
    "MALFORMED_RESPONSE": 2,
    "TOO_MANY_TOOL_CALLS": 0,
    "MISSING_THOUGHT_SIGNATURE": 0,
    "RECITATION": 1,
}
_UNKNOWN_TRIES = 1
_WHOLE = frozenset({StopReason.END, StopReason.PAUSED})


def decode(body: bytes) -> Decoded:
    """Decode the body of a 200 answer. Raises ValueError if it is not an answer."""
    answer = parse_members(body.decode())
    candidates = get_value(answer, "candidates")
    if not candidates:
        return _decode_blocked_prompt(answer)
    if not isinstance(candidates, list) or not isinstance(candidates[0], dict):
        raise ValueError("candidates is not a list of objects")
    candidate = parse_members(parse_elements(answer["candidates"].text)[0].text)
    reason = str(get_value(candidate, "finishReason"))
    stop = _STOPS.get(reason, StopReason.MALFORMED)
    decoded = _decode_parts(_get_parts(candidate), stop, hashlib.sha256(body).hexdigest()[:16])
    detail = "" if stop in _WHOLE else _write_detail(reason, get_value(candidate, "finishMessage"))
    return replace(
        decoded,
        stop=StopReason.TOOL_CALLS if decoded.calls and stop is StopReason.END else stop,
        usage=parse_usage(get_value(answer, "usageMetadata")),
        detail=detail,
        max_retries=_count_retries(reason, stop),
        needs_bare_request=reason == "MISSING_THOUGHT_SIGNATURE",
        continuation_fields=_get_continuation_fields(candidate)
        if stop is StopReason.PAUSED
        else {},
    )


def _decode_blocked_prompt(answer: Mapping[str, Slice]) -> Decoded:
    """Decode an answer without candidates: the prompt was blocked."""
    feedback = get_value(answer, "promptFeedback")
    if not isinstance(feedback, dict) or not feedback.get("blockReason"):
        raise ValueError("neither a candidate nor a reason why there is none")
    return Decoded(
        text="",
        calls=(),
        wire="[]",
        stop=StopReason.BLOCKED,
        usage=parse_usage(get_value(answer, "usageMetadata")),
        detail=_write_detail(str(feedback["blockReason"]), feedback.get("blockReasonMessage")),
    )


def _write_detail(reason: str, message: Any) -> str:
    return f"{reason[:60]}: {str(message)[:500]}" if message else reason[:60]


def _count_retries(reason: str, stop: StopReason) -> int:
    return _TRIES.get(reason, _UNKNOWN_TRIES if stop is StopReason.MALFORMED else 0)


def _get_continuation_fields(candidate: Mapping[str, Slice]) -> Mapping[str, Any]:
    token = get_value(candidate, "continuationToken")
    if not isinstance(token, str) or not token:
        raise ValueError("the answer goes on, but it has no continuationToken")
    return {"continuationToken": token}


def _get_parts(candidate: Mapping[str, Slice]) -> Sequence[Slice]:
    """Return the parts; the answer may lack content and parts."""
    content = candidate.get("content")
    if content is None or content.value is None:
        return ()
    fields = parse_members(content.text)
    if get_value(fields, "parts") is None:
        return ()
    parts = parse_elements(fields["parts"].text)
    if not all(isinstance(part.value, dict) for part in parts):
        raise ValueError("a part is not an object")
    return parts


def _decode_parts(parts: Sequence[Slice], stop: StopReason, seed: str) -> Decoded:
    """Decode text, calls and wire form of the parts that may be shown, run and sent back."""
    kept = _select_parts(parts, stop)
    calls = [part.value["functionCall"] for part in kept if _is_call(part)]
    return Decoded(
        text="".join(_get_texts(kept)),
        calls=tuple(
            _parse_call(call, f"{NO_ID}{seed}_{number}") for number, call in enumerate(calls)
        ),
        wire=join_array(kept),
        stop=stop,
        usage=Usage(),
        dropped_calls=sum(map(_is_call, parts)) - len(calls),
        thought=any("thoughtSignature" in part.value for part in kept),
    )


def _select_parts(parts: Sequence[Slice], stop: StopReason) -> Sequence[Slice]:
    """Return the parts to keep: none of a broken or blocked answer, no calls of a truncated one.

    Thoughts are never shown; those without a signature are dropped, as they are of no use later.
    """
    if stop not in _WHOLE and stop is not StopReason.TRUNCATED:
        return ()
    kept = [part for part in parts if not _is_thought(part) or "thoughtSignature" in part.value]
    return kept if stop in _WHOLE else [part for part in kept if not _is_call(part)]


def _is_thought(part: Slice) -> bool:
    return part.value.get("thought") is True


def _is_call(part: Slice) -> bool:
    return "functionCall" in part.value


def _get_texts(parts: Sequence[Slice]) -> list[str]:
    texts = [part.value["text"] for part in parts if "text" in part.value and not _is_thought(part)]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a text part has no text")
    return [repair_surrogates(text) for text in texts]


def _parse_call(call: Any, fallback: str) -> ToolCall:
    """Parse a call; `fallback` is its id if it has none, as with models before Gemini 3."""
    if not isinstance(call, dict):
        raise ValueError("a functionCall is not an object")
    call_id, arguments = call.get("id") or fallback, call.get("args") or {}
    if not (isinstance(call_id, str) and isinstance(arguments, dict)):
        raise ValueError("the id or the args of a functionCall have the wrong type")
    name = read_tool_name(call.get("name"))
    return ToolCall(repair_surrogates(call_id), name, dump_json(arguments).decode())


def parse_usage(usage: Any) -> Usage:
    """Return the tokens as billed. Gemini's prompt count includes cached tokens; its count of the
    answer excludes thoughts."""
    prompt = get_count(usage, "promptTokenCount")
    cached = min(prompt, get_count(usage, "cachedContentTokenCount"))
    thoughts = get_count(usage, "thoughtsTokenCount")
    return Usage(
        uncached_input=prompt - cached + get_count(usage, "toolUsePromptTokenCount"),
        cache_read=cached,
        output=get_count(usage, "candidatesTokenCount") + thoughts,
        reasoning=thoughts,
    )
