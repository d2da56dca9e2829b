"""Making a stored transcript sendable again, and reading off it what was missing. Pure."""

import json
from collections.abc import Iterator

from worker.core.context import Context
from worker.core.messages import ToolResult, results, unanswered


def close_calls(context: Context, reason: str) -> Context:
    """Answer the calls that a stopped run left open; every provider refuses orphaned calls."""
    content = json.dumps({"error": f"not run: {reason}"})
    orphans = unanswered(context.messages)
    return context.add(*(ToolResult(call.id, call.name, content, True) for call in orphans))


def unavailable(context: Context) -> tuple[str, ...]:
    """What sources could not give in this turn, one line each (law 8)."""
    found: dict[str, None] = {}
    for result in results(context.messages[context.turn_start :]):
        for source, reason in _reasons(result):
            found[f"{source}: {reason}"] = None
    return tuple(found)


def _reasons(result: ToolResult) -> Iterator[tuple[str, str]]:
    if '"unavailable"' not in result.content:
        return
    content = json.loads(result.content)
    for entry in content.get("results", [content]):
        if "unavailable" in entry:
            yield entry.get("source", result.name), entry["unavailable"]
