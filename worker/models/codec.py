"""What the codecs share: JSON kept byte for byte, names and ids, and what of an answer is kept.

Newer models sign their thinking together with everything before it, so an answer is sent back byte
for byte. Parsing and dumping it again would change escapes, spaces and number formats; a slice of
the original text keeps them.

The same name or id always becomes the same one, so that a call and its result still match.
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn, TypeVar

from worker.conversation.messages import (
    Assistant,
    Message,
    ToolCall,
    ToolResult,
    Usage,
    User,
    is_same_id,
)
from worker.conversation.model import StopReason

T = TypeVar("T")

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
UNKNOWN = "unknown"
REMEMBERED = 4096
"""Messages whose bytes a codec keeps: a few dozen sessions at a few kilobytes a message."""

_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")
_FILLER = re.compile(r"[ \t\n\r,:]*")
_MOST_COUNTED = 10**9
_RUNNABLE = frozenset({StopReason.END, StopReason.TOOL_CALLS})
_UNUSABLE = frozenset({StopReason.REFUSED, StopReason.BLOCKED})


# -------------------------------------------------------------------------------------------- JSON


class Slice(NamedTuple):
    """A JSON value, its text, and the offset of its end in the whole text."""

    value: Any
    text: str
    end: int

    @property
    def type(self) -> Any:
        """What an object states as its type."""
        return self.value.get("type")


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def parse_json(text: str) -> Any:
    """Parse strict JSON. Raises ValueError, also for NaN and for nesting too deep to read."""
    try:
        return _DECODER.decode(text)
    except RecursionError as error:
        raise ValueError("JSON nested too deep") from error


def dump_json(value: Any) -> bytes:
    """Return compact JSON in UTF-8, with U+FFFD for lone surrogates, which it cannot encode."""
    return repair_surrogates(_ENCODER.encode(value)).encode()


def repair_surrogates(text: str) -> str:
    """Return `text` with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def parse_members(text: str) -> dict[str, Slice]:
    """Return the members of the JSON object `text`. Raises ValueError if it is not one."""
    if not isinstance(parse_json(text), dict):
        raise ValueError("a JSON object was expected")
    members: dict[str, Slice] = {}
    at = _skip_blanks(text, text.index("{") + 1)
    while text[at] != "}":
        key, end = _DECODER.raw_decode(text, at)
        members[key], at = _parse_slice(text, _skip_blanks(text, end))
    return members


def parse_elements(text: str) -> list[Slice]:
    """Return the elements of the JSON array `text`. Raises ValueError if it is not one."""
    if not isinstance(parse_json(text), list):
        raise ValueError("a JSON array was expected")
    elements: list[Slice] = []
    at = _skip_blanks(text, text.index("[") + 1)
    while text[at] != "]":
        element, at = _parse_slice(text, at)
        elements.append(element)
    return elements


# The text is known to be valid JSON here, so separators are skipped without being checked.
def _parse_slice(text: str, start: int) -> tuple[Slice, int]:
    value, end = _DECODER.raw_decode(text, start)
    return Slice(value, text[start:end], end), _skip_blanks(text, end)


def _skip_blanks(text: str, at: int) -> int:
    match = _FILLER.match(text, at)
    return match.end() if match else at


def parse_arguments(arguments: str) -> dict[str, Any]:
    """Return the arguments of a call that can be sent back, {} if they are no JSON object."""
    try:
        value = parse_json(arguments)
        dump_json(value)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def get_value(members: Mapping[str, Slice], name: str) -> Any:
    """Return the value of a member, or None if it is not there."""
    return members[name].value if name in members else None


def join_array(elements: Iterable[Slice]) -> str:
    """Return a JSON array of the elements, each byte for byte as it was parsed."""
    return f"[{','.join(element.text for element in elements)}]"


