"""The wire of Gemini's generateContent (wire-models 3), as a pure codec.

A group of the conversation is one content of the body, so roles alternate and all answers to one
turn's calls stand together. Each canonical message is encoded once; a request joins bytes.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from worker.core.conversation.messages import (
    Assistant,
    Message,
    ToolCall,
    ToolResult,
    ToolSpec,
    User,
    group_messages,
)
from worker.core.ports import Request
from worker.models.base import Codec, Decoded, Failure, Target
from worker.models.codec.growing import Latest
from worker.models.codec.json_slices import Slice, dumps, elements, loads
from worker.models.codec.names import call_id
from worker.models.gemini import answers
from worker.models.gemini.answers import NO_ID
from worker.models.google import errors

DUMMY_SIGNATURE = "context_engineering_is_the_way_to_go"
"""Documented for calls the model did not make itself (wire-models 3.4)."""

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}")
_FOREIGN = re.compile(r"[^a-zA-Z0-9_.-]")
_UNSIGNED = re.compile(r"gemini-[12]\b")
"""Models to which signatures are optional."""
_REMEMBERED = 4096
"""Messages whose bytes are kept: a few dozen sessions at a few kilobytes a message."""


class GenerateContent:
    """The codec of one model. `encode` remembers what it encoded; its results don't depend on it.

    Everything is safe to use from several threads. Caching is implicit, so marks are not sent.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._signs = not _UNSIGNED.match(target.origin.partition("/")[2])
        self._fragment = lru_cache(maxsize=_REMEMBERED)(self._encode_message)
        self._head = Latest(self._encode_head)

    def encode(self, request: Request, *, bare: bool = False) -> bytes:
        """The body: system text, tools and limits first, as they never change in a session."""
        parts = [self._head(request.system, tuple(request.tools)), b',"contents":[']
        parts.append(b",".join(self._contents(request, bare)))
        parts.append(b"]")
        if request.tools and not request.tools_allowed:
            parts.append(b',"toolConfig":{"functionCallingConfig":{"mode":"NONE"}}')
        return b"".join([*parts, b"}"])

    def decode(self, body: bytes) -> Decoded:
        """See `base.Codec`."""
        return answers.decode(body)

    def classify(self, status: int, body: bytes) -> Failure:
        """See `base.Codec`."""
        return errors.classify(status, body)

    def _encode_head(self, system: str, tools: tuple[ToolSpec, ...]) -> bytes:
        fields: dict[str, Any] = dict(self._target.head)
        if system:
            fields["systemInstruction"] = {"parts": [{"text": system}]}
        if tools:
            fields["tools"] = [{"functionDeclarations": [_declaration(spec) for spec in tools]}]
        generation: dict[str, Any] = {"maxOutputTokens": self._target.max_tokens}
        if self._signs and self._target.info.effort:
            # Older models take a number of tokens instead (wire-models 3.5).
            generation["thinkingConfig"] = {"thinkingLevel": self._target.info.effort.upper()}
        fields["generationConfig"] = generation
        return dumps(fields)[:-1]

    def _contents(self, request: Request, bare: bool) -> Iterable[bytes]:
        sides = group_messages(request.messages)
        notice = _text(request.notice) if request.notice.strip() else None
        called: dict[str, str] = {}
        for position, side in enumerate(sides):
            parts = [self._fragment(_named(message, called), bare) for message in _ordered(side)]
            if ours := not isinstance(side[0], Assistant):
                if notice and position == len(sides) - 1:
                    parts, notice = [*parts, notice], None
            else:
                called = {call.id: call.name for call in _calls(side)}
            yield _content("user" if ours else "model", parts)
        if notice:
            yield _content("user", [notice])

    def _encode_message(self, message: Message, bare: bool) -> bytes:
        if isinstance(message, Assistant):
            verbatim = None if bare else self._verbatim(message)
            return verbatim or self._rebuilt(message)
        return _result(message) if isinstance(message, ToolResult) else _text(message.text)

    def _verbatim(self, message: Assistant) -> bytes | None:
        """The answer as this very model sent it, or None if it cannot be sent back so."""
        if message.wire is None or message.wire.origin != self._target.origin:
            return None
        try:
            parts = elements(message.wire.content)
            return _sent_back(parts) if self._fits(message, parts) else None
        except ValueError:
            return None

    def _fits(self, message: Assistant, parts: Sequence[Slice]) -> bool:
        """Whether the parts can be sent and name the calls for which results will be sent."""
        if not all(isinstance(part.value, dict) for part in parts):
            return False
        sent = [part.value for part in parts if "functionCall" in part.value]
        if sent and self._signs and not sent[0].get("thoughtSignature"):
            return False
        return len(sent) == len(message.calls) and all(
            _names(part["functionCall"], call)
            for part, call in zip(sent, message.calls, strict=True)
        )

    def _rebuilt(self, message: Assistant) -> bytes:
        """The answer from its canonical form; a step's first call carries the dummy signature."""
        parts = [_text(message.text)] if message.text.strip() or not message.calls else []
        for number, call in enumerate(message.calls):
            part: dict[str, Any] = {"functionCall": _call(call)}
            if self._signs and number == 0:
                part["thoughtSignature"] = DUMMY_SIGNATURE
            parts.append(dumps(part))
        return b",".join(parts)


