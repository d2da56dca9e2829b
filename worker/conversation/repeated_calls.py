"""Counts how often a model has made the same calls in a row. Pure."""

import json
from collections.abc import Iterator, Sequence
from itertools import islice

from worker.conversation.messages import Assistant, Message, ToolResult

LONGEST_CYCLE = 3
"""The most answers in a repeated cycle; A-B-A-B has a cycle of two."""

HINT = (
    "you made exactly these calls before and nothing has changed since. Use the results "
    "you have, try something else, or write your final answer."
)


_Batch = list[tuple[str, str]]


def count_repeats(messages: Sequence[Message], most: int) -> int:
    """How many times in a row the same calls were made, up to `most`.

    These are the calls of one answer or of a cycle of a few, the last answer included. Arguments
    are compared as JSON values.
    """
    batches = _list_batches(messages)
    newest = list(islice(batches, LONGEST_CYCLE + 1))
    if newest and newest[0] not in newest[1:]:
        return 1
    newest += islice(batches, LONGEST_CYCLE * most - len(newest))
    sizes = range(1, LONGEST_CYCLE + 1)
    return max((_count_cycles(newest, size, most) for size in sizes), default=0)


def _count_cycles(newest: Sequence[_Batch], size: int, most: int) -> int:
    """How often in a row the newest `size` batches were made, up to `most`."""
    same = 0
    for later, earlier in zip(newest, newest[size:], strict=False):
        if later != earlier:
            break
        same += 1
    return min((same + size) // size, len(newest), most)


def _list_batches(messages: Sequence[Message]) -> Iterator[_Batch]:
    """The calls of each answer since the last user message or text-only answer, newest first."""
    for message in reversed(messages):
        if isinstance(message, ToolResult):
            continue
        if not isinstance(message, Assistant) or not message.calls:
            return
        yield sorted((call.name, normalise_arguments(call.arguments)) for call in message.calls)


def normalise_arguments(arguments: str) -> str:
    """Return JSON text with one spacing and order of keys; text that is no JSON as it is."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments
