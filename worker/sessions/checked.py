"""Looks at what is read before anybody believes it: is it of the kind that its name says?

A store's answer may be another's (a gateway's page), empty, or cut off. Everything that is read
comes through here, so that nobody takes such an answer for a record that is damaged, writes over
it, or goes on as if there were none.

One look proves nothing. A damaged record is set aside, never deleted, and only if it holds the same
at a second look, SECOND_LOOK seconds later; until then it stays where it is, and whoever needs it
waits:

damaged/seen/{name}             when the record was first found damaged, and what it held
damaged/kept/{name}~{digest}    a record that was set aside, to be brought back by hand

A record says under which name it was written ("lies_at"), so that one that lies elsewhere (a backup
put back in the wrong place, somebody's copy) is not believed. That is added as it is written and
taken off as it is read; records of earlier versions name no place, and are believed.
"""

import hashlib
import json
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from worker.errors import Unreadable
from worker.safety.untrusted import parse_object
from worker.sessions import layout
from worker.sessions.layout import INDEX, INSTALLATION_KEY, KNOWN, PROBE
from worker.sessions.objects import Objects, Records, Stored

SECOND_LOOK = 180.0
"""Seconds between the first look and the one that sets a damaged record aside."""

STALE = 3600.0
"""Seconds after which a first look counts no more: in between, the record may have been whole."""

DAMAGED = "damaged/"
SEEN = f"{DAMAGED}seen/"
KEPT = f"{DAMAGED}kept/"

_MARK = 4096

_PLACED = re.compile(
    r"(?:workers|slots|spend|preferences|verdicts|known|incidents|retries)/.*\.json|sessions/.*/claim\.json"
)
_MEMORY = re.compile(r"known/\d{1,19}/knowledge\.md")
_MEMORY_PLACE = re.compile(rb"\n= ([^\n]{1,300})\n?\Z")

SLACK = 512
"""Bytes by which a record may be longer than what is read of it."""

_PAGE = re.compile(rb"\s{0,100}<(?:!doctype|html|\?xml)", re.IGNORECASE)
_KEPT_AS_THEY_ARE = tuple(f"/{leaf}" for leaf in (layout.CONTEXT, layout.EVIDENCE, layout.STOP))

_RECORD = re.compile(
    r"(?:journal|workers|slots|spend|preferences|verdicts|incidents|retries)/.*\.json"
    rf"|sessions/.*/{re.escape(layout.CLAIM)}"
)
"""Small objects, which are read whole here; larger ones are when they are loaded."""


class CheckedObjects:
    """`objects`, checked as they are read. `now` returns epoch seconds."""

    def __init__(self, objects: Objects, now: Callable[[], float] = time.time) -> None:
        self._objects = objects
        self._now = now
        self._doubted = set[str]()

    def read(self, name: str, limit: int) -> Stored | None:
        """Raises Unreadable for what cannot be what it is named, until a second look;
        then it is set aside, and counts as absent."""
        stored = self._objects.read(name, limit + SLACK)
        problem = _find_problem(name, stored.content) if stored else ""
        if stored is None or not problem:
            if name in self._doubted:  # it is whole, or gone
                self._doubted.discard(name)
                self._objects.delete(f"{SEEN}{name}")
            return stored and Stored(remove_place(name, stored.content), stored.version)
        self._doubted.add(name)
        confirm_damage(self._objects, name, stored.content, problem, self._now())
        set_aside(self._objects, name, stored)
        return None

    def exists(self, name: str) -> bool:
        return self._objects.exists(name)

    def find_modification_time(self, name: str) -> float | None:
        return self._objects.find_modification_time(name)

    def create(self, name: str, content: bytes) -> bool:
        return self._objects.create(name, mark_place(name, content))

    def replace(self, name: str, content: bytes, version: str) -> bool:
        return self._objects.replace(name, mark_place(name, content), version)

    def write(self, name: str, content: bytes) -> None:
        self._objects.write(name, mark_place(name, content))

    def upload(self, name: str, chunks: Iterable[bytes]) -> int:
        return self._objects.upload(name, chunks)

    def open(self, name: str) -> AbstractContextManager[Iterator[bytes]] | None:
        return self._objects.open(name)

    def delete(self, name: str, version: str | None = None) -> None:
        self._objects.delete(name, version)

    def list_names(self, prefix: str) -> Iterator[str]:
        return self._objects.list_names(prefix)

    def describe_place(self, name: str) -> str:
        return self._objects.describe_place(name)


