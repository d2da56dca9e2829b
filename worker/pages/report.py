"""Builds the operators' page on how often verdicts were right. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from worker.jobs import precision
from worker.jobs.precision import Group
from worker.jobs.verdict_days import DayReport, Frequent, WrongVerdict
from worker.pages.texts import check_web_url, describe_verdict
from worker.safety.untrusted import one_line
from worker.verdict.verdict import Verdict

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
class Line:
    """A row of a table. `bar` is None if all of its verdicts are open."""

    name: str
    group: Group
    right: str
    bar: Bar | None


@dataclass(frozen=True, slots=True)
class Table:
    """Verdicts by one property; `hidden_count` smaller groups are left out."""

    name: str
    lines: list[Line]
    hidden_count: int


@dataclass(frozen=True, slots=True)
class Week:
    """A column of the chart: the right share, and counts scaled so that the tallest week is 100."""

    label: str
    bar: Bar | None
    right: float
    wrong: float
    open: float
    title: str


@dataclass(frozen=True, slots=True)
class ReportPage:
    """The whole page. `total` is None if there are no verdicts.

    `flaky` and `frequent` are failures that occurred in several merge requests, with the URLs of
    those.
    """

    days: int
    project: str
    first_day: str
    last_day: str
    total: Line | None
    weeks: list[Week]
    tables: list[Table]
    flaky: list[tuple[Frequent, list[str]]]
    frequent: list[tuple[Frequent, list[str]]]
    wrong: list[WrongVerdict]


def build_report(reports: Sequence[DayReport], days: int, project: str) -> ReportPage:
    """Build the page from counted days."""
    cuts = precision.count_groups(reports)
    counted = sorted(report.day for report in reports)
    return ReportPage(
        days=days,
        project=project,
        first_day=counted[0] if counted else "",
        last_day=counted[-1] if counted else "",
        total=next((_make_line(group, "all") for group in cuts.get("all", ())), None),
        weeks=_make_weeks(cuts.get("week", ())),
        tables=[_make_table(name, cuts[name]) for name in _TABLES if name in cuts],
        flaky=_add_urls(precision.list_frequent(reports, Verdict.FLAKY)),
        frequent=_add_urls(precision.list_frequent(reports)),
        wrong=precision.list_wrong_verdicts(reports),
    )


def _make_table(name: str, groups: Sequence[Group]) -> Table:
    lines = [_make_line(group, name) for group in groups[:MOST_ROWS]]
    return Table(name, lines, max(0, len(groups) - MOST_ROWS))


def _make_line(group: Group, cut: str) -> Line:
    name = describe_verdict(group.name) or group.name if cut == "verdict" else group.name
    right = precision.write_share(group) if group.judged_count else ""
    return Line(one_line(name, 200), group, right, _make_bar(group))


def _make_bar(group: Group) -> Bar | None:
    if not group.judged_count:
        return None
    share = group.right_share
    return Bar(*(round(100 * each, 1) for each in (share.value, *share.interval)))


def _make_weeks(groups: Sequence[Group]) -> list[Week]:
    most = max((group.turns for group in groups), default=1)
    return [_make_week(group, 100 / most) for group in groups]


def _make_week(group: Group, scale: float) -> Week:
    open_count = group.turns - group.judged_count
    counts = (group.right_count, group.wrong_count, open_count)
    right, wrong, unknown = (round(scale * count, 2) for count in counts)
    title = (
        f"{group.name}: {group.right_count:,} confirmed, {group.wrong_count:,} contradicted, "
        f"{open_count:,} open; right {precision.write_share(group)}"
    )
    label = group.name.partition("-")[2]
    return Week(label, _make_bar(group), right, wrong, unknown, title)


def _add_urls(failures: Iterable[Frequent]) -> list[tuple[Frequent, list[str]]]:
    checked = ((each, filter(None, map(check_web_url, each.urls))) for each in failures)
    return [(each, list(islice(urls, precision.MOST_URLS))) for each, urls in checked]
