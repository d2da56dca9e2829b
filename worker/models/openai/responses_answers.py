"""Decodes answers of OpenAI's Responses API: items, status, usage."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from worker.conversation.model import StopReason
from worker.models.base import Decoded
from worker.models.codec.json_slices import (
    Slice,
    get_value,
    join_array,
    parse_members,
    repair_surrogates,
)
from worker.models.codec.typed_parts import get_type, parse_parts, select_parts
from worker.models.openai.shared import parse_tool_calls, parse_usage

_INCOMPLETE = {
    "max_output_tokens": StopReason.TRUNCATED,
    "content_filter": StopReason.BLOCKED,
}
_PASSING = frozenset({"server_error", "rate_limit_exceeded"})


def decode(body: bytes) -> Decoded:
    """Decode the body of a 200 answer. Raises ValueError if it is not a finished response."""
    response = parse_members(body.decode())
    if "output" not in response:
        raise ValueError(f"not a response but {str(get_value(response, 'error'))[:200]!r}")
    items = parse_parts(response["output"].text, "an output item")
    stop, detail = _get_stop_reason(response, items)
    kept = select_parts(items, stop, call="function_call", thinking={"reasoning"})
    sent = [item.value for item in kept if get_type(item) == "function_call"]
    calls = parse_tool_calls(
        (call.get("call_id"), call.get("name"), call.get("arguments")) for call in sent
    )
    return Decoded(
        text="\n\n".join(_get_texts(kept)),
        calls=calls,
        wire=response["output"].text if len(kept) == len(items) else join_array(kept),
        stop=stop,
        usage=parse_usage(get_value(response, "usage"), "input", "output"),
        detail=detail,
        dropped_calls=sum(get_type(item) == "function_call" for item in items) - len(calls),
        thought=any(get_type(item) == "reasoning" for item in kept),
        max_retries=int(stop is StopReason.MALFORMED),
    )


def _get_stop_reason(
    response: Mapping[str, Slice], items: Sequence[Slice]
) -> tuple[StopReason, str]:
    match get_value(response, "status"):
        case "completed" | None:
            return _read_completed(items)
        case "incomplete":
            return _read_incomplete(get_value(response, "incomplete_details"))
        case "failed":
            return _read_failed(get_value(response, "error"))
        case status:
            raise ValueError(f"the response is not finished: status {str(status)[:60]!r}")


def _read_completed(items: Sequence[Slice]) -> tuple[StopReason, str]:
    refusals = [part.get("refusal") for part in _get_parts(items) if part.get("type") == "refusal"]
    if refusals:
        return StopReason.REFUSED, repair_surrogates(str(refusals[0]))
    calls = any(get_type(item) == "function_call" for item in items)
    return StopReason.TOOL_CALLS if calls else StopReason.END, ""


def _read_incomplete(details: Any) -> tuple[StopReason, str]:
    reason = details.get("reason") if isinstance(details, dict) else None
    if not isinstance(reason, str) or reason not in _INCOMPLETE:
        return StopReason.MALFORMED, f"incomplete for an unknown reason {str(reason)[:60]!r}"
    return _INCOMPLETE[reason], reason if reason == "content_filter" else ""


def _read_failed(error: Any) -> tuple[StopReason, str]:
    """Return why a response failed for good. Raises ValueError if it may be retried: a failure of
    the server, or a rate limit."""
    fields = error if isinstance(error, dict) else {}
    code = str(fields.get("code") or "server_error")
    problem = f"{code[:60]}: {repair_surrogates(str(fields.get('message') or 'no message'))}"
    if code in _PASSING:
        raise ValueError(f"the response failed: {problem}")
    return StopReason.BLOCKED, problem


def _get_parts(items: Sequence[Slice]) -> Iterator[Mapping[str, Any]]:
    for item in items:
        content = item.value.get("content") if get_type(item) == "message" else None
        parts = content if isinstance(content, list) else []
        yield from (part for part in parts if isinstance(part, dict))


def _get_texts(items: Sequence[Slice]) -> list[str]:
    """Return the texts of the final answer if the phases are marked, else all texts."""
    final = [item for item in items if item.value.get("phase") == "final_answer"]
    parts = [part for part in _get_parts(final or items) if part.get("type") == "output_text"]
    texts = [part.get("text") for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("an output_text part has no text")
    return [repair_surrogates(str(text)) for text in texts if text]
