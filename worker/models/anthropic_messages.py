"""Anthropic's Messages API as a pure codec: https://platform.claude.com/docs/en/api/messages.

Each group of messages becomes one message of the body, so roles alternate. Each is encoded once; a
request joins the bytes.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from worker.conversation.messages import (
    Assistant,
    Message,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    group_messages,
    put_results_first,
)
from worker.conversation.model import Request, StopReason
from worker.models.base import Decoded, Target
from worker.models.codec import (
    REMEMBERED,
    TOOL_NAME,
    Slice,
    dump_json,
    find_own_wire,
    get_count,
    get_type,
    get_value,
    join_array,
    make_tool_name,
    parse_arguments,
    parse_elements,
    parse_json,
    parse_members,
    parse_parts,
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

    def __init__(self, target: Target) -> None:
        self._target = target
        self._cached = lru_cache(maxsize=REMEMBERED)(self._encode_side)

    def encode(self, request: Request, *, bare: bool = False) -> bytes:
        """Return the body: head, tools, system, messages, in the order of the cached prefix."""
        marks = sorted(request.marks)[-_MAX_MARKS:]
        # A mark at the end of the system text is for other sessions, so it gets only a spare slot.
        head = self._encode_head(request, marked=len(marks) < _MAX_MARKS, bare=bare)
        off = request.tools and not request.tools_allowed
        tail = b'],"tool_choice":{"type":"none"}}' if off else b"]}"
        messages = b",".join(self._encode_messages(request, marks, bare))
        return b"".join([head, b',"messages":[', messages, tail])

    def _encode_head(self, request: Request, *, marked: bool, bare: bool) -> bytes:
        """Return everything before the messages, with a cache mark at its end if it is `marked`
        and there is a system text."""
        max_tokens = self._target.choose_max_tokens(request)
        fields: dict[str, Any] = {**self._target.head, "max_tokens": max_tokens}
        fields |= self._state_level(request, max_tokens, bare)
        if request.tools:
            fields["tools"] = [_encode_tool(spec) for spec in request.tools]
        if request.system:
            system: dict[str, Any] = {"type": "text", "text": request.system}
            fields["system"] = [system | _CACHED if marked else system]
        return dump_json(fields)[:-1]

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
        answer = parse_json(self._encode_side(sides[-2], bare, False).decode())
        return answer["content"][0].get("type") in _THINKING

    def _encode_messages(
        self, request: Request, marks: Sequence[int], bare: bool
    ) -> Iterable[bytes]:
        sides = group_messages(request.messages)
        messages = [self._cached(side, bare, at in marks) for at, side in enumerate(sides)]
        if request.notice.strip():
            notice = _encode_text(request.notice)
            if sides and not isinstance(sides[-1][0], Assistant):
                messages[-1] = b"%s,%s]}" % (messages[-1].removesuffix(b"]}"), notice)
            else:
                messages.append(b'{"role":"user","content":[%s]}' % notice)
        return messages

    def _encode_side(self, side: Sequence[Message], bare: bool, marked: bool) -> bytes:
        """Return one side of the conversation as one message of the body; if it is `marked`, the
        last block that may have a cache mark has one."""
        role = b"assistant" if isinstance(side[0], Assistant) else b"user"
        content = b",".join(self._encode_message(each, bare) for each in put_results_first(side))
        if marked:
            content = _add_mark(content)
        return b'{"role":"%s","content":[%s]}' % (role, content)

    def _encode_message(self, message: Message, bare: bool) -> bytes:
        if isinstance(message, ToolResult):
            return _encode_result(message)
        if not isinstance(message, Assistant):
            return _encode_text(message.text)
        with suppress(ValueError):
            wire = find_own_wire(message, self._target.origin, bare=bare)
            if wire and (copied := _copy_answer(message, wire)):
                return copied
        return _rebuild_answer(message)

    @staticmethod
    def decode(body: bytes) -> Decoded:
        """Decode the body of a 200 answer. Raises ValueError if it is not a message."""
        message = parse_members(body.decode())
        if get_value(message, "type") != "message" or "content" not in message:
            raise ValueError(f"not a message but {get_value(message, 'type')!r}")
        blocks = parse_parts(message["content"].text, "a content block")
        stop, detail = _get_stop_reason(message)
        kept = select_parts(blocks, stop, call="tool_use", thinking=_THINKING)
        calls = [block for block in kept if get_type(block) == "tool_use"]
        return Decoded(
            text="\n\n".join(_get_texts(kept)),
            calls=tuple(_parse_call(block.value) for block in calls),
            wire=message["content"].text if len(kept) == len(blocks) else join_array(kept),
            stop=stop,
            usage=_parse_usage(get_value(message, "usage")),
            detail=detail,
            dropped_calls=sum(get_type(block) == "tool_use" for block in blocks) - len(calls),
            thought=any(get_type(block) in _THINKING for block in kept),
        )


# --------------------------------------------------------------------------------------- requests


def _add_mark(content: bytes) -> bytes:
    """Return blocks with a cache mark on the last one that may have one."""
    text = f"[{content.decode()}]"
    blocks = parse_elements(text)
    places = [block.end - 1 for block in blocks if get_type(block) not in _THINKING]
    if not places:
        return content
    return (text[1 : places[-1]] + _MARK + text[places[-1] : -1]).encode()


def _copy_answer(message: Assistant, content: str) -> bytes | None:
    """Return an answer's content byte for byte, without its brackets; None if it cannot be sent
    back. Raises ValueError for text that UTF-8 cannot encode."""
    blocks = parse_elements(content)
    if not _can_send_back(message, blocks):
        return None
    kept = _drop_empty_texts(blocks)
    if not kept:
        return None
    if len(kept) < len(blocks):
        return join_array(kept)[1:-1].encode()
    start = kept[0].end - len(kept[0].text)
    return content[start : kept[-1].end].encode()


def _can_send_back(message: Assistant, blocks: Sequence[Slice]) -> bool:
    """Whether the blocks can be sent back, with the same calls as `message`."""
    if not blocks or not all(isinstance(block.value, dict) for block in blocks):
        return False
    tool_uses = [block.value for block in blocks if get_type(block) == "tool_use"]
    calls = [(each.get("id"), each.get("name")) for each in tool_uses]
    return calls == [(call.id, call.name) for call in message.calls] and all(
        _ID.fullmatch(call_id) and TOOL_NAME.fullmatch(name) for call_id, name in calls
    )


def _drop_empty_texts(blocks: Sequence[Slice]) -> Sequence[Slice]:
    """Return the blocks without texts of white space alone, which answers may contain, but the API
    refuses in requests; what is left then does not end in thinking, which it refuses too."""
    kept = [
        block
        for block in blocks
        if get_type(block) != "text" or str(block.value.get("text") or "").strip()
    ]
    while kept and len(kept) < len(blocks) and get_type(kept[-1]) in _THINKING:
        kept.pop()
    return kept


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


def _encode_tool(spec: ToolSpec) -> dict[str, Any]:
    schema = dict(spec.parameters)
    return {"name": spec.name, "description": spec.description, "input_schema": schema}


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


# ---------------------------------------------------------------------------------------- answers


def _get_stop_reason(message: Mapping[str, Slice]) -> tuple[StopReason, str]:
    reason = get_value(message, "stop_reason")
    if not isinstance(reason, str) or reason not in _STOPS:
        return StopReason.MALFORMED, f"unknown stop reason {str(reason)[:60]!r}"
    details = get_value(message, "stop_details")
    if reason == "refusal" and isinstance(details, dict):
        reasons = (details.get("category"), details.get("explanation"))
        return StopReason.REFUSED, ": ".join(str(part)[:500] for part in reasons if part)
    return _STOPS[reason], ""


def _get_texts(blocks: Sequence[Slice]) -> list[str]:
    texts = [block.value.get("text") for block in blocks if get_type(block) == "text"]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a text block has no text")
    return [repair_surrogates(text) for text in texts if text]


def _parse_call(block: Mapping[str, Any]) -> ToolCall:
    call_id, arguments = block.get("id"), block.get("input")
    if not (isinstance(call_id, str) and isinstance(arguments, dict)):
        raise ValueError("a tool_use block lacks its id or input")
    name = read_tool_name(block.get("name"))
    return ToolCall(repair_surrogates(call_id), name, dump_json(arguments).decode())


def _parse_usage(usage: Any) -> Usage:
    """Return the tokens as billed; `input_tokens` excludes those read from or written to the
    cache."""
    return Usage(
        uncached_input=get_count(usage, "input_tokens"),
        cache_read=get_count(usage, "cache_read_input_tokens"),
        cache_write=get_count(usage, "cache_creation_input_tokens"),
        output=get_count(usage, "output_tokens"),
        reasoning=get_count(usage, "output_tokens_details", "thinking_tokens"),
    )
