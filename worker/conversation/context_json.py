"""`context.json`: a session as JSON, messages in the style of OpenAI Chat Completions."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from worker.conversation.context import (
    SCHEMA,
    CacheMark,
    CallCost,
    Context,
    NoteRef,
    Outcome,
    SessionKey,
    Status,
    Subject,
)
from worker.conversation.folds import Fold, FoldKind
from worker.conversation.limits import TurnUsage, find_budget
from worker.conversation.messages import (
    Assistant,
    Message,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    User,
    WireForm,
    rename_stored_calls,
)
from worker.conversation.tiers import ReplyModel, TierChoice
from worker.stored_keys import from_stored, pick_known, to_stored
from worker.verdict.jobs import dump_survey, load_survey


class HistoryError(ValueError):
    """The stored bytes are not a context this version can read; the message says why."""


def dump_context(context: Context) -> bytes:
    """Encode a context as the bytes of `context.json`: a line for each call and each message."""
    return Dumper().dump(context)


class Dumper:
    """Encodes one growing session again and again, each call and message only once.

    Otherwise the checkpoint of the 200th step takes 12 ms, three times as long as all else in it.
    """

    def __init__(self) -> None:
        self._lines: dict[int, tuple[CallCost | Message, bytes]] = {}

    def dump(self, context: Context) -> bytes:
        """Encode a context as the bytes of `context.json`."""
        fields = _encode(_dump_fields(context))[1:-1]
        calls, messages = (self._encode_items(each) for each in (context.calls, context.messages))
        # One join copies a long session once.
        return b"".join(
            [
                b"{",
                fields,
                b',\n"calls": [\n',
                *calls,
                b'\n],\n"messages": [\n',
                *messages,
                b"\n]}\n",
            ]
        )

    def _encode_items(self, items: Sequence[CallCost | Message]) -> list[bytes]:
        """Return each item's line, and what stands between two of them."""
        lines: list[bytes] = []
        for item in items:
            if id(item) not in self._lines:
                # The item is kept as well, so that no other one gets its id.
                self._lines[id(item)] = item, _encode(_dump_item(item))
            lines += b",\n", self._lines[id(item)][1]
        return lines[1:]


_to_json = json.JSONEncoder(ensure_ascii=False).encode


def _encode(value: Any) -> bytes:
    # A model may write half a surrogate pair; it becomes a question mark.
    return _to_json(value).encode(errors="replace")


def _dump_item(item: CallCost | Message) -> dict[str, Any]:
    match item:
        case CallCost():
            unset = [name for name in ("task", "tier", "reasoning") if not getattr(item, name)]
            return to_stored(item, *unset) | {"usage": to_stored(item.usage)}
        case User(text):
            return {"role": "user", "content": text}
        case Assistant():
            fields: dict[str, Any] = {"role": "assistant", "content": item.text or None}
            if item.calls:
                fields["tool_calls"] = [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": call.name, "arguments": call.arguments},
                    }
                    for call in item.calls
                ]
            return fields | ({"wire": to_stored(item.wire)} if item.wire else {})
        case ToolResult():
            fields = {
                "role": "tool",
                "tool_call_id": item.call_id,
                "name": item.name,
                "content": item.content,
            }
            failed = {"is_error": True} if item.is_error else {}
            return fields | failed | ({"ended_at": item.ended_at} if item.ended_at else {})


_OPTIONAL = ("tier", "reply_by", "on_request", "dry_turns", "folds")
"""Fields that are stored only if they are set."""


def _dump_fields(context: Context) -> dict[str, Any]:
    unset = [name for name in _OPTIONAL if not getattr(context, name)]
    fields = {"schema": SCHEMA} | to_stored(context, "calls", "messages", *unset)
    for name in ("subject", "note", "tier", "reply_by", "outcome", "usage", "cache"):
        if fields.get(name):
            fields[name] = to_stored(fields[name])
    fields["tools"] = [{"type": "function", "function": asdict(tool)} for tool in context.tools]
    fields["survey"] = dump_survey(context.survey) if context.survey else None
    fields["spent"] = _dump_turn_usage(context.turn_usage)
    if context.folds:
        fields["folds"] = [to_stored(fold) for fold in context.folds]
    return fields


def _load_fold(fields: Mapping[str, Any]) -> Fold:
    indices = tuple(int(index) for index in fields["kept_messages"])
    return from_stored(Fold, {**fields, "kind": FoldKind(fields["kind"]), "kept_messages": indices})


_DAMAGED = (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError)
"""The errors that reading damaged bytes as a context may raise."""


