"""A conversation in the form in which it is stored; each provider's codec translates it.

Its JSON (see `context_json`) has the form of OpenAI Chat Completions messages
(https://platform.openai.com/docs/api-reference/chat), so that a session saved under one provider
resumes under any other.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import ne
from typing import Any

from worker.safety.untrusted import parse_objects
from worker.stored_keys import KEY


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call the model asked for. `arguments` is JSON text exactly as received."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class WireForm:
    """A message as one provider sent it, kept to be sent back byte for byte.

    `origin` is provider and model ("anthropic/claude-sonnet-5-5"); `content` is JSON text. Other
    origins never see it: thinking signatures and the like mean nothing to them.
    """

    origin: str
    content: str


@dataclass(frozen=True, slots=True)
class User:
    """Text from our side: the event that opens a session, or a human's reply."""

    text: str


@dataclass(frozen=True, slots=True)
class Assistant:
    """One answer of the model: text, calls or both, never neither."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    wire: WireForm | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The answer to one call: JSON text, also for failures (`is_error`).

    `ended_at` is when it was received (epoch seconds), 0 if unknown; no provider is sent it.
    """

    call_id: str
    name: str
    content: str
    is_error: bool = False
    ended_at: float = field(default=0.0, compare=False)


Message = User | Assistant | ToolResult


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What the model is told of a tool. `parameters` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call or the sum of many. `output` includes `reasoning`."""

    uncached_input: int = field(default=0, metadata={KEY: "uncached"})
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0

    @property
    def input(self) -> int:
        """All input tokens, cached or not: the size of the context."""
        return self.uncached_input + self.cache_read + self.cache_write

    @property
    def cached_share(self) -> float:
        """The part of the input that was read from the provider's cache, 0 to 1."""
        return self.cache_read / self.input if self.input else 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.uncached_input + other.uncached_input,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.output + other.output,
            self.reasoning + other.reasoning,
        )


def add_cost(total: float | None, cost: float | None) -> float | None:
    """Add dollars; None, an unknown cost, makes the sum unknown."""
    return None if total is None or cost is None else total + cost


def drop_wire(message: Message, origin: str = "") -> Message:
    """The message without its wire form, if that is of `origin` or no origin is given."""
    if isinstance(message, Assistant) and message.wire and origin in ("", message.wire.origin):
        return replace(message, wire=None)
    return message


def group_messages(messages: Sequence[Message]) -> list[tuple[Message, ...]]:
    """Group adjacent messages of the same side: ours (User, ToolResult) or the model's.

    A provider that wants alternating roles gets one wire message for each group; cache marks
    are positions in this list.
    """
    by_side = groupby(messages, lambda message: type(message) is Assistant)
    return [tuple(group) for _, group in by_side]


def put_results_first(group: Sequence[Message]) -> Sequence[Message]:
    """Put the results of a group of ours before its texts, as most providers demand."""
    return sorted(group, key=lambda message: isinstance(message, User))


def count_groups(messages: Sequence[Message]) -> int:
    """Count the groups. It runs at every step of a growing session, so its loops run in C."""
    ours = [kind is not Assistant for kind in map(type, messages)]
    return len(ours[:1]) + [*map(ne, ours, ours[1:])].count(True)


def count_results(messages: Sequence[Message]) -> int:
    """Count the tool results; see `count_groups`."""
    return [*map(type, messages)].count(ToolResult)


def find_open_calls(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """The calls of the last answer that have no result yet, in call order."""
    answered: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, ToolResult):
            answered.add(message.call_id)
        elif isinstance(message, Assistant):
            return tuple(call for call in message.calls if call.id not in answered)
        else:
            break
    return ()


def rename_repeated_calls(
    calls: Sequence[ToolCall], messages: Sequence[Message]
) -> tuple[ToolCall, ...]:
    """The calls of the next answer after `messages`, with ids that no earlier call has.

    Some servers restart the numbers of calls in each answer. Others refuse a conversation in which
    an id occurs twice, and here results are matched to calls by their ids.
    """
    used = {
        call.id for message in messages if isinstance(message, Assistant) for call in message.calls
    }
    return _rename_calls(calls, used)


def rename_stored_calls(messages: Sequence[Message]) -> tuple[Message, ...]:
    """A conversation that an earlier version stored, with a unique id for each call and its result.

    See `rename_repeated_calls`.
    """
    used: set[str] = set()
    new_ids: dict[str, list[str]] = {}
    renamed: list[Message] = []
    for message in messages:
        if isinstance(message, Assistant):
            calls, new_ids = _rename_calls(message.calls, used), {}
            for before, after in zip(message.calls, calls, strict=True):
                new_ids.setdefault(before.id, []).append(after.id)
            message = message if calls == message.calls else replace(message, calls=calls)
        elif isinstance(message, ToolResult) and new_ids.get(message.call_id):
            new_id = new_ids[message.call_id].pop(0)
            message = message if new_id == message.call_id else replace(message, call_id=new_id)
        renamed.append(message)
    return tuple(renamed)


def _rename_calls(calls: Sequence[ToolCall], used: set[str]) -> tuple[ToolCall, ...]:
    """The calls with ids that are not in `used`, to which these ids are added."""
    renamed: list[ToolCall] = []
    for call in calls:
        new_id, number = call.id, 2
        while new_id in used:
            new_id, number = f"{call.id}-{number}", number + 1
        used.add(new_id)
        renamed.append(call if new_id == call.id else replace(call, id=new_id))
    return tuple(renamed)


def is_same_id(ours: str, theirs: object) -> bool:
    """Whether `ours` is the id `theirs`, or what `rename_repeated_calls` made of it."""
    if not isinstance(theirs, str) or not theirs:
        return False
    rest = ours.removeprefix(f"{theirs}-") if ours != theirs else ""
    return ours == theirs or (rest != ours and rest.isdecimal())


def find_results(messages: Sequence[Message]) -> Iterator[ToolResult]:
    """The tool results of a conversation."""
    return (message for message in messages if isinstance(message, ToolResult))


_SAVED = ("saved_to", "stdout_file", "stderr_file")
_PATH = 300


def find_saved_files(messages: Sequence[Message]) -> tuple[str, ...]:
    """The paths under /tmp where tool results say that something was saved, each once, in order."""
    paths = (path for result in find_results(messages) for path in _list_paths(result.content))
    return tuple(dict.fromkeys(paths))


def _list_paths(content: str) -> Iterator[str]:
    for each in parse_objects(content, "results"):
        also_saved = each.get("also_saved")
        paths = [*map(each.get, _SAVED), *(also_saved if isinstance(also_saved, dict) else ())]
        for path in paths:
            is_plain = isinstance(path, str) and path.startswith("/tmp/") and path.isprintable()
            if is_plain and len(path) <= _PATH:
                yield path
