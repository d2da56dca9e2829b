"""Reads the errors of Amazon's front end of Bedrock, which say in words what they are."""

import re

from worker.models.base import Cause, Failure
from worker.models.codec.json_slices import parse_json

_WORDS: tuple[tuple[int, Cause, re.Pattern[str]], ...] = (
    (
        400,
        Cause.NOT_FOUND,
        re.compile(r"model identifier is invalid|on-demand throughput isn.t supported"),
    ),
    (403, Cause.BAD_KEY, re.compile(r"security token|signature|credential|api key")),
)
"""What a status means, where the words say more than it; they are looked for in small letters."""

_FAILED = frozenset({408, 424})
"""A model that took too long, and one that failed."""


def parse_message(body: bytes) -> str:
    """Return the message of an error that comes from Amazon itself, an object with a message; ""
    if it has another form."""
    try:
        answer = parse_json(body.decode("utf-8", "replace"))
    except ValueError:
        return ""
    if not isinstance(answer, dict) or "error" in answer:
        return ""
    found = answer.get("message") or answer.get("Message")
    return found if isinstance(found, str) else ""


def find_failure(status: int, message: str) -> Failure | None:
    """Return what only Amazon means; None where the API behind it says the same by its words, or
    the status says enough."""
    words = message[:2000].lower()
    for with_status, cause, pattern in _WORDS:
        if status == with_status and pattern.search(words):
            return Failure(cause, message)
    return Failure(Cause.OVERLOADED, message, transient=True) if status in _FAILED else None
