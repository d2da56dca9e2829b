"""Records that are parsed as they are read, and changed as values.

A damaged one is read as absent, and logged; whoever would change it has to wait (Unreadable) until
a second look sets it aside.
"""

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from worker.errors import Unreadable
from worker.sessions.checked import confirm_damage, set_aside
from worker.sessions.objects import Objects, update_record

_ROUNDS = 40
_PAUSE = 0.2

T = TypeVar("T")

log = logging.getLogger("sandpiper.store")


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """How records of one kind are stored."""

    load: Callable[[str, bytes], T]
    """Parses what lay under a name. Raises ValueError for what is damaged, or of another name."""
    dump: Callable[[T], bytes]
    limit: int
    """The most bytes of a record."""


class ParsedRecords:
    """The parsed records of a store. All methods raise StoreError.

    `now` returns epoch seconds. What is `read_only` stores nothing, for dry runs: a change is
    computed and returned.
    """

    def __init__(
        self, objects: Objects, now: Callable[[], float], *, read_only: bool = False
    ) -> None:
        self._objects, self._now, self._read_only = objects, now, read_only

    def read(self, name: str, kind: Kind[T]) -> T | None:
        """Read a record; None if there is none, or it is damaged."""
        try:
            stored = self._objects.read(name, kind.limit)
            return kind.load(name, stored.content) if stored else None
        except (ValueError, Unreadable) as error:
            log.warning("%s counts as absent: %s", self._objects.describe_place(name), error)
            return None

    def change(self, name: str, kind: Kind[T], change: Callable[[T | None], T | None]) -> T | None:
        """Replace a record by what `change` returns; None stands for no record.

        Atomic across workers: `change` is called again if another one was faster. Returns what now
        stands. Raises what `kind.load` raises if `change` returns what is of another name.
        """
        stands: T | None = None

        def change_stored(data: bytes | None) -> bytes | None:
            nonlocal stands
            changed = change(None if data is None else kind.load(name, data))
            content = None if changed is None else kind.dump(changed)
            stands = None if content is None else kind.load(name, content)
            return content

        if self._read_only:
            return change(self.read(name, kind))
        try:
            self._update(name, change_stored, kind.limit)
        except ValueError:
            self._set_aside_damaged(name, kind)
            self._update(name, change_stored, kind.limit)
        return stands

    def _update(
        self, name: str, change: Callable[[bytes | None], bytes | None], limit: int
    ) -> None:
        def wait() -> None:
            time.sleep(random.uniform(0, _PAUSE))

        update_record(self._objects, name, change, limit=limit, rounds=_ROUNDS, wait=wait)

    def _set_aside_damaged(self, name: str, kind: Kind[T]) -> None:
        """Set a damaged record aside if it is the same at a second look. Raises Unreadable before
        that."""
        stored = self._objects.read(name, kind.limit)
        if stored is None:
            return
        try:
            kind.load(name, stored.content)
        except ValueError as error:
            confirm_damage(self._objects, name, stored.content, str(error)[:200], self._now())
            set_aside(self._objects, name, stored)
