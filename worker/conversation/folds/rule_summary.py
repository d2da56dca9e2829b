"""Summarises by rules what a stretch of a conversation has looked at."""

from collections.abc import Sequence

from worker.conversation.messages import Assistant, Message, ToolCall, ToolResult, User
from worker.conversation.saved_files import find_saved_files
from worker.safety.untrusted import one_line

MOST_BYTES = 6000
_ARGUMENTS, _RESULT, _SAID, _QUESTION = 160, 160, 300, 500


def summarise_by_rules(messages: Sequence[Message], before: str = "") -> str:
    """The stretch in the sections of a summary, at most about MOST_BYTES long.

    `before` is the text of the previous fold, which this one continues.
    """
    questions = [each.text for each in messages if isinstance(each, User)]
    answers = [each.text for each in messages if isinstance(each, Assistant) and each.text.strip()]
    sections = (
        ("Task", [_write_item(each, _QUESTION) for each in questions[-3:]]),
        ("Facts", _list_newest_facts(messages)),
        ("Said on the way", [_write_item(each, _SAID) for each in answers[-8:]]),
    )
    parts = [f"## {title}\n" + "\n".join(lines) for title, lines in sections if lines]
    return _keep_newest("\n\n".join([before, *parts] if before else parts))


def _write_item(text: str, most: int) -> str:
    # `one_line` removes invisible characters, so it is given more than it returns.
    return f"- {one_line(text[: 4 * most], most)}"


def _list_newest_facts(messages: Sequence[Message]) -> list[str]:
    """One line for each call: its arguments, and where its result is saved or how it begins.

    Only the newest calls have a line, as many as there is room for.
    """
    calls = {
        call.id: call for each in messages if isinstance(each, Assistant) for call in each.calls
    }
    lines: list[str] = []
    room = MOST_BYTES
    for message in reversed(messages):
        if isinstance(message, ToolResult) and room > 0:
            lines.append(_tell_call(calls.get(message.call_id), message))
            room -= len(lines[-1])
    return lines[::-1]


def _tell_call(call: ToolCall | None, result: ToolResult) -> str:
    arguments = one_line(call.arguments[: 4 * _ARGUMENTS], _ARGUMENTS) if call else ""
    paths = find_saved_files([result])
    shown = one_line(result.content[: 4 * _RESULT], _RESULT)
    outcome = f"saved to {', '.join(paths[:3])}" if paths else shown
    return f"- {result.name} {arguments} → {'failed: ' if result.is_error else ''}{outcome}"


def _keep_newest(text: str) -> str:
    """The text without its oldest part, if it is too long."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= MOST_BYTES:
        return text
    kept = encoded[-MOST_BYTES:].decode(errors="ignore").partition("\n")[2]
    return f"(What is older is left out.)\n{kept}"
