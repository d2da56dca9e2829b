"""A model that goes round in circles: the same calls again and again. Pure."""

from collections.abc import Sequence

from worker.core.messages import Assistant, Message, ToolCall, ToolResult

HINT_AT = 3
STOP_AT = 5
HINT = (
    "you made exactly these calls before and nothing has changed since. Use the results "
    "you have, try something else, or write your final answer."
)


def repeats(messages: Sequence[Message]) -> int:
    """How many answers in a row, the last one included, made exactly the same calls."""
    count, batch = 0, None
    for message in reversed(messages):
        if isinstance(message, ToolResult):
            continue
        if not isinstance(message, Assistant) or not message.calls:
            break
        made = _shape(message.calls)
        if batch is not None and made != batch:
            break
        batch = made
        count += 1
    return count


def _shape(calls: Sequence[ToolCall]) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in calls]
