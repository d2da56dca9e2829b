"""Looks at what is read before anybody believes it: is it of the kind that its name says?

A store's answer may be another's (a gateway's page), empty, or cut off. Everything that is read
comes through here, so that nobody takes such an answer for a record that is damaged, writes over
it, or goes on as if there were none.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from worker.sessions import keys
from worker.sessions.damaged import DAMAGED, confirm_damage, forget_look, set_aside
from worker.sessions.object_names import INDEX, INSTALLATION_KEY, KNOWN, PROBE
from worker.sessions.objects import Objects
from worker.sessions.records import Stored
from worker.sessions.shapes import (
    SLACK,
    find_wrong_memory,
    find_wrong_shape,
    mark_place,
    remove_place,
)

_PAGE = re.compile(rb"\s{0,100}<(?:!doctype|html|\?xml)", re.IGNORECASE)


class CheckedObjects:
    """See `objects.Objects`. `objects` are checked as they are read; `now` is in epoch seconds."""

    def __init__(self, objects: Objects, now: Callable[[], float] = time.time) -> None:
        self._objects = objects
        self._now = now
        self._doubted = set[str]()

    def read(self, name: str, limit: int) -> Stored | None:
        """See Objects. Raises Unreadable for what cannot be what it is named, until a second look;
        then it is set aside, and counts as absent."""
        stored = self._objects.read(name, limit + SLACK)
        problem = find_problem(name, stored.content) if stored else ""
        if stored is None or not problem:
            if name in self._doubted:
                self._doubted.discard(name)
                forget_look(self._objects, name)
            return stored and Stored(remove_place(name, stored.content), stored.version)
        self._doubted.add(name)
        confirm_damage(self._objects, name, stored.content, problem, self._now())
        set_aside(self._objects, name, stored)
        return None

    def exists(self, name: str) -> bool:
        """See Objects."""
        return self._objects.exists(name)

    def find_modification_time(self, name: str) -> float | None:
        """See Objects."""
        return self._objects.find_modification_time(name)

    def create(self, name: str, content: bytes) -> bool:
        """See Objects."""
        return self._objects.create(name, mark_place(name, content))

    def replace(self, name: str, content: bytes, version: str) -> bool:
        """See Objects."""
        return self._objects.replace(name, mark_place(name, content), version)

    def write(self, name: str, content: bytes) -> None:
        """See Objects."""
        self._objects.write(name, mark_place(name, content))

    def upload(self, name: str, chunks: Iterable[bytes]) -> int:
        """See Objects."""
        return self._objects.upload(name, chunks)

    def open(self, name: str) -> AbstractContextManager[Iterator[bytes]] | None:
        """See Objects."""
        return self._objects.open(name)

    def delete(self, name: str, version: str | None = None) -> None:
        """See Objects."""
        self._objects.delete(name, version)

    def list_names(self, prefix: str) -> Iterator[str]:
        """See Objects."""
        return self._objects.list_names(prefix)

    def describe_place(self, name: str) -> str:
        """See Objects."""
        return self._objects.describe_place(name)


def find_problem(name: str, content: bytes) -> str:
    """Return why `content` cannot be what an object of this name holds, or "".

    Not looked at is what nobody writes over: committed turns, what is stored with them, and the
    installation's key, of which there must never be another one.
    """
    if name.startswith((DAMAGED, PROBE, INSTALLATION_KEY)) or name.endswith(_KEPT_AS_THEY_ARE):
        return ""
    if name.startswith(INDEX):
        is_pointer = keys.decode_pointer("", content) is not None
        return "" if is_pointer else "it should be PROJECT/IID"
    if not content:
        return "it is empty"
    if _PAGE.match(content):
        return "it is a web page"
    if _RECORD.match(name):
        fields = _read_object(content)
        return "it is not a JSON object" if fields is None else find_wrong_shape(name, fields)
    if name.startswith(KNOWN) and (fields := _read_object(content)):
        return find_wrong_shape(name, fields)
    if memory := find_wrong_memory(name, content):
        return memory
    is_cut = content.startswith(b"{") and not content[-100:].rstrip().endswith(b"}")
    return "it is cut off" if is_cut and name.endswith(".json") else ""


_KEPT_AS_THEY_ARE = tuple(f"/{leaf}" for leaf in (keys.CONTEXT, keys.EVIDENCE, keys.STOP))

_RECORD = re.compile(
    r"(?:journal|workers|slots|spend|preferences|verdicts)/.*\.json"
    rf"|sessions/.*/{re.escape(keys.CLAIM)}"
)
"""Small objects, which are read whole here; larger ones are when they are loaded."""


def _read_object(content: bytes) -> dict[str, Any] | None:
    """Return the fields of a JSON object, None if it is none."""
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None
