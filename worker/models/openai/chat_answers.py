"""Decodes Chat Completions answers of OpenAI, and of servers that follow its API loosely.

See https://platform.openai.com/docs/api-reference/chat.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from worker.conversation.model import StopReason
from worker.models.base import Decoded
from worker.models.codec.json_slices import (
    Slice,
    get_value,
    parse_elements,
    parse_members,
    repair_surrogates,
)
from worker.models.openai.shared import parse_tool_calls, parse_usage

REASONING = ("reasoning_content", "reasoning", "reasoning_details")
"""The fields in which servers put reasoning. All are kept; the dialect names the one sent back."""

_KEPT = ("content", "tool_calls", *REASONING)
_STOPS = {
    "stop": StopReason.END,
    "tool_calls": StopReason.TOOL_CALLS,
    "length": StopReason.TRUNCATED,
    "content_filter": StopReason.BLOCKED,
}
_RUNNABLE = frozenset({StopReason.END, StopReason.TOOL_CALLS})
_UNUSABLE = frozenset({StopReason.REFUSED, StopReason.BLOCKED})


def decode(body: bytes) -> Decoded:
    """Decode the body of a 200 answer. Raises ValueError if it is not a completion."""
    whole = parse_members(body.decode())
    choice = _get_choice(whole)
    message = parse_members(choice["message"].text) if "message" in choice else {}
    if not message:
        raise ValueError("the choice has no message")
    calls = parse_tool_calls(_list_calls(message))
    stop, detail = _get_stop_reason(choice, message, runs=bool(calls))
    if stop in _UNUSABLE:
        message = {}
    kept = calls if stop in _RUNNABLE else ()
    return Decoded(
        text=_get_text(get_value(message, "content")),
        calls=kept,
        wire=_keep_wire_form(message, len(kept) == len(calls)),
        stop=stop,
        usage=parse_usage(get_value(whole, "usage"), "prompt", "completion"),
        detail=detail,
        dropped_calls=len(calls) - len(kept),
        max_retries=int(stop is StopReason.MALFORMED),
    )


def _get_choice(whole: Mapping[str, Slice]) -> dict[str, Slice]:
    """Return the first choice. A gateway may answer an error with status 200."""
    if "choices" not in whole:
        raise ValueError(f"not a completion but {str(get_value(whole, 'error'))[:200]!r}")
    choices = parse_elements(whole["choices"].text)
    if not choices:
        raise ValueError("the completion has no choices")
    return parse_members(choices[0].text)


def _get_stop_reason(
    choice: Mapping[str, Slice], message: Mapping[str, Slice], *, runs: bool
) -> tuple[StopReason, str]:
    refusal = get_value(message, "refusal")
    if isinstance(refusal, str) and refusal:
        return StopReason.REFUSED, repair_surrogates(refusal)
    reason = get_value(choice, "finish_reason") or "stop"  # some servers never give one
    if not isinstance(reason, str) or reason not in _STOPS:
        return StopReason.MALFORMED, f"unknown finish reason {str(reason)[:60]!r}"
    stop = _STOPS[reason]
    if stop in _RUNNABLE:
        # Several servers say "stop" although there are calls, or "tool_calls" without any.
        return StopReason.TOOL_CALLS if runs else StopReason.END, ""
    return stop, "the provider's filter cut the answer" if stop is StopReason.BLOCKED else ""


def _list_calls(message: Mapping[str, Slice]) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the id, name and arguments of each call."""
    calls = get_value(message, "tool_calls") or ()
    if not isinstance(calls, list | tuple):
        raise ValueError("tool_calls is not a list")
    for call in calls:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            raise ValueError("a tool call has no function")
        yield call.get("id"), function.get("name"), function.get("arguments")


def _get_text(content: Any) -> str:
    """Return the text, or the joined texts of a list of parts."""
    if isinstance(content, str):
        return repair_surrogates(content)
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n\n".join(repair_surrogates(text) for text in texts if isinstance(text, str) and text)


def _keep_wire_form(message: Mapping[str, Slice], whole: bool) -> str:
    """Return the parts of the message to send back, verbatim; the calls only if they will run."""
    kept = [
        f'"{name}":{message[name].text}'
        for name in _KEPT
        if get_value(message, name) and (whole or name != "tool_calls")
    ]
    return f"{{{','.join(kept)}}}"
