"""Errors of Google's APIs: what is final, what is worth a wait, and how long."""

from typing import Any

import pytest

from tests.unit.models.gemini_bodies import delay, error, quota
from worker.models.base import Cause
from worker.models.error_bodies import classify_anthropic, classify_google

EXHAUSTED = "RESOURCE_EXHAUSTED"
INVALID_KEY = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
OVERFLOWS = (
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "Unable to submit request because the input token count is 1200000 but the model only "
    "supports up to 1048576.",
)
SIGNATURES = (
    "Function call is missing a thought_signature in functionCall parts. This is required …",
    "Invalid thought signature.",
    "Corrupted thought signature.",
    "Thought signature is not valid",
)


@pytest.mark.parametrize(
    ("status", "body", "cause", "transient"),
    [
        (400, error(400, "Invalid value"), Cause.INVALID, False),
        (400, error(400, "no", "INVALID_ARGUMENT", INVALID_KEY), Cause.BAD_KEY, False),
        (400, error(400, "API key not valid. Please pass a valid API key."), Cause.BAD_KEY, False),
        (400, error(400, "API key expired. Please renew."), Cause.BAD_KEY, False),
        (400, error(400, "User location", "FAILED_PRECONDITION"), Cause.BILLING, False),
        *((400, error(400, words), Cause.OVERFLOW, False) for words in OVERFLOWS),
        *((400, error(400, words), Cause.BOUND, False) for words in SIGNATURES),
        (401, error(401, "no", "UNAUTHENTICATED"), Cause.BAD_KEY, False),
        (403, error(403, "no", "PERMISSION_DENIED"), Cause.FORBIDDEN, False),
        (404, error(404, "no", "NOT_FOUND"), Cause.NOT_FOUND, False),
        (413, b"<html>", Cause.TOO_LARGE, False),
        (408, b"", Cause.INVALID, True),
        (429, error(429, "Quota exceeded", EXHAUSTED), Cause.RATE_LIMIT, True),
        (
            429,
            error(429, "x", EXHAUSTED, quota("GenerateRequestsPerMinutePerProject")),
            Cause.RATE_LIMIT,
            True,
        ),
        (
            429,
            error(429, "x", EXHAUSTED, delay("9s"), quota("PerMinute", "RequestsPerDayFreeTier")),
            Cause.QUOTA,
            False,
        ),
        *((status, error(status, "x", "X"), Cause.OVERLOADED, True) for status in (500, 502, 503)),
        (504, b"upstream", Cause.OVERLOADED, True),
        (418, b"\xff", Cause.INVALID, False),
        (400, b"[" * 100_000, Cause.INVALID, False),
        (400, b'{"error":"text"}', Cause.INVALID, False),
        (429, b'{"error":{"details":["x",{"violations":"PerDay"}]}}', Cause.RATE_LIMIT, True),
        (429, b'{"error":{"details":[{"violations":["PerDay"]}]}}', Cause.RATE_LIMIT, True),
        (429, b'{"error":{"details":{"a":1}}}', Cause.RATE_LIMIT, True),
    ],
)
def test_a_failure_is_classified_by_status_and_details(
    status: int, body: bytes, cause: Cause, transient: bool
) -> None:
    found = classify_google(status, body)

    assert (found.cause, found.transient) == (cause, transient)


@pytest.mark.parametrize("wrapped", [b"[%s]", b"%s", b" [ %s ] "])
def test_an_error_may_come_as_a_list_of_one(wrapped: bytes) -> None:
    found = classify_google(400, wrapped % error(400, "API key not valid", "X", INVALID_KEY))

    assert (found.cause, found.reason) == (Cause.BAD_KEY, "API key not valid")


@pytest.mark.parametrize(
    ("details", "seconds"),
    [
        ([delay("37s")], 37.0),
        ([quota("PerMinute"), delay("0.5s")], 0.5),
        ([delay("soon")], None),
        ([delay("-3s")], None),
        ([delay("9" * 50 + "s")], None),
        ([{"retryDelay": 37}], None),
        ([], None),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_the_wait_is_the_one_of_the_body(
    status: int, details: list[Any], seconds: float | None
) -> None:
    assert classify_google(status, error(status, "x", "X", *details)).retry_after == seconds


@pytest.mark.parametrize(
    ("body", "wait"),
    [
        (error(429, "x", EXHAUSTED, delay("7s")), 7.0),
        (b"[%s]" % error(429, "x", EXHAUSTED, delay("7s")), 7.0),
        (b'{"type":"error","error":{"type":"overloaded_error","message":"x"}}', None),
        (b'{"error":{"status":429,"details":[{"retryDelay":"7s"}]}}', None),
        (b"<html>", None),
        (b"[]", None),
    ],
)
def test_google_s_own_errors_are_told_from_those_of_a_model_behind_it(
    body: bytes, wait: float | None
) -> None:
    assert classify_anthropic(429, body).retry_after == wait
