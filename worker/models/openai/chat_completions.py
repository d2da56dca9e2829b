"""OpenAI's Chat Completions as a pure codec, for all servers that offer that API.

See https://platform.openai.com/docs/api-reference/chat.

Servers differ, as an endpoint's `Dialect` says. Everything else is written so that the strictest
chat template accepts it: one system text at the start, all texts of one side in one message, never
a null content. Caching is automatic, so cache marks are not sent.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from typing import Any

from worker.conversation.messages import Assistant, ToolCall, ToolResult, ToolSpec, group_messages
from worker.conversation.model import Request
from worker.models.base import Target
from worker.models.codec import names
from worker.models.codec.json_slices import Slice, dump_json, get_value, parse_members
from worker.models.codec.sent_back import encode_answer
from worker.models.openai import chat_answers, errors
from worker.models.openai.shared import (
    REMEMBERED,
    Sent,
    do_calls_match,
    get_result_text,
    is_blank,
    omit_fields,
    repair_arguments,
    split_side,
)

_NO_REASONING = "(not kept)"
"""Sent in place of missing reasoning: servers that expect reasoning back refuse calls without it,
even if another model made the calls."""


class OpenAIChat:
    """The codec of one model. `encode` caches what it encoded; the cache never changes a result.

    Everything is safe to use from several threads.
    """

    decode = staticmethod(chat_answers.decode)
    classify = staticmethod(errors.classify)

    def __init__(self, target: Target) -> None:
        self._target = target
        self._call_id = re.compile(target.dialect.call_id)
        encode = partial(encode_answer, target.origin, self._copy_answer, self._rebuild_answer)
        self._answer = lru_cache(maxsize=REMEMBERED)(encode)
        self._result = lru_cache(maxsize=REMEMBERED)(_encode_result)

    def encode(self, request: Request, *, bare: bool = False) -> bytes:
        """Return the body: head, tools, messages, in the order of the cached prefix."""
        parts = [self._encode_head(request), b',"messages":[']
        parts.append(b",".join(self._encode_messages(request, bare)))
        parts.append(b"]")
        if "tool_choice" not in self._target.refused_fields:
            if request.tools and not request.tools_allowed:
                parts.append(b',"tool_choice":"none"')
            elif request.has_to_call:
                parts.append(b',"tool_choice":"required"')
        return b"".join([*parts, b"}"])

    def _encode_head(self, request: Request) -> bytes:
        target, tools = self._target, request.tools
        fields: dict[str, Any] = {**target.head, "stream": False}
        if limit := target.choose_limit():
            fields[limit] = target.choose_max_tokens(request)
        effort = target.info.effort or (target.info.chat_effort if tools else "")
        if effort:
            fields["reasoning_effort"] = effort
        if tools:
            fields["tools"] = [_encode_tool(spec) for spec in tools]
        return dump_json(omit_fields(fields, target.refused_fields))[:-1]

    def _encode_messages(self, request: Request, bare: bool) -> Iterator[bytes]:
        if request.system:
            yield _encode_text("system", request.system)
        notice = [request.notice] if request.notice.strip() else []
        sides = group_messages(request.messages)
        ids: Mapping[str, str] = {}
        for position, side in enumerate(sides):
            if isinstance(side[0], Assistant):
                for sent in (self._answer(each, bare) for each in side):
                    ids = sent.ids
                    yield sent.json
                continue
            results, texts = split_side(side)
            for result in results:
                yield self._result(result, self._choose_id(result, ids))
            if position == len(sides) - 1:
                texts, notice = texts + notice, []
            if texts:
                yield _encode_text("user", "\n\n".join(texts))
        if notice:
            yield _encode_text("user", notice[0])

    def _choose_id(self, result: ToolResult, ids: Mapping[str, str]) -> str:
        return ids.get(result.call_id) or names.make_call_id(result.call_id, self._call_id)

    def _copy_answer(self, message: Assistant, wire: str) -> Sent | None:
        members = parse_members(wire)
        if not _can_send_back(message, members):
            return None
        call_ids = [call["id"] for call in get_value(members, "tool_calls") or []]
        blank = is_blank(get_value(members, "content"))
        content = '""' if blank else members["content"].text
        fields = [b'{"role":"assistant","content":' + content.encode()]
        reasoning = self._target.dialect.reasoning
        if message.calls and reasoning and reasoning not in members:
            fields.append(f'"{reasoning}":"{_NO_REASONING}"'.encode())
        for name in (reasoning, "tool_calls"):
            if name in members:
                fields.append(f'"{name}":{members[name].text}'.encode())
        ids = {call.id: sent_id for call, sent_id in zip(message.calls, call_ids, strict=True)}
        return Sent(b",".join(fields) + b"}", ids)

    def _rebuild_answer(self, message: Assistant) -> Sent:
        ids = {call.id: names.make_call_id(call.id, self._call_id) for call in message.calls}
        text = message.text if message.text.strip() else ""
        fields: dict[str, Any] = {"role": "assistant", "content": text}
        if self._target.dialect.reasoning and message.calls:
            fields[self._target.dialect.reasoning] = _NO_REASONING
        if message.calls:
            fields["tool_calls"] = [_encode_call(ids[call.id], call) for call in message.calls]
        elif not text:
            fields["content"] = "(empty)"
        return Sent(dump_json(fields), ids)


def _can_send_back(message: Assistant, members: Mapping[str, Slice]) -> bool:
    """Whether the wire form can be sent back, with the same calls as `message`."""
    calls = get_value(members, "tool_calls") or []
    if not calls and is_blank(get_value(members, "content")):
        return False
    if not isinstance(calls, list) or not all(_is_call(call) for call in calls):
        return False
    functions = [(call.get("id"), call["function"]) for call in calls]
    return do_calls_match(
        message,
        [(call_id, each.get("name"), each.get("arguments")) for call_id, each in functions],
    )


def _is_call(call: Any) -> bool:
    is_function = isinstance(call, dict) and call.get("type") == "function"
    return is_function and isinstance(call.get("function"), dict)


def _encode_call(call_id: str, call: ToolCall) -> dict[str, Any]:
    function = {
        "name": names.make_tool_name(call.name),
        "arguments": repair_arguments(call.arguments),
    }
    return {"id": call_id, "type": "function", "function": function}


def _encode_tool(spec: ToolSpec) -> dict[str, Any]:
    function = {
        "name": spec.name,
        "description": spec.description,
        "parameters": dict(spec.parameters),
    }
    return {"type": "function", "function": function}


def _encode_text(role: str, text: str) -> bytes:
    return dump_json({"role": role, "content": text})


def _encode_result(result: ToolResult, call_id: str) -> bytes:
    return dump_json({"role": "tool", "tool_call_id": call_id, "content": get_result_text(result)})
