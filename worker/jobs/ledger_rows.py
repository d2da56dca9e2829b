"""The ledger of tests as operators see it: on a terminal, on a page, and as lines of the report.

Pure except for reading the store.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from worker.jobs.incident_rows import format_span
from worker.ledger.history import Life, Order, find_named, get_rank, rank_tests
from worker.ledger.names import find_file
from worker.ledger.record import DayRecord
from worker.safety.untrusted import one_line
from worker.sessions.ledger import LedgerStore
from worker.sessions.recent import make_filter, parse_project_id
from worker.verdict.aftermath import Share

DAY = 86_400.0

MOST_PROJECTS = 10
"""The most projects whose tests are looked at together: those that ran the last."""

MOST_TESTS = 20
"""The most tests of each order."""

LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A test that has failed, and the project that it belongs to."""

    project_id: int
    project: str
    life: Life
    owners: str = ""
    """Who owns its file by CODEOWNERS, as far as both are known."""

    @property
    def name(self) -> str:
        """Its class or file and its name, as one line."""
        return one_line(f"{self.life.test.place} {self.life.test.name}", LONGEST_NAME)

    @property
    def call(self) -> str:
        """By what `find_rows` finds it, and as few others as can be."""
        return f"{self.life.test.place} {self.life.test.name}".strip()

    @property
    def rate(self) -> Share:
        """In how many of its job's runs it has failed."""
        return Share(len(self.life.failures), self.life.runs)

    @property
    def last_at(self) -> float:
        """When it failed last (epoch seconds)."""
        return self.life.failures[-1].made_at

    @property
    def lost_time(self) -> str:
        """What its flakes have cost in words; "" for nothing."""
        return format_span(self.life.seconds_lost) if self.life.seconds_lost else ""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The tests of some projects, by each order."""

    tests: dict[Order, tuple[LedgerRow, ...]]
    projects: int
    """How many projects were looked at."""
    left_out: int
    """How many more there are."""


def rank_projects(
    store: LedgerStore, project: str, now: float, days: int, most: int = MOST_TESTS
) -> Ranking:
    """Rank the tests of the projects that match an operator's argument, by what was recorded in the
    last `days`. Raises StoreError."""
    found: dict[Order, list[LedgerRow]] = {order: [] for order in Order}
    since, chosen = now - days * DAY, _choose(store, project)
    for records in _read_projects(store, chosen[:MOST_PROJECTS], since):
        for order, lives in rank_tests(records, since, most).items():
            found[order] += _make_rows(records, lives)
    tests = dict[Order, tuple[LedgerRow, ...]]()
    for order, rows in found.items():
        ranked = [(get_rank(row.life, order), row.project, row.life.test, row) for row in rows]
        first = sorted(ranked, key=lambda each: each[:3])[:most]
        tests[order] = tuple(row for *_, row in first)
    return Ranking(tests, min(len(chosen), MOST_PROJECTS), max(len(chosen) - MOST_PROJECTS, 0))


def find_rows(
    store: LedgerStore, project: str, name: str, now: float, days: int
) -> list[LedgerRow]:
    """Find the tests that a person calls so, in the projects that match an operator's argument; see
    `find_named`. Raises StoreError."""
    since, chosen = now - days * DAY, _choose(store, project)[:MOST_PROJECTS]
    return [
        row
        for records in _read_projects(store, chosen, since)
        for row in _make_rows(records, find_named(records, name, since))
    ]


def _choose(store: LedgerStore, project: str) -> list[int]:
    matches = make_filter(project)
    known = store.find_projects(parse_project_id(project)).items()
    return [number for number, path in known if matches(number, path)]


def _read_projects(
    store: LedgerStore, numbers: Iterable[int], since: float
) -> Iterator[tuple[DayRecord, ...]]:
    for number in numbers:
        if records := store.read_days(number, since):
            yield records


def _make_rows(records: Sequence[DayRecord], lives: Iterable[Life]) -> Iterator[LedgerRow]:
    newest, owners = records[-1], dict(pair for each in records for pair in each.owners)
    for life in lives:
        path = find_file(life.test, life.failures[-1].file)
        yield LedgerRow(newest.project_id, newest.project, life, owners.get(path, ""))


# ------------------------------------------------------------------------------- for the report


def describe_flaky(rows: Sequence[LedgerRow], write: Callable[[str], str] = str) -> Iterator[str]:
    """Yield a line for each of the flakiest tests. `write` formats untrusted text."""
    for row in rows:
        life = row.life
        parts = [
            f"{write(row.project)}, {write(row.name)}",
            f"{len(life.failures)} of {life.runs} runs failed ({row.rate})",
            f"{len(life.flakes)} proven to be a flake",
            f"{count(len(life.requests), 'merge request')} hit" if life.requests else "",
            f"{row.lost_time} lost" if row.lost_time else "",
            f"owned by {write(row.owners)}" if row.owners else "",
        ]
        yield ", ".join(filter(None, parts))


def count(number: int, noun: str) -> str:
    """Write a number of things."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
