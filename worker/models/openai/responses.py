"""OpenAI's Responses API as a pure codec. Requests ask the server to store nothing.

See https://platform.openai.com/docs/api-reference/responses.

Every item of an answer goes back to the model that wrote it, its encrypted reasoning included.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from typing import Any

from worker.conversation.messages import (
    Assistant,
    ToolCall,
    ToolResult,
    ToolSpec,
    User,
    group_messages,
)
from worker.conversation.model import Request
from worker.models.base import Target
from worker.models.codec import names
from worker.models.codec.json_slices import dump_json, parse_elements
from worker.models.codec.sent_back import encode_answer
from worker.models.openai import errors, responses_answers
from worker.models.openai.shared import (
    REMEMBERED,
    Sent,
    do_calls_match,
    get_result_text,
    omit_fields,
    repair_arguments,
    split_side,
)

_CALL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MAX_KEY = 64


class OpenAIResponses:
    """The codec of one model. `encode` caches what it encoded; the cache never changes a result.

    Everything is safe to use from several threads. `keyed` sends `prompt_cache_key`, which OpenAI
    routes by and other servers may refuse.
    """

    decode = staticmethod(responses_answers.decode)
    classify = staticmethod(errors.classify)

    def __init__(self, target: Target, *, keyed: bool = True) -> None:
        self._target = target
        self._keyed = keyed
        encode = partial(encode_answer, target.origin, _copy_answer, _rebuild_answer)
        self._answer = lru_cache(maxsize=REMEMBERED)(encode)
        self._result = lru_cache(maxsize=REMEMBERED)(_encode_result)

    def encode(self, request: Request, *, bare: bool = False) -> bytes:
        """Return the body: head, instructions, tools, input, in the order of the cached prefix."""
        refused = self._target.refused_fields
        parts = [self._encode_head(request)]
        if self._keyed and "prompt_cache_key" not in refused:
            parts.append(b',"prompt_cache_key":' + dump_json(_make_cache_key(request)))
        parts += [b',"input":[', b",".join(self._encode_input(request, bare)), b"]"]
        if request.tools and not request.tools_allowed and "tool_choice" not in refused:
            parts.append(b',"tool_choice":"none"')
        return b"".join([*parts, b"}"])

    def _encode_head(self, request: Request) -> bytes:
        system, tools = request.system, request.tools
        fields: dict[str, Any] = {
            **self._target.head,
            "stream": False,
            "max_output_tokens": self._target.choose_max_tokens(request),
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }
        if self._target.info.effort:
            fields["reasoning"] = {"effort": self._target.info.effort}
        if system:
            fields["instructions"] = system
        if tools:
            fields["tools"] = [_encode_tool(spec) for spec in tools]
        return dump_json(omit_fields(fields, self._target.refused_fields))[:-1]

    def _encode_input(self, request: Request, bare: bool) -> Iterator[bytes]:
        ids: Mapping[str, str] = {}
        for side in group_messages(request.messages):
            if isinstance(side[0], Assistant):
                for sent in (self._answer(each, bare) for each in side):
                    ids = sent.ids
                    yield sent.json
                continue
            results, texts = split_side(side)
            for result in results:
                yield self._result(
                    result, ids.get(result.call_id) or names.make_call_id(result.call_id, _CALL_ID)
                )
            yield from map(_encode_text, texts)
        if request.notice.strip():
            yield _encode_text(request.notice)


def _copy_answer(message: Assistant, wire: str) -> Sent | None:
    items = parse_elements(wire)
    if not all(isinstance(item.value, dict) and item.value.get("type") for item in items):
        return None
    calls = [each.value for each in items if each.value["type"] == "function_call"]
    if not items or items[-1].value["type"] == "reasoning":
        return None
    sent = [(call.get("call_id"), call.get("name"), call.get("arguments")) for call in calls]
    if not do_calls_match(message, sent):
        return None
    start = items[0].end - len(items[0].text)
    content = wire[start : items[-1].end].encode()
    pairs = zip(message.calls, calls, strict=True)
    return Sent(content, {call.id: sent_call["call_id"] for call, sent_call in pairs})


def _rebuild_answer(message: Assistant) -> Sent:
    ids = {call.id: names.make_call_id(call.id, _CALL_ID) for call in message.calls}
    items = [_encode_call(ids[call.id], call) for call in message.calls]
    if message.text.strip() or not items:
        text = message.text if message.text.strip() else "(empty)"
        items.insert(0, dump_json({"role": "assistant", "content": text}))
    return Sent(b",".join(items), ids)


def _encode_call(call_id: str, call: ToolCall) -> bytes:
    return dump_json(
        {
            "type": "function_call",
            "call_id": call_id,
            "name": names.make_tool_name(call.name),
            "arguments": repair_arguments(call.arguments),
        }
    )


def _encode_tool(spec: ToolSpec) -> dict[str, Any]:
    """Encode a tool, flat and not strict: strict schemas must require every property."""
    return {
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": dict(spec.parameters),
        "strict": False,
    }


def _encode_text(text: str) -> bytes:
    return dump_json({"role": "user", "content": text})


def _encode_result(result: ToolResult, call_id: str) -> bytes:
    fields = {"type": "function_call_output", "call_id": call_id, "output": get_result_text(result)}
    return dump_json(fields)


def _make_cache_key(request: Request) -> str:
    """Return a key that is the same for all requests of a session, and for no other session."""
    if request.session:
        return request.session[:_MAX_KEY]
    first = next((each.text for each in request.messages if isinstance(each, User)), "")
    return hashlib.sha256(first.encode("utf-8", "surrogatepass")).hexdigest()[:32]
