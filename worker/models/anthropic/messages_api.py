"""The wire of Anthropic's Messages API (wire-models 1), as a pure codec.

A group of the conversation is one message of the body, so roles alternate. Each canonical message
is encoded once; a request joins bytes and splices the cache marks in.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from worker.core.conversation.messages import (
    Assistant,
    Message,
    ToolResult,
    ToolSpec,
    User,
    group_messages,
)
from worker.core.ports import Request
from worker.models.anthropic import answers
from worker.models.base import Codec, Decoded, Failure, Fragment, Target
from worker.models.codec.growing import Growing, Latest
from worker.models.codec.json_slices import Slice, dumps, elements, loads

_MARK = b',"cache_control":{"type":"ephemeral"}'
_MAX_MARKS = 4
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")
_UNMARKABLE = frozenset({"thinking", "redacted_thinking"})
_USER = b'{"role":"user","content":['
_MODEL = b'{"role":"assistant","content":['
_END = b"]}"


class AnthropicMessages:
    """The codec of one model. `encode` remembers what it encoded; its results don't depend on it.

    Everything is safe to use from several threads.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._sides = Growing(self._side)
        self._head = Latest(self._encode_head)

    def encode(self, request: Request, *, bare: bool = False) -> bytes:
        """The body: head, tools, system, messages, in the order of the cached prefix."""
        marks = sorted(request.marks)[-_MAX_MARKS:]
        # The mark at the end of the system text serves other sessions: a slot that is left over.
        head = self._head(request.system, tuple(request.tools))[len(marks) < _MAX_MARKS]
        off = request.tools and not request.tools_allowed
        tail = b'],"tool_choice":{"type":"none"}}' if off else b"]}"
        # One join of everything: the body is large, and each copy of it counts.
        messages = self._messages(request, marks, bare)
        messages[0] = head + b',"messages":[' + messages[0]
        messages[-1] += tail
        return b",".join(messages)

    def decode(self, body: bytes) -> Decoded:
        """See `base.Codec`."""
        return answers.decode(body)

    def classify(self, status: int, body: bytes) -> Failure:
        """See `base.Codec`."""
        return answers.classify(status, body)

    def _encode_head(self, system: str, tools: tuple[ToolSpec, ...]) -> tuple[bytes, bytes]:
        """Everything before the messages, without and with a mark at its end."""
        fields: dict[str, Any] = {**self._target.head, "max_tokens": self._target.max_tokens}
        if self._target.info.effort:
            fields["output_config"] = {"effort": self._target.info.effort}
        if tools:
            fields["tools"] = [_tool(spec) for spec in tools]
        opening = dumps(fields)[:-1]
        if not system:
            return opening, opening
        opening += b',"system":[' + dumps({"type": "text", "text": system})[:-1]
        return opening + b"}]", opening + _MARK + b"}]"

    def _messages(self, request: Request, marks: Iterable[int], bare: bool) -> list[bytes]:
        if bare:
            sides: Sequence[Fragment] = [
                self._side(side, True) for side in group_messages(request.messages)
            ]
        else:
            sides = self._sides.fragments(request.messages)
        found = [side.json for side in sides]
        for position in marks:
            if position < len(sides):
                found[position] = _marked(sides[position])
        if request.notice.strip():
            ours = not isinstance(request.messages[-1], Assistant)
            before = [found.pop()[len(_USER) : -len(_END)]] if ours else []
            found.append(_message(_USER, [*before, _text(request.notice)]))
        return found

    def _side(self, side: Sequence[Message], bare: bool = False) -> Fragment:
        """A whole message of the body."""
        opening = _MODEL if isinstance(side[0], Assistant) else _USER
        fragments = [self._encode_message(message, bare) for message in _ordered(side)]
        mark_at, end = None, len(opening)
        for fragment in fragments:
            if fragment.mark_at is not None:
                mark_at = end + fragment.mark_at
            end += len(fragment.json) + 1
        return Fragment(_message(opening, [fragment.json for fragment in fragments]), mark_at)

    def _encode_message(self, message: Message, bare: bool) -> Fragment:
        if isinstance(message, Assistant):
            verbatim = None if bare else self._verbatim(message)
            return verbatim or _rebuilt(message)
        if isinstance(message, ToolResult):
            return _values([_result(message)])
        return _values([_text(message.text)])

    def _verbatim(self, message: Assistant) -> Fragment | None:
        """The answer as this very model sent it, or None if it cannot be sent back so."""
        if message.wire is None or message.wire.origin != self._target.origin:
            return None
        try:
            blocks = elements(message.wire.content)
            return _sent_back(message.wire.content, blocks) if _fits(message, blocks) else None
        except ValueError:
            return None


