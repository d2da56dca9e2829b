"""Counts each day's verdicts, judged by later events: the sweep counts them, reports read them.

The events that judge a verdict arrive over days. So a day is counted when it has ended, and again
once a day for two weeks; after that its count stays. `sandpiper report` and the page of verdicts
both show what `read_days` returns, so that they say the same at the same moment.

Stored as verdicts/{YYYY-MM-DD}.json, by the UTC day on which the turns began.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import groupby
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from worker.sessions import layout, recent
from worker.sessions.objects import Records
from worker.sessions.recent import Row, make_filter
from worker.sessions.store import SessionStore
from worker.turns.outcomes import judge_turn
from worker.verdict.aftermath import Judgement, Label

COUNT_AGAIN_DAYS = 14
MOST_TURNS = 20_000
"""After so many turns, a sweep begins no further day."""

_MOST_ROW = 16 * 1024
_READERS = 8
"""How many turns are read at the same time: a bucket answers each of them after a while."""

Matches = Callable[[int, str], bool]
"""Whether a project, given by id and path, is selected."""

DAY = 86_400.0

NO_MODEL = "no model"

MAX_BYTES = 16 * 1024 * 1024

MOST_WRONG, MOST_FREQUENT, MOST_URLS = 200, 1000, 5


@dataclass(frozen=True, slots=True)
class JudgedTurn:
    """A turn with a verdict, and whether the verdict was right."""

    row: Row
    judgement: Judgement


@dataclass(frozen=True, slots=True)
class Cell:
    """A day's count of turns with the same project, verdict, model and tier."""

    project_id: int
    project: str
    verdict: str
    model: str
    """NO_MODEL if no model was asked."""
    tier: str
    turns: int
    right_count: int
    wrong_count: int
    cost_usd: float
    """The sum of the known costs."""
    unknown_costs: int
    """The number of turns whose cost is unknown."""


@dataclass(frozen=True, slots=True)
class Frequent:
    """Failures of the same jobs in a project, with the same verdict."""

    project_id: int
    project: str
    jobs: str
    verdict: str
    count: int
    cause: str
    """The newest failure's."""
    urls: tuple[str, ...]
    """Those of the merge requests, newest first."""


@dataclass(frozen=True, slots=True)
class WrongVerdict:
    """A verdict that was contradicted, and the reason."""

    project_id: int
    project: str
    session_id: str
    web_url: str
    verdict: str
    reason: str
    started_at: float


@dataclass(frozen=True, slots=True)
class DayReport:
    """The verdicts of one day (YYYY-MM-DD), judged at `counted_at` (epoch seconds)."""

    day: str
    counted_at: float
    cells: tuple[Cell, ...] = ()
    frequent: tuple[Frequent, ...] = ()
    wrong_verdicts: tuple[WrongVerdict, ...] = ()


_ADAPTER = TypeAdapter(DayReport)


_T = TypeVar("_T", Cell, Frequent, WrongVerdict)


def count_ended_days(store: SessionStore, now: float, most: int = MOST_TURNS) -> Iterator[str]:
    """Count each day that has ended and is due, the newest first; yield a line for each.

    After `most` turns no further day is begun: the next sweep goes on. Raises StoreError.
    """
    today, oldest = layout.name_day(now), layout.name_day(now - COUNT_AGAIN_DAYS * DAY)
    read = 0
    for day, names in _group_names(store):
        if day >= today:
            continue
        known = read_day(store.records, day)
        if known and (day < oldest or known.counted_at >= now - DAY):
            continue
        if read >= most:
            return
        turns = _judge_turns(store, names)
        read += len(turns)
        write_day(store.records, count_day(day, turns, now))
        yield f"verdicts of {day}: {len(turns)} counted"


def read_days(
    store: SessionStore, now: float, days: int, project: str = "", *, fresh: bool = False
) -> list[DayReport]:
    """Return the verdicts of today and of the `days` before it, of projects that match `project`
    (an id, a path or a glob). Raises StoreError.

    For days that the sweep has counted, its counts are used, unless `fresh`; for other days, each
    turn is read.
    """
    matches, found = make_filter(project), list[DayReport]()
    for day in [] if fresh else list_days(now - days * DAY, now - DAY):
        if counted := read_day(store.records, day):
            found.append(select_project(counted, matches))
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
    names = store.records.list_names(layout.RECENT)
    dated = ((row, name) for name in names if (row := layout.parse_row(name)))
    for day, same in groupby(dated, key=lambda each: layout.name_day(each[0].began_at)):
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
        row = recent.load_row_of(name, stored.content) if stored else None
    except recent.RowError:
        return None
    return row if row and row.verdict and not row.dry_run else None


