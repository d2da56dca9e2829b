"""Anthropic's Messages API as a pure codec: https://platform.claude.com/docs/en/api/messages.

Each group of messages becomes one message of the body, so roles alternate. Each canonical message
is encoded once; a request joins the bytes and inserts the cache marks.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from worker.conversation.messages import (
    Assistant,
    Message,
    ToolResult,
    ToolSpec,
    group_messages,
    put_results_first,
)
from worker.conversation.model import Request
from worker.models.anthropic import answers
from worker.models.base import Fragment, Target
from worker.models.codec.growing import FragmentCache
from worker.models.codec.json_slices import (
    Slice,
    dump_json,
    parse_arguments,
    parse_elements,
    parse_json,
)
from worker.models.codec.names import TOOL_NAME, make_tool_name
from worker.models.codec.sent_back import encode_answer

_MARK = b',"cache_control":{"type":"ephemeral"}'
_MAX_MARKS = 4
_MIN_BUDGET = 1024
"""The smallest number of thinking tokens that the API accepts."""
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")
_UNMARKABLE = frozenset({"thinking", "redacted_thinking"})
_USER = b'{"role":"user","content":['
_MODEL = b'{"role":"assistant","content":['
_END = b"]}"


class AnthropicMessages:
    """The codec of one model. `encode` caches what it encoded; the cache never changes a result.

    Everything is safe to use from several threads.
    """

    decode = staticmethod(answers.decode)
    classify = staticmethod(answers.classify)

    def __init__(self, target: Target) -> None:
        self._target = target
        self._sides = FragmentCache(self._encode_side)

    def encode(self, request: Request, *, bare: bool = False) -> bytes:
        """Return the body: head, tools, system, messages, in the order of the cached prefix."""
        marks = sorted(request.marks)[-_MAX_MARKS:]
        # A mark at the end of the system text is for other sessions, so it gets only a spare slot.
        head = self._encode_head(request, marked=len(marks) < _MAX_MARKS, bare=bare)
        off = request.tools and not request.tools_allowed
        tail = b'],"tool_choice":{"type":"none"}}' if off else b"]}"
        # Everything is joined at once: the body is large, and every copy takes time.
        messages = self._encode_messages(request, marks, bare)
        messages[0] = head + b',"messages":[' + messages[0]
        messages[-1] += tail
        return b",".join(messages)

    def _encode_head(self, request: Request, *, marked: bool, bare: bool) -> bytes:
        """Return everything before the messages, with a cache mark at its end if it is `marked`
        and there is a system text."""
        system, tools = request.system, request.tools
        max_tokens = self._target.choose_max_tokens(request)
        fields: dict[str, Any] = {**self._target.head, "max_tokens": max_tokens}
        fields |= self._state_level(request, max_tokens, bare)
        if tools:
            fields["tools"] = [_encode_tool(spec) for spec in tools]
        opening = dump_json(fields)[:-1]
        if not system:
            return opening
        opening += b',"system":[' + dump_json({"type": "text", "text": system})[:-1]
        return opening + (_MARK if marked else b"") + b"}]"

    def _state_level(self, request: Request, max_tokens: int, bare: bool) -> dict[str, Any]:
        """Return the fields that state the reasoning level. Models before adaptive thinking take a
        number of thinking tokens, which must be less than `max_tokens`."""
        level = self._target.info.get_stated_level()
        if level is None:
            return {}
        if level.name == "none":
            return {"thinking": {"type": "disabled"}}
        if level.budget is None:
            effort: dict[str, Any] = {"output_config": {"effort": level.name}}
            asks = self._target.info.thinks_if_asked
            return {"thinking": {"type": "adaptive"}, **effort} if asks else effort
        budget = min(level.budget, max_tokens // 2)
        if budget < _MIN_BUDGET or not self._may_begin_thinking(request.messages, bare):
            return {}
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}

    def _may_begin_thinking(self, messages: Sequence[Message], bare: bool) -> bool:
        """Whether thinking may be enabled with a number of tokens. After tool results it may only
        if the answer with the calls begins with thinking; another model's answer does not."""
        sides = group_messages(messages)
        if len(sides) < 2 or not any(isinstance(each, ToolResult) for each in sides[-1]):
            return True
        answer = parse_json(self._encode_side(sides[-2], bare).json.decode())
        return answer["content"][0].get("type") in _UNMARKABLE

    def _encode_messages(self, request: Request, marks: Iterable[int], bare: bool) -> list[bytes]:
        if bare:
            sides: Sequence[Fragment] = [
                self._encode_side(side, True) for side in group_messages(request.messages)
            ]
        else:
            sides = self._sides.encode_groups(request.messages)
        messages = [side.json for side in sides]
        for position in marks:
            if position < len(sides):
                messages[position] = _mark_message(sides[position])
        if request.notice.strip():
            is_user = not isinstance(request.messages[-1], Assistant)
            before = [messages.pop()[len(_USER) : -len(_END)]] if is_user else []
            messages.append(_encode_blocks(_USER, [*before, _encode_text(request.notice)]))
        return messages

    def _encode_side(self, side: Sequence[Message], bare: bool = False) -> Fragment:
        """Return one side of the conversation as one message of the body."""
        opening = _MODEL if isinstance(side[0], Assistant) else _USER
        fragments = [self._encode_message(message, bare) for message in put_results_first(side)]
        mark_at, end = None, len(opening)
        for fragment in fragments:
            if fragment.mark_at is not None:
                mark_at = end + fragment.mark_at
            end += len(fragment.json) + 1
        return Fragment(_encode_blocks(opening, [fragment.json for fragment in fragments]), mark_at)

    def _encode_message(self, message: Message, bare: bool) -> Fragment:
        if isinstance(message, Assistant):
            origin = self._target.origin
            return encode_answer(origin, _copy_answer, _rebuild_answer, message, bare)
        if isinstance(message, ToolResult):
            return _join_blocks([_encode_result(message)])
        return _join_blocks([_encode_text(message.text)])


