"""What the bodies of refusals mean: Anthropic's, Amazon's, Google's, and those of OpenAI's wires.

Clouds and gateways put their own errors before those of the API behind them, so each classifier
knows all the forms that its wire has been seen with. Every body is hostile, and may be anything.
"""

import re
from collections.abc import Mapping
from typing import Any

from worker.models.base import Cause, Refusal
from worker.models.codec import parse_json
from worker.models.refusal_words import find_length_cause, find_token_rate, find_wanted_change

_CAUSES = {
    401: Cause.BAD_KEY,
    402: Cause.BILLING,
    403: Cause.FORBIDDEN,
    404: Cause.NOT_FOUND,
    413: Cause.TOO_LARGE,
    429: Cause.RATE_LIMIT,
}
"""What a status means with every provider."""


def _parse_body(body: bytes) -> tuple[str, Any]:
    """Return a body as text, and the value that it is as JSON; None if it is none."""
    text = body.decode("utf-8", "replace")
    try:
        return text, parse_json(text)
    except ValueError:
        return text, None


def _classify_status(status: int, reason: str, retry_after: float | None = None) -> Refusal:
    """Return what a status means where the words say no more than it."""
    if status >= 500:
        return Refusal(Cause.OVERLOADED, reason, transient=True)
    return Refusal(
        _CAUSES.get(status, Cause.INVALID),
        reason,
        transient=status in (408, 409, 429),
        retry_after=retry_after,
        token_rate=find_token_rate(reason) if status == 429 else 0,
    )


# ---------------------------------------------------------------------------- Anthropic, and Amazon

_BOUND_THINKING = re.compile(
    r"invalid `signature` in|bound to a different|thinking` blocks .{0,60}cannot be modified",
    re.IGNORECASE,
)
_SPEND_LIMITS = frozenset({"enforced_spend_limit_reached", "contract_spend_limit_reached"})
_AMAZON_WORDS: tuple[tuple[int, Cause, re.Pattern[str]], ...] = (
    (
        400,
        Cause.NOT_FOUND,
        re.compile(r"model identifier is invalid|on-demand throughput isn.t supported"),
    ),
    (403, Cause.BAD_KEY, re.compile(r"security token|signature|credential|api key")),
)
"""What a status means, where the words say more than it; they are looked for in small letters."""

_AMAZON_FAILED = frozenset({408, 424})
"""A model that took too long, and one that failed."""


def classify_anthropic(status: int, body: bytes) -> Refusal:
    """Classify by error code, then by status; a status 400 also by wording.

    The errors are https://platform.claude.com/docs/en/api/errors.
    """
    if isinstance(_parse_google_error(body).get("status"), str):
        return classify_google(status, body)  # Vertex AI's own errors have Google's form
    reason, answer = _parse_body(body)
    fields = answer if isinstance(answer, dict) else {}
    error, said = fields.get("error"), fields.get("message") or fields.get("Message")
    if "error" not in fields and said and isinstance(said, str):  # and those of Bedrock Amazon's
        reason, words = said, said[:2000].lower()
        for with_status, cause, pattern in _AMAZON_WORDS:
            if status == with_status and pattern.search(words):
                return Refusal(cause, reason)
        if status in _AMAZON_FAILED:
            return Refusal(Cause.OVERLOADED, reason, transient=True)
    elif isinstance(error, dict):
        reason, details = str(error.get("message", "")), error.get("details")
        code = details.get("error_code") if isinstance(details, dict) else ""
        if str(code) in _SPEND_LIMITS:
            return Refusal(Cause.SPEND_LIMIT, reason)
    if length := find_length_cause(status, reason):
        return Refusal(length, reason)
    if status == 400 and _BOUND_THINKING.search(reason):
        return Refusal(Cause.BOUND, reason)
    return _classify_status(status, reason)


# ----------------------------------------------------------------------------------------- Google

_SIGNATURE = re.compile(r"thought[ _]?signature", re.IGNORECASE)
_BAD_KEY = re.compile(r"API key (not valid|expired|not found)", re.IGNORECASE)
_COUNT = re.compile(r"[0-9]{1,9}")
_DELAY = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")


