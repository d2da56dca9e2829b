"""The progress of a turn as one line of the placeholder; harmless whatever the model calls."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from worker.answer.note.note_parts import remove_tokens
from worker.conversation.messages import ToolCall
from worker.safety.code import write_code_line
from worker.safety.untrusted import one_line, parse_object

MAX_TARGET = 70
"""Characters that are shown of a tool call's argument."""

WAITING = "Waiting: no model answers now. It goes on by itself as soon as one does."

_TARGETS = ("command", "source", "path", "name", "query", "job_id", "pipeline_id", "ref")


@dataclass(frozen=True, slots=True)
class Progress:
    """The current iteration, the highest possible one, and the calls that the run waits for."""

    iteration: int
    most: int
    calls: tuple[ToolCall, ...] = ()


def write_progress(seen: Progress, seconds: float, redact: Callable[[str], str]) -> str:
    """Return the line as Markdown; `seconds` is how long the turn has taken."""
    parts = [f"Iteration {seen.iteration} of at most {seen.most}"]
    parts += [_describe_calls(seen.calls, redact)] if seen.calls else ["the model is thinking"]
    return " · ".join([*parts, _write_duration(seconds)])


def _describe_calls(calls: Sequence[ToolCall], redact: Callable[[str], str]) -> str:
    name, target = write_code_line(calls[0].name), _find_target(calls[0], redact)
    more = f" and {len(calls) - 1} more" if len(calls) > 1 else ""
    return f"looking at {name}{': ' + target if target else ''}{more}"


def _find_target(call: ToolCall, redact: Callable[[str], str]) -> str:
    """Return the first argument of `_TARGETS` that the call has, as code."""
    arguments = parse_object(call.arguments)
    named = [arguments[name] for name in _TARGETS if isinstance(arguments.get(name), str | int)]
    return (
        write_code_line(one_line(remove_tokens(redact(str(named[0]))), MAX_TARGET)) if named else ""
    )


def _write_duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
