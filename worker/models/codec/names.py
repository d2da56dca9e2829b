"""Makes tool names and call ids of one provider acceptable to another.

The same name gives the same result every time, so that a call and its result still belong together.
"""

import hashlib
import re

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")


def make_tool_name(name: str) -> str:
    """Returns `name` in a form that every provider accepts."""
    return _FOREIGN.sub("_", name)[:64] or "unknown"


def make_call_id(found: str, allowed: re.Pattern[str]) -> str:
    """Returns `found` if it is allowed, else nine letters and digits, which all servers accept."""
    if allowed.fullmatch(found):
        return found
    return hashlib.sha256(found.encode("utf-8", "surrogatepass")).hexdigest()[:9]
