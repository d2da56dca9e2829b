"""What the Responses API answers: items, status, usage (wire-models 4.3)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from worker.core.conversation.messages import ToolCall
from worker.core.ports import StopReason
from worker.models.base import Decoded
from worker.models.codec.json_slices import Slice, clean, elements, members
from worker.models.openai.shared import tool_call, usage, value

_INCOMPLETE = {
    "max_output_tokens": StopReason.TRUNCATED,
    "content_filter": StopReason.BLOCKED,
}
_RUNNABLE = frozenset({StopReason.END, StopReason.TOOL_CALLS})
_UNUSABLE = frozenset({StopReason.REFUSED, StopReason.BLOCKED})
_PASSING = frozenset({"server_error", "rate_limit_exceeded"})


def decode(body: bytes) -> Decoded:
    """The answer in a 200 body. Raises ValueError if the body is not a finished response."""
    response = members(body.decode())
    if "output" not in response:
        raise ValueError(f"not a response but {str(value(response, 'error'))[:200]!r}")
    items = elements(response["output"].text)
    if not all(isinstance(item.value, dict) and isinstance(_type(item), str) for item in items):
        raise ValueError("an output item is not an object with a type")
    stop, detail = _stop(response, items)
    kept = _kept(items, stop)
    calls = _calls(kept)
    return Decoded(
        text="\n\n".join(_texts(kept)),
        calls=calls,
        wire=response["output"].text if len(kept) == len(items) else _array(kept),
        stop=stop,
        usage=usage(value(response, "usage"), "input", "output"),
        detail=detail,
        dropped=sum(_type(item) == "function_call" for item in items) - len(calls),
        thought=any(_type(item) == "reasoning" for item in kept),
        tries=int(stop is StopReason.MALFORMED),
    )


def _type(item: Slice) -> Any:
    return item.value.get("type")


def _stop(response: Mapping[str, Slice], items: Sequence[Slice]) -> tuple[StopReason, str]:
    match value(response, "status"):
        case "completed" | None:
            return _completed(items)
        case "incomplete":
            return _incomplete(value(response, "incomplete_details"))
        case "failed":
            return _failed(value(response, "error"))
        case status:
            raise ValueError(f"the response is not finished: status {str(status)[:60]!r}")


def _completed(items: Sequence[Slice]) -> tuple[StopReason, str]:
    refusals = [part.get("refusal") for part in _parts(items) if part.get("type") == "refusal"]
    if refusals:
        return StopReason.REFUSED, clean(str(refusals[0]))
    calls = any(_type(item) == "function_call" for item in items)
    return StopReason.TOOL_CALLS if calls else StopReason.END, ""


def _incomplete(details: Any) -> tuple[StopReason, str]:
    reason = details.get("reason") if isinstance(details, dict) else None
    if not isinstance(reason, str) or reason not in _INCOMPLETE:
        return StopReason.MALFORMED, f"incomplete for an unknown reason {str(reason)[:60]!r}"
    return _INCOMPLETE[reason], reason if reason == "content_filter" else ""


def _failed(error: Any) -> tuple[StopReason, str]:
    """A failure of the server is worth another try; one of our input or of a policy is final."""
    found = error if isinstance(error, dict) else {}
    code = str(found.get("code") or "server_error")
    told = f"{code[:60]}: {clean(str(found.get('message') or 'no message'))}"
    if code in _PASSING:
        raise ValueError(f"the response failed: {told}")
    return StopReason.BLOCKED, told


def _kept(items: Sequence[Slice], stop: StopReason) -> list[Slice]:
    """The items that may be shown, run and sent back; reasoning never stands last."""
    if stop in _UNUSABLE:
        return []
    kept = list(items)
    if stop not in _RUNNABLE:
        kept = [item for item in kept if _type(item) != "function_call"]
        while kept and _type(kept[-1]) == "reasoning":
            kept.pop()
    return kept


def _array(items: Sequence[Slice]) -> str:
    return f"[{','.join(item.text for item in items)}]"


def _parts(items: Sequence[Slice]) -> Iterator[Mapping[str, Any]]:
    for item in items:
        content = item.value.get("content") if _type(item) == "message" else None
        parts = content if isinstance(content, list) else []
        yield from (part for part in parts if isinstance(part, dict))


def _texts(items: Sequence[Slice]) -> list[str]:
    """The final answer where the phases are told apart, else all that was said."""
    final = [item for item in items if item.value.get("phase") == "final_answer"]
    parts = [part for part in _parts(final or items) if part.get("type") == "output_text"]
    texts = [part.get("text") for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("an output_text part has no text")
    return [clean(str(text)) for text in texts if text]


def _calls(items: Sequence[Slice]) -> tuple[ToolCall, ...]:
    found: list[ToolCall] = []
    for item in items:
        if _type(item) == "function_call":
            call = item.value
            before = [earlier.id for earlier in found]
            parts = (call.get("call_id"), call.get("name"), call.get("arguments"))
            found.append(tool_call(len(found), *parts, before))
    return tuple(found)
