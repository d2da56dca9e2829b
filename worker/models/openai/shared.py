"""What both wires of OpenAI have in common: sent answers, arguments, usage (wire-models 4)."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from worker.core.conversation.messages import Assistant, Message, ToolCall, ToolResult, Usage, User
from worker.models.codec.json_slices import Slice, loads
from worker.models.codec.names import TOOL_NAME

REMEMBERED = 4096
"""Messages whose bytes are kept: a few dozen sessions at a few kilobytes a message."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One answer as it is sent back. `ids` maps our ids of its calls to those in `json`."""

    json: bytes
    ids: Mapping[str, str]


def our_side(side: Sequence[Message]) -> tuple[list[ToolResult], list[str]]:
    """Results, which must follow their calls at once, and the texts that come after them."""
    found = [message for message in side if isinstance(message, ToolResult)]
    texts = [message.text for message in side if isinstance(message, User)]
    return found, [text for text in texts if text.strip()] or ["(empty)"] * bool(texts)


def output(result: ToolResult) -> str:
    """A result's text. The wires have no flag for errors (wire-models 4.2)."""
    content = result.content if result.content.strip() else "(no output)"
    return f"ERROR: {content}" if result.is_error else content


def arguments(text: str) -> str:
    """The arguments themselves, or {} where they are no object: several servers parse every call
    of the history, and one that does not parse spoils all later requests."""
    try:
        return text if isinstance(loads(text), dict) else "{}"
    except ValueError:
        return "{}"


def names_fit(message: Assistant, found: Sequence[tuple[Any, Any]]) -> bool:
    """Whether (id, name) of the verbatim calls are those for which results will be sent."""
    return [call_id for call_id, _ in found] == [call.id for call in message.calls] and all(
        isinstance(name, str) and TOOL_NAME.fullmatch(name) for _, name in found
    )


def tool_call(number: int, call_id: Any, name: Any, given: Any, before: Sequence[str]) -> ToolCall:
    """A call of an answer. Raises ValueError if it cannot be one.

    Some servers give calls no id, or one id to all; then it is made of the call itself.
    """
    if given is None:
        given = ""
    if not (isinstance(name, str) and name and isinstance(given, str)):
        raise ValueError("a tool call lacks its name or arguments")
    if not isinstance(call_id, str) or not call_id or call_id in before:
        digest = hashlib.sha256(f"{number} {name} {given}".encode("utf-8", "surrogatepass"))
        call_id = f"call_{digest.hexdigest()[:24]}"
    return ToolCall(call_id, name, given)


def value(found: Mapping[str, Slice], name: str) -> Any:
    """A member's value, or None if it is not there."""
    return found[name].value if name in found else None


def usage(found: Any, question: str, answer: str) -> Usage:
    """Tokens as billed. The fields are "<question>_tokens", "<answer>_tokens" and their details;
    cached tokens are part of the former, reasoning of the latter (wire-models 4.3, 4.4)."""
    read = _count(found, f"{question}_tokens_details", "cached_tokens")
    written = _count(found, f"{question}_tokens_details", "cache_write_tokens")
    return Usage(
        uncached_input=max(0, _count(found, f"{question}_tokens") - read - written),
        cache_read=read,
        cache_write=written,
        output=_count(found, f"{answer}_tokens"),
        reasoning=_count(found, f"{answer}_tokens_details", "reasoning_tokens"),
    )


def _count(found: Any, *path: str) -> int:
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return max(0, found) if isinstance(found, int) else 0
