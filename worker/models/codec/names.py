"""Makes tool names and call ids of one provider acceptable to another.

The same name always gives the same result, so that a call and its result still match.
"""

import hashlib
import re
from typing import Any

from worker.models.codec.json_slices import repair_surrogates

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")

UNKNOWN = "unknown"


def read_tool_name(name: Any) -> str:
    """Return the tool name of a call in an answer. If it has none, returns "unknown", so that the
    model is told which tools exist. Raises ValueError if the name is not text."""
    if name is None or name == "":
        return UNKNOWN
    if not isinstance(name, str):
        raise ValueError("the name of a tool call is no text")
    return repair_surrogates(name)


def make_tool_name(name: str) -> str:
    """Return `name` in a form that every provider accepts."""
    return _FOREIGN.sub("_", name)[:64] or UNKNOWN


def make_call_id(call_id: str, allowed: re.Pattern[str]) -> str:
    """Return `call_id` if `allowed` matches it, else nine hex digits that all servers accept."""
    if allowed.fullmatch(call_id):
        return call_id
    return hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:9]
