"""Gemini's generateContent as a pure codec: https://ai.google.dev/api/generate-content.

Each group of messages becomes one content of the body, so roles alternate and all results of one
turn's calls are together. Each canonical message is encoded once; a request joins the bytes.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from worker.conversation.messages import (
    Assistant,
    Message,
    ToolCall,
    ToolResult,
    ToolSpec,
    group_messages,
    put_results_first,
)
from worker.conversation.model import Request
from worker.models.base import Target
from worker.models.codec.json_slices import (
    Slice,
    dump_json,
    parse_arguments,
    parse_elements,
    parse_json,
)
from worker.models.codec.names import make_call_id
from worker.models.codec.sent_back import encode_answer
from worker.models.gemini import answers
from worker.models.gemini.answers import NO_ID
from worker.models.google import errors

DUMMY_SIGNATURE = "context_engineering_is_the_way_to_go"
"""Sent with calls that this model did not make itself, as
https://ai.google.dev/gemini-api/docs/thought-signatures documents."""

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}")
_FOREIGN = re.compile(r"[^a-zA-Z0-9_.-]")
_UNSIGNED = re.compile(r"gemini-[12]\b")
"""Models for which signatures are optional."""
_REMEMBERED = 4096
"""Messages whose bytes are kept: a few dozen sessions at a few kilobytes a message."""


