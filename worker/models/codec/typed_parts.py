"""The typed parts of an answer: Anthropic's content blocks, and the items of the Responses API."""

from collections.abc import Collection, Sequence
from typing import Any

from worker.conversation.model import StopReason
from worker.models.codec.json_slices import Slice, parse_elements

_RUNNABLE = frozenset({StopReason.END, StopReason.TOOL_CALLS})
_UNUSABLE = frozenset({StopReason.REFUSED, StopReason.BLOCKED})


def parse_parts(text: str, name: str) -> list[Slice]:
    """Parse a JSON array of parts. Raises ValueError, with the `name` of a part, if one is not an
    object with a type."""
    parts = parse_elements(text)
    if not all(isinstance(part.value, dict) and isinstance(get_type(part), str) for part in parts):
        raise ValueError(f"{name} is not an object with a type")
    return parts


def get_type(part: Slice) -> Any:
    """Return the type of a part."""
    return part.value.get("type")


def select_parts(
    parts: Sequence[Slice], stop: StopReason, *, call: str, thinking: Collection[str]
) -> list[Slice]:
    """Return the parts that may be shown, run and sent back; `call` and `thinking` are types.

    A refused or blocked answer is dropped completely. Calls of an unfinished answer are never run;
    without its calls, an answer must not end in thinking.
    """
    if stop in _UNUSABLE:
        return []
    kept = list(parts)
    if stop not in _RUNNABLE:
        kept = [part for part in kept if get_type(part) != call]
        while kept and get_type(kept[-1]) in thinking:
            kept.pop()
    return kept
