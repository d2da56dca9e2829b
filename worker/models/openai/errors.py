"""Classifies the errors of OpenAI's APIs and of the many servers that offer them."""

import re
from collections.abc import Mapping
from typing import Any

from worker.models.base import CAUSES, Cause, Failure
from worker.models.codec.json_slices import parse_json
from worker.models.codec.length_refusals import find_length_cause, find_token_rate
from worker.models.openai.wanted_changes import find_wanted_change

_MAY_REFUSE_PARTS = frozenset({400, 404, 413, 422, 500})
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

_WAIT = re.compile(r"please retry after (\d{1,6}) second", re.IGNORECASE)
"""How Azure says it where its headers do not."""

_SPENT = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
_TRANSIENT = frozenset({408, 409, 429})


def classify(status: int, body: bytes) -> Failure:
    """Classify by code if there is one, then by wording, then by status."""
    reason, codes = _parse_error(body)
    words = " ".join((reason, *codes))
    if _SPENT & codes:
        return Failure(Cause.SPEND_LIMIT, reason)
    if length := find_length_cause(status, words):
        return Failure(length, reason)
    if status in _MAY_REFUSE_PARTS and _BOUND.search(words):
        return Failure(Cause.BOUND, reason)
    if status in _MAY_REFUSE_PARTS and _NO_TOOLS.search(words):
        return Failure(Cause.NO_TOOLS, reason)
    if status in _MAY_REFUSE_PARTS and (change := find_wanted_change(words)):
        return Failure(Cause.UNWANTED, reason, change=change)
    if status >= 500:
        return Failure(Cause.OVERLOADED, reason, transient=True)
    if "model_not_found" in codes:
        return Failure(Cause.NOT_FOUND, reason)
    rate = find_token_rate(reason) if status == 429 else 0
    cause = CAUSES.get(status, Cause.INVALID)
    told = _WAIT.search(reason[:2000]) if status == 429 else None
    return Failure(
        cause,
        reason,
        transient=status in _TRANSIENT,
        retry_after=float(told[1]) if told else None,
        token_rate=rate,
    )


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
            return _get_text(error[name]) + _get_further_words(error), codes
    return text, codes


def _get_further_words(error: Mapping[str, Any]) -> str:
    """Return what stands beside a message: llama.cpp's counts, and what a server behind OpenRouter
    has said."""
    counts = [f"{name} {error[name]}" for name in ("n_prompt_tokens", "n_ctx") if name in error]
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    more = [*counts, *([str(raw)] if raw else [])]
    return f" ({', '.join(more)})" if more else ""


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