def _fits(message: Assistant, blocks: Sequence[Slice]) -> bool:
    """Whether the blocks can be sent and name the calls for which results will be sent."""
    if not blocks or not all(isinstance(block.value, dict) for block in blocks):
        return False
    ids = [block.value.get("id") for block in blocks if block.value.get("type") == "tool_use"]
    return ids == [call.id for call in message.calls] and all(_ID.fullmatch(id_) for id_ in ids)


def _sent_back(content: str, blocks: Sequence[Slice]) -> Fragment | None:
    """The content byte for byte. Raises ValueError for text that UTF-8 cannot say."""
    kept = [block for block in blocks if not _is_empty_text(block.value)]
    if not kept:
        return None
    if len(kept) < len(blocks):
        # An empty text block comes back in answers, and is refused in requests (wire-models 1.2).
        content = f"[{','.join(block.text for block in kept)}]"
        kept = elements(content)
    start = kept[0].end - len(kept[0].text)
    able = [block for block in kept if block.value.get("type") not in _UNMARKABLE]
    mark_at = len(content[start : able[-1].end - 1].encode()) if able else None
    return Fragment(content[start : kept[-1].end].encode(), mark_at)


def _is_empty_text(block: Mapping[str, Any]) -> bool:
    return block.get("type") == "text" and not block.get("text")


def _rebuilt(message: Assistant) -> Fragment:
    blocks = [_text(message.text)] if message.text.strip() else []
    for call in message.calls:
        values = {"id": _id(call.id), "name": _name(call.name), "input": _input(call.arguments)}
        blocks.append(dumps({"type": "tool_use", **values}))
    return _values(blocks or [_text("")])


def _values(blocks: Sequence[bytes]) -> Fragment:
    """The blocks joined; a mark goes before the closing brace of the last."""
    joined = b",".join(blocks)
    return Fragment(joined, len(joined) - 1)


def _marked(side: Fragment) -> bytes:
    """A message with a mark on its last block that can carry one."""
    at = side.mark_at
    return side.json if at is None else side.json[:at] + _MARK + side.json[at:]


def _ordered(side: Sequence[Message]) -> Sequence[Message]:
    """Results before text: the API wants it so (wire-models 1.3)."""
    if isinstance(side[0], Assistant):
        return side
    return sorted(side, key=lambda message: isinstance(message, User))


def _message(opening: bytes, blocks: Sequence[bytes]) -> bytes:
    return opening + b",".join(blocks) + _END


def _tool(spec: ToolSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "description": spec.description,
        "input_schema": dict(spec.parameters),
    }


def _text(text: str) -> bytes:
    return dumps({"type": "text", "text": text if text.strip() else "(empty)"})


def _result(result: ToolResult) -> bytes:
    block: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": _id(result.call_id),
        "content": result.content if result.content.strip() else "(no output)",
    }
    if result.is_error:
        block["is_error"] = True
    return dumps(block)


def _id(call_id: str) -> str:
    """The id itself if the API takes it, else one made of it: the same in call and result."""
    if _ID.fullmatch(call_id):
        return call_id
    digest = hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{_FOREIGN.sub('_', call_id)[:40]}_{digest}"


def _name(name: str) -> str:
    return _FOREIGN.sub("_", name)[:64] or "unknown"


def _input(arguments: str) -> dict[str, Any]:
    """The arguments as an object; what is none was answered with an error and becomes {}."""
    try:
        value = loads(arguments)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def codec(target: Target) -> Codec:
    """The codec as the provider table wants it; here mypy checks it against the Protocol."""
    return AnthropicMessages(target)
