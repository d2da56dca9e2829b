"""The simulator's errors, and helpers for reading blocks."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Json = dict[str, Any]


class Refused(Exception):
    """An error answer. `code` is the stable error code, "" for most."""

    def __init__(self, status: int, kind: str, message: str, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.code = code

    def body(self, request_id: str) -> Json:
        """Return the error's body: https://platform.claude.com/docs/en/api/errors."""
        error: Json = {"type": self.kind, "message": str(self)}
        if self.code:
            error["details"] = {"error_code": self.code}
        return {"type": "error", "error": error, "request_id": request_id}


def make_invalid(message: str) -> Refused:
    """Make the error for a request that breaks a rule."""
    return Refused(400, "invalid_request_error", message)


def list_blocks(content: Any) -> list[Json]:
    """Return a message's or system prompt's content as blocks; plain text is one text block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(content)


def merge_messages(messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[Json]]]:
    """Yield roles with blocks; adjacent messages of one role are merged, as on the server."""
    role, together = "", list[Json]()
    for message in messages:
        if message["role"] != role and together:
            yield role, together
            together = []
        role = message["role"]
        together = together + list_blocks(message["content"])
    if together:
        yield role, together


def remove_mark(block: Mapping[str, Any]) -> Json:
    """Return the block without its cache mark, which does not belong to the prefix."""
    return {name: value for name, value in block.items() if name != "cache_control"}


def encode_compact(value: Any) -> bytes:
    """Encode JSON with the keys in their own order, on which a prefix depends."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )
