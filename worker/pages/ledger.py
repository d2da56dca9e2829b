"""Gives the operators' page of tests its rows: those that fail without a cause, or one of them.

Pure except for reading the rows.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from urllib.parse import urlencode

from worker.jobs.incident_rows import format_span
from worker.jobs.ledger_rows import DAY, LedgerRow, count, find_rows, rank_projects
from worker.ledger.history import Order, Seen
from worker.pages.operators import Bar, make_bar
from worker.safety.untrusted import one_line
from worker.sessions.layout import name_day
from worker.sessions.ledger import LedgerStore

PERIODS = (7, 30, 60)
"""The periods that the page offers, in days."""

MOST_LIVES, MOST_FAILURES = 5, 50
"""How many tests of one name are shown whole, and how many failures of each."""

_TALLEST = 10.0


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked for: the tests of some projects in an order, or those called `test`."""

    project: str = ""
    test: str = ""
    days: int = 30
    order: Order = Order.FLAKIEST

    def link(self, **changes: object) -> str:
        """Return the address of the same query with changes, relative to the page."""
        fields = {**asdict(self), **changes}
        return "?" + urlencode({name: value for name, value in fields.items() if value})


def parse_query(read: Callable[[str], str]) -> Query | None:
    """Make the query from what `read` returns for each name; None for an impossible one."""
    days, order = read("days") or "30", read("order") or Order.FLAKIEST
    if days not in map(str, PERIODS) or order not in set(Order):
        return None
    project, test = one_line(read("project"), 200), one_line(read("test"), 700)
    return Query(project, test, int(days), Order(order))


@dataclass(frozen=True, slots=True)
class DayCell:
    """A day on which a test failed: its place in the strip, which is as wide as there are days, how
    high its bars are, of ten, and what is told of it."""

    place: int
    flakes: float
    others: float
    title: str


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the page."""

    row: LedgerRow
    strip: list[DayCell]
    bar: Bar | None
    failures: list[Seen]
    """The newest first."""
    span: str
    """For how long it has failed on and off."""

    @property
    def hidden_count(self) -> int:
        """How many failures are not shown."""
        return len(self.row.life.failures) - len(self.failures)


@dataclass(frozen=True, slots=True)
class Page:
    """The page of tests. `left_out` projects, or tests of that name, are not on it."""

    lines: list[Line]
    left_out: int
    projects: int
    periods: tuple[int, ...] = PERIODS
    orders: tuple[Order, ...] = tuple(Order)


def build_page(store: LedgerStore, now: float, query: Query) -> Page:
    """Build the page of the projects that match an operator's argument. Raises StoreError."""
    if query.test:
        rows: Sequence[LedgerRow] = find_rows(store, query.project, query.test, now, query.days)
        lines = [_make_line(row, now, query.days) for row in rows[:MOST_LIVES]]
        return Page(lines, len(rows) - len(lines), 0)
    ranking = rank_projects(store, query.project, now, query.days)
    lines = [_make_line(row, now, query.days) for row in ranking.tests[query.order]]
    return Page(lines, ranking.left_out, ranking.projects)


def _make_line(row: LedgerRow, now: float, days: int) -> Line:
    life, lasted = row.life, row.life.troubled_seconds
    failures = list(life.failures[: -MOST_FAILURES - 1 : -1])
    strip = _make_strip(life.failures, now, days)
    return Line(row, strip, make_bar(row.rate), failures, format_span(lasted) if lasted else "")


def _make_strip(failures: Sequence[Seen], now: float, days: int) -> list[DayCell]:
    """Make the cells of the UTC days; the last one is today."""
    today = int(now // DAY)
    flakes, others = Counter[int](), Counter[int]()
    for each in failures:
        (flakes if each.passed_again else others)[int(each.made_at // DAY)] += 1
    shown = sorted(day for day in {*flakes, *others} if today - days < day <= today)
    scale = _TALLEST / max((flakes[day] + others[day] for day in shown), default=1)
    return [
        DayCell(
            days - 1 - (today - day),
            round(scale * flakes[day], 2),
            round(scale * others[day], 2),
            f"{name_day(day * DAY)}: "
            f"{count(flakes[day], 'flake')}, {count(others[day], 'other failure')}",
        )
        for day in shown
    ]
