"""Classifies the errors of OpenAI's APIs and of the many servers that offer them."""

import re
from typing import Any

from worker.models.base import CAUSES, Cause, Failure
from worker.models.codec.json_slices import parse_json
from worker.models.openai.wanted_changes import find_wanted_change

_MAY_OVERFLOW = frozenset({400, 404, 413, 422})
_OVERFLOW = re.compile(
    r"context_length_exceeded|maximum context length|exceeds the context window"
    r"|exceeds the available context size|exceed_context_size_error"
    r"|longer than the maximum model length|prompt is too long|maximum prompt length"
    r"|exceeded model token limit|input is too long for requested model"
    r"|reduce the length of the messages|greater than the context length"
    r"|context window exceeds limit|prompt too long; exceeded|ContextWindowExceeded"
    r"|input token count.*exceeds the maximum",
    re.IGNORECASE | re.DOTALL,
)
# Messages of a server that refuses a verbatim part of an earlier answer: reasoning that it cannot
# decrypt or find, items without those that belong to them, call arguments that are not JSON.
_BOUND = re.compile(
    r"invalid_encrypted_content|encrypted content .{0,400}could not be"
    r"|without its required (?:following item|'reasoning' item)"
    r"|items are not persisted when `store` is set to false"
    r"|failed to parse tool call arguments|unterminated string starting at"
    r"|expecting (?:value|property name|',' delimiter|':' delimiter)|invalid \\+escape"
    r"|invalid control character at|extra data: line",
    re.IGNORECASE | re.DOTALL,
)
_NO_TOOLS = re.compile(
    r"does not support (?:tools|tool use|tool calling|function calling|parameters: .{0,80}tools)"
    r"|tool(?:s| use| calling|_choice)? (?:is|are) not supported|unsupported param: tools"
    r"|requires --enable-auto-tool-choice|tools param requires --jinja"
    r"|no endpoints found that support tool use",
    re.IGNORECASE,
)
"""How Ollama, llama.cpp, vLLM, LiteLLM and OpenRouter refuse tools."""

_SPENT = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
_TRANSIENT = frozenset({408, 409, 429})


def classify(status: int, body: bytes) -> Failure:
    """Classify by code if there is one, then by wording, then by status."""
    reason, codes = _parse_error(body)
    words = " ".join((reason, *codes))
    if _SPENT & codes:
        return Failure(Cause.SPEND_LIMIT, reason)
    if status in _MAY_OVERFLOW and _OVERFLOW.search(words):
        return Failure(Cause.OVERFLOW, reason)
    if (status in _MAY_OVERFLOW or status == 500) and _BOUND.search(words):
        return Failure(Cause.BOUND, reason)
    if (status in _MAY_OVERFLOW or status == 500) and _NO_TOOLS.search(words):
        return Failure(Cause.NO_TOOLS, reason)
    if (status in _MAY_OVERFLOW or status == 500) and (change := find_wanted_change(words)):
        return Failure(Cause.UNWANTED, reason, change=change)
    if status >= 500:
        return Failure(Cause.OVERLOADED, reason, transient=True)
    if "model_not_found" in codes:
        return Failure(Cause.NOT_FOUND, reason)
    return Failure(CAUSES.get(status, Cause.INVALID), reason, transient=status in _TRANSIENT)


def _parse_error(body: bytes) -> tuple[str, frozenset[str]]:
    """Return the message and codes of an error body; its form differs from server to server."""
    text = body.decode("utf-8", "replace")
    try:
        answer = parse_json(text)
    except ValueError:
        return text, frozenset()
    if not isinstance(answer, dict):
        return text, frozenset()
    error = answer.get("error", answer)
    if not isinstance(error, dict):
        return str(error), frozenset()
    codes = frozenset(str(error[name]) for name in ("code", "type") if error.get(name))
    for name in ("message", "detail"):
        if error.get(name):
            return _get_text(error[name]), codes
    return text, codes


def _get_text(message: Any) -> str:
    """Return the text of a message; FastAPI gives a list of places and reasons."""
    if not isinstance(message, list):
        return str(message)
    return "; ".join(
        f"{'.'.join(map(str, problem.get('loc') or ()))}: {problem.get('msg')}"
        if isinstance(problem, dict) and isinstance(problem.get("loc") or [], list)
        else str(problem)
        for problem in message
    )
