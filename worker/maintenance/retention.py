"""What is kept for how long: everything older goes, and all of one merge request on request.

Each removal stands for itself, so a sweep that is cut short is gone on with by the next one.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

from worker.core import known, shelf
from worker.core.ports import KnownFailures, SessionKey
from worker.core.records import RECORD, Records
from worker.core.triggers import Trigger, trigger_id
from worker.deps import Deps
from worker.errors import StoreError
from worker.queue.journal import State, name_of
from worker.queue.leases import Lease
from worker.queue.project_slots import SLOTS, owners

log = logging.getLogger("sandpiper.retention")

MOST = 1000
"""Things that one sweep removes."""

HOUR = 3600.0
"""Seconds for which what belongs to nothing may be somebody's that is about to begin."""

EXPIRY = "retention"


@dataclass(frozen=True, slots=True)
class _Old:
    """One thing that is too old, and how it goes; False if it is in use after all."""

    what: str
    remove: Callable[[], bool]


def expire(deps: Deps, days: float, most: int = MOST) -> Iterator[str]:
    """Remove what is older than `days`, as long as the lines tell; at most `most` things.

    A session's age is that of its latest turn, and one that is at work or has a trigger to come is
    left alone. Raises StoreError.
    """
    before = deps.clock.now() - days * known.DAY
    gone = (f"{old.what}: removed" for old in _old(deps, before) if old.remove())
    yield from islice(gone, most)


def expired(deps: Deps, days: float, most: int = MOST) -> Iterator[str]:
    """What `expire` would remove. Raises StoreError."""
    before = deps.clock.now() - days * known.DAY
    yield from (f"{old.what}: would be removed" for old in islice(_old(deps, before), most))


def _old(deps: Deps, before: float) -> Iterator[_Old]:
    # The parked ones first: a trigger in the journal keeps its sessions.
    parked = list(_parked(deps, before))
    yield from (_record(name, deps, what) for name, what in parked)
    settled = {name for name, _ in parked}
    keys, gone = list(deps.store.sessions()), set[str]()
    for key in keys:
        if _is_old(key, before, settled, deps):
            what = f"session {key.session_id} of {key.project_id}!{key.mr_iid}"
            yield _Old(what, partial(_expired, key, deps, gone))
    yield from _strays(deps, {key.session_id for key in keys} - gone)
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


def _parked(deps: Deps, before: float) -> Iterator[tuple[str, str]]:
    """Name and description of each old trigger that was given up."""
    for noted in deps.journal.parked():
        if noted.entry.accepted_at < before:
            yield noted.name, f"parked trigger {trigger_id(noted.entry.trigger)}"


def _record(name: str, deps: Deps, what: str = "") -> _Old:
    def remove() -> bool:
        deps.store.records.delete(name)
        return True

    return _Old(what or name, remove)


def _is_old(key: SessionKey, before: float, settled: set[str], deps: Deps) -> bool:
    """Whether nothing was written to it for long, and no trigger of its merge request waits; those
    in `settled` don't count."""
    touched = deps.store.touched(key)
    if touched is None or touched >= before:
        return False
    return settled.issuperset(deps.journal.names(key.project_id, key.mr_iid))


def _expired(key: SessionKey, deps: Deps, gone: set[str]) -> bool:
    """Remove an old session that nobody is at work on, and note that in `gone`."""
    latest = deps.store.latest(key)
    if not _cleared(key, 0 if latest is None else latest + 1, deps):
        return False
    gone.add(key.session_id)
    return True


def _cleared(key: SessionKey, turn: int, deps: Deps) -> bool:
    """Remove a session under the claim of its next turn, unless somebody holds that."""
    with deps.leases.claimed(key, turn, EXPIRY) as held:
        if not isinstance(held, Lease) or (deps.store.latest(key) or 0) > turn:
            return False
        deps.store.remove(key)
    return True


def _strays(deps: Deps, alive: set[str]) -> Iterator[_Old]:
    """What belongs to no session, and what a probe of the store has left."""
    records, now = deps.store.records, deps.clock.now()
    for prefix in (shelf.INDEX, shelf.PROBE):
        for name in list(records.names(prefix)):
            if name.removeprefix(prefix) in alive:
                continue
            at = records.modified(name)
            if at is not None and at < now - HOUR:
                yield _record(name, deps)
    for name in list(records.names(SLOTS)):
        project = name.removeprefix(SLOTS).removesuffix(".json")
        busy = project.isdecimal() and any(True for _ in deps.journal.names(int(project)))
        stored = records.read(name, RECORD)
        if not busy and not any(map(deps.leases.alive, owners(stored.content) if stored else ())):
            yield _record(name, deps)


def _known(deps: Deps, before: float) -> Iterator[_Old]:
    if deps.known is None:
        return
    for name in list(deps.store.records.names(shelf.KNOWN)):
        place = shelf.known(name)
        if place is None:
            continue
        project, key = place
        data = deps.known.read(project, key)
        if data is not None and _stale(data, key, before):
            what = f"known failure {key} of project {project}"
            yield _Old(what, partial(_unlearnt, deps.known, project, key, before))


def _unlearnt(failures: KnownFailures, project: int, key: str, before: float) -> bool:
    try:
        failures.change(project, key, partial(_fresh, key, before))
    except StoreError:  # somebody has just seen it
        return False
    return True


def _stale(data: bytes, key: str, before: float) -> bool:
    """Whether nobody has seen an error since; what cannot be read is of no use to anybody."""
    entry = known.load(data, key)
    return entry is None or entry.last < before


def _fresh(key: str, before: float, data: bytes | None) -> bytes | None:
    return None if data is None or _stale(data, key, before) else data


def _by_name(deps: Deps, before: float) -> Iterator[_Old]:
    """Lists and sums whose names say how old they are."""
    records = deps.store.records
    rows = [name for name in records.names(shelf.RECENT) if _row_before(name, before)]
    if rows:
        yield _Old(f"{len(rows)} rows of the list of turns", partial(_all, rows, records))
    for name in list(records.names(shelf.SPEND)):
        ended = shelf.spend_day(name)
        if ended is not None and ended < before:
            yield _record(name, deps)


def _row_before(name: str, before: float) -> bool:
    row = shelf.row(name)
    return row is not None and row.at < before


def _all(names: list[str], records: Records) -> bool:
    for name in names:
        records.delete(name)
    return True
