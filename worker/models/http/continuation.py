"""An answer that comes in several parts: how the rest is asked for, and put to the first. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from worker.core.ports import StopReason
from worker.models.base import Decoded
from worker.models.codec.json_slices import dumps

_RUNNABLE = frozenset({StopReason.END, StopReason.TOOL_CALLS, StopReason.PAUSED})
_DROPPED = frozenset({StopReason.MALFORMED, StopReason.BLOCKED, StopReason.REFUSED})


def extended(body: bytes, fields: Mapping[str, Any]) -> bytes:
    """The JSON object `body` with `fields` at its end."""
    return body[:-1] + b"," + dumps(dict(fields))[1:]


def joined(first: Decoded, rest: Decoded) -> Decoded:
    """Both parts as one answer that ends as `rest` does.

    The input tokens are those of `rest`, whose request had the whole conversation; what each
    request cost is the client's business.
    """
    usage = replace(
        rest.usage,
        output=first.usage.output + rest.usage.output,
        reasoning=first.usage.reasoning + rest.usage.reasoning,
    )
    if rest.stop in _DROPPED:
        return replace(rest, usage=usage, dropped=rest.dropped + len(first.calls))
    runs = rest.stop in _RUNNABLE
    calls = first.calls + rest.calls if runs else ()
    return replace(
        rest,
        text=first.text + rest.text,
        calls=calls,
        wire=_array(first.wire, rest.wire) if runs else "[]",
        stop=StopReason.TOOL_CALLS if calls and rest.stop is StopReason.END else rest.stop,
        usage=usage,
        dropped=first.dropped + rest.dropped + (0 if runs else len(first.calls)),
        thought=runs and (first.thought or rest.thought),
    )


def _array(first: str, rest: str) -> str:
    inner = [part for part in (first.strip()[1:-1].strip(), rest.strip()[1:-1].strip()) if part]
    return f"[{','.join(inner)}]"
