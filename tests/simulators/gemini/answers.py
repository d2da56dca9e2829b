"""A script's answer as the body generateContent would send."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from tests.simulators.gemini.cache import Counted, tokens
from tests.simulators.gemini.protocol import Json, compact, signs
from tests.simulators.gemini.signatures import sign
from worker.lab.script import Answer, Call, Empty, Refuse, Say, Think, Truncated

THOUGHT_TOKENS = 32
"""What signed thinking costs here."""


def response(
    answer: Answer, body: Mapping[str, Any], counted: Counted, model: str, route: str
) -> Json:
    """The whole answer to a valid request."""
    seed = hashlib.sha256(compact(body)).hexdigest()
    candidate, thoughts = _candidate(answer, seed, model, route)
    candidate["index"] = 0
    return {
        "candidates": [candidate],
        "usageMetadata": usage(candidate, counted, thoughts),
        "modelVersion": model,
        "responseId": seed[:22],
    }


def usage(candidate: Mapping[str, Any], counted: Counted, thoughts: int) -> Json:
    """Counts as the API gives them: zeros are left out."""
    parts = candidate.get("content", {}).get("parts", [])
    said = tokens(len(compact(parts))) if parts else 0
    counts = {
        "promptTokenCount": counted.prompt,
        "cachedContentTokenCount": counted.cached,
        "candidatesTokenCount": said,
        "thoughtsTokenCount": thoughts,
        "totalTokenCount": counted.prompt + said + thoughts,
    }
    return {name: count for name, count in counts.items() if count}


def stopped(reason: str, message: str = "", parts: Sequence[Json] = ()) -> Json:
    """A candidate; without parts its content has none, as in the API's own answers."""
    content: Json = {"role": "model", "parts": list(parts)} if parts else {"role": "model"}
    candidate: Json = {"content": content, "finishReason": reason}
    return candidate | ({"finishMessage": message} if message else {})


def _candidate(answer: Answer, seed: str, model: str, route: str) -> tuple[Json, int]:
    match answer:
        case Say(text):
            return stopped("STOP", parts=_text(text)), 0
        case Call(calls, text):
            return stopped("STOP", parts=_text(text) + _calls(calls, seed, model, route)), 0
        case Truncated(text, calls):
            return stopped("MAX_TOKENS", parts=_text(text) + _calls(calls, seed, model, route)), 0
        case Refuse(explanation, category):
            return stopped("SAFETY", f"{category}: {explanation}"), 0
        case Empty():
            return stopped("STOP"), 0
        case Think(inner, _):
            candidate, _ = _candidate(inner, seed, model, route)
            return _signed(candidate, model, route), THOUGHT_TOKENS


def _text(text: str) -> list[Json]:
    return [{"text": text}] if text else []


def _calls(
    calls: Sequence[tuple[str, Mapping[str, Any]]], seed: str, model: str, route: str
) -> list[Json]:
    """The first of parallel calls is signed; models before Gemini 3 neither sign nor give ids."""
    parts: list[Json] = []
    for number, (name, arguments) in enumerate(calls):
        call: Json = {"id": f"{seed[:8]}{number:02}"} if signs(model) else {}
        part: Json = {"functionCall": {**call, "name": name, "args": dict(arguments)}}
        if signs(model) and number == 0:
            part["thoughtSignature"] = sign(part, model, route)
        parts.append(part)
    return parts


def _signed(candidate: Json, model: str, route: str) -> Json:
    """Thinking before text is signed on an empty text at the end."""
    parts = candidate["content"].get("parts", [])
    if any("functionCall" in part for part in parts):
        return candidate
    empty: Json = {"text": ""}
    empty["thoughtSignature"] = sign(empty, model, route)
    return {**candidate, "content": {"role": "model", "parts": [*parts, empty]}}
