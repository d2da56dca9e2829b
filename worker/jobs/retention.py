"""Removes stored data that is too old, and on request all data of a merge request.

The removals are independent, so the next sweep continues one that was cut short.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from worker.conversation.context import SessionKey
from worker.conversation.triggers import Trigger, trigger_id
from worker.errors import StoreError, Unreadable
from worker.incidents.record import OVER, BranchRecord, Incident, IncidentState
from worker.queue.journal import State, name_entry
from worker.queue.leases import Lease
from worker.queue.project_slots import SLOTS, decode_owners
from worker.sessions import layout
from worker.sessions.checked import DAMAGED, KEPT
from worker.sessions.objects import RECORD, Records
from worker.sessions.projects import KnownFailures, MemoryPart
from worker.sessions.retries import RetryStore
from worker.turns import memory, stored_turns
from worker.turns.parts import Deps
from worker.verdict import known

MOST = 1000
"""The most things that one sweep removes."""

HOUR = 3600.0
"""Seconds for which a record without a session may belong to one that is just starting."""

EXPIRY = "retention"

_SETTLED = 7 * known.DAY
"""Seconds for which a merge request's run is remembered that is to be told nothing more."""


@dataclass(frozen=True, slots=True)
class _Expired:
    """One thing that is too old. `remove` returns False or 0 if it is in use after all, or gone."""

    what: str
    remove: Callable[[], int]


def remove_expired(deps: Deps, days: float, most: int = MOST) -> Iterator[str]:
    """Remove what is older than `days`, at most `most` things, and yield a line for each.

    Things are removed as the lines are read. A session is as old as its latest turn; one that is
    at work or has a trigger in the journal is kept. Raises StoreError.
    """
    before = deps.runtime.clock.now() - days * known.DAY
    gone = (f"{old.what}: removed" for old in _find_old(deps, before) if old.remove())
    yield from islice(gone, most)


def list_expired(deps: Deps, days: float, most: int = MOST) -> Iterator[str]:
    """Yield a line for each thing that `remove_expired` would remove. Raises StoreError."""
    before = deps.runtime.clock.now() - days * known.DAY
    yield from (f"{old.what}: would be removed" for old in islice(_find_old(deps, before), most))


def _find_old(deps: Deps, before: float) -> Iterator[_Expired]:
    # Parked triggers first: sessions are kept while the journal has a trigger for them.
    found = deps.queue.journal.find_parked()
    parked = [stored for stored in found if stored.entry.accepted_at < before]
    for stored in parked:
        what = f"parked trigger {trigger_id(stored.entry.trigger)}"
        yield _make_record_removal(stored.name, deps, what)
    parked_names = {stored.name for stored in parked}
    keys, gone = list(deps.storage.sessions.list_sessions()), set[str]()
    for key in keys:
        touched = deps.storage.sessions.find_last_change(key)
        if touched is None or touched >= before:
            continue
        # No trigger is for one session of a branch: what fails there next has another one.
        if key.branch or parked_names.issuperset(
            deps.queue.journal.list_names(key.project_id, key.mr_iid)
        ):
            place = f", {key.branch}" if key.branch else f"!{key.mr_iid}"
            what = f"session {key.session_id} of {key.project_id}{place}"
            yield _Expired(what, partial(_remove_session, key, deps, gone))
    yield from _find_orphans(deps, {key.session_id for key in keys} - gone)
    known_names = list(deps.storage.sessions.records.list_names(layout.KNOWN))
    yield from _find_old_known(known_names, before, deps)
    yield from _find_old_in_memories(known_names, before, deps)
    yield from _find_old_incidents(deps, before)
    yield from _find_old_retries(deps, before)
    yield from _find_old_by_name(deps, before)


def _find_old_retries(deps: Deps, before: float) -> Iterator[_Expired]:
    store = deps.storage.retries
    for found in store.read_all():
        old = len(found.jobs) - len(found.keep_since(before).jobs)
        if old:
            what = f"{old} jobs of project {found.project_id} that were run again"
            yield _Expired(what, partial(_remove_old_retries, found.project_id, before, store))


def _remove_old_retries(project_id: int, before: float, store: RetryStore) -> bool:
    store.change(project_id, lambda found: found.keep_since(before))
    return True


