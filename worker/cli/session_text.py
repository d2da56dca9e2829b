"""A stored session as text that a person reads: its facts, its notes, who said what."""

import json
from collections.abc import Iterable, Iterator, Sequence

import click

from worker.conversation.context import NO_OUTCOME, Context
from worker.conversation.messages import Assistant, Message, ToolResult, User
from worker.safety.untrusted import one_line, parse_object, visible

_LONGEST_LINE = 300
"""The most characters of one line of a fact, an argument or a result."""

_LONGEST_SAID = 2000
"""The most characters of one line of what a person or the model said."""

_LONGEST_ARGUMENTS = 160

_MOST_SAID = 6000
"""Characters shown of what a person or the model said; a note alone has some 3,000."""

_MOST_LINES = 8
"""Lines shown of one text in a tool's result."""

_INDENT = "  "


def format_facts(fields: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield an aligned line for each named fact that is known."""
    known = [(name, one_line(text, _LONGEST_LINE)) for name, text in fields if text]
    width = max((len(name) for name, _ in known), default=0)
    yield from (f"{name:<{width}}  {text}" for name, text in known)


def format_cost(cost_usd: float | None) -> str:
    """Write dollars; an unknown price is said to be one."""
    return "cost unknown" if cost_usd is None else f"${cost_usd:.4f}"


def format_totals(context: Context) -> str:
    """Write a session's steps, tokens and cost on one line."""
    steps = sum(not call.task for call in context.calls)
    helps = len(context.calls) - steps
    used = context.usage
    parts = [
        _count(steps, "step")
        + (f" and {_count(helps, 'question')} to the helper" if helps else ""),
        f"{used.input:,} tokens in ({used.cached_share:.0%} cached)",
        f"{used.output:,} out",
        format_cost(context.cost_usd),
    ]
    return ", ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def format_end(context: Context) -> str:
    """Write how the newest turn ended."""
    outcome = context.outcome or NO_OUTCOME
    return f"{outcome.status.value}: {outcome.reason}" if outcome.reason else outcome.status.value


def format_messages(messages: Iterable[Message]) -> Iterator[str]:
    """Yield a paragraph for each message: who speaks, and below it what."""
    for number, message in enumerate(messages):
        yield "\n".join(_format_message(message, "user" if number else "sandpiper"))


def _format_message(message: Message, user: str) -> Iterator[str]:
    match message:
        case User(text):
            # The human's question is at the end of what we say.
            yield f"{user}:"
            yield from _indent(_clip_text(text, end=_MOST_SAID // 3))
        case Assistant(text, calls):
            yield "model:"
            yield from _indent(_clip_text(text))
            for call in calls:
                arguments = one_line(_format_arguments(call.arguments), _LONGEST_ARGUMENTS)
                yield f"{_INDENT}→ {_clean_name(call.name)} {arguments}".rstrip()
        case ToolResult():
            failed = " (failed)" if message.is_error else ""
            yield f"{_clean_name(message.name)}{failed}:"
            yield from _indent("\n".join(_preview_result(message.content)))


def _clean_name(name: str) -> str:
    return one_line(click.unstyle(name), _LONGEST_LINE)


def _format_arguments(arguments: str) -> str:
    """Write the arguments of a call as `name=value`; as they came if they are no JSON object."""
    fields = parse_object(arguments)
    if not fields:
        return "" if arguments.strip() == "{}" else arguments
    return " ".join(f"{name}={_format_value(value)}" for name, value in fields.items())


def _preview_result(content: str) -> Iterator[str]:
    """Yield the first lines of a result: a line for each short field, a few of each long one."""
    fields = parse_object(content)
    if not fields:
        yield from _preview_lines(content)
    for name, value in fields.items():
        text = _format_value(value).strip("\n")
        if "\n" not in text:
            yield f"{name}: {one_line(text, _LONGEST_LINE)}"
            continue
        yield f"{name}:"
        yield from (_INDENT + line for line in _preview_lines(text))


def _preview_lines(text: str) -> Iterator[str]:
    lines = visible(text).splitlines()
    yield from (_cut_line(line) for line in lines[:_MOST_LINES])
    if len(lines) > _MOST_LINES:
        yield f"… {len(lines) - _MOST_LINES:,} more lines"


def _format_value(value: object) -> str:
    try:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "…"


def _clip_text(text: str, end: int = 0) -> str:
    """Cut a long text to its beginning and its last `end` characters."""
    if len(text) <= _MOST_SAID:
        return text
    left = f"\n… {len(text) - _MOST_SAID:,} more characters\n"
    return text[: _MOST_SAID - end] + left + (text[-end:] if end else "")


def _indent(text: str) -> Iterator[str]:
    for line in visible(click.unstyle(text)).strip("\n").splitlines():
        yield f"{_INDENT}{_cut_line(line.expandtabs(4), _LONGEST_SAID)}".rstrip()


def _cut_line(line: str, most: int = _LONGEST_LINE) -> str:
    return line if len(line) <= most else f"{line[:most]}…"
