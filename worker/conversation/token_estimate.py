"""Estimates how many tokens a request will have, without a tokenizer. Pure.

A weight is computed from the bytes of each class. What a byte weighs lies between its costs in the
available tokenizers (Claude's first one, Mistral's two). A provider's own count of an earlier
request converts weights to that provider's tokens.
"""

import json
from collections.abc import Sequence
from functools import lru_cache
from string import ascii_lowercase, ascii_uppercase, digits, punctuation

from worker.conversation.messages import Assistant, Message, ToolResult, ToolSpec, User

_CONTROL = bytes(code for code in range(32) if code not in b"\t\n\r")
_CLASSES = (
    (ascii_lowercase.encode(), 0.27),
    (ascii_uppercase.encode(), 0.6),
    (digits.encode(), 0.9),
    (punctuation.encode(), 0.6),
    (b"\r\n", 0.4),
    (_CONTROL, 1.0),
)
_BLANK, _BLANKS, _OTHER = 0.05, 0.1, 0.55
"""The weight of a blank, of a pair of blanks, and of a byte of any other class."""

_MESSAGE, _CALL = 5.0, 12.0
_UNCOUNTED, _GROWTH = 1.15, 1.1
"""Safety factors for a weight without an earlier count, and for what was added since the last
count: an estimate that is too low costs a refused request."""


def weigh_request(
    system: str, tools: Sequence[ToolSpec], messages: Sequence[Message], *, origin: str = ""
) -> float:
    """The weight of a request, roughly its tokens. Answers of `origin` are weighed verbatim."""
    opening = _weigh_text(system) + sum(map(_weigh_tool, tools))
    return opening + sum(_weigh_message(message, origin) for message in messages)


def _weigh_tool(tool: ToolSpec) -> float:
    # A schema is a dict, which `lru_cache` cannot take.
    parameters = json.dumps(tool.parameters, separators=(",", ":"), default=str)
    return _CALL + _weigh_text(tool.name) + _weigh_text(tool.description) + _weigh_text(parameters)


@lru_cache(maxsize=8192)
def _weigh_message(message: Message, origin: str) -> float:
    match message:
        case User(text):
            return _MESSAGE + _weigh_text(text)
        case ToolResult():
            return _MESSAGE + _weigh_text(message.content) + _weigh_text(message.name)
        case Assistant(text, calls, wire):
            if wire and wire.origin == origin:
                return _MESSAGE + _weigh_text(wire.content)
            weights = (_CALL + _weigh_text(call.name + call.arguments) for call in calls)
            return _MESSAGE + _weigh_text(text) + sum(weights)


@lru_cache(maxsize=256)
def _weigh_text(text: str) -> float:
    data = text.encode(errors="replace")
    rest = data
    total = 0.0
    for members, weight in _CLASSES:
        left = rest.translate(None, members)
        total += weight * (len(rest) - len(left))
        rest = left
    pairs = data.count(b"  ")
    blanks = len(rest) - len(rest.translate(None, b" \t"))
    total += _BLANKS * pairs + _BLANK * max(0, blanks - 2 * pairs)
    return total + _OTHER * (len(rest) - blanks)


def estimate_tokens(weight: float, counted: tuple[float, int] | None) -> int:
    """The tokens of a request of this weight; `counted` is an earlier one's weight and tokens."""
    if counted is None or counted[0] <= 0 or counted[1] <= 0:
        return int(weight * _UNCOUNTED)
    before, tokens = counted
    if weight <= before:
        return int(tokens * weight / before)
    return int(tokens + (weight - before) * tokens / before * _GROWTH)