def forget_merge_request(project_id: int, mr_iid: int, deps: Deps, by: Trigger) -> int:
    """Remove what is left of a merge request, and return how many sessions and triggers.

    Not removed here: committed sessions (see `session.forget_session`), known failures (see
    `memory.forget_merge_request`) and the trigger `by` that asks for it. Raises StoreError.
    """
    records, done = deps.storage.sessions.records, 0
    for name in list(deps.queue.journal.list_names(project_id, mr_iid)):
        stored = deps.queue.journal.read_entry(name) if name != name_entry(by) else None
        if stored and stored.entry.state is State.PARKED:
            records.delete(name)
            done += 1
    done += deps.storage.incidents.forget_request(project_id, mr_iid)
    done += deps.storage.ledger.forget_request(project_id, mr_iid)
    deps.storage.retries.change(project_id, lambda found: found.forget(mr_iid))
    for name in list(records.list_names(f"{KEPT}{layout.INCIDENTS}{project_id}/")):
        if f"/{mr_iid}.json~" in name:
            records.delete(name)
    for room in ("journal", "sessions"):
        for name in list(records.list_names(f"{KEPT}{room}/{project_id}/{mr_iid}/")):
            records.delete(name)
    for key in list(deps.storage.sessions.list_sessions(project_id, mr_iid)):
        if deps.storage.sessions.find_latest_turn(key) is None:
            done += _remove_unless_held(key, 0, deps)
    for name in list(records.list_names(layout.RECENT)):
        row = layout.parse_row(name)
        if row and (row.project_id, row.mr_iid) == (project_id, mr_iid):
            # The next sweep counts the verdicts of that day again, without it.
            records.delete(layout.name_verdicts(layout.name_day(row.began_at)))
            records.delete(name)
    return done


def _make_record_removal(name: str, deps: Deps, what: str = "") -> _Expired:
    return _Expired(what or name, partial(_remove_all, [name], deps.storage.sessions.records))


def _remove_session(key: SessionKey, deps: Deps, gone: set[str]) -> bool:
    """Remove an old session unless a worker holds it, and add its id to `gone`."""
    latest = deps.storage.sessions.find_latest_turn(key)
    if not _remove_unless_held(key, 0 if latest is None else latest + 1, deps):
        return False
    gone.add(key.session_id)
    return True


def _remove_unless_held(key: SessionKey, turn: int, deps: Deps) -> bool:
    """Remove a session while holding its next turn; False if another worker holds that turn, or has
    just committed it."""
    with deps.queue.leases.claim_turn(key, turn, EXPIRY) as held:
        latest = deps.storage.sessions.find_latest_turn(key)
        if not isinstance(held, Lease) or (latest is not None and latest >= turn):
            return False
        deps.storage.sessions.remove_session(key)
    return True


def _find_orphans(deps: Deps, alive: set[str]) -> Iterator[_Expired]:
    """Yield records that belong to no session, leftovers of store probes, and unused slots."""
    records, now = deps.storage.sessions.records, deps.runtime.clock.now()
    for prefix in (layout.INDEX, layout.PROBE):
        for name in list(records.list_names(prefix)):
            if name.removeprefix(prefix) in alive:
                continue
            at = records.find_modification_time(name)
            if at is not None and at < now - HOUR:
                yield _make_record_removal(name, deps)
    for name in list(records.list_names(SLOTS)):
        project = name.removeprefix(SLOTS).removesuffix(".json")
        busy = project.isdecimal() and any(
            True for _ in deps.queue.journal.list_names(int(project))
        )
        try:
            stored = records.read(name, RECORD)
        except Unreadable:
            continue
        if not busy and not any(
            map(deps.queue.leases.is_alive, decode_owners(stored.content) if stored else ())
        ):
            yield _make_record_removal(name, deps)


def _find_old_known(names: Sequence[str], before: float, deps: Deps) -> Iterator[_Expired]:
    for name in names:
        place = layout.parse_known(name)
        if place is None or not place[1].endswith(".json"):
            continue
        project, key = place[0], place[1].removesuffix(".json")
        try:
            data = deps.storage.known_failures.read_entry(project, key)
        except Unreadable:
            continue
        if data is None:
            continue
        entry = known.load_known_failure(data, key)
        # An entry that no version of ours can read is as old as its record.
        last = entry.last if entry else deps.storage.sessions.records.find_modification_time(name)
        if last is not None and last < before:
            what = f"known failure {key} of project {project}"
            yield _Expired(
                what, partial(_remove_known, deps.storage.known_failures, project, key, data)
            )


def _remove_known(failures: KnownFailures, project: int, key: str, old: bytes) -> bool:
    try:
        failures.change_entry(project, key, lambda data: None if data == old else data)
    except StoreError:  # somebody has just seen it
        return False
    return True


