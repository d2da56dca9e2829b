"""Tool names and call ids that came from elsewhere, made fit for another wire.

The same name gives the same result every time, so that a call and its result still belong together.
"""

import hashlib
import re

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")


def tool_name(name: str) -> str:
    """`name` as every provider takes it."""
    return _FOREIGN.sub("_", name)[:64] or "unknown"


def call_id(found: str, allowed: re.Pattern[str]) -> str:
    """`found` if it is allowed, else nine letters and digits, which even the strictest take."""
    if allowed.fullmatch(found):
        return found
    return hashlib.sha256(found.encode("utf-8", "surrogatepass")).hexdigest()[:9]
