"""Decodes answers of Anthropic's Messages API: content, stop reasons, usage, errors.

Stop reasons: https://platform.claude.com/docs/en/api/messages. Errors:
https://platform.claude.com/docs/en/api/errors.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from worker.conversation.messages import ToolCall, Usage
from worker.conversation.model import StopReason
from worker.models.amazon import errors as amazon
from worker.models.base import CAUSES, Cause, Decoded, Failure
from worker.models.codec.json_slices import (
    Slice,
    dump_json,
    get_count,
    get_value,
    join_array,
    parse_json,
    parse_members,
    repair_surrogates,
)
from worker.models.codec.length_refusals import find_length_cause, find_token_rate
from worker.models.codec.names import read_tool_name
from worker.models.codec.typed_parts import get_type, parse_parts, select_parts
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
_THINKING = frozenset({"thinking", "redacted_thinking"})


def decode(body: bytes) -> Decoded:
    """Decode the body of a 200 answer. Raises ValueError if it is not a message."""
    message = parse_members(body.decode())
    if get_value(message, "type") != "message" or "content" not in message:
        raise ValueError(f"not a message but {get_value(message, 'type')!r}")
    blocks = parse_parts(message["content"].text, "a content block")
    stop, detail = _get_stop_reason(message)
    kept = select_parts(blocks, stop, call="tool_use", thinking=_THINKING)
    calls = [block for block in kept if get_type(block) == "tool_use"]
    return Decoded(
        text="\n\n".join(_get_texts(kept)),
        calls=tuple(_parse_call(block.value) for block in calls),
        wire=message["content"].text if len(kept) == len(blocks) else join_array(kept),
        stop=stop,
        usage=parse_usage(get_value(message, "usage")),
        detail=detail,
        dropped_calls=sum(get_type(block) == "tool_use" for block in blocks) - len(calls),
        thought=any(get_type(block) in _THINKING for block in kept),
    )


def _get_stop_reason(message: Mapping[str, Slice]) -> tuple[StopReason, str]:
    reason = get_value(message, "stop_reason")
    if not isinstance(reason, str) or reason not in _STOPS:
        return StopReason.MALFORMED, f"unknown stop reason {str(reason)[:60]!r}"
    details = get_value(message, "stop_details")
    if reason == "refusal" and isinstance(details, dict):
        reasons = (details.get("category"), details.get("explanation"))
        return StopReason.REFUSED, ": ".join(str(part)[:500] for part in reasons if part)
    return _STOPS[reason], ""


def _get_texts(blocks: Sequence[Slice]) -> list[str]:
    texts = [block.value.get("text") for block in blocks if get_type(block) == "text"]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a text block has no text")
    return [repair_surrogates(text) for text in texts if text]


def _parse_call(block: Mapping[str, Any]) -> ToolCall:
    call_id, arguments = block.get("id"), block.get("input")
    if not (isinstance(call_id, str) and isinstance(arguments, dict)):
        raise ValueError("a tool_use block lacks its id or input")
    name = read_tool_name(block.get("name"))
    return ToolCall(repair_surrogates(call_id), name, dump_json(arguments).decode())


def parse_usage(usage: Any) -> Usage:
    """Return the tokens as billed; `input_tokens` excludes those read from or written to the
    cache."""
    return Usage(
        uncached_input=get_count(usage, "input_tokens"),
        cache_read=get_count(usage, "cache_read_input_tokens"),
        cache_write=get_count(usage, "cache_creation_input_tokens"),
        output=get_count(usage, "output_tokens"),
        reasoning=get_count(usage, "output_tokens_details", "thinking_tokens"),
    )


_BOUND = re.compile(
    r"invalid `signature` in|bound to a different|thinking` blocks .{0,60}cannot be modified",
    re.IGNORECASE,
)
_SPEND_LIMITS = frozenset({"enforced_spend_limit_reached", "contract_spend_limit_reached"})
_TRANSIENT = frozenset({408, 409, 429})


def classify(status: int, body: bytes) -> Failure:
    """Classify by error code, then by status; a status 400 also by wording."""
    if errors.is_google_error(body):  # Vertex AI's own errors have Google's form
        return errors.classify(status, body)
    said = amazon.parse_message(body)  # and those of Bedrock Amazon's
    if said and (found := amazon.find_failure(status, said)):
        return found
    reason, code = (said, "") if said else _parse_error(body)
    if code in _SPEND_LIMITS:
        return Failure(Cause.SPEND_LIMIT, reason)
    if length := find_length_cause(status, reason):
        return Failure(length, reason)
    if status == 400 and _BOUND.search(reason):
        return Failure(Cause.BOUND, reason)
    if status >= 500:
        return Failure(Cause.OVERLOADED, reason, transient=True)
    rate = find_token_rate(reason) if status == 429 else 0
    cause = CAUSES.get(status, Cause.INVALID)
    return Failure(cause, reason, transient=status in _TRANSIENT, token_rate=rate)


def _parse_error(body: bytes) -> tuple[str, str]:
    """Return the message and code of an error body; gateways may answer in any form."""
    text = body.decode("utf-8", "replace")
    try:
        answer = parse_json(text)
    except ValueError:
        return text, ""
    error = answer.get("error") if isinstance(answer, dict) else None
    if not isinstance(error, dict):
        return text, ""
    details = error.get("details")
    code = details.get("error_code") if isinstance(details, dict) else ""
    return str(error.get("message", "")), str(code or "")
