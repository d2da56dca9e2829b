"""The list of models: https://ai.google.dev/api/models."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.simulators.gemini.protocol import Json, invalid

_QUERY = {"pageSize", "pageToken"}
_DEFAULT_SIZE, _MAX_SIZE = 50, 1000


def describe(model: str, window: int = 1_048_576, output: int = 65_536, **fields: Any) -> Json:
    """A model as the API describes it; `fields` are further ones, or replace them."""
    return {
        "name": f"models/{model}",
        "version": "001",
        "displayName": model,
        "inputTokenLimit": window,
        "outputTokenLimit": output,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
        **fields,
    }


SERVED = [
    *map(describe, ("gemini-4-argon", "gemini-3.8-flash", "gemini-2.5-flash")),
    describe("gemini-embedding-001", 2048, 1, supportedGenerationMethods=["embedContent"]),
]


def part(served: Sequence[Json], query: Mapping[str, str], most: int) -> Json:
    """The part of the list that `query` asks for. Raises Refused."""
    for name in set(query) - _QUERY:
        raise invalid(f'Invalid JSON payload received. Unknown name "{name}"')
    size, token = query.get("pageSize", str(_DEFAULT_SIZE)), query.get("pageToken", "at 0")
    if not size.isdecimal() or not token.startswith("at ") or not token[3:].isdecimal():
        raise invalid("Invalid value at 'page_size' or 'page_token'")
    start = int(token[3:])
    end = start + min(int(size), _MAX_SIZE, most)
    more = {"nextPageToken": f"at {end}"} if end < len(served) else {}
    return {"models": list(served[start:end]), **more}
