"""Classifies the errors of Google's APIs and of the front ends in front of them."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from worker.models.base import CAUSES, Cause, Failure
from worker.models.codec.json_slices import parse_json

_OVERFLOW = re.compile(
    r"input token count.{0,40}(exceeds the maximum number of tokens|the model only supports)",
    re.IGNORECASE | re.DOTALL,
)
_SIGNATURE = re.compile(r"thought[ _]?signature", re.IGNORECASE)
_BAD_KEY = re.compile(r"API key (not valid|expired|not found)", re.IGNORECASE)
_DELAY = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")
_TRANSIENT = frozenset({408, 429})


def is_google_error(body: bytes) -> bool:
    """Whether an error comes from Google itself, not from a model behind its front end."""
    return isinstance(_parse_error(body).get("status"), str)


def classify(status: int, body: bytes) -> Failure:
    """Classify by status and details; a status 400 also by wording."""
    error = _parse_error(body)
    reason = str(error.get("message", "")) if error else body.decode("utf-8", "replace")
    details = list(_get_details(error))
    if status == 400:
        return Failure(_find_cause(reason, str(error.get("status")), details), reason)
    if status == 429 and any(map(_is_daily_quota, details)):
        return Failure(Cause.QUOTA, reason)
    cause = Cause.OVERLOADED if status >= 500 else CAUSES.get(status, Cause.INVALID)
    transient = status >= 500 or status in _TRANSIENT
    return Failure(cause, reason, transient=transient, retry_after=_get_retry_delay(details))


def _parse_error(body: bytes) -> Mapping[str, Any]:
    """Return the error object of a body, which may be in a list of one; {} if there is none."""
    try:
        answer = parse_json(body.decode("utf-8", "replace"))
    except ValueError:
        return {}
    if isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]
    error = answer.get("error") if isinstance(answer, dict) else None
    return error if isinstance(error, dict) else {}


def _get_details(error: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    details = error.get("details")
    parts = details if isinstance(details, list) else ()
    return (part for part in parts if isinstance(part, dict))


def _find_cause(reason: str, kind: str, details: list[Mapping[str, Any]]) -> Cause:
    """Return the cause of a status 400, which Google also uses for a bad key."""
    if any(part.get("reason") == "API_KEY_INVALID" for part in details) or _BAD_KEY.search(reason):
        return Cause.BAD_KEY
    if _OVERFLOW.search(reason):
        return Cause.OVERFLOW
    if _SIGNATURE.search(reason):
        return Cause.BOUND
    return Cause.BILLING if kind == "FAILED_PRECONDITION" else Cause.INVALID


def _is_daily_quota(detail: Mapping[str, Any]) -> bool:
    violations = detail.get("violations")
    return isinstance(violations, list) and any(
        isinstance(each, dict) and "PerDay" in str(each.get("quotaId")) for each in violations
    )


def _get_retry_delay(details: list[Mapping[str, Any]]) -> float | None:
    """Return the delay of RetryInfo in seconds."""
    for detail in details:
        if match := _DELAY.fullmatch(str(detail.get("retryDelay"))):
            return float(match[1])
    return None
