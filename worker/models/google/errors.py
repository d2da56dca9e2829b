"""Classifies the errors of Google's APIs and of the front ends in front of them."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from worker.models.base import CAUSES, Cause, Failure
from worker.models.codec.json_slices import parse_json
from worker.models.codec.length_refusals import find_length_cause

_SIGNATURE = re.compile(r"thought[ _]?signature", re.IGNORECASE)
_BAD_KEY = re.compile(r"API key (not valid|expired|not found)", re.IGNORECASE)
_COUNT = re.compile(r"[0-9]{1,9}")
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
    if length := find_length_cause(status, reason):
        return Failure(length, reason)
    if status == 429 and any(map(_is_daily_quota, details)):
        return Failure(Cause.QUOTA, reason)
    rate = max(map(_get_token_rate, details), default=0) if status == 429 else 0
    cause = Cause.OVERLOADED if status >= 500 else CAUSES.get(status, Cause.INVALID)
    transient = status >= 500 or status in _TRANSIENT
    wait = _get_retry_delay(details)
    return Failure(cause, reason, transient=transient, retry_after=wait, token_rate=rate)


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
    if length := find_length_cause(400, reason):
        return length
    if _SIGNATURE.search(reason):
        return Cause.BOUND
    return Cause.BILLING if kind == "FAILED_PRECONDITION" else Cause.INVALID


def _list_violations(detail: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    violations = detail.get("violations")
    parts = violations if isinstance(violations, list) else ()
    return [each for each in parts if isinstance(each, dict)]


def _is_daily_quota(detail: Mapping[str, Any]) -> bool:
    return any("PerDay" in str(each.get("quotaId")) for each in _list_violations(detail))


def _get_token_rate(detail: Mapping[str, Any]) -> int:
    """Return the value of a quota of input tokens in a minute, 0 if it is none."""
    values = (
        str(each.get("quotaValue"))
        for each in _list_violations(detail)
        if "InputTokens" in str(each.get("quotaId"))
    )
    return max((int(value) for value in values if _COUNT.fullmatch(value)), default=0)


def _get_retry_delay(details: list[Mapping[str, Any]]) -> float | None:
    """Return the delay of RetryInfo in seconds."""
    for detail in details:
        if match := _DELAY.fullmatch(str(detail.get("retryDelay"))):
            return float(match[1])
    return None