def _names(found: Any, call: ToolCall) -> bool:
    """Whether a functionCall as sent is `call`, under an id and a name that are taken."""
    if not isinstance(found, dict) or found.get("name") != call.name:
        return False
    same = found["id"] == call.id if found.get("id") else call.id.startswith(NO_ID)
    return same and bool(_ID.fullmatch(call.id) and _NAME.fullmatch(call.name))


def _sent_back(parts: Sequence[Slice]) -> bytes | None:
    """The parts byte for byte. Raises ValueError for text that UTF-8 cannot say."""
    # An empty text is only taken as the bearer of a signature.
    kept = [part.text for part in parts if part.value.get("thoughtSignature") or _says(part.value)]
    return ",".join(kept).encode() if kept else None


def _says(part: Mapping[str, Any]) -> bool:
    return part != {} and part.get("text") != ""


def _calls(side: Sequence[Message]) -> Iterable[ToolCall]:
    return (call for message in side if isinstance(message, Assistant) for call in message.calls)


def _named(message: Message, called: Mapping[str, str]) -> Message:
    """A result under the name its call was made with: the two must be the same on this wire."""
    if not isinstance(message, ToolResult):
        return message
    name = called.get(message.call_id, message.name)
    return message if name == message.name else replace(message, name=name)


def _ordered(side: Sequence[Message]) -> Sequence[Message]:
    """Results before text (wire-models 3.3)."""
    if isinstance(side[0], Assistant):
        return side
    return sorted(side, key=lambda message: isinstance(message, User))


def _content(role: str, parts: Sequence[bytes]) -> bytes:
    return b'{"role":"%s","parts":[%s]}' % (role.encode(), b",".join(parts))


def _declaration(spec: ToolSpec) -> dict[str, Any]:
    """A function without arguments has no schema at all (wire-models 3.2)."""
    declared: dict[str, Any] = {"name": _name(spec.name), "description": spec.description}
    if spec.parameters.get("properties"):
        declared["parametersJsonSchema"] = dict(spec.parameters)
    return declared


def _text(text: str) -> bytes:
    return dumps({"text": text if text.strip() else "(empty)"})


def _call(call: ToolCall) -> dict[str, Any]:
    return {**_id(call.id), "name": _name(call.name), "args": _arguments(call.arguments)}


def _result(result: ToolResult) -> bytes:
    fields: dict[str, Any] = {**_id(result.call_id), "name": _name(result.name)}
    try:
        return dumps({"functionResponse": {**fields, "response": _response(result)}})
    except ValueError:  # a number that is no JSON, like 1e999
        key = "error" if result.is_error else "output"
        return dumps({"functionResponse": {**fields, "response": {key: result.content}}})


def _response(result: ToolResult) -> dict[str, Any]:
    """An object under "output" or "error", which says on this wire how the call went."""
    content: Any = result.content if result.content.strip() else "(no output)"
    try:
        value = loads(content)
    except ValueError:
        value = content
    if not isinstance(value, dict):
        value = content
    if not result.is_error:
        return {"output": value}
    return value if isinstance(value, dict) and "error" in value else {"error": value}


def _id(ours: str) -> dict[str, str]:
    """The id as a member, the same in call and result; models without ids get none."""
    return {} if ours.startswith(NO_ID) else {"id": call_id(ours, _ID)}


def _name(name: str) -> str:
    """The name itself if the API takes it, else one made of it."""
    if _NAME.fullmatch(name):
        return name
    return f"_{_FOREIGN.sub('_', name)}"[:64]


def _arguments(arguments: str) -> dict[str, Any]:
    """The arguments as an object; what is none was answered with an error and becomes {}."""
    try:
        value = loads(arguments)
        dumps(value)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def codec(target: Target) -> Codec:
    """The codec as the provider table wants it; here mypy checks it against the Protocol."""
    return GenerateContent(target)
