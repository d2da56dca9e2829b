"""Making a stored transcript sendable again, and reading off it what was missing. Pure."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from worker.core.conversation.context import Context
from worker.core.conversation.messages import ToolCall, ToolResult, results, unanswered

_LOST = (
    "the worker died before this call's result was kept: it may have run wholly, in part or not at "
    "all, and what it wrote is lost; look at what is there, and call it again if you need to"
)


def close_calls(context: Context, reason: str) -> Context:
    """Answer the calls that a stopped run left open; every provider refuses orphaned calls."""
    content = json.dumps({"error": f"not run: {reason}"})
    orphans = unanswered(context.messages)
    return context.add(*(ToolResult(call.id, call.name, content, True) for call in orphans))


def lost_calls(context: Context, repeatable: Callable[[ToolCall], bool]) -> Context:
    """Answer the open calls of a run that died, but for those that may be run again."""
    content = json.dumps({"error": _LOST})
    lost = (call for call in unanswered(context.messages) if not repeatable(call))
    return context.add(*(ToolResult(call.id, call.name, content, True) for call in lost))


def unavailable(context: Context) -> tuple[str, ...]:
    """What sources could not give in this turn, one line each (law 8)."""
    found: dict[str, None] = {}
    for result in results(context.messages[context.turn_start :]):
        for entry in entries(result, "unavailable"):
            found[f"{entry.get('source', result.name)}: {entry['unavailable']}"] = None
    return tuple(found)


def entries(result: ToolResult, name: str) -> Iterator[dict[str, Any]]:
    """What a result has as JSON objects with a text of this `name`, itself or in its list."""
    if f'"{name}"' not in result.content:
        return
    try:
        content = json.loads(result.content)
    except (ValueError, RecursionError):
        return
    listed = content.get("results") if isinstance(content, dict) else None
    for entry in listed if isinstance(listed, list) else [content]:
        if isinstance(entry, dict) and isinstance(entry.get(name), str):
            yield entry
