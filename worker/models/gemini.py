"""Gemini's generateContent as a pure codec: https://ai.google.dev/api/generate-content.

Each group of messages becomes one content of the body, so roles alternate and all results of one
turn's calls are together. Each canonical message is encoded once; a request joins the bytes.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
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
    Slice,
    dump_json,
    find_own_wire,
    get_count,
    get_value,
    join_array,
    make_call_id,
    parse_arguments,
    parse_elements,
    parse_json,
    parse_members,
    read_tool_name,
    repair_surrogates,
)
from worker.models.error_bodies import classify_google

DUMMY_SIGNATURE = "context_engineering_is_the_way_to_go"
"""Sent with calls that this model did not make itself, as
https://ai.google.dev/gemini-api/docs/thought-signatures documents."""

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}")
_FOREIGN = re.compile(r"[^a-zA-Z0-9_.-]")
_UNSIGNED = re.compile(r"gemini-[12]\b")
"""Models for which signatures are optional."""
NO_ID = "noid_"
"""The prefix of the ids that we give to calls without an id; such ids are never sent."""

_STOPS = {
    "STOP": StopReason.END,
    "MAX_TOKENS": StopReason.TRUNCATED,
    "CONTINUATION": StopReason.PAUSED,
    **dict.fromkeys(
        [
            "SAFETY",
            "RECITATION",
            "LANGUAGE",
            "BLOCKLIST",
            "PROHIBITED_CONTENT",
            "SPII",
            "MODEL_ARMOR",
            "ESCALATION",
            "IMAGE_SAFETY",
            "IMAGE_PROHIBITED_CONTENT",
            "IMAGE_OTHER",
            "IMAGE_RECITATION",
            "NO_IMAGE",
            "PUP_LIMITED_DISABLED",
        ],
        StopReason.BLOCKED,
    ),
}
_TRIES = {
    "MALFORMED_FUNCTION_CALL": 2,
    "UNEXPECTED_TOOL_CALL": 2,
    "MALFORMED_RESPONSE": 2,
    "TOO_MANY_TOOL_CALLS": 0,
    "MISSING_THOUGHT_SIGNATURE": 0,
    "RECITATION": 1,
}
"""How often the same request may be sent again after an answer that ended so; a reason that nobody
knows is a broken answer, which may be asked for once more."""
_WHOLE = frozenset({StopReason.END, StopReason.PAUSED})


class GenerateContent:
    """The codec of one model. `encode` caches what it encoded; the cache never changes a result.

    Everything is safe to use from several threads. Caching is implicit: cache marks are not sent.
    """

    classify = staticmethod(classify_google)

    def __init__(self, target: Target) -> None:
        self._target = target
        self._signs = not _UNSIGNED.match(target.origin.partition("/")[2])
        self._cached = lru_cache(maxsize=REMEMBERED)(self._encode_message)

    def encode(self, request: Request, *, bare: bool = False) -> bytes:
        """Return the body. System text, tools and limits come first: they stay the same in a
        session."""
        contents = b",".join(self._encode_contents(request, bare))
        off = request.tools and not request.tools_allowed
        tail = b',"toolConfig":{"functionCallingConfig":{"mode":"NONE"}}}' if off else b"}"
        return b'%s,"contents":[%s]%s' % (self._encode_head(request), contents, tail)

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
                self._cached(_use_call_name(message, called), bare)
                for message in put_results_first(side)
            ]
            answers = [message for message in side if isinstance(message, Assistant)]
            if answers:
                called = {call.id: call.name for answer in answers for call in answer.calls}
            elif notice and position == len(sides) - 1:
                parts, notice = [*parts, notice], None
            yield _encode_content("model" if answers else "user", parts)
        if notice:
            yield _encode_content("user", [notice])

    def _encode_message(self, message: Message, bare: bool) -> bytes:
        if isinstance(message, Assistant):
            return self._encode_answer(message, bare)
        if isinstance(message, ToolResult):
            return _encode_result(message)
        return _encode_text(message.text)

    def _encode_answer(self, message: Assistant, bare: bool) -> bytes:
        """Return the answer's parts, verbatim to the model that gave it, else rebuilt."""
        with suppress(ValueError):
            wire = find_own_wire(message, self._target.origin, bare=bare)
            parts = parse_elements(wire) if wire else []
            if parts and self._can_send_back(message, parts):
                # An empty text is accepted only if it carries a signature.
                kept = [part.text for part in parts if _is_sendable(part.value)]
                if kept:
                    return ",".join(kept).encode()
        return self._rebuild_answer(message)

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

    @staticmethod
    def decode(body: bytes) -> Decoded:
        """Decode the body of a 200 answer. Raises ValueError if it is not an answer."""
        answer = parse_members(body.decode())
        candidates = get_value(answer, "candidates")
        if not candidates:
            return _decode_blocked_prompt(answer)
        if not isinstance(candidates, list) or not isinstance(candidates[0], dict):
            raise ValueError("candidates is not a list of objects")
        candidate = parse_members(parse_elements(answer["candidates"].text)[0].text)
        reason = str(get_value(candidate, "finishReason"))
        stop = _STOPS.get(reason, StopReason.MALFORMED)
        decoded = _decode_parts(_get_parts(candidate), stop, hashlib.sha256(body).hexdigest()[:16])
        detail = (
            "" if stop in _WHOLE else _write_detail(reason, get_value(candidate, "finishMessage"))
        )
        return replace(
            decoded,
            stop=StopReason.TOOL_CALLS if decoded.calls and stop is StopReason.END else stop,
            usage=_parse_usage(get_value(answer, "usageMetadata")),
            detail=detail,
            max_retries=_TRIES.get(reason, int(stop is StopReason.MALFORMED)),
            needs_bare_request=reason == "MISSING_THOUGHT_SIGNATURE",
            continuation_fields=_get_continuation_fields(candidate, stop),
        )


