"""The counted verdicts of one day. The sweep stores them; reports are built from them.

Stored as verdicts/{YYYY-MM-DD}.json, by the UTC day on which the turns began.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from worker.sessions import object_names
from worker.sessions.records import Records
from worker.sessions.turn_row import Row
from worker.verdict.aftermath import Judgement, Label

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
    """A day's count of turns with the same project, verdict, model and tier: all, right, and wrong.

    `model` is NO_MODEL if no model was asked. `cost_usd` is the sum of the known costs,
    `unknown_costs` the number of turns whose cost is unknown.
    """

    project_id: int
    project: str
    verdict: str
    model: str
    tier: str
    turns: int
    right_count: int
    wrong_count: int
    cost_usd: float
    unknown_costs: int


@dataclass(frozen=True, slots=True)
class Frequent:
    """Failures of the same jobs in a project, with the same verdict.

    `cause` is the newest failure's; `urls` are those of the merge requests, newest first.
    """

    project_id: int
    project: str
    jobs: str
    verdict: str
    count: int
    cause: str
    urls: tuple[str, ...]


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


def list_days(since: float, until: float) -> Iterator[str]:
    """Yield the days from `since` to `until` (epoch seconds), both included, newest first."""
    first, last = object_names.name_day(since), date.fromisoformat(object_names.name_day(until))
    while last.isoformat() >= first:
        yield last.isoformat()
        last -= timedelta(days=1)


def count_day(day: str, turns: Iterable[JudgedTurn], counted_at: float) -> DayReport:
    """Count the turns of a day."""
    newest = sorted(turns, key=lambda each: -each.row.started_at)
    wrong = [each for each in newest if each.judgement.label is Label.CONTRADICTED]
    return DayReport(
        day,
        counted_at,
        cells=tuple(_count_cells(newest)),
        frequent=tuple(merge_frequent(_list_failures(newest))[:MOST_FREQUENT]),
        wrong_verdicts=tuple(map(_make_wrong_verdict, wrong[:MOST_WRONG])),
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


def _list_failures(turns: Iterable[JudgedTurn]) -> Iterator[Frequent]:
    for row in (turn.row for turn in turns):
        if row.jobs:
            known = (row.project_id, row.project, row.jobs, row.verdict)
            yield Frequent(*known, count=1, cause=row.cause, urls=(row.web_url,))


def merge_frequent(failures: Iterable[Frequent]) -> list[Frequent]:
    """Merge failures of the same project, jobs and verdict; return the most frequent first.

    `failures` must be sorted with the newest first.
    """
    merged: dict[tuple[str, str, str], Frequent] = {}
    for each in failures:
        key = (each.project, each.jobs, each.verdict)
        newer = merged.get(key)
        merged[key] = _add_failure(newer, each) if newer else each
    return sorted(merged.values(), key=lambda each: (-each.count, each.project))


def _add_failure(newer: Frequent, older: Frequent) -> Frequent:
    urls = tuple(dict.fromkeys((*newer.urls, *older.urls)))[:MOST_URLS]
    return replace(newer, count=newer.count + older.count, urls=urls)


def _make_wrong_verdict(turn: JudgedTurn) -> WrongVerdict:
    return WrongVerdict(
        project_id=turn.row.project_id,
        project=turn.row.project,
        session_id=turn.row.session_id,
        web_url=turn.row.web_url,
        verdict=turn.row.verdict,
        reason=turn.judgement.reason,
        started_at=turn.row.started_at,
    )


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
    stored = records.read(object_names.name_verdicts(day), MAX_BYTES)
    try:
        return _ADAPTER.validate_json(stored.content) if stored else None
    except ValidationError:
        return None


def write_day(records: Records, report: DayReport) -> None:
    """Store a day's report. Raises StoreError."""
    name, content = object_names.name_verdicts(report.day), _ADAPTER.dump_json(report)
    stored = records.read(name, MAX_BYTES)
    if stored is None:
        records.create(name, content)
    else:
        records.replace(name, content, stored.version)


def read_counted_days(records: Records, now: float, days: int, matches: Matches) -> list[DayReport]:
    """Read the stored reports of the `days` before today, newest first, for matching projects.

    Raises StoreError.
    """
    if days < 1:
        return []
    reports = (read_day(records, day) for day in list_days(now - days * DAY, now - DAY))
    return [select_project(report, matches) for report in reports if report]
