"""Incidents as operators see them: on a terminal, on a page, and as a line of the report.

Pure except for reading the store.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from worker.incidents.record import (
    GONE,
    NOBODY,
    BranchFailure,
    BranchRecord,
    Incident,
    IncidentState,
    Landing,
)
from worker.incidents.sightings import is_silent
from worker.safety.untrusted import one_line
from worker.sessions.incidents import IncidentStore
from worker.sessions.recent import make_filter, parse_project_id

_DAY = 86_400.0
_TITLE = 100

_SHORT_SHA = 8


@dataclass(frozen=True, slots=True)
class IncidentRow:
    """An incident, and the record of its branch without its pipelines."""

    record: BranchRecord
    incident: Incident

    @property
    def is_told(self) -> bool:
        """Whether people are, or were, told of it."""
        return self.incident.state in (IncidentState.OPEN, IncidentState.CLOSED)

    @property
    def since_at(self) -> float:
        """When the branch was first red (epoch seconds)."""
        return self.incident.first.since_at

    @property
    def ended_at(self) -> float:
        """When it was green again, or withdrawn; 0 while it is red."""
        if self.incident.state in (IncidentState.OPEN, IncidentState.SUSPECTED):
            return 0.0
        green_at = max(each.until_at for each in self.incident.failures)
        return green_at or self.incident.closed_at

    @property
    def jobs(self) -> str:
        """The names of the jobs that fail."""
        names = (name for each in self.incident.failures for name in each.jobs)
        return ", ".join(dict.fromkeys(names))

    @property
    def suspects(self) -> str:
        """What is proven to have broken it, "" if nothing is."""
        found = (each.suspect for each in self.incident.failures if each.suspect)
        return ", ".join(map(self.describe_landing, dict.fromkeys(found)))

    @property
    def end(self) -> str:
        """What ended it, in words; "" while it is red."""
        if not self.ended_at:
            return ""
        if self.incident.state is IncidentState.WITHDRAWN:
            known = not all(is_silent(each.key) for each in self.incident.failures)
            return "it was a flake" if known else "a flake, or told by another incident"
        return self.describe_end(max(self.incident.failures, key=lambda each: each.until_at))

    def measure_seconds(self, now: float) -> float:
        """Return for how long the branch has been red."""
        return max((self.ended_at or now) - self.since_at, 0.0)

    @property
    def saved_seconds(self) -> float:
        """The time of the analyses that were not made: each as long as the branch's own."""
        return self.incident.seconds * len(self.incident.short)

    def describe_end(self, failure: BranchFailure) -> str:
        """Say what ended one failure; "" while it is red."""
        if failure.ended_by == NOBODY:
            return "passed again"
        if failure.ended_by == GONE:
            return "its job or branch is gone"
        return self.describe_landing(failure.ended_by) if failure.ended_by else ""

    def describe_landing(self, sha: str) -> str:
        """Name what landed, as `!123 its title`, or by its commit."""
        landing = self.find_landing(sha)
        name = f"!{landing.mr_iid}" if landing.mr_iid else sha[:_SHORT_SHA]
        return f"{name} {one_line(landing.title, _TITLE)}".strip()

    def find_landing(self, sha: str) -> Landing:
        """Find what landed; one that is not kept any more has nothing but its commit."""
        kept = (each for each in self.record.landings if each.sha == sha)
        return next(kept, Landing(sha, 0.0))


def read_rows(store: IncidentStore, project: str = "") -> list[IncidentRow]:
    """Read the incidents of projects that match an operator's argument: the open ones first, and
    in each state the newest first. Raises StoreError."""
    matches = make_filter(project)
    rows = list[IncidentRow]()
    for record in store.list_branches(parse_project_id(project)):
        if not matches(record.project_id, record.project):
            continue
        if record.open_incidents:
            record = record.add_told(store.list_requests(record.project_id, record.branch))
        kept = replace(record, pipelines=())
        rows += [IncidentRow(kept, each) for each in record.incidents if each.failures]
    return sorted(rows, key=_sort_row)


def _sort_row(row: IncidentRow) -> tuple[bool, float, str, str]:
    is_open = row.incident.state is IncidentState.OPEN
    return not is_open, -row.since_at, row.record.project, row.incident.incident_id


# ------------------------------------------------------------------------------- as one sentence


@dataclass(frozen=True, slots=True)
class IncidentSum:
    """The incidents of a period: those that were red in it."""

    count: int
    open_count: int
    red_seconds: float
    """How long each was red, added up."""
    hit_count: int
    """Merge requests that were told of one; one that was told of two counts twice."""
    short_count: int
    """Those of them that were answered without a model."""
    saved_seconds: float
    """How long their analyses would have taken."""


def sum_rows(rows: Iterable[IncidentRow], now: float, days: int) -> IncidentSum:
    """Sum up the incidents of the last `days`. Those that nobody was told of do not count."""
    since = now - days * _DAY
    counted = [each for each in rows if each.is_told and (each.ended_at or now) >= since]
    return IncidentSum(
        count=len(counted),
        open_count=sum(each.incident.is_open for each in counted),
        red_seconds=sum(each.measure_seconds(now) for each in counted),
        hit_count=sum(len(each.incident.told_requests) for each in counted),
        short_count=sum(len(each.incident.short) for each in counted),
        saved_seconds=sum(each.saved_seconds for each in counted),
    )


def describe_sum(found: IncidentSum) -> str:
    """Say how often branches were red, for how long, and what that saved; "" if never."""
    if not found.count:
        return ""
    is_open = f" ({found.open_count} open)" if found.open_count else ""
    words = f"{_count(found.count, 'incident')}{is_open}, red for {format_span(found.red_seconds)}"
    words += f", {_count(found.hit_count, 'merge request')} hit"
    if found.short_count:
        words += f", {found.short_count:,} of them answered without a model"
    if found.saved_seconds:
        words += f", which saved {format_span(found.saved_seconds)}"
    return words


def format_span(seconds: float) -> str:
    """Format a time as "less than a minute", "12 min", "3 h 05 min" or "2 d 3 h"."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return "less than a minute"
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