def _copy_answer(message: Assistant, content: str) -> Fragment | None:
    blocks = parse_elements(content)
    return _copy_content(content, blocks) if _can_send_back(message, blocks) else None


def _can_send_back(message: Assistant, blocks: Sequence[Slice]) -> bool:
    """Whether the blocks can be sent back, with the same calls as `message`."""
    if not blocks or not all(isinstance(block.value, dict) for block in blocks):
        return False
    tool_uses = [block.value for block in blocks if block.value.get("type") == "tool_use"]
    calls = [(each.get("id"), each.get("name")) for each in tool_uses]
    return calls == [(call.id, call.name) for call in message.calls] and all(
        _ID.fullmatch(call_id) and TOOL_NAME.fullmatch(name) for call_id, name in calls
    )


def _copy_content(content: str, blocks: Sequence[Slice]) -> Fragment | None:
    """Return the content byte for byte. Raises ValueError for text that UTF-8 cannot encode."""
    kept = _drop_empty_texts(blocks)
    if not kept:
        return None
    if len(kept) < len(blocks):
        content = f"[{','.join(block.text for block in kept)}]"
        kept = parse_elements(content)
    start = kept[0].end - len(kept[0].text)
    markable = [block for block in kept if block.value.get("type") not in _UNMARKABLE]
    mark_at = len(content[start : markable[-1].end - 1].encode()) if markable else None
    return Fragment(content[start : kept[-1].end].encode(), mark_at)


def _drop_empty_texts(blocks: Sequence[Slice]) -> Sequence[Slice]:
    """Return the blocks without empty texts, which answers may contain, but the API refuses in
    requests; what is left then does not end in thinking, which it refuses too."""
    kept = [block for block in blocks if not _is_empty_text(block.value)]
    while kept and len(kept) < len(blocks) and kept[-1].value.get("type") in _UNMARKABLE:
        kept.pop()
    return kept


def _is_empty_text(block: Mapping[str, Any]) -> bool:
    """Whether it is a text of white space alone, which counts as empty."""
    return block.get("type") == "text" and not str(block.get("text") or "").strip()


def _rebuild_answer(message: Assistant) -> Fragment:
    blocks = [_encode_text(message.text)] if message.text.strip() else []
    for call in message.calls:
        values = {
            "id": _make_id(call.id),
            "name": make_tool_name(call.name),
            "input": parse_arguments(call.arguments),
        }
        blocks.append(dump_json({"type": "tool_use", **values}))
    return _join_blocks(blocks or [_encode_text("")])


def _join_blocks(blocks: Sequence[bytes]) -> Fragment:
    """Join blocks; a cache mark would go before the closing brace of the last one."""
    joined = b",".join(blocks)
    return Fragment(joined, len(joined) - 1)


def _mark_message(side: Fragment) -> bytes:
    """Return a message with a cache mark on the last block that may have one."""
    at = side.mark_at
    return side.json if at is None else side.json[:at] + _MARK + side.json[at:]


def _encode_blocks(opening: bytes, blocks: Sequence[bytes]) -> bytes:
    return opening + b",".join(blocks) + _END


def _encode_tool(spec: ToolSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "description": spec.description,
        "input_schema": dict(spec.parameters),
    }


def _encode_text(text: str) -> bytes:
    return dump_json({"type": "text", "text": text if text.strip() else "(empty)"})


def _encode_result(result: ToolResult) -> bytes:
    block: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": _make_id(result.call_id),
        "content": result.content if result.content.strip() else "(no output)",
    }
    if result.is_error:
        block["is_error"] = True
    return dump_json(block)


def _make_id(call_id: str) -> str:
    """Return the id if the API accepts it, else a derived one, the same for call and result."""
    if _ID.fullmatch(call_id):
        return call_id
    digest = hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{_FOREIGN.sub('_', call_id)[:40]}_{digest}"