def _find_judgement(store: SessionStore, row: Row, later: list[Row]) -> Judgement:
    """Return the judgement in the row if it is final, else judge by the store."""
    if row.label in (Label.CONFIRMED, Label.CONTRADICTED):
        return Judgement(Label(row.label), row.label_reason)
    same = (each for each in later if each.look == row.look)
    changed = next((each.verdict for each in same if each.verdict != row.verdict), "")
    return judge_turn(store, row.key, row.turn, row.verdict, changed, row.look)


# --------------------------------------------------------------------- counting the turns of a day


def list_days(since: float, until: float) -> Iterator[str]:
    """Yield the days from `since` to `until` (epoch seconds), both included, newest first."""
    first, last = layout.name_day(since), date.fromisoformat(layout.name_day(until))
    while last.isoformat() >= first:
        yield last.isoformat()
        last -= timedelta(days=1)


def count_day(day: str, turns: Iterable[JudgedTurn], counted_at: float) -> DayReport:
    """Count the turns of a day."""
    newest = sorted(turns, key=lambda each: -each.row.started_at)
    wrong = [each for each in newest if each.judgement.label is Label.CONTRADICTED]
    failures = (
        Frequent(
            row.project_id, row.project, row.jobs, row.verdict, 1, row.cause, urls=(row.web_url,)
        )
        for row in (turn.row for turn in newest)
        if row.jobs
    )
    return DayReport(
        day,
        counted_at,
        cells=tuple(_count_cells(newest)),
        frequent=tuple(merge_frequent(failures)[:MOST_FREQUENT]),
        wrong_verdicts=tuple(
            WrongVerdict(
                project_id=turn.row.project_id,
                project=turn.row.project,
                session_id=turn.row.session_id,
                web_url=turn.row.web_url,
                verdict=turn.row.verdict,
                reason=turn.judgement.reason,
                started_at=turn.row.started_at,
            )
            for turn in wrong[:MOST_WRONG]
        ),
    )


def _count_cells(turns: Iterable[JudgedTurn]) -> Iterator[Cell]:
    alike: dict[tuple[int, str, str, str, str], list[JudgedTurn]] = defaultdict(list)
    for turn in turns:
        row = turn.row
        model = row.model if row.iterations > 0 else NO_MODEL
        alike[row.project_id, row.project, row.verdict, model, row.tier].append(turn)
    for key, same in alike.items():
        costs = [each.row.cost_usd for each in same if each.row.cost_usd is not None]
        labels = [each.judgement.label for each in same]
        yield Cell(
            *key,
            turns=len(same),
            right_count=labels.count(Label.CONFIRMED),
            wrong_count=labels.count(Label.CONTRADICTED),
            cost_usd=sum(costs),
            unknown_costs=len(same) - len(costs),
        )


def merge_frequent(failures: Iterable[Frequent]) -> list[Frequent]:
    """Merge failures of the same project, jobs and verdict; return the most frequent first.

    `failures` must be sorted with the newest first.
    """
    merged: dict[tuple[str, str, str], Frequent] = {}
    for each in failures:
        key = (each.project, each.jobs, each.verdict)
        newer = merged.get(key)
        if newer:
            urls = tuple(dict.fromkeys((*newer.urls, *each.urls)))[:MOST_URLS]
            each = replace(newer, count=newer.count + each.count, urls=urls)
        merged[key] = each
    return sorted(merged.values(), key=lambda each: (-each.count, each.project))


def select_project(day: DayReport, matches: Matches) -> DayReport:
    """Limit a day's report to the projects whose id and path match."""

    def select(entries: Sequence[_T]) -> tuple[_T, ...]:
        return tuple(each for each in entries if matches(each.project_id, each.project))

    return replace(
        day,
        cells=select(day.cells),
        frequent=select(day.frequent),
        wrong_verdicts=select(day.wrong_verdicts),
    )


# ------------------------------------------------------------------------------------ in the store


def read_day(records: Records, day: str) -> DayReport | None:
    """Read a day's stored report; None if it is missing or damaged. Raises StoreError."""
    stored = records.read(layout.name_verdicts(day), MAX_BYTES)
    try:
        return _ADAPTER.validate_json(stored.content) if stored else None
    except ValidationError:
        return None


def write_day(records: Records, report: DayReport) -> None:
    """Store a day's report. Raises StoreError."""
    name, content = layout.name_verdicts(report.day), _ADAPTER.dump_json(report)
    stored = records.read(name, MAX_BYTES)
    if stored is None:
        records.create(name, content)
    else:
        records.replace(name, content, stored.version)