def get_count(value: Any, *path: str) -> int:
    """Return the number of tokens under nested members, 0 if there is none or it cannot be true:
    a sum of money cannot be computed from 10^400 tokens."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return value if is_count and 0 <= value <= _MOST_COUNTED else 0


# -------------------------------------------------------------------------------- calls and answers


def read_tool_name(name: Any) -> str:
    """Return the tool name of a call in an answer. If it has none, returns "unknown", so that the
    model is told which tools exist. Raises ValueError if the name is not text."""
    if name is None or name == "":
        return UNKNOWN
    if not isinstance(name, str):
        raise ValueError("the name of a tool call is no text")
    return repair_surrogates(name)


def make_tool_name(name: str) -> str:
    """Return `name` in a form that every provider accepts."""
    return _FOREIGN.sub("_", name)[:64] or UNKNOWN


def make_call_id(call_id: str, allowed: re.Pattern[str]) -> str:
    """Return `call_id` if `allowed` matches it, else nine hex digits that all servers accept."""
    if allowed.fullmatch(call_id):
        return call_id
    return hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:9]


def copy_own_wire(
    message: Assistant, origin: str, bare: bool, copy: Callable[[Assistant, str], T | None]
) -> T | None:
    """Return what `copy` makes of the wire form of an answer of the model `origin`.

    None if another model gave it, if the request is to be `bare`, or if it cannot be sent back:
    then `copy` returns None or raises ValueError.
    """
    if bare or message.wire is None or message.wire.origin != origin:
        return None
    try:
        return copy(message, message.wire.content)
    except ValueError:
        return None


def parse_parts(text: str, name: str) -> list[Slice]:
    """Parse a JSON array of parts. Raises ValueError, with the `name` of a part, if one is not an
    object with a type."""
    parts = parse_elements(text)
    if not all(isinstance(part.value, dict) and isinstance(part.type, str) for part in parts):
        raise ValueError(f"{name} is not an object with a type")
    return parts


def read_texts(texts: Iterable[Any], name: str) -> list[str]:
    """Return the texts that are not empty. Raises ValueError, with the `name` of a part, if one is
    no text."""
    found = list(texts)
    if not all(isinstance(text, str) for text in found):
        raise ValueError(f"{name} has no text")
    return [repair_surrogates(text) for text in found if text]


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
        kept = [part for part in kept if part.type != call]
        while kept and kept[-1].type in thinking:
            kept.pop()
    return kept


# ------------------------------------------------------------------------------- OpenAI's two wires


@dataclass(frozen=True, slots=True)
class Sent:
    """An answer as it is sent back. `ids` maps our ids of the calls to the ids in `json`."""

    json: bytes
    ids: Mapping[str, str]


def split_side(side: Sequence[Message]) -> tuple[list[ToolResult], list[str]]:
    """Split a side into results, which must directly follow their calls, and the texts after
    them."""
    results = [message for message in side if isinstance(message, ToolResult)]
    texts = [message.text for message in side if isinstance(message, User)]
    return results, [text for text in texts if text.strip()] or ["(empty)"] * bool(texts)


def get_result_text(result: ToolResult) -> str:
    """Return a result's text; these APIs have no flag for errors."""
    content = result.content if result.content.strip() else "(no output)"
    return f"ERROR: {content}" if result.is_error else content


def repair_arguments(text: str) -> str:
    """Return the arguments, or {} if they are not an object. Several servers parse every call of
    the history, so a call that does not parse would make all later requests fail."""
    try:
        return text if isinstance(parse_json(text), dict) else "{}"
    except ValueError:
        return "{}"


def do_calls_match(message: Assistant, sent_calls: Sequence[tuple[Any, Any, Any]]) -> bool:
    """Whether the verbatim calls, as (id, name, arguments), have the ids of `message`'s calls,
    valid names, and arguments as text."""
    return len(sent_calls) == len(message.calls) and all(
        is_same_id(call.id, call_id)
        and isinstance(name, str)
        and TOOL_NAME.fullmatch(name)
        and isinstance(arguments, str)
        for call, (call_id, name, arguments) in zip(message.calls, sent_calls, strict=True)
    )


def parse_tool_calls(calls: Iterable[tuple[Any, Any, Any]]) -> tuple[ToolCall, ...]:
    """Parse the id, name and arguments of each call of an answer. Raises ValueError if one cannot
    be a call.

    Some servers give calls no id, or the same id to all; an id is then made from the call itself.
    Some give the arguments as JSON, not as its text.
    """
    parsed: dict[str, ToolCall] = {}
    for number, (call_id, name, arguments) in enumerate(calls):
        if not isinstance(arguments, str):
            arguments = "" if arguments is None else dump_json(arguments).decode()
        name = read_tool_name(name)
        if not isinstance(call_id, str) or not call_id or call_id in parsed:
            seed = f"{number} {name} {arguments}".encode("utf-8", "surrogatepass")
            call_id = f"call_{hashlib.sha256(seed).hexdigest()[:24]}"
        parsed[call_id] = ToolCall(call_id, name, arguments)
    return tuple(parsed.values())


def parse_usage(usage: Any, question: str, answer: str) -> Usage:
    """Return the tokens as billed. The fields are "<question>_tokens", "<answer>_tokens" and their
    details; cached tokens are part of the former, reasoning of the latter."""
    read = get_count(usage, f"{question}_tokens_details", "cached_tokens")
    written = get_count(usage, f"{question}_tokens_details", "cache_write_tokens")
    return Usage(
        uncached_input=max(0, get_count(usage, f"{question}_tokens") - read - written),
        cache_read=read,
        cache_write=written,
        output=get_count(usage, f"{answer}_tokens"),
        reasoning=get_count(usage, f"{answer}_tokens_details", "reasoning_tokens"),
    )
