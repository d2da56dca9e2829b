"""Builds the operators' page on how often verdicts were right. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from worker.core.failure.verdict import Verdict
from worker.core.text.untrusted import one_line
from worker.evaluation import precision
from worker.evaluation.day_report import DayReport, Frequent, WrongVerdict
from worker.evaluation.precision import Group
from worker.pages.texts import format_cost, format_time
from worker.pages.view import check_web_url, describe_verdict

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
    turns: str
    judged_count: str
    right: str
    bar: Bar | None
    without_model: str
    cost: str
    cost_per_right: str


@dataclass(frozen=True, slots=True)
class Table:
    """Verdicts by one property; `hidden_count` smaller groups are left out."""

    name: str
    lines: list[Line]
    hidden_count: int


@dataclass(frozen=True, slots=True)
class Week:
    """A column of the chart: the right share, and counts scaled so that the tallest week is 100."""

    name: str
    label: str
    bar: Bar | None
    right: float
    wrong: float
    open: float
    title: str


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure that occurred in several merge requests, with links to them."""

    project: str
    jobs: str
    verdict: str
    cause: str
    count: int
    links: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Wrong:
    """A verdict that was contradicted."""

    time: str
    project: str
    mr: str
    mr_url: str
    page: str
    verdict: str
    reason: str


@dataclass(frozen=True, slots=True)
class ReportPage:
    """The whole page. `total` is None if there are no verdicts."""

    days: int
    project: str
    first_day: str
    last_day: str
    total: Line | None
    weeks: list[Week]
    tables: list[Table]
    flaky: list[Failure]
    frequent: list[Failure]
    wrong: list[Wrong]


def build_report(
    reports: Sequence[DayReport], days: int, project: str, link: Callable[[str], str]
) -> ReportPage:
    """Build the page from counted days; `link` returns the address of a session's page."""
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
        flaky=[_make_failure(each) for each in precision.list_frequent(reports, Verdict.FLAKY)],
        frequent=[_make_failure(each) for each in precision.list_frequent(reports)],
        wrong=[_make_wrong(each, link) for each in precision.list_wrong_verdicts(reports)],
    )


def _make_table(name: str, groups: Sequence[Group]) -> Table:
    lines = [_make_line(group, name) for group in groups[:MOST_ROWS]]
    return Table(name, lines, max(0, len(groups) - MOST_ROWS))


def _make_line(group: Group, cut: str) -> Line:
    name = describe_verdict(group.name) or group.name if cut == "verdict" else group.name
    price = group.cost_per_right
    return Line(
        name=one_line(name, 200),
        turns=f"{group.turns:,}",
        judged_count=f"{group.judged_count:,}",
        right=precision.write_share(group) if group.judged_count else "",
        bar=_make_bar(group),
        without_model=f"{group.without_model / group.turns:.0%}",
        cost="unknown" if group.unknown_costs else format_cost(group.cost_usd),
        cost_per_right="" if price is None else format_cost(price),
    )


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
    return Week(group.name, label, _make_bar(group), right, wrong, unknown, title)


def _make_failure(failure: Frequent) -> Failure:
    urls = [url for url in map(check_web_url, failure.urls) if url]
    return Failure(
        project=one_line(failure.project, 200),
        jobs=one_line(failure.jobs, 200),
        verdict=describe_verdict(failure.verdict),
        cause=one_line(failure.cause, 300),
        count=failure.count,
        links=[(_name_mr(url), url) for url in urls[: precision.MOST_URLS]],
    )


def _make_wrong(verdict: WrongVerdict, link: Callable[[str], str]) -> Wrong:
    url = check_web_url(verdict.web_url)
    return Wrong(
        time=format_time(verdict.started_at, "%m-%d %H:%M"),
        project=one_line(verdict.project, 200),
        mr=_name_mr(url),
        mr_url=url,
        page=link(verdict.session_id),
        verdict=describe_verdict(verdict.verdict),
        reason=one_line(verdict.reason, 200),
    )


def _name_mr(url: str) -> str:
    """Return a merge request's short reference, such as "!12"; "" without a URL."""
    return f"!{one_line(url.rstrip('/').rpartition('/')[2], 20)}" if url else ""
