"""`context.json`: a session as JSON, messages in the style of OpenAI Chat Completions."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Generic, TypeVar

from worker.core.conversation.context import (
    SCHEMA,
    CacheMark,
    CallCost,
    Context,
    NoteRef,
    Outcome,
    Status,
    Subject,
)
from worker.core.conversation.limits import Dimension, Spent
from worker.core.conversation.messages import (
    Assistant,
    Message,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    User,
    WireForm,
)
from worker.core.failure import jobs

T = TypeVar("T")


class HistoryError(ValueError):
    """The stored bytes are not a context this version can read; the message says why."""


def dump(context: Context) -> bytes:
    """The bytes of `context.json`."""
    return Dumper().dump(context)


class Dumper:
    """Dumps one growing session again and again: what doesn't change is encoded once.

    A checkpoint after every step would otherwise cost more than the steps.
    """

    def __init__(self) -> None:
        self._messages = _Grown(_message_out)
        self._calls = _Grown(_call_out)
        self._named: Context | None = None
        self._opening = b""

    def dump(self, context: Context) -> bytes:
        """The bytes of `context.json`."""
        moving = _encode(_moving(context))[1:-1]
        return b"".join(
            [
                *(b"{", self._settled(context), b",\n", moving, b',\n"calls": [\n'),
                *self._calls.encoded(context.calls),
                b'\n],\n"messages": [\n',
                *self._messages.encoded(context.messages),
                b"\n]}\n",
            ]
        )

    def _settled(self, context: Context) -> bytes:
        """All that stays as it is while a turn is taken, system prompt and tools above all."""
        if self._named is None or any(
            getattr(self._named, name) is not getattr(context, name) for name in _SETTLED
        ):
            self._named, self._opening = context, _encode(_settled(context))[1:-1]
        return self._opening


class _Grown(Generic[T]):
    """The JSON of a list that mostly grows at its end: each item is encoded once."""

    def __init__(self, out: Callable[[T], dict[str, Any]]) -> None:
        self._out = out
        self._items: list[T] = []
        self._encoded: list[bytes] = []

    def encoded(self, items: Sequence[T]) -> list[bytes]:
        """The items' JSON, with the commas between them."""
        self._forget_changed(items)
        for item in items[len(self._items) :]:
            comma = b",\n" if self._items else b""
            self._encoded.append(comma + _encode(self._out(item)))
            self._items.append(item)
        return self._encoded

    def _forget_changed(self, items: Sequence[T]) -> None:
        """Keep what was encoded of the common beginning; only an append is the common case."""
        same = 0
        for ours, theirs in zip(self._items, items, strict=False):
            if ours is not theirs:
                break
            same += 1
        del self._items[same:], self._encoded[same:]


_SETTLED = (
    *("session_id", "turn", "turn_start", "workflow", "model", "gave_way", "subject", "note"),
    *("answered", "system", "tools", "survey", "found_by", "lost", "rested", "redacted"),
    *("said", "verdict", "seconds"),
)
_JSON = json.JSONEncoder(ensure_ascii=False)


def _encode(value: Any) -> bytes:
    # A model may write half a surrogate pair; it becomes a question mark.
    return _JSON.encode(value).encode(errors="replace")


