"""Counts each day's verdicts, judged by later events: the sweep counts them, reports read them.

The events that judge a verdict arrive over days. So a day is counted when it has ended, and again
once a day for two weeks; after that its count stays. `sandpiper report` and the page of verdicts
both show what `read_days` returns, so that they say the same at the same moment.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby

from worker.conversation.context import SessionKey
from worker.jobs.day_report import (
    DAY,
    DayReport,
    JudgedTurn,
    count_day,
    list_days,
    read_counted_days,
    read_day,
    select_project,
    write_day,
)
from worker.sessions import object_names, turn_row
from worker.sessions.base import SessionStore
from worker.sessions.turn_row import Row, make_filter
from worker.turns.outcomes import judge_turn
from worker.verdict.aftermath import Judgement, Label

COUNT_AGAIN_DAYS = 14
MOST_TURNS = 20_000
"""After so many turns, a sweep begins no further day."""

_MOST_ROW = 16 * 1024
_READERS = 8
"""How many turns are read at the same time: a bucket answers each of them after a while."""


def count_ended_days(store: SessionStore, now: float, most: int = MOST_TURNS) -> Iterator[str]:
    """Count each day that has ended and is due, the newest first; yield a line for each.

    After `most` turns no further day is begun: the next sweep goes on. Raises StoreError.
    """
    today, read = object_names.name_day(now), 0
    for day, names in _group_names(store):
        if day >= today or not _is_due(read_day(store.records, day), day, now):
            continue
        if read >= most:
            return
        turns = _judge_turns(store, names)
        read += len(turns)
        write_day(store.records, count_day(day, turns, now))
        yield f"verdicts of {day}: {len(turns)} counted"


def _is_due(report: DayReport | None, day: str, now: float) -> bool:
    if report is None:
        return True
    is_recent = day >= object_names.name_day(now - COUNT_AGAIN_DAYS * DAY)
    return is_recent and report.counted_at < now - DAY


def read_days(
    store: SessionStore, now: float, days: int, project: str = "", *, fresh: bool = False
) -> list[DayReport]:
    """Return the verdicts of today and of the `days` before it, of projects that match `project`
    (an id, a path or a glob). Raises StoreError.

    For days that the sweep has counted, its counts are used, unless `fresh`; for other days, each
    turn is read.
    """
    matches = make_filter(project)
    found = [] if fresh else read_counted_days(store.records, now, days, matches)
    known, wanted = {report.day for report in found}, set(list_days(now - days * DAY, now))
    for day, names in _group_names(store):
        if day < min(wanted):
            break
        if day in wanted - known:
            turns = _judge_turns(store, names)
            found.append(select_project(count_day(day, turns, now), matches))
    return found


def _group_names(store: SessionStore) -> Iterator[tuple[str, Iterator[str]]]:
    """Yield each day that has turns, the newest first, with the names of its rows."""
    names = store.records.list_names(object_names.RECENT)
    dated = ((row, name) for name in names if (row := object_names.parse_row(name)))
    for day, same in groupby(dated, key=lambda each: object_names.name_day(each[0].began_at)):
        yield day, (name for _, name in same)


def _judge_turns(store: SessionStore, names: Iterator[str]) -> list[JudgedTurn]:
    """Judge the turns of these rows that have a verdict; a damaged row is left out."""
    with ThreadPoolExecutor(_READERS, "verdicts") as readers:
        read = readers.map(lambda name: _read_row(store, name), names)
        rows = sorted(filter(None, read), key=lambda row: (row.session_id, row.turn))
        turns = [
            (row, session[at + 1 :])
            for _, same in groupby(rows, key=lambda row: row.session_id)
            for session in [list(same)]
            for at, row in enumerate(session)
        ]
        found = readers.map(lambda each: _find_judgement(store, *each), turns)
        return [JudgedTurn(row, judged) for (row, _), judged in zip(turns, found, strict=True)]


def _read_row(store: SessionStore, name: str) -> Row | None:
    """Return a row; None if it is damaged, or of a turn without a verdict, or of a dry run."""
    stored = store.records.read(name, _MOST_ROW)
    try:
        row = turn_row.load_row_of(name, stored.content) if stored else None
    except turn_row.RowError:
        return None
    return row if row and row.verdict and not row.dry_run else None


def _find_judgement(store: SessionStore, row: Row, later: list[Row]) -> Judgement:
    """Return the judgement in the row if it is final, else judge by the store."""
    if row.label in (Label.CONFIRMED, Label.CONTRADICTED):
        return Judgement(Label(row.label), row.label_reason)
    key = SessionKey(row.project_id, row.mr_iid, row.session_id)
    same = (each for each in later if each.look == row.look)
    changed = next((each.verdict for each in same if each.verdict != row.verdict), "")
    return judge_turn(store, key, row.turn, row.verdict, changed, row.look)
