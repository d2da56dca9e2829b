"""Anthropic's Messages API as a pure codec: https://platform.claude.com/docs/en/api/messages.

Each group of messages becomes one message of the body, so roles alternate. Each is encoded once; a
request joins the bytes.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from worker.conversation.messages import (
    Assistant,
    Message,
    ToolCall,
    ToolResult,
    Usage,
    User,
    group_messages,
    put_results_first,
)
from worker.conversation.model import Request, StopReason
from worker.models.base import Decoded, WireTarget
from worker.models.codec import (
    REMEMBERED,
    TOOL_NAME,
    Slice,
    copy_own_wire,
    dump_json,
    get_count,
    get_value,
    join_array,
    make_tool_name,
    parse_arguments,
    parse_elements,
    parse_json,
    parse_members,
    parse_parts,
    read_texts,
    read_tool_name,
    repair_surrogates,
    select_parts,
)
from worker.models.error_bodies import classify_anthropic

_CACHED = {"cache_control": {"type": "ephemeral"}}
_MARK = ',"cache_control":{"type":"ephemeral"}'
_MAX_MARKS = 4
_MIN_BUDGET = 1024
"""The smallest number of thinking tokens that the API accepts."""
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")
_THINKING = frozenset({"thinking", "redacted_thinking"})
"""Blocks that can have no cache mark, and with which no answer may end."""
_STOPS = {
    "end_turn": StopReason.END,
    "stop_sequence": StopReason.END,
    "tool_use": StopReason.TOOL_CALLS,
    "max_tokens": StopReason.TRUNCATED,
    "pause_turn": StopReason.PAUSED,
    "refusal": StopReason.REFUSED,
    "model_context_window_exceeded": StopReason.CONTEXT_OVERFLOW,
}


class AnthropicMessages:
    """The codec of one model. `encode` caches what it encoded; the cache never changes a result.

    Everything is safe to use from several threads.
    """

    classify = staticmethod(classify_anthropic)

    def __init__(self, target: WireTarget) -> None:
        self._target = target
        self._cached = lru_cache(maxsize=REMEMBERED)(self._encode_side)

    def encode(self, request: Request, *, bare: bool = False) -> bytes:
        """Return the body: head, tools, system, messages, in the order of the cached prefix."""
        marks = sorted(request.marks)[-_MAX_MARKS:]
        max_tokens = self._target.choose_max_tokens(request)
        fields: dict[str, Any] = {**self._target.head, "max_tokens": max_tokens}
        fields |= self._state_level(request, max_tokens, bare)
        if request.tools:
            fields["tools"] = [
                {
                    "name": spec.name,
                    "description": spec.description,
                    "input_schema": dict(spec.parameters),
                }
                for spec in request.tools
            ]
        if request.system:
            # A mark at the end of the system text is for other sessions: it gets only a spare slot.
            mark = _CACHED if len(marks) < _MAX_MARKS else {}
            fields["system"] = [{"type": "text", "text": request.system} | mark]
        sides = group_messages(request.messages)
        messages = [self._cached(side, bare, at in marks) for at, side in enumerate(sides)]
        if request.notice.strip():
            notice = _encode_text(request.notice)
            if sides and not isinstance(sides[-1][0], Assistant):
                messages[-1] = b"%s,%s]}" % (messages[-1].removesuffix(b"]}"), notice)
            else:
                messages.append(b'{"role":"user","content":[%s]}' % notice)
        off = request.tools and not request.tools_allowed
        tail = b'],"tool_choice":{"type":"none"}}' if off else b"]}"
        return b"".join([dump_json(fields)[:-1], b',"messages":[', b",".join(messages), tail])

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
        if budget < _MIN_BUDGET:
            return {}
        sides = group_messages(request.messages)
        if len(sides) > 1 and any(isinstance(each, ToolResult) for each in sides[-1]):
            # After results thinking may be enabled only if the answer with the calls begins with
            # thinking; another model's answer does not.
            answer = parse_json(self._encode_side(sides[-2], bare, False).decode())
            if answer["content"][0].get("type") not in _THINKING:
                return {}
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}

    def _encode_side(self, side: Sequence[Message], bare: bool, marked: bool) -> bytes:
        """Return one side of the conversation as one message of the body; if it is `marked`, the
        last block that may have a cache mark has one."""
        parts: list[bytes] = []
        for message in put_results_first(side):
            match message:
                case User(text):
                    parts.append(_encode_text(text))
                case ToolResult():
                    block: dict[str, Any] = {
                        "type": "tool_result",
                        "tool_use_id": _make_id(message.call_id),
                        "content": message.content if message.content.strip() else "(no output)",
                    }
                    parts.append(
                        dump_json(block | {"is_error": True} if message.is_error else block)
                    )
                case Assistant():
                    copied = copy_own_wire(message, self._target.origin, bare, _copy_answer)
                    parts.append(copied or _rebuild_answer(message))
        content = b",".join(parts)
        if marked:
            whole = f"[{content.decode()}]"
            blocks = parse_elements(whole)
            if places := [block.end - 1 for block in blocks if block.type not in _THINKING]:
                content = (whole[1 : places[-1]] + _MARK + whole[places[-1] : -1]).encode()
        role = b"assistant" if isinstance(side[0], Assistant) else b"user"
        return b'{"role":"%s","content":[%s]}' % (role, content)

    @staticmethod
    def decode(body: bytes) -> Decoded:
        """Decode the body of a 200 answer. Raises ValueError if it is not a message."""
        message = parse_members(body.decode())
        if get_value(message, "type") != "message" or "content" not in message:
            raise ValueError(f"not a message but {get_value(message, 'type')!r}")
        blocks = parse_parts(message["content"].text, "a content block")
        stop, detail = _read_stop_reason(message)
        kept = select_parts(blocks, stop, call="tool_use", thinking=_THINKING)
        texts = (block.value.get("text") for block in kept if block.type == "text")
        calls = [block for block in kept if block.type == "tool_use"]
        usage = get_value(message, "usage")
        return Decoded(
            text="\n\n".join(read_texts(texts, "a text block")),
            calls=tuple(_parse_call(block.value) for block in calls),
            wire=message["content"].text if len(kept) == len(blocks) else join_array(kept),
            stop=stop,
            # As billed: `input_tokens` excludes those read from or written to the cache.
            usage=Usage(
                uncached_input=get_count(usage, "input_tokens"),
                cache_read=get_count(usage, "cache_read_input_tokens"),
                cache_write=get_count(usage, "cache_creation_input_tokens"),
                output=get_count(usage, "output_tokens"),
                reasoning=get_count(usage, "output_tokens_details", "thinking_tokens"),
            ),
            detail=detail,
            dropped_calls=sum(block.type == "tool_use" for block in blocks) - len(calls),
            thought=any(block.type in _THINKING for block in kept),
        )


def _copy_answer(message: Assistant, content: str) -> bytes | None:
    """Return an answer's content byte for byte, without its brackets; None if it cannot be sent
    back with the same calls. Raises ValueError for text that UTF-8 cannot encode."""
    blocks = parse_elements(content)
    if not all(isinstance(block.value, dict) for block in blocks):
        return None
    sent = [block.value for block in blocks if block.type == "tool_use"]
    calls = [(call.id, call.name) for call in message.calls]
    if [(each.get("id"), each.get("name")) for each in sent] != calls:
        return None
    if not all(_ID.fullmatch(call_id) and TOOL_NAME.fullmatch(name) for call_id, name in calls):
        return None
    # Answers may contain texts of white space alone, and then end in thinking, but requests not.
    kept = [
        block
        for block in blocks
        if block.type != "text" or str(block.value.get("text") or "").strip()
    ]
    while kept and len(kept) < len(blocks) and kept[-1].type in _THINKING:
        kept.pop()
    if not kept:
        return None
    if len(kept) < len(blocks):
        return join_array(kept)[1:-1].encode()
    start = kept[0].end - len(kept[0].text)
    return content[start : kept[-1].end].encode()


def _rebuild_answer(message: Assistant) -> bytes:
    blocks = [_encode_text(message.text)] if message.text.strip() else []
    for call in message.calls:
        values = {
            "id": _make_id(call.id),
            "name": make_tool_name(call.name),
            "input": parse_arguments(call.arguments),
        }
        blocks.append(dump_json({"type": "tool_use", **values}))
    return b",".join(blocks or [_encode_text("")])


def _encode_text(text: str) -> bytes:
    return dump_json({"type": "text", "text": text if text.strip() else "(empty)"})


def _make_id(call_id: str) -> str:
    """Return the id if the API accepts it, else a derived one, the same for call and result."""
    if _ID.fullmatch(call_id):
        return call_id
    digest = hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{_FOREIGN.sub('_', call_id)[:40]}_{digest}"


def _read_stop_reason(message: Mapping[str, Slice]) -> tuple[StopReason, str]:
    reason = get_value(message, "stop_reason")
    if not isinstance(reason, str) or reason not in _STOPS:
        return StopReason.MALFORMED, f"unknown stop reason {str(reason)[:60]!r}"
    details = get_value(message, "stop_details")
    if reason == "refusal" and isinstance(details, dict):
        reasons = (details.get("category"), details.get("explanation"))
        return StopReason.REFUSED, ": ".join(str(part)[:500] for part in reasons if part)
    return _STOPS[reason], ""


def _parse_call(block: Mapping[str, Any]) -> ToolCall:
    call_id, arguments = block.get("id"), block.get("input")
    if not (isinstance(call_id, str) and isinstance(arguments, dict)):
        raise ValueError("a tool_use block lacks its id or input")
    name = read_tool_name(block.get("name"))
    return ToolCall(repair_surrogates(call_id), name, dump_json(arguments).decode())