def _find_old_in_memories(names: Sequence[str], before: float, deps: Deps) -> Iterator[_Expired]:
    """Yield what is old in the projects' memories: words of known failures, then facts."""
    for part, remove, what in (
        (MemoryPart.WORDS, memory.remove_old_words, "the words of {} known failures"),
        (MemoryPart.FACTS, memory.remove_old_facts, "{} facts in the memory"),
    ):
        places = (place for place in map(layout.parse_known, names) if place)
        for project in (project for project, leaf in places if leaf == part):
            old = 0
            with suppress(Unreadable):
                old = remove(project, before, deps, act=False)
            if old:
                line = f"{what.format(old)} of project {project}"
                yield _Expired(line, partial(remove, project, before, deps))


def _find_old_incidents(deps: Deps, before: float) -> Iterator[_Expired]:
    """Yield the records of branches without a pipeline since then (they are gone, or quiet), of
    merge requests without one since then or that nobody waits for, and incidents that were over."""
    records, gone = deps.storage.sessions.records, set[str]()
    for name in list(records.list_names(layout.INCIDENTS)):
        written_at = records.find_modification_time(name)
        limit = before
        if written_at is not None and _is_settled(name, written_at, deps):
            limit = max(before, deps.runtime.clock.now() - _SETTLED)
        if written_at is not None and written_at < limit:
            gone.add(name)
            yield _Expired(name, partial(_remove_untouched, name, limit, records))
    for record in deps.storage.incidents.list_branches():
        kept = _drop_over(record, before)
        is_gone = layout.name_branch_record(record.project_id, record.branch) in gone
        if kept and kept.incidents != record.incidents and not is_gone:
            count = len(set(record.incidents) - set(kept.incidents))
            line = f"{count} incidents of {record.branch!r} in project {record.project_id}"
            yield _Expired(line, partial(_remove_over, record, before, deps))


def _is_settled(name: str, written_at: float, deps: Deps) -> bool:
    """Whether the record is of a merge request that is over, or whose note names no incident.

    Those of a busy project are many, and all of them are read when its branch is red.
    """
    if written_at >= deps.runtime.clock.now() - _SETTLED:
        return False
    request = deps.storage.incidents.find_request(name)
    return request is not None and (request.is_over or not request.told_incidents)


def _remove_untouched(name: str, before: float, records: Records) -> bool:
    written_at = records.find_modification_time(name)
    if written_at is None or written_at >= before:
        return False
    records.delete(name)
    return True


def _remove_over(record: BranchRecord, before: float, deps: Deps) -> bool:
    change = partial(_drop_over, before=before)
    deps.storage.incidents.change_branch(record.project_id, record.branch, change)
    return True


def _drop_over(record: BranchRecord | None, before: float) -> BranchRecord | None:
    """Return the record without the incidents that were over before then.

    A closed one whose pipelines are still kept, as GitLab's newest of a quiet branch, would be
    found anew by them: what we had to say of it goes, and it stays.
    """
    oldest = min((each.pipeline_id for each in record.pipelines), default=0) if record else 0
    kept = []
    for each in record.incidents if record else ():
        seen_at = max((failure.since_at for failure in each.failures), default=0.0)
        is_old = each.state in OVER and max(each.closed_at, seen_at) < before
        is_shown = oldest and any(failure.since_pipeline >= oldest for failure in each.failures)
        if is_old and is_shown and each.state is IncidentState.CLOSED:
            failures, ends = each.failures, (each.opened_at, each.closed_at)
            each = Incident(each.incident_id, each.state, failures, *ends)
        elif is_old:
            continue
        kept.append(each)
    return record and replace(record, incidents=tuple(kept))


def _find_old_by_name(deps: Deps, before: float) -> Iterator[_Expired]:
    """Yield old rows of the list of turns, sums of days, preferences of merge requests, and damaged
    records that were set aside."""
    records = deps.storage.sessions.records
    named = ((name, layout.parse_row(name)) for name in records.list_names(layout.RECENT))
    rows = [name for name, row in named if row and row.began_at < before]
    if rows:
        what = f"{len(rows)} rows of the list of turns"
        yield _Expired(what, partial(_remove_all, rows, records))
    for prefix in (layout.SPEND, layout.VERDICTS):
        for name in list(records.list_names(prefix)):
            ended = layout.parse_day_end(name)
            if ended is not None and ended < before:
                yield _make_record_removal(name, deps)
    for prefix, unused_before in (
        (DAMAGED, before),
        (layout.PROMPTS, before - stored_turns.RENEWAL),
        (layout.PREFERENCES, before),
    ):
        for name in list(records.list_names(prefix)):
            if prefix == layout.PREFERENCES and name.endswith("/project.json"):
                continue
            written_at = records.find_modification_time(name)
            if written_at is not None and written_at < unused_before:
                yield _make_record_removal(name, deps)


def _remove_all(names: list[str], records: Records) -> bool:
    for name in names:
        records.delete(name)
    return True
