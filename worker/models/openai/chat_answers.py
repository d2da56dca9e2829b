"""What Chat Completions answer, from OpenAI's own to the most careless server (wire-models 4.4)."""

from collections.abc import Mapping
from typing import Any

from worker.core.conversation.messages import ToolCall
from worker.core.ports import StopReason
from worker.models.base import Decoded
from worker.models.codec.json_slices import Slice, clean, elements, members
from worker.models.openai.shared import tool_call, usage, value

REASONING = ("reasoning_content", "reasoning", "reasoning_details")
"""Where servers put an answer's reasoning. All are kept; the dialect says which goes back."""

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
    """The answer in a 200 body. Raises ValueError if the body is not a completion."""
    whole = members(body.decode())
    choice = _choice(whole)
    message = members(choice["message"].text) if "message" in choice else {}
    if not message:
        raise ValueError("the choice has no message")
    calls = _calls(message)
    stop, detail = _stop(choice, message, runs=bool(calls))
    if stop in _UNUSABLE:
        message = {}
    kept = calls if stop in _RUNNABLE else ()
    return Decoded(
        text=_text(value(message, "content")),
        calls=kept,
        wire=_wire(message, len(kept) == len(calls)),
        stop=stop,
        usage=usage(value(whole, "usage"), "prompt", "completion"),
        detail=detail,
        dropped=len(calls) - len(kept),
        tries=int(stop is StopReason.MALFORMED),
    )


def _choice(whole: Mapping[str, Slice]) -> dict[str, Slice]:
    """The first choice. A gateway may say 200 to an error."""
    if "choices" not in whole:
        raise ValueError(f"not a completion but {str(value(whole, 'error'))[:200]!r}")
    choices = elements(whole["choices"].text)
    if not choices:
        raise ValueError("the completion has no choices")
    return members(choices[0].text)


def _stop(
    choice: Mapping[str, Slice], message: Mapping[str, Slice], *, runs: bool
) -> tuple[StopReason, str]:
    refusal = value(message, "refusal")
    if isinstance(refusal, str) and refusal:
        return StopReason.REFUSED, clean(refusal)
    reason = value(choice, "finish_reason") or "stop"  # some servers never give one
    if not isinstance(reason, str) or reason not in _STOPS:
        return StopReason.MALFORMED, f"unknown finish reason {str(reason)[:60]!r}"
    stop = _STOPS[reason]
    if stop in _RUNNABLE:
        # Several servers say "stop" beside calls, and "tool_calls" beside none.
        return StopReason.TOOL_CALLS if runs else StopReason.END, ""
    return stop, "the provider's filter cut the answer" if stop is StopReason.BLOCKED else ""


def _calls(message: Mapping[str, Slice]) -> tuple[ToolCall, ...]:
    found: list[ToolCall] = []
    calls = value(message, "tool_calls") or ()
    if not isinstance(calls, list | tuple):
        raise ValueError("tool_calls is not a list")
    for number, call in enumerate(calls):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            raise ValueError("a tool call has no function")
        before = [earlier.id for earlier in found]
        parts = (call.get("id"), function.get("name"), function.get("arguments"))
        found.append(tool_call(number, *parts, before))
    return tuple(found)


def _text(content: Any) -> str:
    """Text, or the text parts of a list of parts."""
    if isinstance(content, str):
        return clean(content)
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n\n".join(clean(text) for text in texts if isinstance(text, str) and text)


def _wire(message: Mapping[str, Slice], whole: bool) -> str:
    """What of the message goes back, as it was written; the calls only if they are to run."""
    kept = [
        f'"{name}":{message[name].text}'
        for name in _KEPT
        if value(message, name) and (whole or name != "tool_calls")
    ]
    return f"{{{','.join(kept)}}}"
