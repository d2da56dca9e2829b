"""Stores known failures beside the sessions (see `sessions.base.KnownFailures`).

known/{project_id}/{key}.json      one error of one project, by its signature
known/{project_id}/knowledge.md    the project's memory: facts
known/{project_id}/words.index      the words of its errors
"""

import re
from collections.abc import Callable
from itertools import islice

from worker.errors import StoreError
from worker.sessions.base import MemoryPart
from worker.sessions.objects import Objects
from worker.sessions.records import update_record

MAX_ENTRY = 64 * 1024
"""The most bytes of an entry."""

MAX_ENTRIES = 10_000
"""The most entries of one project that are searched to remove a merge request."""

_KEY = re.compile(r"[0-9a-f]{8,64}", re.ASCII)


class KnownStore:
    """See `sessions.base.KnownFailures`."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def read_entry(self, project_id: int, key: str) -> bytes | None:
        """See KnownFailures."""
        stored = self._objects.read(_make_name(project_id, key), MAX_ENTRY)
        return stored.content if stored else None

    def change_entry(
        self, project_id: int, key: str, change: Callable[[bytes | None], bytes | None]
    ) -> None:
        """See KnownFailures."""
        update_record(self._objects, _make_name(project_id, key), change, limit=MAX_ENTRY)

    def read_memory(self, project_id: int, part: MemoryPart = MemoryPart.FACTS) -> bytes | None:
        """See KnownFailures."""
        stored = self._objects.read(_make_memory_name(project_id, part), MAX_ENTRY)
        return stored.content if stored else None

    def change_memory(
        self,
        project_id: int,
        change: Callable[[bytes | None], bytes | None],
        part: MemoryPart = MemoryPart.FACTS,
    ) -> None:
        """See KnownFailures."""
        update_record(self._objects, _make_memory_name(project_id, part), change, limit=MAX_ENTRY)

    def list_keys(self, project_id: int) -> tuple[str, ...]:
        """See KnownFailures."""
        prefix = f"known/{_check_project(project_id)}/"
        names = islice(self._objects.list_names(prefix), MAX_ENTRIES)
        found = (name.removeprefix(prefix).removesuffix(".json") for name in names)
        return tuple(key for key in found if _KEY.fullmatch(key))


def _make_name(project_id: int, key: str) -> str:
    if not _KEY.fullmatch(key):
        raise StoreError(f"not the key of a known failure: {key[:80]!r}")
    return f"known/{_check_project(project_id)}/{key}.json"


def _make_memory_name(project_id: int, part: MemoryPart) -> str:
    return f"known/{_check_project(project_id)}/{part}"


def _check_project(project_id: int) -> int:
    if not 0 < project_id < 10**19:
        raise StoreError(f"not a project's id: {project_id}")
    return project_id
