"""Answers the open calls of a stored transcript, and finds what sources could not give. Pure."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from worker.conversation.context import Context
from worker.conversation.messages import (
    Assistant,
    ToolCall,
    ToolResult,
    find_open_calls,
    find_results,
    find_saved_files,
)
from worker.safety.untrusted import parse_objects

_WORKER_DIED = (
    "the worker died before this call's result was kept: it may have run wholly, in part or not at "
    "all, and what it wrote is lost; look at what is there, and call it again if you need to"
)
_SANDBOX_DIED = (
    "the sandbox died while this ran: it may have run wholly, in part or not at all, and what it "
    "wrote is gone"
)


def close_calls(context: Context, reason: str) -> Context:
    """Answer the calls that a stopped run left open: every provider refuses calls without
    results."""
    content = json.dumps({"error": f"not run: {reason}"})
    orphans = find_open_calls(context.messages)
    return context.add(*(ToolResult(call.id, call.name, content, True) for call in orphans))


def close_lost_calls(
    context: Context, repeatable: Callable[[ToolCall], bool], *, in_sandbox: bool = False
) -> Context:
    """Answer the open calls of a run that died, except those that may be run again.

    `in_sandbox` says that the sandbox died, not the worker.
    """
    content = json.dumps({"error": _SANDBOX_DIED if in_sandbox else _WORKER_DIED})
    lost = (call for call in find_open_calls(context.messages) if not repeatable(call))
    return context.add(*(ToolResult(call.id, call.name, content, True) for call in lost))


def list_saving_calls(
    context: Context, repeatable: Callable[[ToolCall], bool], known: int = 0
) -> Iterator[tuple[ToolCall, int]]:
    """The repeatable calls of this turn that saved files, each with its result's number.

    The results of the session are numbered from 0. Calls in its first `known` messages are left
    out.
    """
    calls = {
        call.id: call
        for message in context.messages[max(known, context.turn_start) :]
        if isinstance(message, Assistant)
        for call in message.calls
    }
    for number, result in enumerate(find_results(context.messages)):
        call = calls.get(result.call_id)
        if call and repeatable(call) and find_saved_files([result]):
            yield call, number


def find_unavailable(context: Context) -> tuple[str, ...]:
    """Find what sources could not give in this turn, one line each."""
    lines: dict[str, None] = {}
    for result in find_results(context.messages[context.turn_start :]):
        for entry in find_entries(result, "unavailable"):
            lines[f"{entry.get('source', result.name)}: {entry['unavailable']}"] = None
    return tuple(lines)


def list_failed_calls(context: Context) -> tuple[tuple[str, str], ...]:
    """List the tools whose last call in this turn failed, each with the reason."""
    last = {result.name: result for result in find_results(context.messages[context.turn_start :])}
    return tuple(
        (name, next(_list_reasons(result), "no reason given"))
        for name, result in last.items()
        if result.is_error
    )


def _list_reasons(result: ToolResult) -> Iterator[str]:
    for field in ("unavailable", "error"):
        yield from (str(entry[field]) for entry in find_entries(result, field))


def find_entries(result: ToolResult, name: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of a result, itself or those in its list, that have a text under `name`."""
    if f'"{name}"' not in result.content:
        return
    parts = parse_objects(result.content, "results")
    yield from (part for part in parts if isinstance(part.get(name), str))
