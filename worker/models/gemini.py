"""Gemini's generateContent as a pure codec: https://ai.google.dev/api/generate-content.

Each group of messages becomes one content of the body, so roles alternate and all results of one
turn's calls are together. Each canonical message is encoded once; a request joins the bytes.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
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
    Slice,
    copy_own_wire,
    dump_json,
    get_count,
    get_value,
    join_array,
    make_call_id,
    parse_arguments,
    parse_elements,
    parse_json,
    parse_members,
    read_texts,
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

_BLOCKED = (
    "SAFETY RECITATION LANGUAGE BLOCKLIST PROHIBITED_CONTENT SPII MODEL_ARMOR ESCALATION "
    "IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT IMAGE_OTHER IMAGE_RECITATION NO_IMAGE "
    "PUP_LIMITED_DISABLED"
)
_STOPS = {
    "STOP": StopReason.END,
    "MAX_TOKENS": StopReason.TRUNCATED,
    "CONTINUATION": StopReason.PAUSED,
    **dict.fromkeys(_BLOCKED.split(), StopReason.BLOCKED),
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

    def __init__(self, target: WireTarget) -> None:
        self._target = target
        self._signs = not _UNSIGNED.match(target.origin.partition("/")[2])
        self._cached = lru_cache(maxsize=REMEMBERED)(self._encode_message)

    def encode(self, request: Request, *, bare: bool = False) -> bytes:
        """Return the body. System text, tools and limits come first: they stay the same in a
        session."""
        fields: dict[str, Any] = dict(self._target.head)
        if request.system:
            fields["systemInstruction"] = {"parts": [{"text": request.system}]}
        if request.tools:
            declared: list[dict[str, Any]] = []
            for spec in request.tools:
                declared.append({"name": _make_name(spec.name), "description": spec.description})
                if spec.parameters.get("properties"):  # without arguments there is no schema at all
                    declared[-1]["parametersJsonSchema"] = dict(spec.parameters)
            fields["tools"] = [{"functionDeclarations": declared}]
        limit, level = self._target.choose_max_tokens(request), self._target.info.get_stated_level()
        settings: dict[str, Any] = {"maxOutputTokens": limit}
        if level is not None and level.budget is not None:
            # Older models take a number of thinking tokens, which count as part of the answer.
            settings["thinkingConfig"] = {"thinkingBudget": min(level.budget, limit // 2)}
        elif level is not None and self._signs:
            settings["thinkingConfig"] = {"thinkingLevel": level.name.upper()}
        fields["generationConfig"] = settings
        contents = b",".join(self._encode_contents(request, bare))
        off = request.tools and not request.tools_allowed
        tail = b',"toolConfig":{"functionCallingConfig":{"mode":"NONE"}}}' if off else b"}"
        return b'%s,"contents":[%s]%s' % (dump_json(fields)[:-1], contents, tail)

    def _encode_contents(self, request: Request, bare: bool) -> Iterator[bytes]:
        sides = group_messages(request.messages)
        notice = _encode_text(request.notice) if request.notice.strip() else None
        called: dict[str, str] = {}
        for position, side in enumerate(sides):
            parts: list[bytes] = []
            for message in put_results_first(side):
                if isinstance(message, ToolResult):  # this API demands the name of its call
                    name = called.get(message.call_id, message.name)
                    message = message if name == message.name else replace(message, name=name)
                parts.append(self._cached(message, bare))
            answers = [message for message in side if isinstance(message, Assistant)]
            if answers:
                called = {call.id: call.name for answer in answers for call in answer.calls}
            elif notice and position == len(sides) - 1:
                parts, notice = [*parts, notice], None
            yield _encode_content("model" if answers else "user", parts)
        if notice:
            yield _encode_content("user", [notice])

    def _encode_message(self, message: Message, bare: bool) -> bytes:
        match message:
            case User(text):
                return _encode_text(text)
            case ToolResult():
                return _encode_result(message)
            case Assistant():
                copied = copy_own_wire(message, self._target.origin, bare, self._copy_answer)
                return copied or self._rebuild_answer(message)

    def _copy_answer(self, message: Assistant, wire: str) -> bytes | None:
        """Return the answer's parts byte for byte, None if they cannot be sent back with the same
        calls."""
        parts = parse_elements(wire)
        if not all(isinstance(part.value, dict) for part in parts):
            return None
        call_parts = [part.value for part in parts if _is_call(part)]
        if call_parts and self._signs and not call_parts[0].get("thoughtSignature"):
            return None
        if len(call_parts) != len(message.calls):
            return None
        for part, call in zip(call_parts, message.calls, strict=True):
            if not _is_same_call(part["functionCall"], call):
                return None
        # An empty text is accepted only if it carries a signature.
        kept = [
            part.text
            for part in parts
            if part.value.get("thoughtSignature")
            or (part.value != {} and part.value.get("text") != "")
        ]
        return ",".join(kept).encode() if kept else None

    def _rebuild_answer(self, message: Assistant) -> bytes:
        """Rebuild the answer from its canonical form; its first call gets the dummy signature if
        the model uses signatures."""
        parts = [_encode_text(message.text)] if message.text.strip() or not message.calls else []
        for number, call in enumerate(message.calls):
            arguments = parse_arguments(call.arguments)
            fields = {**_make_id(call.id), "name": _make_name(call.name), "args": arguments}
            part: dict[str, Any] = {"functionCall": fields}
            if self._signs and number == 0:
                part["thoughtSignature"] = DUMMY_SIGNATURE
            parts.append(dump_json(part))
        return b",".join(parts)

    @staticmethod
    def decode(body: bytes) -> Decoded:
        """Decode the body of a 200 answer. Raises ValueError if it is not an answer."""
        answer = parse_members(body.decode())
        usage = _parse_usage(get_value(answer, "usageMetadata"))
        candidates = get_value(answer, "candidates")
        if not candidates:
            feedback = get_value(answer, "promptFeedback")
            if not isinstance(feedback, dict) or not feedback.get("blockReason"):
                raise ValueError("neither a candidate nor a reason why there is none")
            detail = _write_detail(str(feedback["blockReason"]), feedback.get("blockReasonMessage"))
            return Decoded("", (), "[]", StopReason.BLOCKED, usage, detail)
        if not isinstance(candidates, list) or not isinstance(candidates[0], dict):
            raise ValueError("candidates is not a list of objects")
        candidate = parse_members(parse_elements(answer["candidates"].text)[0].text)
        reason = str(get_value(candidate, "finishReason"))
        stop = _STOPS.get(reason, StopReason.MALFORMED)
        parts = _list_parts(candidate)
        kept = _select_parts(parts, stop)
        seed = hashlib.sha256(body).hexdigest()[:16]
        sent = [part.value["functionCall"] for part in kept if _is_call(part)]
        calls = tuple(_parse_call(call, f"{NO_ID}{seed}_{at}") for at, call in enumerate(sent))
        shown = [part.value for part in kept if not _is_thought(part)]
        texts = read_texts((part["text"] for part in shown if "text" in part), "a text part")
        message = get_value(candidate, "finishMessage")
        return Decoded(
            text="".join(texts),
            calls=calls,
            wire=join_array(kept),
            stop=StopReason.TOOL_CALLS if calls and stop is StopReason.END else stop,
            usage=usage,
            detail="" if stop in _WHOLE else _write_detail(reason, message),
            dropped_calls=sum(map(_is_call, parts)) - len(calls),
            thought=any("thoughtSignature" in part.value for part in kept),
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


def _encode_content(role: str, parts: Sequence[bytes]) -> bytes:
    return b'{"role":"%s","parts":[%s]}' % (role.encode(), b",".join(parts))


def _encode_text(text: str) -> bytes:
    return dump_json({"text": text if text.strip() else "(empty)"})


def _encode_result(result: ToolResult) -> bytes:
    """Encode a result with "output" or "error", which tells this API how the call ended."""
    value: Any = result.content if result.content.strip() else "(no output)"
    try:
        parsed = parse_json(value)
        if isinstance(parsed, dict):
            dump_json(parsed)  # not every number is JSON again, such as 1e999
            value = parsed
    except ValueError:
        pass
    key = "error" if result.is_error else "output"
    told = isinstance(value, dict) and result.is_error and "error" in value
    fields = {**_make_id(result.call_id), "name": _make_name(result.name)}
    response = value if told else {key: value}
    return dump_json({"functionResponse": {**fields, "response": response}})


def _make_id(call_id: str) -> dict[str, str]:
    """Return the id as a member, the same in call and result; {} for an id with `NO_ID`."""
    return {} if call_id.startswith(NO_ID) else {"id": make_call_id(call_id, _ID)}


def _make_name(name: str) -> str:
    """Return the name if the API accepts it, else one derived from it."""
    return name if _NAME.fullmatch(name) else f"_{_FOREIGN.sub('_', name)}"[:64]


# ---------------------------------------------------------------------------------------- answers


def _write_detail(reason: str, message: Any) -> str:
    return f"{reason[:60]}: {str(message)[:500]}" if message else reason[:60]


def _get_continuation_fields(candidate: Mapping[str, Slice], stop: StopReason) -> Mapping[str, Any]:
    if stop is not StopReason.PAUSED:
        return {}
    token = get_value(candidate, "continuationToken")
    if not isinstance(token, str) or not token:
        raise ValueError("the answer goes on, but it has no continuationToken")
    return {"continuationToken": token}


def _list_parts(candidate: Mapping[str, Slice]) -> Sequence[Slice]:
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
