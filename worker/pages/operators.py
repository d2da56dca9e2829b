"""Gives the operators' pages their rows: turns, incidents, and how often verdicts were right.
Their columns and words are in `templates/`.

Pure except for reading the rows and the clock.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from urllib.parse import urlencode

from worker.jobs import precision
from worker.jobs.incident_rows import (
    IncidentRow,
    IncidentSum,
    describe_sum,
    format_span,
    read_rows,
    sum_rows,
)
from worker.jobs.precision import Bucket
from worker.jobs.verdict_days import DAY, DayReport, Frequent, WrongVerdict
from worker.pages.stored import find_state
from worker.pages.texts import DRY_RUN, GIVEN_UP, STATES, check_web_url, describe_verdict
from worker.safety.untrusted import one_line
from worker.sessions.incidents import IncidentStore
from worker.sessions.objects import Objects
from worker.sessions.recent import (
    RUNNING,
    RecentTurns,
    Row,
    RowError,
    load_row_of,
    matches_project,
    parse_project_id,
)
from worker.sessions.retries import RetryStore
from worker.sessions.store import SessionStore
from worker.verdict.aftermath import Share
from worker.verdict.retries import describe_retries
from worker.verdict.verdict import NAMES, Verdict

ROWS = 50

_MAX_ROWS_READ = 10_000
"""The most rows that are read in search of a page's rows."""

_SEARCH_SECONDS = 1.5
"""Seconds after which a search ends, so that a slow store answers too; a page of rows is always
read."""

_RUNNING_SECONDS = 3600.0
"""Turns that began in the last so many seconds are looked at in search of running ones."""

MAX_PARKED = 10
"""The most parked triggers that the page shows."""

CURSOR = "before"
"""The cursor's name in an address."""

_CURSOR = re.compile(r"[0-9A-Za-z._-]{0,220}", re.ASCII)
_MOST_WORDS = 10

State = tuple[Row, str]
"""A turn's row and its state."""


@dataclass(frozen=True, slots=True)
class Query:
    """Which turns are asked for: all that match each of the fields that is not "".

    `cursor` is that of a page, `project` an id, a path or a glob, `verdict` and `state` keys
    of NAMES and STATES; each word of `text` has to be in the row.
    """

    cursor: str = ""
    project: str = ""
    verdict: str = ""
    state: str = ""
    text: str = ""

    @property
    def is_filter(self) -> bool:
        """Whether some turns are left out."""
        return bool(self.project or self.verdict or self.state or self.text)

    def link(self, **changes: str) -> str:
        """Return the address of the same query with changes, relative to the list."""
        fields = {**asdict(self), "cursor": "", **changes}
        named = {CURSOR if name == "cursor" else name: fields[name] for name in fields}
        return "?" + urlencode({name: value for name, value in named.items() if value})

    def matches(self, row: Row) -> bool:
        """Whether a row matches everything but the state."""
        words = self.text.casefold().split()[:_MOST_WORDS]
        names = (row.title, row.author, row.name, row.jobs, row.cause, row.session_id, row.model)
        content = "\n".join((*names, str(row.pipeline_id))).casefold()
        return (
            (not self.verdict or row.verdict == self.verdict)
            and (parse_project_id(self.project) > 0 or matches_project(self.project, row.project))
            and all(word in content for word in words)
        )

    def matches_state(self, row: Row, state: str) -> bool:
        """Whether a row in this state is asked for."""
        return self.state in ("", state) or (self.state == DRY_RUN and row.dry_run)


def parse_query(read: Callable[[str], str]) -> Query | None:
    """Make the query from what `read` returns for each name; None for an impossible cursor.

    Unknown verdicts and states are as none.
    """
    if not _CURSOR.fullmatch(cursor := read(CURSOR)):
        return None
    verdict, state = read("verdict"), read("state")
    return Query(
        cursor=cursor,
        project=one_line(read("project"), 200),
        verdict=verdict if verdict in {str(each) for each in NAMES} else "",
        state=state if state in STATES else "",
        text=one_line(read("text"), 100),
    )


