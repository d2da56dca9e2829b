"""The list of models: https://platform.claude.com/docs/en/api/models/list."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from worker.lab.anthropic.protocol import Json, make_invalid

_QUERY = {"limit", "after_id", "before_id"}
_DEFAULT_LIMIT, _MAX_LIMIT = 20, 1000
_EFFORTS = ("low", "medium", "high", "xhigh", "max")


def describe_model(
    model: str,
    window: int = 1_000_000,
    max_tokens: int = 128_000,
    efforts: Collection[str] = _EFFORTS,
    **fields: Any,
) -> Json:
    """Describe a model as the API does; `fields` adds to its fields or replaces them."""
    levels = {name: {"supported": name in efforts} for name in _EFFORTS}
    return {
        "type": "model",
        "id": model,
        "display_name": model,
        "created_at": "2026-09-01T00:00:00Z",
        "lifecycle": "active",
        "max_input_tokens": window,
        "max_tokens": max_tokens,
        "capabilities": {"effort": {"supported": bool(efforts), **levels}},
        **fields,
    }


SERVED = [
    *map(describe_model, ("claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5")),
    describe_model("claude-haiku-4-5-20251001", 200_000, 64_000, ()),
]


def list_part(served: Sequence[Json], query: Mapping[str, str], max_listed: int) -> Json:
    """Return the part of the list that `query` asks for. Raises Refused."""
    for name in set(query) - _QUERY:
        raise make_invalid(f"{name}: Extra inputs are not permitted")
    limit = query.get("limit", str(_DEFAULT_LIMIT))
    if not limit.isdecimal() or not 1 <= int(limit) <= _MAX_LIMIT:
        raise make_invalid(f"limit: Input should be between 1 and {_MAX_LIMIT}")
    ids = [str(each.get("id")) for each in served]
    after = query.get("after_id")
    if after is not None and after not in ids:
        raise make_invalid(f"after_id: {after} is unknown")
    start = 0 if after is None else ids.index(after) + 1
    part = list(served[start : start + min(int(limit), max_listed)])
    return {
        "data": part,
        "has_more": start + len(part) < len(served),
        "first_id": part[0]["id"] if part else None,
        "last_id": part[-1]["id"] if part else None,
    }