def load_context(data: bytes) -> Context:
    """Read the bytes of `context.json`. Raises HistoryError if this version cannot."""
    try:
        fields = json.loads(data)
        schema = fields["schema"]
        if not isinstance(schema, int) or not 1 <= schema <= SCHEMA:
            raise HistoryError(
                f"context.json has schema {schema}; this version reads 1 to {SCHEMA}"
            )
        return _load_fields(fields)
    except HistoryError:
        raise
    except _DAMAGED as error:
        raise HistoryError(f"context.json cannot be read: {error!r:.200}") from error


def load_context_of(key: SessionKey, data: bytes) -> Context:
    """Read the bytes of a `context.json`, or of a checkpoint, that lay under `key`.

    Raises HistoryError if this version cannot, or if it is of another session: the store is not
    believed about whose project may be read, and where the note goes.
    """
    context = load_context(data)
    subject = context.subject
    named = subject.make_key(context.session_id)
    if named != key:
        raise HistoryError(
            f"it names session {named.session_id!r:.40} of {named.project_id!r:.20}, "
            f"{named.place!r:.80}, and lay under session {key.session_id} of {key.project_id}, "
            f"{key.place}"
        )
    return context


def _load_fields(fields: Mapping[str, Any]) -> Context:
    inner = {
        # Without these three, the bytes are damaged, although a new context has defaults for them.
        **{key: fields[key] for key in ("turn", "turn_start", "cost_usd")},
        "subject": from_stored(Subject, fields["subject"]),
        "note": from_stored(NoteRef, fields["note"]) if fields["note"] else None,
        "answered": tuple(int(note) for note in fields["answered"]),
        "tools": tuple(ToolSpec(**tool["function"]) for tool in fields["tools"]),
        "survey": load_survey(fields["survey"]) if fields.get("survey") else None,
        "lost": tuple(str(line) for line in fields.get("lost", ())),
        "redacted": tuple(_load_redaction(*each) for each in fields.get("redacted", ())),
        "tier": from_stored(TierChoice, fields["tier"]) if fields.get("tier") else None,
        "reply_by": from_stored(ReplyModel, reply) if (reply := fields.get("reply_by")) else None,
        "dry_turns": tuple(int(turn) for turn in fields.get("dry_turns", ())),
        "outcome": _load_outcome(fields["outcome"]),
        "usage": from_stored(Usage, fields["usage"]),
        "spent": _load_turn_usage(fields["spent"]),
        "cache": from_stored(CacheMark, fields["cache"]) if fields["cache"] else None,
        "folds": tuple(_load_fold(fold) for fold in fields.get("folds", ())),
        "calls": tuple(
            from_stored(CallCost, {**call, "usage": from_stored(Usage, call["usage"])})
            for call in fields.get("calls", ())
        ),
        "messages": rename_stored_calls([_load_message(each) for each in fields["messages"]]),
    }
    return from_stored(Context, pick_known(Context, fields) | inner)


def _load_redaction(kind: Any, number: Any, document: Any = "") -> tuple[str, int, str]:
    """Older sessions have no third item, the name of the document."""
    return str(kind), int(number), str(document)


def _dump_turn_usage(spent: TurnUsage) -> dict[str, Any]:
    refused = ["refused_at", "window", "refused_tokens", "refused_folds"]
    unset = [] if spent.refused_at >= 0 else refused
    # The version before does not know these keys.
    newer = ("paused_at", "warned_share", "empty_answers", "final_was_only_calls")
    unset += [name for name in newer if not getattr(spent, name)]
    return to_stored(spent, *unset) | {
        "usage": to_stored(spent.usage),
        "warned": sorted(spent.warned_budgets),
        "final": sorted(spent.final),
    }


def _load_turn_usage(fields: Mapping[str, Any]) -> TurnUsage:
    values = dict(fields)
    values["usage"] = from_stored(Usage, values["usage"])
    for name in ("warned", "final"):
        values[name] = frozenset(find_budget(str(each)).name for each in values[name])
    return from_stored(TurnUsage, values)


def _load_outcome(fields: Mapping[str, Any] | None) -> Outcome | None:
    if fields is None:
        return None
    return Outcome(Status(fields["status"]), str(fields["text"]), str(fields["reason"]))


def _load_message(fields: Mapping[str, Any]) -> Message:
    match fields["role"]:
        case "user":
            return User(str(fields["content"]))
        case "assistant":
            calls = tuple(
                ToolCall(
                    str(call["id"]),
                    str(call["function"]["name"]),
                    str(call["function"]["arguments"]),
                )
                for call in fields.get("tool_calls", ())
            )
            wire = from_stored(WireForm, fields["wire"]) if fields.get("wire") else None
            return Assistant(str(fields["content"] or ""), calls, wire)
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