@dataclass(slots=True)
class Overview:
    """A page of the list; turns that run stand on the first one, in `running_rows`.

    `older` is the cursor of the next page, "" if there is none. The search for matching rows ended
    at `searched_to` (epoch seconds); with `is_cut` before the page was full.
    """

    query: Query
    running_rows: list[State] = field(default_factory=list)
    rows: list[State] = field(default_factory=list)
    older: str = ""
    is_cut: bool = False
    searched_to: float = 0.0

    @property
    def first(self) -> bool:
        """Whether it is the first page."""
        return not self.query.cursor

    @property
    def verdicts(self) -> Mapping[str, str]:
        """The verdicts that can be asked for, in words."""
        return {str(verdict): words for verdict, words in NAMES.items()}

    @property
    def states(self) -> Mapping[str, str]:
        """The states that can be asked for, in words."""
        return STATES


def build_overview(
    recent: RecentTurns,
    store: SessionStore,
    now: float,
    query: Query,
    tick: Callable[[], float] = time.monotonic,
) -> Overview:
    """List the newest turns that match the query; on the first page those that run come first."""
    page, cursor, end = Overview(query), "", tick() + _SEARCH_SECONDS
    for read, (place, row) in enumerate(_read_rows(recent, query)):
        is_full = len(page.rows) == ROWS
        seeks_running = page.first and row is not None and row.started_at > now - _RUNNING_SECONDS
        is_late = read >= _MAX_ROWS_READ or (read >= ROWS and tick() > end)
        if (is_full and not seeks_running) or is_late:
            page.older, page.is_cut = cursor, not is_full
            break
        if row and query.matches(row):
            state = row.status if row.status in STATES else "failed"
            if row.status == RUNNING:  # it is interrupted if the store has no holder for it
                state = find_state(store, row.key, row.turn, now)
            elif row.given_up:
                state = GIVEN_UP
            if query.matches_state(row, state):
                if page.first and state == RUNNING:
                    page.running_rows.append((row, state))
                elif not is_full:
                    page.rows.append((row, state))
                else:
                    page.older = cursor
        if not is_full:
            cursor, page.searched_to = place, row.started_at if row else page.searched_to
    return page


def list_parked(lines: Iterable[str]) -> list[str]:
    """Return the lines about parked triggers at the top of the first page."""
    shown = [one_line(line, 300) for line in islice(lines, MAX_PARKED + 1)]
    return shown if len(shown) <= MAX_PARKED else [*shown[:MAX_PARKED], "and more"]


def _read_rows(recent: RecentTurns, query: Query) -> Iterator[tuple[str, Row | None]]:
    """Yield the cursors and rows after the query's cursor, None for what is no row."""
    number = parse_project_id(query.project)
    for place, data in recent.list_newest(_MAX_ROWS_READ + 1, query.cursor, number):
        try:
            yield place, load_row_of(place, data)
        except RowError:
            yield place, None


MOST_INCIDENTS = 100
"""The most incidents that their page shows."""

_SUMMED_DAYS = 30


@dataclass(frozen=True, slots=True)
class IncidentLine:
    """A row of the page of incidents."""

    row: IncidentRow
    span: str
    """For how long it was red."""


@dataclass(frozen=True, slots=True)
class IncidentPage:
    """The page of incidents: those that people were told of, the open ones first."""

    project: str
    days: int
    total: IncidentSum
    """Of the last `days`."""
    red_time: str
    saved_time: str
    """Times in words; "" for none."""
    lines: list[IncidentLine]
    hidden_count: int


def build_incidents(store: IncidentStore, now: float, project: str) -> IncidentPage:
    """Build the page of incidents of the projects that match an operator's argument. Raises
    StoreError."""
    rows = [row for row in read_rows(store, project) if row.is_told]
    total = sum_rows(rows, now, _SUMMED_DAYS)
    lines = [IncidentLine(row, format_span(row.measure_seconds(now))) for row in rows]
    return IncidentPage(
        project,
        _SUMMED_DAYS,
        total,
        format_span(total.red_seconds) if total.count else "",
        format_span(total.saved_seconds) if total.saved_seconds else "",
        lines[:MOST_INCIDENTS],
        max(len(lines) - MOST_INCIDENTS, 0),
    )


