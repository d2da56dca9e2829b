"""Stores turns by the time of their start (see `sessions.base.RecentTurns`).

recent/{day}/{time}-{project_id}-{mr_iid}-{session_id}-{turn:04d}.json

Day and time count backwards, so that the newest turns come first in the order of names.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from worker.conversation.context import SessionKey
from worker.errors import StoreError, Unreadable
from worker.sessions import keys
from worker.sessions.object_names import END, RECENT
from worker.sessions.objects import Objects

MAX_NAMES = 10_000
"""The most names after the cursor that are read to find one page of rows; more only if more rows
are wanted."""

MAX_ROW = 16 * 1024
"""The most bytes of a row."""

_DAY = 86_400_000
_NAME = re.compile(
    r"recent/\d{6}/(\d{13}-([1-9]\d{0,18})-[1-9]\d{0,18}-[0-9a-f]{4,64}-\d{4})\.json", re.ASCII
)


class RecentStore:
    """See `sessions.base.RecentTurns`."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def put_row(self, key: SessionKey, turn: int, at: float, row: bytes) -> None:
        """See RecentTurns."""
        name = _make_name(key, turn, at)
        if len(row) > MAX_ROW:
            raise StoreError(
                f"{self._objects.describe_place(name)} would be larger than {MAX_ROW} bytes"
            )
        self._objects.write(name, row)

    def list_newest(
        self, limit: int, before: str = "", project_id: int = 0
    ) -> Iterator[tuple[str, bytes]]:
        """See RecentTurns."""
        found = map(_NAME.fullmatch, self._objects.list_names(RECENT))
        later = (match for match in found if match and match[1] > before)
        wanted = (
            match
            for match in islice(later, max(MAX_NAMES, limit))
            if not project_id or int(match[2]) == project_id
        )
        for match in islice(wanted, limit):
            with suppress(Unreadable):
                if stored := self._objects.read(match[0], MAX_ROW):
                    yield match[1], stored.content


def _make_name(key: SessionKey, turn: int, at: float) -> str:
    keys.make_turn_prefix(key, turn)  # raises StoreError for an invalid key
    left = min(max(END - 1 - int(at * 1000), 0), END - 1)
    place = f"{key.project_id}-{key.mr_iid}-{key.session_id}-{turn:04d}"
    return f"{RECENT}{left // _DAY:06d}/{left:013d}-{place}.json"
