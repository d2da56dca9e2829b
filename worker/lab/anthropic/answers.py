"""Makes the body that the Messages API would send from a script's answer."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from worker.lab.anthropic.binding import sign_thinking
from worker.lab.anthropic.cache import InputTokens, estimate_tokens
from worker.lab.anthropic.protocol import Json, encode_compact
from worker.lab.script import Answer, Call, Empty, Refuse, Say, Think, Truncated


def make_message(answer: Answer, body: Mapping[str, Any], billed: InputTokens) -> Json:
    """Make the answer to a valid request."""
    seed = hashlib.sha256(encode_compact(body)).hexdigest()
    content, stop, details = _make_content(answer, body, seed)
    return {
        "id": f"msg_{seed[:24]}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "stop_details": details,
        "usage": _make_usage(content, billed),
    }


def _make_content(
    answer: Answer, body: Mapping[str, Any], seed: str
) -> tuple[list[Json], str, Json | None]:
    match answer:
        case Say(text):
            return _make_text(text), "end_turn", None
        case Call(calls, text):
            return _make_text(text) + _make_calls(calls, seed), "tool_use", None
        case Truncated(text, calls):
            return _make_text(text) + _make_calls(calls, seed), "max_tokens", None
        case Refuse(explanation, category):
            details = {"type": "refusal", "category": category, "explanation": explanation}
            return [], "refusal", details
        case Empty():
            return [], "end_turn", None
        case Think(inner, thinking):
            content, stop, details_ = _make_content(inner, body, seed)
            block = {"type": "thinking", "thinking": thinking, "signature": sign_thinking(body)}
            return [block, *content], stop, details_


def _make_text(text: str) -> list[Json]:
    return [{"type": "text", "text": text}] if text else []


def _make_calls(calls: Sequence[tuple[str, Mapping[str, Any]]], seed: str) -> list[Json]:
    return [
        {"type": "tool_use", "id": f"toolu_{seed[:20]}{number:02}", "name": name, "input": dict(i)}
        for number, (name, i) in enumerate(calls)
    ]


def _make_usage(content: Sequence[Json], billed: InputTokens) -> Json:
    thinking = sum(len(block.get("thinking", "")) for block in content)
    return {
        "input_tokens": billed.uncached_tokens,
        "cache_read_input_tokens": billed.read_tokens,
        "cache_creation_input_tokens": billed.written_tokens,
        "cache_creation": {
            "ephemeral_5m_input_tokens": billed.written_tokens,
            "ephemeral_1h_input_tokens": 0,
        },
        "output_tokens": estimate_tokens(len(encode_compact(list(content)))),
        "output_tokens_details": {"thinking_tokens": estimate_tokens(thinking)},
        "service_tier": "standard",
    }