# ------------------------------------------------------------------ what cannot be what it is named


def _find_problem(name: str, content: bytes) -> str:
    """Return why `content` cannot be what an object of this name holds, or "".

    Not looked at is what nobody writes over: committed turns, what is stored with them, and the
    installation's key, of which there must never be another one.
    """
    if name.startswith((DAMAGED, PROBE, INSTALLATION_KEY)) or name.endswith(_KEPT_AS_THEY_ARE):
        return ""
    if name.startswith(INDEX):
        is_pointer = layout.decode_pointer("", content) is not None
        return "" if is_pointer else "it should be PROJECT/IID or PROJECT/branch-NAME"
    if not content:
        return "it is empty"
    if _PAGE.match(content):
        return "it is a web page"
    if _RECORD.match(name):
        fields = _read_object(content)
        return "it is not a JSON object" if fields is None else _find_wrong_shape(name, fields)
    if name.startswith(KNOWN) and (fields := _read_object(content)):
        return _find_wrong_shape(name, fields)
    place = _MEMORY_PLACE.search(content[-400:]) if _MEMORY.fullmatch(name) else None
    if place and place[1] != name.encode():
        return f"it is of {place[1].decode(errors='replace')}"
    is_cut = content.startswith(b"{") and not content[-100:].rstrip().endswith(b"}")
    return "it is cut off" if is_cut and name.endswith(".json") else ""


def _read_object(content: bytes) -> dict[str, Any] | None:
    """Return the fields of a JSON object, None if it is none."""
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


# ------------------------------------------------------------------------------- the second look


def confirm_damage(records: Records, name: str, content: bytes, why: str, now: float) -> None:
    """Return if the record held the same at a first look at least SECOND_LOOK seconds ago.

    Otherwise remember this look and raise Unreadable. `now` is in epoch seconds. Raises StoreError.
    """
    mark, digest = f"{SEEN}{name}", _digest(content)
    stored = records.read(mark, _MARK)
    first = parse_object(stored.content) if stored else {}
    at = first.get("at")
    if not isinstance(at, int | float) or first.get("digest") != digest or now - at > STALE:
        fresh = b'{"at": %.1f, "digest": "%s"}' % (now, digest.encode())
        if stored is None:
            records.create(mark, fresh)
        else:
            records.replace(mark, fresh, stored.version)
        at = now
    if now - at < SECOND_LOOK:
        raise Unreadable(
            f"{records.describe_place(name)} is damaged ({why}): it is looked at again in "
            f"{SECOND_LOOK - now + at:.0f} s, and set aside only if it is the same then"
        )


def set_aside(records: Records, name: str, stored: Stored) -> None:
    """Move a record whose damage is confirmed to where `bring_back` finds it. Raises StoreError."""
    records.create(f"{KEPT}{name}~{_digest(stored.content)}", stored.content)
    records.delete(name, stored.version)
    records.delete(f"{SEEN}{name}")


def list_set_aside(records: Records, under: str = "") -> Iterator[str]:
    """Yield the names of the records that were set aside, as `bring_back` takes them; only those
    whose own name begins with `under`. Raises StoreError."""
    for name in records.list_names(f"{KEPT}{under}"):
        yield name.removeprefix(KEPT)


def bring_back(records: Records, kept: str, limit: int) -> bool:
    """Put a record that was set aside where it was, unless there is another one by now.

    Returns False if there is, or if nothing of this name was set aside. Raises StoreError.
    """
    stored = records.read(f"{KEPT}{kept}", limit)
    if stored is None or not records.create(kept.rpartition("~")[0], stored.content):
        return False
    records.delete(f"{KEPT}{kept}")
    return True


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


# ---------------------------------------------------------------------- what records look like


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


def _find_wrong_shape(name: str, fields: Mapping[str, Any]) -> str:
    """Return why a record of this name cannot hold these fields, or ""."""
    place = fields.get("lies_at", name)
    if place != name:
        return f"it is of {place if isinstance(place, str) else 'nowhere'}"[:300]
    check = _SHAPES.get(name.partition("/")[0])
    return "" if check is None or check(fields) else "its fields are not those of such a record"


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
