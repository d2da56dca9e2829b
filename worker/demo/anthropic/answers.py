"""A script's answer as the body the Messages API would send (wire-models 1.7)."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from worker.demo.anthropic.binding import sign
from worker.demo.anthropic.cache import Billed, tokens
from worker.demo.anthropic.protocol import Json, compact
from worker.demo.script import Answer, Call, Empty, Refuse, Say, Think, Truncated


def message(answer: Answer, body: Mapping[str, Any], billed: Billed) -> Json:
    """The whole answer to a valid request."""
    seed = hashlib.sha256(compact(body)).hexdigest()
    content, stop, details = _content(answer, body, seed)
    return {
        "id": f"msg_{seed[:24]}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "stop_details": details,
        "usage": _usage(content, billed),
    }


def _content(
    answer: Answer, body: Mapping[str, Any], seed: str
) -> tuple[list[Json], str, Json | None]:
    match answer:
        case Say(text):
            return _text(text), "end_turn", None
        case Call(calls, text):
            return _text(text) + _calls(calls, seed), "tool_use", None
        case Truncated(text, calls):
            return _text(text) + _calls(calls, seed), "max_tokens", None
        case Refuse(explanation, category):
            details = {"type": "refusal", "category": category, "explanation": explanation}
            return [], "refusal", details
        case Empty():
            return [], "end_turn", None
        case Think(inner, thinking):
            content, stop, details_ = _content(inner, body, seed)
            block = {"type": "thinking", "thinking": thinking, "signature": sign(body)}
            return [block, *content], stop, details_


def _text(text: str) -> list[Json]:
    return [{"type": "text", "text": text}] if text else []


def _calls(calls: Sequence[tuple[str, Mapping[str, Any]]], seed: str) -> list[Json]:
    return [
        {"type": "tool_use", "id": f"toolu_{seed[:20]}{number:02}", "name": name, "input": dict(i)}
        for number, (name, i) in enumerate(calls)
    ]


def _usage(content: Sequence[Json], billed: Billed) -> Json:
    thinking = sum(len(block.get("thinking", "")) for block in content)
    return {
        "input_tokens": billed.uncached,
        "cache_read_input_tokens": billed.read,
        "cache_creation_input_tokens": billed.written,
        "cache_creation": {
            "ephemeral_5m_input_tokens": billed.written,
            "ephemeral_1h_input_tokens": 0,
        },
        "output_tokens": tokens(len(compact(list(content)))),
        "output_tokens_details": {"thinking_tokens": tokens(thinking)},
        "service_tier": "standard",
    }