def classify_google(status: int, body: bytes) -> Refusal:
    """Classify by status and details; a status 400 also by wording."""
    error = _parse_google_error(body)
    reason = str(error.get("message", "")) if error else body.decode("utf-8", "replace")
    details = _list_objects(error.get("details"))
    if status == 400 and (  # Google's status for a bad key, too
        any(part.get("reason") == "API_KEY_INVALID" for part in details) or _BAD_KEY.search(reason)
    ):
        return Refusal(Cause.BAD_KEY, reason)
    if length := find_length_cause(status, reason):
        return Refusal(length, reason)
    if status == 400:
        is_billing = error.get("status") == "FAILED_PRECONDITION"
        cause = Cause.BILLING if is_billing else Cause.INVALID
        return Refusal(Cause.BOUND if _SIGNATURE.search(reason) else cause, reason)
    quotas = [each for part in details for each in _list_objects(part.get("violations"))]
    if status == 429 and any("PerDay" in str(each.get("quotaId")) for each in quotas):
        return Refusal(Cause.QUOTA, reason)
    values = (
        str(each.get("quotaValue")) for each in quotas if "InputTokens" in str(each.get("quotaId"))
    )
    rates = (int(value) for value in values if _COUNT.fullmatch(value))
    delays = (_DELAY.fullmatch(str(part.get("retryDelay"))) for part in details)
    return Refusal(
        Cause.OVERLOADED if status >= 500 else _CAUSES.get(status, Cause.INVALID),
        reason,
        transient=status >= 500 or status in (408, 429),
        retry_after=next((float(delay[1]) for delay in delays if delay), None),
        token_rate=max(rates, default=0) if status == 429 else 0,
    )


def _parse_google_error(body: bytes) -> Mapping[str, Any]:
    """Return the error object of a body, which may be in a list of one; {} if there is none."""
    _, answer = _parse_body(body)
    if isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]
    error = answer.get("error") if isinstance(answer, dict) else None
    return error if isinstance(error, dict) else {}


def _list_objects(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


# ----------------------------------------------------------------------------------- OpenAI's wires

_MAY_REFUSE_PARTS = frozenset({400, 404, 413, 422, 500})
# Messages of a server that refuses a verbatim part of an earlier answer: reasoning that it cannot
# decrypt or find, items without those that belong to them, call arguments that are not JSON.
_BOUND_PARTS = re.compile(
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


def classify_openai(status: int, body: bytes) -> Refusal:
    """Classify by code if there is one, then by wording, then by status."""
    reason, codes = _parse_openai_error(body)
    words = " ".join((reason, *codes))
    if _SPENT & codes:
        return Refusal(Cause.SPEND_LIMIT, reason)
    if length := find_length_cause(status, words):
        return Refusal(length, reason)
    if status in _MAY_REFUSE_PARTS and _BOUND_PARTS.search(words):
        return Refusal(Cause.BOUND, reason)
    if status in _MAY_REFUSE_PARTS and _NO_TOOLS.search(words):
        return Refusal(Cause.NO_TOOLS, reason)
    if status in _MAY_REFUSE_PARTS and (change := find_wanted_change(words)):
        return Refusal(Cause.UNWANTED, reason, change=change)
    if status < 500 and "model_not_found" in codes:
        return Refusal(Cause.NOT_FOUND, reason)
    told = _WAIT.search(reason[:2000]) if status == 429 else None
    return _classify_status(status, reason, float(told[1]) if told else None)


def _parse_openai_error(body: bytes) -> tuple[str, frozenset[str]]:
    """Return the message and codes of an error body; its form differs from server to server."""
    text, answer = _parse_body(body)
    if not isinstance(answer, dict):
        return text, frozenset()
    error = answer.get("error", answer)
    if not isinstance(error, dict):
        return str(error), frozenset()
    codes = frozenset(str(error[name]) for name in ("code", "type") if error.get(name))
    for name in ("message", "detail"):
        if error.get(name):
            # llama.cpp's counts, and what a server behind OpenRouter has said.
            counts = ("n_prompt_tokens", "n_ctx")
            more = [f"{count} {error[count]}" for count in counts if count in error]
            metadata = error.get("metadata")
            if isinstance(metadata, dict) and metadata.get("raw"):
                more.append(str(metadata["raw"]))
            return _get_text(error[name]) + (f" ({', '.join(more)})" if more else ""), codes
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
