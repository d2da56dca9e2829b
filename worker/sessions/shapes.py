"""What small records look like, and the place that each of them names as its own. Pure.

A record says under which name it was written, so that one that lies elsewhere (a backup put back in
the wrong place, somebody's copy) is not believed. `CheckedObjects` adds that as it writes and takes
it off as it reads; records of earlier versions name no place, and are believed.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

_PLACED = re.compile(
    r"(?:workers|slots|spend|preferences|verdicts|known)/.*\.json|sessions/.*/claim\.json"
)
_MEMORY = re.compile(r"known/\d{1,19}/knowledge\.md")
_MEMORY_PLACE = re.compile(rb"\n= ([^\n]{1,300})\n?\Z")

SLACK = 512
"""Bytes by which a record may be longer than what is read of it."""


def mark_place(name: str, content: bytes) -> bytes:
    """Add the place of a record to what is to be written there."""
    suffix = _make_suffix(name)
    if not suffix or content.endswith(suffix):
        return content
    if _MEMORY.fullmatch(name):
        return content + suffix if content.endswith(b"\n") else content
    body = content.removesuffix(b"}")
    return content if body in (content, b"{") else body + suffix


def remove_place(name: str, content: bytes) -> bytes:
    """Return a record as its writer has written it."""
    suffix = _make_suffix(name)
    if not suffix or not content.endswith(suffix):
        return content
    return content.removesuffix(suffix) + (b"" if _MEMORY.fullmatch(name) else b"}")


def find_wrong_shape(name: str, fields: Mapping[str, Any]) -> str:
    """Return why a record of this name cannot hold these fields, or ""."""
    place = fields.get("lies_at", name)
    if place != name:
        return f"it is of {place if isinstance(place, str) else 'nowhere'}"[:300]
    check = _SHAPES.get(name.partition("/")[0])
    return "" if check is None or check(fields) else "its fields are not those of such a record"


def find_wrong_memory(name: str, content: bytes) -> str:
    """Return why a text cannot be the memory of this name, or ""."""
    place = _MEMORY_PLACE.search(content[-400:]) if _MEMORY.fullmatch(name) else None
    is_ours = place is None or place[1] == name.encode()
    return "" if is_ours or place is None else f"it is of {place[1].decode(errors='replace')}"


def _make_suffix(name: str) -> bytes:
    if _MEMORY.fullmatch(name):
        return f"= {name}\n".encode()
    return f', "lies_at": {json.dumps(name)}}}'.encode() if _PLACED.fullmatch(name) else b""


def _is_slots(fields: Mapping[str, Any]) -> bool:
    owners = fields.get("owners")
    return isinstance(owners, list) and all(isinstance(each, str) for each in owners)


def _is_day(fields: Mapping[str, Any]) -> bool:
    turns, told = fields.get("turns"), fields.get("told")
    return (
        isinstance(turns, dict)
        and all(map(_is_dollars, turns.values()))
        and _is_dollars(fields.get("older"))
        and isinstance(told, list)
        and all(type(each) is int for each in told)
    )


def _is_dollars(value: object) -> bool:
    return type(value) in (int, float) and 0 <= float(str(value)) < math.inf


def _is_preference(fields: Mapping[str, Any]) -> bool:
    models = fields.get("models", {})
    return (
        isinstance(fields.get("tier", ""), str)
        and isinstance(fields.get("forced", False), bool)
        and type(fields.get("set_at", 0.0)) in (int, float)
        and isinstance(models, dict)
        and all(isinstance(each, dict) and {"model", "reasoning"} <= set(each)
                for each in models.values())
    )  # fmt: skip


_SHAPES: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "slots": _is_slots,
    "spend": _is_day,
    "preferences": _is_preference,
}