def _flat(value: Any) -> dict[str, Any]:
    """The fields of a dataclass. `asdict` copies deeply, which costs more than all the rest."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def _settled(context: Context) -> dict[str, Any]:
    fields = {"schema": SCHEMA} | {name: getattr(context, name) for name in _SETTLED}
    fields["subject"] = _flat(context.subject)
    fields["note"] = _flat(context.note) if context.note else None
    fields["tools"] = [_tool_out(tool) for tool in context.tools]
    fields["survey"] = jobs.out(context.survey) if context.survey else None
    return fields


def _call_out(call: CallCost) -> dict[str, Any]:
    return _flat(call) | {"usage": _flat(call.usage)}


def _call_in(fields: Mapping[str, Any]) -> CallCost:
    return CallCost(**{**fields, "usage": Usage(**fields["usage"])})


def _moving(context: Context) -> dict[str, Any]:
    return {
        "outcome": _flat(context.outcome) if context.outcome else None,
        "usage": _flat(context.usage),
        "cost_usd": context.cost_usd,
        "spent": _spent_out(context.spent),
        "cache": _flat(context.cache) if context.cache else None,
    }


_DAMAGED = (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError)
"""What reading bytes of any kind as a context may raise."""


def load(data: bytes) -> Context:
    """The context of `context.json`. Raises HistoryError."""
    try:
        fields = json.loads(data)
        schema = fields["schema"]
        if not isinstance(schema, int) or not 1 <= schema <= SCHEMA:
            raise HistoryError(
                f"context.json has schema {schema}; this version reads 1 to {SCHEMA}"
            )
        return _context_in(fields)
    except HistoryError:
        raise
    except _DAMAGED as error:
        raise HistoryError(f"context.json cannot be read: {error!r:.200}") from error


def _context_in(fields: Mapping[str, Any]) -> Context:
    return Context(
        session_id=str(fields["session_id"]),
        subject=Subject(**fields["subject"]),
        workflow=str(fields["workflow"]),
        model=str(fields["model"]),
        system=str(fields["system"]),
        tools=tuple(_tool_in(tool) for tool in fields["tools"]),
        messages=tuple(_message_in(message) for message in fields["messages"]),
        spent=_spent_in(fields["spent"]),
        turn=int(fields["turn"]),
        turn_start=int(fields["turn_start"]),
        cache=CacheMark(**fields["cache"]) if fields["cache"] else None,
        note=NoteRef(**fields["note"]) if fields["note"] else None,
        answered=tuple(int(note) for note in fields["answered"]),
        usage=Usage(**fields["usage"]),
        cost_usd=None if fields["cost_usd"] is None else float(fields["cost_usd"]),
        outcome=_outcome_in(fields["outcome"]),
        gave_way=str(fields.get("gave_way", "")),
        calls=tuple(_call_in(call) for call in fields.get("calls", ())),
        survey=jobs.load(fields["survey"]) if fields.get("survey") else None,
        found_by=str(fields.get("found_by", "")),
        lost=tuple(str(line) for line in fields.get("lost", ())),
        rested=bool(fields.get("rested", False)),
        redacted=tuple(_redacted_in(*each) for each in fields.get("redacted", ())),
        said=str(fields.get("said", "")),
        verdict=str(fields.get("verdict", "")),
        seconds=float(fields.get("seconds", 0.0)),
    )


def _redacted_in(kind: Any, number: Any, document: Any = "") -> tuple[str, int, str]:
    """Of a session that was stored before documents were named, too."""
    return str(kind), int(number), str(document)


def _spent_out(spent: Spent) -> dict[str, Any]:
    return _flat(spent) | {
        "usage": _flat(spent.usage),
        "warned": sorted(spent.warned),
        "final": sorted(spent.final),
    }


def _spent_in(fields: Mapping[str, Any]) -> Spent:
    plain = dict(fields)
    plain["usage"] = Usage(**plain["usage"])
    for name in ("warned", "final"):
        plain[name] = frozenset(Dimension(dimension) for dimension in plain[name])
    return Spent(**plain)


def _outcome_in(fields: Mapping[str, Any] | None) -> Outcome | None:
    if fields is None:
        return None
    return Outcome(Status(fields["status"]), str(fields["text"]), str(fields["reason"]))


def _tool_out(tool: ToolSpec) -> dict[str, Any]:
    return {"type": "function", "function": asdict(tool)}


def _tool_in(fields: Mapping[str, Any]) -> ToolSpec:
    return ToolSpec(**fields["function"])


def _message_out(message: Message) -> dict[str, Any]:
    match message:
        case User(text):
            return {"role": "user", "content": text}
        case Assistant():
            return _assistant_out(message)
        case ToolResult():
            fields = {
                "role": "tool",
                "tool_call_id": message.call_id,
                "name": message.name,
                "content": message.content,
            }
            failed = {"is_error": True} if message.is_error else {}
            return fields | failed | ({"ended_at": message.ended_at} if message.ended_at else {})


def _assistant_out(message: Assistant) -> dict[str, Any]:
    fields: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    if message.calls:
        fields["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.calls
        ]
    if message.wire:
        fields["wire"] = _flat(message.wire)
    return fields


def _message_in(fields: Mapping[str, Any]) -> Message:
    match fields["role"]:
        case "user":
            return User(str(fields["content"]))
        case "assistant":
            return _assistant_in(fields)
        case "tool":
            return ToolResult(
                call_id=str(fields["tool_call_id"]),
                name=str(fields["name"]),
                content=str(fields["content"]),
                is_error=bool(fields.get("is_error", False)),
                ended_at=float(fields.get("ended_at", 0.0)),
            )
        case role:
            raise HistoryError(f"context.json has a message of unknown role {role!r}")


def _assistant_in(fields: Mapping[str, Any]) -> Assistant:
    calls = tuple(
        ToolCall(str(call["id"]), str(call["function"]["name"]), str(call["function"]["arguments"]))
        for call in fields.get("tool_calls", ())
    )
    wire = fields.get("wire")
    return Assistant(str(fields["content"] or ""), calls, WireForm(**wire) if wire else None)
