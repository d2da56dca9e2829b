"""Bodies of generateContent."""

import json
from typing import Any

USAGE = {"promptTokenCount": 10, "candidatesTokenCount": 5}


def answer(*parts: Any, reason: Any = "STOP", usage: Any = USAGE, **fields: Any) -> bytes:
    """An answer with these parts; `fields` are the candidate's."""
    content = {"role": "model", "parts": parts}
    found = {"content": content, "finishReason": reason, **fields}
    return json.dumps({"candidates": [found], "usageMetadata": usage}).encode()


def candidate(part: Any) -> bytes:
    """An answer of one part."""
    return answer(part)


def text(words: str) -> dict[str, Any]:
    """A text part."""
    return {"text": words}


def call(**fields: Any) -> dict[str, Any]:
    """A functionCall part; a field that is None is left out."""
    made = {"id": "c1", "name": "look", "args": {"at": "a"}, **fields}
    return {"functionCall": {name: value for name, value in made.items() if value is not None}}


def error(code: int, words: str, status: str = "INVALID_ARGUMENT", *details: Any) -> bytes:
    """An error body."""
    found: dict[str, Any] = {"code": code, "message": words, "status": status}
    if details:
        found["details"] = details
    return json.dumps({"error": found}).encode()


def quota(*ids: str) -> dict[str, Any]:
    """The detail that names the quotas that are used up."""
    violations = [{"quotaId": quota_id, "quotaValue": "250"} for quota_id in ids]
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": violations}


def delay(seconds: str) -> dict[str, Any]:
    """The detail that says when to come back."""
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": seconds}
