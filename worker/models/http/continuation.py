"""Requests the rest of an answer that comes in several parts, and joins the parts. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from worker.conversation.model import StopReason
from worker.models.base import Decoded
from worker.models.codec.json_slices import dump_json

_RUNNABLE = frozenset({StopReason.END, StopReason.TOOL_CALLS, StopReason.PAUSED})
_DROPPED = frozenset({StopReason.MALFORMED, StopReason.BLOCKED, StopReason.REFUSED})


def add_fields(body: bytes, fields: Mapping[str, Any]) -> bytes:
    """Return the JSON object `body` with `fields` added at its end."""
    return body[:-1] + b"," + dump_json(dict(fields))[1:]


def join_answers(first: Decoded, rest: Decoded) -> Decoded:
    """Join both parts into one answer that ends as `rest` does.

    The input tokens are those of `rest`, whose request contained the whole conversation. The client
    adds up the costs.
    """
    usage = replace(
        rest.usage,
        output=first.usage.output + rest.usage.output,
        reasoning=first.usage.reasoning + rest.usage.reasoning,
    )
    if rest.stop in _DROPPED:
        return replace(rest, usage=usage, dropped_calls=rest.dropped_calls + len(first.calls))
    runs = rest.stop in _RUNNABLE
    calls = first.calls + rest.calls if runs else ()
    return replace(
        rest,
        text=first.text + rest.text,
        calls=calls,
        wire=_join_arrays(first.wire, rest.wire) if runs else "[]",
        stop=StopReason.TOOL_CALLS if calls and rest.stop is StopReason.END else rest.stop,
        usage=usage,
        dropped_calls=first.dropped_calls + rest.dropped_calls + (0 if runs else len(first.calls)),
        thought=runs and (first.thought or rest.thought),
    )


def _join_arrays(first: str, rest: str) -> str:
    inner = [part for part in (first.strip()[1:-1].strip(), rest.strip()[1:-1].strip()) if part]
    return f"[{','.join(inner)}]"
