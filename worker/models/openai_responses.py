"""OpenAI's Responses API as a pure codec. Requests ask the server to store nothing.

See https://platform.openai.com/docs/api-reference/responses.

Every item of an answer goes back to the model that wrote it, its encrypted reasoning included.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from worker.conversation.messages import Assistant, ToolResult, User, group_messages
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
    join_array,
    make_call_id,
    make_tool_name,
    parse_elements,
    parse_members,
    parse_parts,
    parse_tool_calls,
    parse_usage,
    read_texts,
    repair_arguments,
    repair_surrogates,
    select_parts,
    split_side,
)
from worker.models.error_bodies import classify_openai

_CALL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MAX_KEY = 64
_INCOMPLETE = {
    "max_output_tokens": StopReason.TRUNCATED,
    "content_filter": StopReason.BLOCKED,
}
_PASSING = frozenset({"server_error", "rate_limit_exceeded"})


class OpenAIResponses:
    """The codec of one model. `encode` caches what it encoded; the cache never changes a result.

    Everything is safe to use from several threads. `keyed` sends `prompt_cache_key`, which OpenAI
    routes by and other servers may refuse.
    """

    classify = staticmethod(classify_openai)

    def __init__(self, target: WireTarget, *, keyed: bool = True) -> None:
        self._target = target
        self._keyed = keyed
        self._cached_answer = lru_cache(maxsize=REMEMBERED)(self._encode_answer)
        self._cached_result = lru_cache(maxsize=REMEMBERED)(_encode_result)

    def encode(self, request: Request, *, bare: bool = False) -> bytes:
        """Return the body: head, instructions, tools, input, in the order of the cached prefix."""
        refused = self._target.refused_fields
        fields: dict[str, Any] = {
            **self._target.head,
            "stream": False,
            "max_output_tokens": self._target.choose_max_tokens(request),
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }
        if self._target.info.effort:
            fields["reasoning"] = {"effort": self._target.info.effort}
        if request.system:
            fields["instructions"] = request.system
        if request.tools:
            fields["tools"] = [
                {
                    "type": "function",
                    "name": spec.name,
                    "description": spec.description,
                    "parameters": dict(spec.parameters),
                    "strict": False,  # strict schemas must require every property
                }
                for spec in request.tools
            ]
        if self._keyed:
            fields["prompt_cache_key"] = _make_cache_key(request)
        kept = {name: fields[name] for name in fields if name not in refused}
        off = request.tools and not request.tools_allowed and "tool_choice" not in refused
        tail = b',"tool_choice":"none"}' if off else b"}"
        items = b",".join(self._encode_input(request, bare))
        return b'%s,"input":[%s]%s' % (dump_json(kept)[:-1], items, tail)

    def _encode_input(self, request: Request, bare: bool) -> Iterator[bytes]:
        ids: Mapping[str, str] = {}
        for side in group_messages(request.messages):
            if isinstance(side[0], Assistant):
                for answer in side:
                    sent = self._cached_answer(answer, bare)
                    ids = sent.ids
                    yield sent.json
                continue
            results, texts = split_side(side)
            for result in results:
                made_id = make_call_id(result.call_id, _CALL_ID)
                yield self._cached_result(result, ids.get(result.call_id) or made_id)
            yield from map(_encode_text, texts)
        if request.notice.strip():
            yield _encode_text(request.notice)

    def _encode_answer(self, message: Assistant, bare: bool) -> Sent:
        """Return the answer verbatim to the model that gave it, else rebuilt."""
        if copied := copy_own_wire(message, self._target.origin, bare, _copy_answer):
            return copied
        ids = {call.id: make_call_id(call.id, _CALL_ID) for call in message.calls}
        items: list[dict[str, Any]] = [
            {
                "type": "function_call",
                "call_id": ids[call.id],
                "name": make_tool_name(call.name),
                "arguments": repair_arguments(call.arguments),
            }
            for call in message.calls
        ]
        if message.text.strip() or not items:
            text = message.text if message.text.strip() else "(empty)"
            items.insert(0, {"role": "assistant", "content": text})
        return Sent(b",".join(map(dump_json, items)), ids)

    @staticmethod
    def decode(body: bytes) -> Decoded:
        """Decode the body of a 200 answer. Raises ValueError if it is not a finished response."""
        response = parse_members(body.decode())
        if "output" not in response:
            raise ValueError(f"not a response but {str(get_value(response, 'error'))[:200]!r}")
        items = parse_parts(response["output"].text, "an output item")
        stop, detail = _read_stop_reason(response, items)
        kept = select_parts(items, stop, call="function_call", thinking={"reasoning"})
        sent = [item.value for item in kept if item.type == "function_call"]
        calls = parse_tool_calls(
            (call.get("call_id"), call.get("name"), call.get("arguments")) for call in sent
        )
        # The texts of the final answer if the phases are marked, else all texts.
        final = [item for item in kept if item.value.get("phase") == "final_answer"]
        parts = [part for part in _list_parts(final or kept) if part.get("type") == "output_text"]
        texts = read_texts((part.get("text") for part in parts), "an output_text part")
        return Decoded(
            text="\n\n".join(texts),
            calls=calls,
            wire=response["output"].text if len(kept) == len(items) else join_array(kept),
            stop=stop,
            usage=parse_usage(get_value(response, "usage"), "input", "output"),
            detail=detail,
            dropped_calls=sum(item.type == "function_call" for item in items) - len(calls),
            thought=any(item.type == "reasoning" for item in kept),
            max_retries=int(stop is StopReason.MALFORMED),
        )


def _copy_answer(message: Assistant, wire: str) -> Sent | None:
    """Return the answer byte for byte, None if it cannot be sent back with the same calls."""
    items = parse_elements(wire)
    if not all(isinstance(item.value, dict) and item.type for item in items):
        return None
    if not items or items[-1].type == "reasoning":
        return None
    calls = [each.value for each in items if each.type == "function_call"]
    sent = [(call.get("call_id"), call.get("name"), call.get("arguments")) for call in calls]
    if not do_calls_match(message, sent):
        return None
    start = items[0].end - len(items[0].text)
    content = wire[start : items[-1].end].encode()
    pairs = zip(message.calls, calls, strict=True)
    return Sent(content, {call.id: sent_call["call_id"] for call, sent_call in pairs})


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


def _read_stop_reason(
    response: Mapping[str, Slice], items: Sequence[Slice]
) -> tuple[StopReason, str]:
    """Return why the answer ended, and what is known of it. Raises ValueError for a response that
    may be asked for again: it is not finished, or has failed for a while."""
    status = get_value(response, "status")
    if status in ("completed", None):
        refusals = [
            each.get("refusal") for each in _list_parts(items) if each.get("type") == "refusal"
        ]
        if refusals:
            return StopReason.REFUSED, repair_surrogates(str(refusals[0]))
        calls = any(item.type == "function_call" for item in items)
        return StopReason.TOOL_CALLS if calls else StopReason.END, ""
    if status == "incomplete":
        details = get_value(response, "incomplete_details")
        reason = details.get("reason") if isinstance(details, dict) else None
        if not isinstance(reason, str) or reason not in _INCOMPLETE:
            return StopReason.MALFORMED, f"incomplete for an unknown reason {str(reason)[:60]!r}"
        return _INCOMPLETE[reason], reason if reason == "content_filter" else ""
    if status == "failed":
        error = get_value(response, "error")
        fields = error if isinstance(error, dict) else {}
        code = str(fields.get("code") or "server_error")
        problem = f"{code[:60]}: {repair_surrogates(str(fields.get('message') or 'no message'))}"
        if code in _PASSING:
            raise ValueError(f"the response failed: {problem}")
        return StopReason.BLOCKED, problem
    raise ValueError(f"the response is not finished: status {str(status)[:60]!r}")


def _list_parts(items: Sequence[Slice]) -> Iterator[Mapping[str, Any]]:
    for item in items:
        content = item.value.get("content") if item.type == "message" else None
        parts = content if isinstance(content, list) else []
        yield from (part for part in parts if isinstance(part, dict))
