"""OpenAI's Chat Completions as a pure codec, for all servers that offer that API.

See https://platform.openai.com/docs/api-reference/chat.

Servers differ, as an endpoint's `Dialect` says. Everything else is written so that the strictest
chat template accepts it: one system text at the start, all texts of one side in one message, never
a null content. Caching is automatic, so cache marks are not sent.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from worker.conversation.messages import Assistant, ToolResult, group_messages
from worker.conversation.model import Request, StopReason
from worker.models.base import Decoded, WireTarget
from worker.models.codec import (
    REMEMBERED,
    Sent,
    Slice,
    copy_own_wire,
    do_calls_match,
    dump_json,
    get_result_text,
    get_value,
    make_call_id,
    make_tool_name,
    parse_elements,
    parse_members,
    parse_tool_calls,
    parse_usage,
    repair_arguments,
    repair_surrogates,
    split_side,
)
from worker.models.error_bodies import classify_openai

_NO_REASONING = "(not kept)"
"""Sent in place of missing reasoning: servers that expect reasoning back refuse calls without it,
even if another model made the calls."""
REASONING = ("reasoning_content", "reasoning", "reasoning_details")
"""The fields in which servers put reasoning. All are kept; the dialect names the one sent back."""

_KEPT = ("content", "tool_calls", *REASONING)
_STOPS = {
    "stop": StopReason.END,
    "tool_calls": StopReason.TOOL_CALLS,
    "length": StopReason.TRUNCATED,
    "content_filter": StopReason.BLOCKED,
}
_RUNNABLE = frozenset({StopReason.END, StopReason.TOOL_CALLS})
_UNUSABLE = frozenset({StopReason.REFUSED, StopReason.BLOCKED})


class OpenAIChat:
    """The codec of one model. `encode` caches what it encoded; the cache never changes a result.

    Everything is safe to use from several threads.
    """

    classify = staticmethod(classify_openai)

    def __init__(self, target: WireTarget) -> None:
        self._target = target
        self._call_id = re.compile(target.dialect.call_id)
        self._cached_answer = lru_cache(maxsize=REMEMBERED)(self._encode_answer)
        self._cached_result = lru_cache(maxsize=REMEMBERED)(_encode_result)

    def encode(self, request: Request, *, bare: bool = False) -> bytes:
        """Return the body: head, tools, messages, in the order of the cached prefix."""
        target, tools = self._target, request.tools
        fields: dict[str, Any] = {**target.head, "stream": False}
        if limit := target.choose_limit():
            fields[limit] = target.choose_max_tokens(request)
        if effort := target.info.effort or (target.info.chat_effort if tools else ""):
            fields["reasoning_effort"] = effort
        if tools:
            fields["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": spec.name,
                        "description": spec.description,
                        "parameters": dict(spec.parameters),
                    },
                }
                for spec in tools
            ]
        kept = {name: fields[name] for name in fields if name not in target.refused_fields}
        messages = b",".join(self._encode_messages(request, bare))
        tail = b""
        if "tool_choice" not in target.refused_fields:
            if tools and not request.tools_allowed:
                tail = b',"tool_choice":"none"'
            elif request.has_to_call:
                tail = b',"tool_choice":"required"'
        return b'%s,"messages":[%s]%s}' % (dump_json(kept)[:-1], messages, tail)

    def _encode_messages(self, request: Request, bare: bool) -> Iterator[bytes]:
        if request.system:
            yield _encode_text("system", request.system)
        notice = [request.notice] if request.notice.strip() else []
        sides = group_messages(request.messages)
        ids: Mapping[str, str] = {}
        for position, side in enumerate(sides):
            if isinstance(side[0], Assistant):
                for answer in side:
                    sent = self._cached_answer(answer, bare)
                    ids = sent.ids
                    yield sent.json
                continue
            results, texts = split_side(side)
            for result in results:
                made_id = make_call_id(result.call_id, self._call_id)
                yield self._cached_result(result, ids.get(result.call_id) or made_id)
            if position == len(sides) - 1:
                texts, notice = texts + notice, []
            if texts:
                yield _encode_text("user", "\n\n".join(texts))
        if notice:
            yield _encode_text("user", notice[0])

    def _encode_answer(self, message: Assistant, bare: bool) -> Sent:
        """Return the answer verbatim to the model that gave it, else rebuilt."""
        if copied := copy_own_wire(message, self._target.origin, bare, self._copy_answer):
            return copied
        ids = {call.id: make_call_id(call.id, self._call_id) for call in message.calls}
        text = message.text if message.text.strip() else ""
        fields: dict[str, Any] = {"role": "assistant", "content": text}
        if self._target.dialect.reasoning and message.calls:
            fields[self._target.dialect.reasoning] = _NO_REASONING
        if message.calls:
            fields["tool_calls"] = [
                {
                    "id": ids[call.id],
                    "type": "function",
                    "function": {
                        "name": make_tool_name(call.name),
                        "arguments": repair_arguments(call.arguments),
                    },
                }
                for call in message.calls
            ]
        elif not text:
            fields["content"] = "(empty)"
        return Sent(dump_json(fields), ids)

    def _copy_answer(self, message: Assistant, wire: str) -> Sent | None:
        """Return the answer byte for byte, None if it cannot be sent back with the same calls."""
        members = parse_members(wire)
        blank = _is_blank(get_value(members, "content"))
        calls = get_value(members, "tool_calls") or []
        if not isinstance(calls, list) or (blank and not calls):
            return None
        sent_calls: list[tuple[Any, Any, Any]] = []
        for call in calls:
            function = call.get("function") if isinstance(call, dict) else None
            if not isinstance(function, dict) or call.get("type") != "function":
                return None
            sent_calls.append((call.get("id"), function.get("name"), function.get("arguments")))
        if not do_calls_match(message, sent_calls):
            return None
        content = '""' if blank else members["content"].text
        fields = [b'{"role":"assistant","content":' + content.encode()]
        reasoning = self._target.dialect.reasoning
        if message.calls and reasoning and reasoning not in members:
            fields.append(f'"{reasoning}":"{_NO_REASONING}"'.encode())
        for name in (reasoning, "tool_calls"):
            if name in members:
                fields.append(f'"{name}":{members[name].text}'.encode())
        ids = {call.id: sent[0] for call, sent in zip(message.calls, sent_calls, strict=True)}
        return Sent(b",".join(fields) + b"}", ids)

    @staticmethod
    def decode(body: bytes) -> Decoded:
        """Decode the body of a 200 answer. Raises ValueError if it is not a completion."""
        whole = parse_members(body.decode())
        if "choices" not in whole:  # a gateway may answer an error with status 200
            raise ValueError(f"not a completion but {str(get_value(whole, 'error'))[:200]!r}")
        choices = parse_elements(whole["choices"].text)
        if not choices:
            raise ValueError("the completion has no choices")
        choice = parse_members(choices[0].text)
        message = parse_members(choice["message"].text) if "message" in choice else {}
        if not message:
            raise ValueError("the choice has no message")
        calls = parse_tool_calls(_list_calls(message))
        stop, detail = _read_stop_reason(choice, message, runs=bool(calls))
        if stop in _UNUSABLE:
            message = {}
        kept = calls if stop in _RUNNABLE else ()
        # What is sent back, verbatim: the calls only if they will run.
        wire = [
            f'"{name}":{message[name].text}'
            for name in _KEPT
            if get_value(message, name) and (len(kept) == len(calls) or name != "tool_calls")
        ]
        return Decoded(
            text=_join_texts(get_value(message, "content")),
            calls=kept,
            wire=f"{{{','.join(wire)}}}",
            stop=stop,
            usage=parse_usage(get_value(whole, "usage"), "prompt", "completion"),
            detail=detail,
            dropped_calls=len(calls) - len(kept),
            max_retries=int(stop is StopReason.MALFORMED),
        )


def _is_blank(content: Any) -> bool:
    """Whether the content of an answer is nothing, or text without a visible character: servers
    answer calls with " ", and others refuse that in what is sent back."""
    return not content or (isinstance(content, str) and not content.strip())


def _encode_text(role: str, text: str) -> bytes:
    return dump_json({"role": role, "content": text})


def _encode_result(result: ToolResult, call_id: str) -> bytes:
    return dump_json({"role": "tool", "tool_call_id": call_id, "content": get_result_text(result)})


def _list_calls(message: Mapping[str, Slice]) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the id, name and arguments of each call."""
    calls = get_value(message, "tool_calls") or ()
    if not isinstance(calls, list | tuple):
        raise ValueError("tool_calls is not a list")
    for call in calls:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            raise ValueError("a tool call has no function")
        yield call.get("id"), function.get("name"), function.get("arguments")


def _read_stop_reason(
    choice: Mapping[str, Slice], message: Mapping[str, Slice], *, runs: bool
) -> tuple[StopReason, str]:
    refusal = get_value(message, "refusal")
    if isinstance(refusal, str) and refusal:
        return StopReason.REFUSED, repair_surrogates(refusal)
    reason = get_value(choice, "finish_reason") or "stop"  # some servers never give one
    if not isinstance(reason, str) or reason not in _STOPS:
        return StopReason.MALFORMED, f"unknown finish reason {str(reason)[:60]!r}"
    stop = _STOPS[reason]
    if stop in _RUNNABLE:
        # Several servers say "stop" although there are calls, or "tool_calls" without any.
        return StopReason.TOOL_CALLS if runs else StopReason.END, ""
    return stop, "the provider's filter cut the answer" if stop is StopReason.BLOCKED else ""


def _join_texts(content: Any) -> str:
    """Return the text, or the joined texts of a list of parts."""
    if isinstance(content, str):
        return repair_surrogates(content)
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n\n".join(repair_surrogates(text) for text in texts if isinstance(text, str) and text)
