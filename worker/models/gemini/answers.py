"""What generateContent answers: finish reasons, calls, wire form, usage (wire-models 3.6)."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from worker.core.conversation.messages import ToolCall, Usage
from worker.core.ports import StopReason
from worker.models.base import Decoded
from worker.models.codec.json_slices import Slice, clean, dumps, elements, members

NO_ID = "noid_"
"""How an id begins that we gave to a call without one; such ids are never sent."""

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
    """The answer in a 200 body. Raises ValueError if the body is not one."""
    answer = members(body.decode())
    candidates = _value(answer, "candidates")
    if not candidates:
        return _nothing(answer)
    if not isinstance(candidates, list) or not isinstance(candidates[0], dict):
        raise ValueError("candidates is not a list of objects")
    candidate = members(elements(answer["candidates"].text)[0].text)
    reason = str(_value(candidate, "finishReason"))
    stop = _STOPS.get(reason, StopReason.MALFORMED)
    found = _content(_parts(candidate), stop, hashlib.sha256(body).hexdigest()[:16])
    detail = "" if stop in _WHOLE else _detail(reason, _value(candidate, "finishMessage"))
    return Decoded(
        text=found.text,
        calls=found.calls,
        wire=found.wire,
        stop=StopReason.TOOL_CALLS if found.calls and stop is StopReason.END else stop,
        usage=usage(_value(answer, "usageMetadata")),
        detail=detail,
        dropped=found.dropped,
        thought=found.thought,
        tries=_tries(reason, stop),
        bound=reason == "MISSING_THOUGHT_SIGNATURE",
        more=_more(candidate) if stop is StopReason.PAUSED else {},
    )


def _value(fields: Mapping[str, Slice], name: str) -> Any:
    return fields[name].value if name in fields else None


def _nothing(answer: Mapping[str, Slice]) -> Decoded:
    """No candidate at all: the prompt was blocked."""
    feedback = _value(answer, "promptFeedback")
    if not isinstance(feedback, dict) or not feedback.get("blockReason"):
        raise ValueError("neither a candidate nor a reason why there is none")
    return Decoded(
        text="",
        calls=(),
        wire="[]",
        stop=StopReason.BLOCKED,
        usage=usage(_value(answer, "usageMetadata")),
        detail=_detail(str(feedback["blockReason"]), feedback.get("blockReasonMessage")),
    )


def _detail(reason: str, message: Any) -> str:
    return f"{reason[:60]}: {str(message)[:500]}" if message else reason[:60]


def _tries(reason: str, stop: StopReason) -> int:
    return _TRIES.get(reason, _UNKNOWN_TRIES if stop is StopReason.MALFORMED else 0)


def _more(candidate: Mapping[str, Slice]) -> Mapping[str, Any]:
    token = _value(candidate, "continuationToken")
    if not isinstance(token, str) or not token:
        raise ValueError("the answer goes on, but it has no continuationToken")
    return {"continuationToken": token}


def _parts(candidate: Mapping[str, Slice]) -> Sequence[Slice]:
    """The parts; content and parts may be absent."""
    content = candidate.get("content")
    if content is None or content.value is None:
        return ()
    fields = members(content.text)
    if _value(fields, "parts") is None:
        return ()
    parts = elements(fields["parts"].text)
    if not all(isinstance(part.value, dict) for part in parts):
        raise ValueError("a part is not an object")
    return parts


def _content(parts: Sequence[Slice], stop: StopReason, seed: str) -> Decoded:
    """Text, calls and wire form of what may be shown, run and sent back."""
    kept = _kept(parts, stop)
    calls = [part.value["functionCall"] for part in kept if _is_call(part)]
    return Decoded(
        text="".join(_texts(kept)),
        calls=tuple(_call(call, f"{NO_ID}{seed}_{number}") for number, call in enumerate(calls)),
        wire=f"[{','.join(part.text for part in kept)}]",
        stop=stop,
        usage=Usage(),
        dropped=sum(map(_is_call, parts)) - len(calls),
        thought=any("thoughtSignature" in part.value for part in kept),
    )


def _kept(parts: Sequence[Slice], stop: StopReason) -> Sequence[Slice]:
    """A broken or blocked answer is dropped whole, a cut one loses its calls.

    Thoughts are never shown; without a signature they are of no use later (wire-models 3.4).
    """
    if stop not in _WHOLE and stop is not StopReason.TRUNCATED:
        return ()
    kept = [part for part in parts if not _is_thought(part) or "thoughtSignature" in part.value]
    return kept if stop in _WHOLE else [part for part in kept if not _is_call(part)]


def _is_thought(part: Slice) -> bool:
    return part.value.get("thought") is True


def _is_call(part: Slice) -> bool:
    return "functionCall" in part.value


def _texts(parts: Sequence[Slice]) -> list[str]:
    found = [part.value["text"] for part in parts if "text" in part.value and not _is_thought(part)]
    if not all(isinstance(text, str) for text in found):
        raise ValueError("a text part has no text")
    return [clean(text) for text in found]


def _call(call: Any, fallback: str) -> ToolCall:
    """A call; models before Gemini 3 give it no id."""
    if not isinstance(call, dict):
        raise ValueError("a functionCall is not an object")
    call_id, name, arguments = call.get("id") or fallback, call.get("name"), call.get("args") or {}
    if not (isinstance(call_id, str) and isinstance(name, str) and isinstance(arguments, dict)):
        raise ValueError("a functionCall lacks its name, or its id or args have the wrong type")
    return ToolCall(clean(call_id), clean(name), dumps(arguments).decode())


def usage(found: Any) -> Usage:
    """Tokens as billed: the prompt count includes cached ones, the answer's excludes thoughts."""
    if not isinstance(found, dict):
        return Usage()
    prompt = _count(found, "promptTokenCount")
    cached = min(prompt, _count(found, "cachedContentTokenCount"))
    thoughts = _count(found, "thoughtsTokenCount")
    return Usage(
        uncached_input=prompt - cached + _count(found, "toolUsePromptTokenCount"),
        cache_read=cached,
        output=_count(found, "candidatesTokenCount") + thoughts,
        reasoning=thoughts,
    )


def _count(found: Mapping[str, Any], name: str) -> int:
    value = found.get(name)
    return max(0, value) if isinstance(value, int) else 0
