"""What the Messages API answers: stop reasons, usage and errors (wire-models 1.7, 1.8)."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from worker.core.conversation.messages import ToolCall, Usage
from worker.core.ports import StopReason
from worker.models.base import CAUSES, Cause, Decoded, Failure
from worker.models.codec.json_slices import Slice, clean, dumps, elements, loads, members
from worker.models.google import errors

_STOPS = {
    "end_turn": StopReason.END,
    "stop_sequence": StopReason.END,
    "tool_use": StopReason.TOOL_CALLS,
    "max_tokens": StopReason.TRUNCATED,
    "pause_turn": StopReason.PAUSED,
    "refusal": StopReason.REFUSED,
    "model_context_window_exceeded": StopReason.CONTEXT_OVERFLOW,
}
_RUNNABLE = frozenset({StopReason.END, StopReason.TOOL_CALLS})
_THINKING = frozenset({"thinking", "redacted_thinking"})


def decode(body: bytes) -> Decoded:
    """The answer in a 200 body. Raises ValueError if the body is not a message."""
    message = members(body.decode())
    if _value(message, "type") != "message" or "content" not in message:
        raise ValueError(f"not a message but {_value(message, 'type')!r}")
    blocks = elements(message["content"].text)
    if not all(isinstance(block.value, dict) and isinstance(_type(block), str) for block in blocks):
        raise ValueError("a content block is not an object with a type")
    stop, detail = _stop(message)
    kept = _kept(blocks, stop)
    calls = [block for block in kept if _type(block) == "tool_use"]
    return Decoded(
        text="\n\n".join(_texts(kept)),
        calls=tuple(_call(block.value) for block in calls),
        wire=message["content"].text if len(kept) == len(blocks) else _array(kept),
        stop=stop,
        usage=usage(_value(message, "usage")),
        detail=detail,
        dropped=sum(_type(block) == "tool_use" for block in blocks) - len(calls),
        thought=any(_type(block) in _THINKING for block in kept),
    )


def _value(message: Mapping[str, Slice], name: str) -> Any:
    return message[name].value if name in message else None


def _type(block: Slice) -> Any:
    return block.value.get("type")


def _stop(message: Mapping[str, Slice]) -> tuple[StopReason, str]:
    reason = _value(message, "stop_reason")
    if not isinstance(reason, str) or reason not in _STOPS:
        return StopReason.MALFORMED, f"unknown stop reason {str(reason)[:60]!r}"
    details = _value(message, "stop_details")
    if reason == "refusal" and isinstance(details, dict):
        told = (details.get("category"), details.get("explanation"))
        return StopReason.REFUSED, ": ".join(str(part)[:500] for part in told if part)
    return _STOPS[reason], ""


def _kept(blocks: Sequence[Slice], stop: StopReason) -> list[Slice]:
    """The blocks that may be shown, run and sent back.

    A refused answer is dropped whole. A call that was cut off is never run, and an answer may not
    end in thinking once its calls are gone.
    """
    if stop is StopReason.REFUSED:
        return []
    kept = list(blocks)
    if stop not in _RUNNABLE:
        kept = [block for block in kept if _type(block) != "tool_use"]
        while kept and _type(kept[-1]) in _THINKING:
            kept.pop()
    return kept


def _array(blocks: Sequence[Slice]) -> str:
    return f"[{','.join(block.text for block in blocks)}]"


def _texts(blocks: Sequence[Slice]) -> list[str]:
    found = [block.value.get("text") for block in blocks if _type(block) == "text"]
    if not all(isinstance(text, str) for text in found):
        raise ValueError("a text block has no text")
    return [clean(text) for text in found if text]


def _call(block: Mapping[str, Any]) -> ToolCall:
    call_id, name, arguments = block.get("id"), block.get("name"), block.get("input")
    if not (isinstance(call_id, str) and isinstance(name, str) and isinstance(arguments, dict)):
        raise ValueError("a tool_use block lacks its id, name or input")
    return ToolCall(clean(call_id), clean(name), dumps(arguments).decode())


def usage(found: Any) -> Usage:
    """Tokens as billed; `input_tokens` excludes what was read from or written to the cache."""
    if not isinstance(found, dict):
        return Usage()
    details = found.get("output_tokens_details")
    return Usage(
        uncached_input=_count(found, "input_tokens"),
        cache_read=_count(found, "cache_read_input_tokens"),
        cache_write=_count(found, "cache_creation_input_tokens"),
        output=_count(found, "output_tokens"),
        reasoning=_count(details, "thinking_tokens") if isinstance(details, dict) else 0,
    )


def _count(found: Mapping[str, Any], name: str) -> int:
    value = found.get(name)
    return max(0, value) if isinstance(value, int) else 0


_OVERFLOW = re.compile(
    r"prompt is too long|input length and `max_tokens` exceed context limit", re.IGNORECASE
)
_BOUND = re.compile(
    r"invalid `signature` in|bound to a different|thinking` blocks .{0,60}cannot be modified",
    re.IGNORECASE,
)
_SPEND_LIMITS = frozenset({"enforced_spend_limit_reached", "contract_spend_limit_reached"})
_TRANSIENT = frozenset({408, 409, 429})


def classify(status: int, body: bytes) -> Failure:
    """By status, then by error code; wording decides only where nothing else does."""
    if errors.is_googles(body):  # Vertex AI answers for itself (wire-models 2)
        return errors.classify(status, body)
    reason, code = _error(body)
    if code in _SPEND_LIMITS:
        return Failure(Cause.SPEND_LIMIT, reason)
    if status == 400 and _OVERFLOW.search(reason):
        return Failure(Cause.OVERFLOW, reason)
    if status == 400 and _BOUND.search(reason):
        return Failure(Cause.BOUND, reason)
    if status >= 500:
        return Failure(Cause.OVERLOADED, reason, transient=True)
    return Failure(CAUSES.get(status, Cause.INVALID), reason, transient=status in _TRANSIENT)


def _error(body: bytes) -> tuple[str, str]:
    """Message and code of an error body; gateways in between answer in any form."""
    text = body.decode("utf-8", "replace")
    try:
        found = loads(text)
    except ValueError:
        return text, ""
    error = found.get("error") if isinstance(found, dict) else None
    if not isinstance(error, dict):
        return text, ""
    details = error.get("details")
    code = details.get("error_code") if isinstance(details, dict) else ""
    return str(error.get("message", "")), str(code or "")
