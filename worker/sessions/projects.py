"""What is kept of a project beside its sessions: its known errors, and what people chose.

known/{project_id}/{key}.json          one error of one project, by its signature
known/{project_id}/knowledge.md        the project's memory: facts
known/{project_id}/words.index         the words of its errors
preferences/{project_id}/{mr_iid}.json, preferences/{project_id}/project.json
"""

import json
import re
from collections.abc import Callable
from enum import StrEnum
from itertools import islice
from typing import Protocol

from worker.conversation.tiers import Preference, TierModel
from worker.errors import StoreError
from worker.sessions.layout import KNOWN, PREFERENCES
from worker.sessions.objects import Objects, update_record
from worker.settings.models import TIERS
from worker.stored_keys import to_stored

MAX_ENTRY = 64 * 1024
"""The most bytes of an entry."""

MAX_ENTRIES = 10_000
"""The most entries of one project that are searched to remove a merge request."""

_KEY = re.compile(r"[0-9a-f]{8,64}", re.ASCII)


class MemoryPart(StrEnum):
    """What is kept of a project as a whole: confirmed facts (`verdict.project_memory`), and
    the words of its known errors (`verdict.similar`)."""

    FACTS = "knowledge.md"
    WORDS = "words.index"


class KnownFailures(Protocol):
    """What is known of a project's errors, by their signatures' keys. All raise StoreError."""

    def read_entry(self, project_id: int, key: str) -> bytes | None:
        """Read the entry of an error, or None."""
        ...

    def change_entry(
        self, project_id: int, key: str, change: Callable[[bytes | None], bytes | None]
    ) -> None:
        """Replace an entry by the result of `change`; None stands for no entry.

        Atomic across workers: `change` is called again if another one was faster.
        """
        ...

    def list_keys(self, project_id: int) -> tuple[str, ...]:
        """List the keys of all entries of a project, at most a few thousand."""
        ...

    def read_memory(self, project_id: int, part: MemoryPart = MemoryPart.FACTS) -> bytes | None:
        """Read a part of the project's memory, or None."""
        ...

    def change_memory(
        self,
        project_id: int,
        change: Callable[[bytes | None], bytes | None],
        part: MemoryPart = MemoryPart.FACTS,
    ) -> None:
        """Replace a part of the project's memory as `change_entry` does an entry."""
        ...


class KnownStore:
    """The KnownFailures in a store."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def read_entry(self, project_id: int, key: str) -> bytes | None:
        stored = self._objects.read(_name_entry(project_id, key), MAX_ENTRY)
        return stored.content if stored else None

    def change_entry(
        self, project_id: int, key: str, change: Callable[[bytes | None], bytes | None]
    ) -> None:
        update_record(self._objects, _name_entry(project_id, key), change, limit=MAX_ENTRY)

    def list_keys(self, project_id: int) -> tuple[str, ...]:
        prefix = _name_project(project_id)
        names = islice(self._objects.list_names(prefix), MAX_ENTRIES)
        found = (name.removeprefix(prefix).removesuffix(".json") for name in names)
        return tuple(key for key in found if _KEY.fullmatch(key))

    def read_memory(self, project_id: int, part: MemoryPart = MemoryPart.FACTS) -> bytes | None:
        stored = self._objects.read(_name_project(project_id) + part, MAX_ENTRY)
        return stored.content if stored else None

    def change_memory(
        self,
        project_id: int,
        change: Callable[[bytes | None], bytes | None],
        part: MemoryPart = MemoryPart.FACTS,
    ) -> None:
        update_record(self._objects, _name_project(project_id) + part, change, limit=MAX_ENTRY)


def _name_entry(project_id: int, key: str) -> str:
    if not _KEY.fullmatch(key):
        raise StoreError(f"not the key of a known failure: {key[:80]!r}")
    return f"{_name_project(project_id)}{key}.json"


def _name_project(project_id: int) -> str:
    if not 0 < project_id < 10**19:
        raise StoreError(f"not a project's id: {project_id}")
    return f"{KNOWN}{project_id}/"


# ------------------------------------------------------------------------- what people chose (pure)


def make_preference_name(project_id: int, mr_iid: int) -> str:
    """Return the name of a merge request's preference, or the project's if `mr_iid` is 0."""
    return f"{PREFERENCES}{project_id}/{mr_iid or 'project'}.json"


def dump_preference(preference: Preference) -> bytes:
    """Encode a preference as JSON."""
    models = {tier: to_stored(served) for tier, served in preference.overrides.items()}
    return json.dumps(to_stored(preference, "overrides", "where") | {"models": models}).encode()


def load_preference(data: bytes | None, where: str) -> Preference:
    """Read the bytes of `dump_preference`; missing or damaged bytes give an empty preference."""
    try:
        fields = json.loads(data or b"{}")
        models, tier = fields.get("models", {}), fields.get("tier", "")
        overrides = {
            each: TierModel(str(models[each]["model"]), str(models[each]["reasoning"]))
            for each in TIERS
            if each in models
        }
        return Preference(
            tier=tier if tier in TIERS else "",
            is_forced=fields.get("forced") is True,
            overrides=overrides,
            set_at=float(fields.get("set_at", 0.0)),
            where=where,
        )
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError):
        return Preference(where=where)
