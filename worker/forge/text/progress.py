"""What the placeholder says while a turn runs: one line, harmless whatever the model asks for."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from worker.core.conversation.messages import ToolCall
from worker.core.text.untrusted import one_line
from worker.forge.text.code import code_line
from worker.forge.text.parts import without_tokens

MAX_TARGET = 70
"""Characters that are shown of what a tool is called with."""

WAITING = "Waiting: no model answers now. It goes on by itself as soon as one does."

_TELLING = ("command", "source", "path", "name", "query", "job_id", "pipeline_id", "ref")


@dataclass(frozen=True, slots=True)
class Seen:
    """How far a run is: its iteration, of at most so many, and the calls it waits for."""

    iteration: int
    most: int
    calls: tuple[ToolCall, ...] = ()


def told(seen: Seen, seconds: float, redact: Callable[[str], str]) -> str:
    """The line, as Markdown."""
    parts = [f"Iteration {seen.iteration} of at most {seen.most}"]
    parts += [_looking(seen.calls, redact)] if seen.calls else ["the model is thinking"]
    return " · ".join([*parts, _duration(seconds)])


def _looking(calls: Sequence[ToolCall], redact: Callable[[str], str]) -> str:
    name, target = code_line(calls[0].name), _target(calls[0], redact)
    more = f" and {len(calls) - 1} more" if len(calls) > 1 else ""
    return f"looking at {name}{': ' + target if target else ''}{more}"


def _target(call: ToolCall, redact: Callable[[str], str]) -> str:
    """The first argument that says what it is about, as code."""
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return ""
    if not isinstance(arguments, dict):
        return ""
    named = [arguments[name] for name in _TELLING if isinstance(arguments.get(name), str | int)]
    return code_line(one_line(without_tokens(redact(str(named[0]))), MAX_TARGET)) if named else ""


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