# --------------------------------------------------------------------------------------- requests


def _is_same_call(sent: Any, call: ToolCall) -> bool:
    """Whether a functionCall as sent is `call`, with an id and a name that the API accepts."""
    if not isinstance(sent, dict) or sent.get("name") != call.name:
        return False
    has_same_id = sent["id"] == call.id if sent.get("id") else call.id.startswith(NO_ID)
    return has_same_id and bool(_ID.fullmatch(call.id) and _NAME.fullmatch(call.name))


def _is_sendable(part: Mapping[str, Any]) -> bool:
    has_content = part != {} and part.get("text") != ""
    return has_content or bool(part.get("thoughtSignature"))


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


# ---------------------------------------------------------------------------------------- answers


def _decode_blocked_prompt(answer: Mapping[str, Slice]) -> Decoded:
    """Decode an answer without candidates: the prompt was blocked."""
    feedback = get_value(answer, "promptFeedback")
    if not isinstance(feedback, dict) or not feedback.get("blockReason"):
        raise ValueError("neither a candidate nor a reason why there is none")
    return Decoded(
        text="",
        calls=(),
        wire="[]",
        stop=StopReason.BLOCKED,
        usage=_parse_usage(get_value(answer, "usageMetadata")),
        detail=_write_detail(str(feedback["blockReason"]), feedback.get("blockReasonMessage")),
    )


def _write_detail(reason: str, message: Any) -> str:
    return f"{reason[:60]}: {str(message)[:500]}" if message else reason[:60]


def _get_continuation_fields(candidate: Mapping[str, Slice], stop: StopReason) -> Mapping[str, Any]:
    if stop is not StopReason.PAUSED:
        return {}
    token = get_value(candidate, "continuationToken")
    if not isinstance(token, str) or not token:
        raise ValueError("the answer goes on, but it has no continuationToken")
    return {"continuationToken": token}


def _get_parts(candidate: Mapping[str, Slice]) -> Sequence[Slice]:
    """Return the parts; the answer may lack content and parts."""
    content = candidate.get("content")
    if content is None or content.value is None:
        return ()
    fields = parse_members(content.text)
    if get_value(fields, "parts") is None:
        return ()
    parts = parse_elements(fields["parts"].text)
    if not all(isinstance(part.value, dict) for part in parts):
        raise ValueError("a part is not an object")
    return parts


def _decode_parts(parts: Sequence[Slice], stop: StopReason, seed: str) -> Decoded:
    """Decode text, calls and wire form of the parts that may be shown, run and sent back."""
    kept = _select_parts(parts, stop)
    calls = [part.value["functionCall"] for part in kept if _is_call(part)]
    return Decoded(
        text="".join(_get_texts(kept)),
        calls=tuple(
            _parse_call(call, f"{NO_ID}{seed}_{number}") for number, call in enumerate(calls)
        ),
        wire=join_array(kept),
        stop=stop,
        usage=Usage(),
        dropped_calls=sum(map(_is_call, parts)) - len(calls),
        thought=any("thoughtSignature" in part.value for part in kept),
    )


def _select_parts(parts: Sequence[Slice], stop: StopReason) -> Sequence[Slice]:
    """Return the parts to keep: none of a broken or blocked answer, no calls of a truncated one.

    Thoughts are never shown; those without a signature are dropped, as they are of no use later.
    """
    if stop not in _WHOLE and stop is not StopReason.TRUNCATED:
        return ()
    kept = [part for part in parts if not _is_thought(part) or "thoughtSignature" in part.value]
    return kept if stop in _WHOLE else [part for part in kept if not _is_call(part)]


def _is_thought(part: Slice) -> bool:
    return part.value.get("thought") is True


def _is_call(part: Slice) -> bool:
    return "functionCall" in part.value


def _get_texts(parts: Sequence[Slice]) -> list[str]:
    texts = [part.value["text"] for part in parts if "text" in part.value and not _is_thought(part)]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a text part has no text")
    return [repair_surrogates(text) for text in texts]


def _parse_call(call: Any, fallback: str) -> ToolCall:
    """Parse a call; `fallback` is its id if it has none, as with models before Gemini 3."""
    if not isinstance(call, dict):
        raise ValueError("a functionCall is not an object")
    call_id, arguments = call.get("id") or fallback, call.get("args") or {}
    if not (isinstance(call_id, str) and isinstance(arguments, dict)):
        raise ValueError("the id or the args of a functionCall have the wrong type")
    name = read_tool_name(call.get("name"))
    return ToolCall(repair_surrogates(call_id), name, dump_json(arguments).decode())


def _parse_usage(usage: Any) -> Usage:
    """Return the tokens as billed. Gemini's prompt count includes cached tokens; its count of the
    answer excludes thoughts."""
    prompt = get_count(usage, "promptTokenCount")
    cached = min(prompt, get_count(usage, "cachedContentTokenCount"))
    thoughts = get_count(usage, "thoughtsTokenCount")
    return Usage(
        uncached_input=prompt - cached + get_count(usage, "toolUsePromptTokenCount"),
        cache_read=cached,
        output=get_count(usage, "candidatesTokenCount") + thoughts,
        reasoning=thoughts,
    )
