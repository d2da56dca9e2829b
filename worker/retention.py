"""What is kept for how long: everything older goes, and all of one merge request on request.

Each removal stands for itself, so a sweep that is cut short is gone on with by the next one.
"""

import logging
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from worker.core import known, shelf
from worker.core.ports import SessionKey
from worker.core.records import RECORD
from worker.core.triggers import Trigger, trigger_id
from worker.deps import Deps
from worker.errors import StoreError
from worker.fair import SLOTS, owners
from worker.journal import State, name_of
from worker.leases import Lease

log = logging.getLogger("sandpiper.retention")

MOST = 1000
"""Things that one sweep removes."""

HOUR = 3600.0
"""Seconds for which what belongs to nothing may be somebody's that is about to begin."""

EXPIRY = "retention"


def expire(deps: Deps, days: float, most: int = MOST) -> Iterator[str]:
    """Remove what is older than `days`, as long as the lines tell; at most `most` things.

    A session's age is that of its latest turn, and one that is at work or has a trigger to come is
    left alone. Raises StoreError.
    """
    before = deps.clock.now() - days * known.DAY
    yield from islice(_expired(deps, before), most)


def _expired(deps: Deps, before: float) -> Iterator[str]:
    # The parked ones first: a trigger in the journal keeps its sessions.
    yield from _parked(deps, before)
    alive: set[str] = set()
    for key in list(deps.store.sessions()):
        if _remove(key, before, deps):
            yield f"session {key.session_id} of {key.project_id}!{key.mr_iid}: removed"
        else:
            alive.add(key.session_id)
    yield from _strays(deps, alive)
    yield from _known(deps, before)
    yield from _by_name(deps, before)


def forget(project_id: int, mr_iid: int, deps: Deps, by: Trigger) -> int:
    """Remove what is left of a merge request besides its committed sessions (see
    `conversation.forget`), known failures (see `survey.forget`) and the trigger `by` which asks
    for it. Returns how many sessions and triggers. Raises StoreError.
    """
    records, done = deps.store.records, 0
    for name in list(deps.journal.names(project_id, mr_iid)):
        noted = deps.journal.read(name) if name != name_of(by) else None
        if noted and noted.entry.state is State.PARKED:
            records.delete(name)
            done += 1
    for key in list(deps.store.sessions(project_id, mr_iid)):
        if deps.store.latest(key) is None:
            done += _cleared(key, 0, deps)
    for name in list(records.names(shelf.RECENT)):
        row = shelf.row(name)
        if row and (row.project_id, row.mr_iid) == (project_id, mr_iid):
            records.delete(name)
    return done


def _parked(deps: Deps, before: float) -> Iterator[str]:
    for noted in list(deps.journal.parked()):
        if noted.entry.accepted_at < before:
            deps.store.records.delete(noted.name)
            yield f"parked trigger {trigger_id(noted.entry.trigger)}: removed"


def _remove(key: SessionKey, before: float, deps: Deps) -> bool:
    """Whether an old session that nobody is at work on was removed."""
    touched = deps.store.touched(key)
    if touched is None or touched >= before:
        return False
    if any(True for _ in deps.journal.names(key.project_id, key.mr_iid)):
        return False
    latest = deps.store.latest(key)
    return _cleared(key, 0 if latest is None else latest + 1, deps)


def _cleared(key: SessionKey, turn: int, deps: Deps) -> bool:
    """Remove a session under the claim of its next turn, unless somebody holds that."""
    with deps.leases.claimed(key, turn, EXPIRY) as held:
        if not isinstance(held, Lease) or (deps.store.latest(key) or 0) > turn:
            return False
        deps.store.remove(key)
    return True


def _strays(deps: Deps, alive: set[str]) -> Iterator[str]:
    """What belongs to no session, and what a probe of the store has left."""
    records, now = deps.store.records, deps.clock.now()
    for prefix in (shelf.INDEX, shelf.PROBE):
        for name in list(records.names(prefix)):
            if name.removeprefix(prefix) in alive:
                continue
            at = records.modified(name)
            if at is not None and at < now - HOUR:
                records.delete(name)
                yield f"{name}: removed"
    for name in list(records.names(SLOTS)):
        project = name.removeprefix(SLOTS).removesuffix(".json")
        busy = project.isdecimal() and any(True for _ in deps.journal.names(int(project)))
        stored = records.read(name, RECORD)
        if not busy and not any(map(deps.leases.alive, owners(stored.content) if stored else ())):
            records.delete(name)
            yield f"{name}: removed"


def _known(deps: Deps, before: float) -> Iterator[str]:
    if deps.known is None:
        return
    for name in list(deps.store.records.names(shelf.KNOWN)):
        place = shelf.known(name)
        if place is None:
            continue
        project, key = place
        data = deps.known.read(project, key)
        if data is None or not _stale(data, key, before):
            continue
        with suppress(StoreError):  # somebody has just seen it
            deps.known.change(project, key, lambda data, key=key: _fresh(data, key, before))  # type: ignore[misc]
            yield f"known failure {key} of project {project}: removed"


def _stale(data: bytes, key: str, before: float) -> bool:
    """Whether nobody has seen an error since; what cannot be read is of no use to anybody."""
    entry = known.load(data, key)
    return entry is None or entry.last < before


def _fresh(data: bytes | None, key: str, before: float) -> bytes | None:
    return None if data is None or _stale(data, key, before) else data


def _by_name(deps: Deps, before: float) -> Iterator[str]:
    """Lists and sums whose names say how old they are."""
    records, removed = deps.store.records, 0
    for name in list(records.names(shelf.RECENT)):
        row = shelf.row(name)
        if row and row.at < before:
            records.delete(name)
            removed += 1
    if removed:
        yield f"{removed} rows of the list of turns: removed"
    for name in list(records.names(shelf.SPEND)):
        ended = shelf.spend_day(name)
        if ended is not None and ended < before:
            records.delete(name)
            yield f"{name}: removed"