class GenerateContent:
    """The codec of one model. `encode` caches what it encoded; the cache never changes a result.

    Everything is safe to use from several threads. Caching is implicit: cache marks are not sent.
    """

    decode = staticmethod(answers.decode)
    classify = staticmethod(errors.classify)

    def __init__(self, target: Target) -> None:
        self._target = target
        self._signs = not _UNSIGNED.match(target.origin.partition("/")[2])
        self._fragment = lru_cache(maxsize=_REMEMBERED)(self._encode_message)

    def encode(self, request: Request, *, bare: bool = False) -> bytes:
        """Return the body. System text, tools and limits come first: they stay the same in a
        session."""
        parts = [self._encode_head(request), b',"contents":[']
        parts.append(b",".join(self._encode_contents(request, bare)))
        parts.append(b"]")
        if request.tools and not request.tools_allowed:
            parts.append(b',"toolConfig":{"functionCallingConfig":{"mode":"NONE"}}')
        return b"".join([*parts, b"}"])

    def _encode_head(self, request: Request) -> bytes:
        system, tools = request.system, request.tools
        fields: dict[str, Any] = dict(self._target.head)
        if system:
            fields["systemInstruction"] = {"parts": [{"text": system}]}
        if tools:
            fields["tools"] = [
                {"functionDeclarations": [_declare_function(spec) for spec in tools]}
            ]
        limit = self._target.choose_max_tokens(request)
        fields["generationConfig"] = {"maxOutputTokens": limit, **self._state_level(limit)}
        return dump_json(fields)[:-1]

    def _state_level(self, max_tokens: int) -> dict[str, Any]:
        """Return the fields that state the reasoning level. Older models take a number of thinking
        tokens, which count as part of the answer."""
        level = self._target.info.get_stated_level()
        if level is not None and level.budget is not None:
            return {"thinkingConfig": {"thinkingBudget": min(level.budget, max_tokens // 2)}}
        if level is not None and self._signs:
            return {"thinkingConfig": {"thinkingLevel": level.name.upper()}}
        return {}

    def _encode_contents(self, request: Request, bare: bool) -> Iterable[bytes]:
        sides = group_messages(request.messages)
        notice = _encode_text(request.notice) if request.notice.strip() else None
        called: dict[str, str] = {}
        for position, side in enumerate(sides):
            parts = [
                self._fragment(_use_call_name(message, called), bare)
                for message in put_results_first(side)
            ]
            if is_user := not isinstance(side[0], Assistant):
                if notice and position == len(sides) - 1:
                    parts, notice = [*parts, notice], None
            else:
                called = {call.id: call.name for call in _list_calls(side)}
            yield _encode_content("user" if is_user else "model", parts)
        if notice:
            yield _encode_content("user", [notice])

    def _encode_message(self, message: Message, bare: bool) -> bytes:
        if isinstance(message, Assistant):
            origin = self._target.origin
            return encode_answer(origin, self._copy_answer, self._rebuild_answer, message, bare)
        return (
            _encode_result(message)
            if isinstance(message, ToolResult)
            else _encode_text(message.text)
        )

    def _copy_answer(self, message: Assistant, content: str) -> bytes | None:
        parts = parse_elements(content)
        return _copy_parts(parts) if self._can_send_back(message, parts) else None

    def _can_send_back(self, message: Assistant, parts: Sequence[Slice]) -> bool:
        """Whether the parts can be sent back, with the same calls as `message`."""
        if not all(isinstance(part.value, dict) for part in parts):
            return False
        call_parts = [part.value for part in parts if "functionCall" in part.value]
        if call_parts and self._signs and not call_parts[0].get("thoughtSignature"):
            return False
        return len(call_parts) == len(message.calls) and all(
            _is_same_call(part["functionCall"], call)
            for part, call in zip(call_parts, message.calls, strict=True)
        )

    def _rebuild_answer(self, message: Assistant) -> bytes:
        """Rebuild the answer from its canonical form; its first call gets the dummy signature if
        the model uses signatures."""
        parts = [_encode_text(message.text)] if message.text.strip() or not message.calls else []
        for number, call in enumerate(message.calls):
            part: dict[str, Any] = {"functionCall": _encode_call(call)}
            if self._signs and number == 0:
                part["thoughtSignature"] = DUMMY_SIGNATURE
            parts.append(dump_json(part))
        return b",".join(parts)


def _is_same_call(sent: Any, call: ToolCall) -> bool:
    """Whether a functionCall as sent is `call`, with an id and a name that the API accepts."""
    if not isinstance(sent, dict) or sent.get("name") != call.name:
        return False
    has_same_id = sent["id"] == call.id if sent.get("id") else call.id.startswith(NO_ID)
    return has_same_id and bool(_ID.fullmatch(call.id) and _NAME.fullmatch(call.name))


def _copy_parts(parts: Sequence[Slice]) -> bytes | None:
    """Return the parts byte for byte. Raises ValueError for text that UTF-8 cannot encode."""
    # An empty text is accepted only if it carries a signature.
    kept = [
        part.text
        for part in parts
        if part.value.get("thoughtSignature") or _has_content(part.value)
    ]
    return ",".join(kept).encode() if kept else None


def _has_content(part: Mapping[str, Any]) -> bool:
    return part != {} and part.get("text") != ""


def _list_calls(side: Sequence[Message]) -> Iterable[ToolCall]:
    return (call for message in side if isinstance(message, Assistant) for call in message.calls)


def _use_call_name(message: Message, called: Mapping[str, str]) -> Message:
    """Return the message; a result gets the name of its call, as this API demands."""
    if not isinstance(message, ToolResult):
        return message
    name = called.get(message.call_id, message.name)
    return message if name == message.name else replace(message, name=name)


def _encode_content(role: str, parts: Sequence[bytes]) -> bytes:
    return b'{"role":"%s","parts":[%s]}' % (role.encode(), b",".join(parts))


def _declare_function(spec: ToolSpec) -> dict[str, Any]:
    """Declare a function; one without arguments has no schema at all."""
    declared: dict[str, Any] = {"name": _make_name(spec.name), "description": spec.description}
    if spec.parameters.get("properties"):
        declared["parametersJsonSchema"] = dict(spec.parameters)
    return declared


def _encode_text(text: str) -> bytes:
    return dump_json({"text": text if text.strip() else "(empty)"})


def _encode_call(call: ToolCall) -> dict[str, Any]:
    return {
        **_make_id(call.id),
        "name": _make_name(call.name),
        "args": parse_arguments(call.arguments),
    }


def _encode_result(result: ToolResult) -> bytes:
    fields: dict[str, Any] = {**_make_id(result.call_id), "name": _make_name(result.name)}
    try:
        return dump_json({"functionResponse": {**fields, "response": _make_response(result)}})
    except ValueError:  # a number that is no JSON, like 1e999
        key = "error" if result.is_error else "output"
        return dump_json({"functionResponse": {**fields, "response": {key: result.content}}})


def _make_response(result: ToolResult) -> dict[str, Any]:
    """Return an object with "output" or "error", which tells this API how the call ended."""
    content: Any = result.content if result.content.strip() else "(no output)"
    try:
        value = parse_json(content)
    except ValueError:
        value = content
    if not isinstance(value, dict):
        value = content
    if not result.is_error:
        return {"output": value}
    return value if isinstance(value, dict) and "error" in value else {"error": value}


def _make_id(call_id: str) -> dict[str, str]:
    """Return the id as a member, the same in call and result; {} for an id with `NO_ID`."""
    return {} if call_id.startswith(NO_ID) else {"id": make_call_id(call_id, _ID)}


def _make_name(name: str) -> str:
    """Return the name if the API accepts it, else one derived from it."""
    if _NAME.fullmatch(name):
        return name
    return f"_{_FOREIGN.sub('_', name)}"[:64]