def describe_around(records: Objects, now: float, days: int, project: str) -> dict[str, str]:
    """Say for the report how often branches were red (`red`), and what was run again (`again`); ""
    for nothing. Raises StoreError."""
    red = sum_rows(read_rows(IncidentStore(records), project), now, days)
    again = RetryStore(records).count(now - days * DAY, project)
    return {"red": describe_sum(red), "again": describe_retries(again)}


PERIODS = (7, 30, 90)
"""The periods that the page offers, in days."""

MOST_ROWS = 20
"""The most rows of a table."""

_TABLES = ("verdict", "project", "model", "tier")


@dataclass(frozen=True, slots=True)
class Bar:
    """A share and its interval in percent, for an SVG that is 100 wide or high."""

    share: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """The width of the interval, in percent."""
        return round(self.high - self.low, 1)


@dataclass(frozen=True, slots=True)
class TurnLine:
    """A row of a table. `bar` is None if all of its verdicts are open."""

    name: str
    group: Bucket
    right: str
    bar: Bar | None


@dataclass(frozen=True, slots=True)
class _Table:
    """Verdicts by one property; `hidden_count` smaller groups are left out."""

    name: str
    lines: list[TurnLine]
    hidden_count: int


@dataclass(frozen=True, slots=True)
class _Week:
    """A column of the chart: the right share, and counts scaled so that the tallest week is 100."""

    label: str
    bar: Bar | None
    right: float
    wrong: float
    open: float
    title: str


@dataclass(frozen=True, slots=True)
class _ReportPage:
    """The whole page. `total` is None if there are no verdicts.

    `flaky` and `frequent` are failures that occurred in several merge requests, with the URLs of
    those.
    """

    days: int
    project: str
    first_day: str
    last_day: str
    total: TurnLine | None
    weeks: list[_Week]
    tables: list[_Table]
    flaky: list[tuple[Frequent, list[str]]]
    frequent: list[tuple[Frequent, list[str]]]
    wrong: list[WrongVerdict]


def build_report(reports: Sequence[DayReport], days: int, project: str) -> _ReportPage:
    """Build the page from counted days."""
    cuts = precision.count_groups(reports)
    counted = sorted(report.day for report in reports)
    weeks = cuts.get("week", ())
    most = max((group.turns for group in weeks), default=1)
    return _ReportPage(
        days=days,
        project=project,
        first_day=counted[0] if counted else "",
        last_day=counted[-1] if counted else "",
        total=next((_make_line(group, "all") for group in cuts.get("all", ())), None),
        weeks=[_make_week(group, 100 / most) for group in weeks],
        tables=[
            _Table(
                name,
                [_make_line(group, name) for group in cuts[name][:MOST_ROWS]],
                max(0, len(cuts[name]) - MOST_ROWS),
            )
            for name in _TABLES
            if name in cuts
        ],
        flaky=_add_urls(precision.list_frequent(reports, Verdict.FLAKY)),
        frequent=_add_urls(precision.list_frequent(reports)),
        wrong=precision.list_wrong_verdicts(reports),
    )


def _make_line(group: Bucket, cut: str) -> TurnLine:
    name = describe_verdict(group.name) or group.name if cut == "verdict" else group.name
    right = precision.write_share(group) if group.judged_count else ""
    return TurnLine(one_line(name, 200), group, right, make_bar(group.right_share))


def make_bar(share: Share) -> Bar | None:
    """Make the bar of a share; None without observations."""
    if not share.total:
        return None
    return Bar(*(round(100 * each, 1) for each in (share.value, *share.interval)))


def _make_week(group: Bucket, scale: float) -> _Week:
    open_count = group.turns - group.judged_count
    counts = (group.right_count, group.wrong_count, open_count)
    right, wrong, unknown = (round(scale * count, 2) for count in counts)
    title = (
        f"{group.name}: {group.right_count:,} confirmed, {group.wrong_count:,} contradicted, "
        f"{open_count:,} open; right {precision.write_share(group)}"
    )
    label = group.name.partition("-")[2]
    return _Week(label, make_bar(group.right_share), right, wrong, unknown, title)


def _add_urls(failures: Iterable[Frequent]) -> list[tuple[Frequent, list[str]]]:
    checked = ((each, filter(None, map(check_web_url, each.urls))) for each in failures)
    return [(each, list(islice(urls, precision.MOST_URLS))) for each, urls in checked]
