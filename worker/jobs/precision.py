"""Reports how often verdicts proved right: by verdict, project, model, tier and week. Pure."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

from worker.jobs.verdict_days import (
    NO_MODEL,
    Cell,
    DayReport,
    Frequent,
    WrongVerdict,
    merge_frequent,
)
from worker.safety.untrusted import one_line
from worker.verdict.aftermath import Share
from worker.verdict.verdict import Verdict

MOST_WRONG, MOST_FREQUENT, MOST_URLS = 20, 10, 3
_MOST_TEXT = 600
"""Characters of a text in the digest; stored ones are shorter."""


@dataclass
class Bucket:
    """Verdicts that are counted together. Shares leave out open verdicts."""

    name: str
    turns: int = 0
    right_count: int = 0
    wrong_count: int = 0
    cost_usd: float = 0.0
    without_model: int = 0
    unknown_costs: int = 0

    def add(self, cell: Cell) -> None:
        """Add the counts of a cell."""
        self.turns += cell.turns
        self.right_count += cell.right_count
        self.wrong_count += cell.wrong_count
        self.cost_usd += cell.cost_usd
        self.unknown_costs += cell.unknown_costs
        self.without_model += cell.turns if cell.model == NO_MODEL else 0

    @property
    def judged_count(self) -> int:
        """The number of verdicts that are known to be right or wrong."""
        return self.right_count + self.wrong_count

    @property
    def right_share(self) -> Share:
        """The share of right verdicts among the judged ones."""
        return Share(self.right_count, self.judged_count)

    @property
    def cost_per_right(self) -> float | None:
        """Dollars of all verdicts per right one; None if none is right or a cost is unknown."""
        if not self.right_count or self.unknown_costs:
            return None
        return self.cost_usd / self.right_count


_Key = Callable[[str, Cell], str]
_CUTS: tuple[tuple[str, _Key], ...] = (
    ("all", lambda day, cell: "all"),
    ("verdict", lambda day, cell: cell.verdict),
    ("project", lambda day, cell: cell.project),
    ("model", lambda day, cell: cell.model),
    ("tier", lambda day, cell: cell.tier),
    ("week", lambda day, cell: _name_week(day)),
)


def _name_week(day: str) -> str:
    year, week, _ = date.fromisoformat(day).isocalendar()
    return f"{year}-W{week:02}"


def count_groups(days: Sequence[DayReport]) -> dict[str, list[Bucket]]:
    """Return the groups of each cut, the largest first, weeks by date. "all" has one group."""
    cuts: dict[str, list[Bucket]] = {}
    for cut, key in _CUTS:
        groups: dict[str, Bucket] = {}
        for report in days:
            for cell in report.cells:
                name = key(report.day, cell)
                groups.setdefault(name, Bucket(name)).add(cell)
        groups.pop("", None)
        if groups:
            cuts[cut] = sorted(groups.values(), key=lambda each: (-each.turns, each.name))
    if "week" in cuts:
        cuts["week"].sort(key=lambda each: each.name)
    return cuts


def list_wrong_verdicts(days: Iterable[DayReport]) -> list[WrongVerdict]:
    """Return the newest wrong verdicts, for people to read and learn from."""
    wrong = [each for report in days for each in report.wrong_verdicts]
    return sorted(wrong, key=lambda each: -each.started_at)[:MOST_WRONG]


def list_frequent(days: Iterable[DayReport], verdict: str = "") -> list[Frequent]:
    """Return the most frequent failures in several merge requests; `verdict` "" is any."""
    newest = sorted(days, key=lambda report: report.day, reverse=True)
    merged = merge_frequent(
        each for report in newest for each in report.frequent if verdict in ("", each.verdict)
    )
    return [each for each in merged if len(each.urls) > 1][:MOST_FREQUENT]


def list_frequent_lines(
    days: Sequence[DayReport], write: Callable[[str], str] = str
) -> Iterator[str]:
    """Yield a line for each of the flakiest jobs, and for each of the most frequent failures.

    `write` formats untrusted text: names of jobs, and causes.
    """
    for title, verdict in (("flaky", Verdict.FLAKY), ("frequent", "")):
        for each in list_frequent(days, verdict):
            jobs, cause = write(each.jobs), write(each.cause)
            summary = f"{each.verdict}: {cause}" if not verdict else cause
            urls = ", ".join(each.urls[:MOST_URLS])
            yield f"{title}: {each.project}, {jobs}, {each.count} times: {summary} ({urls})"


HEADER = ("verdicts", "known", "right", "no model", "USD", "USD / right")


def write_row(group: Bucket) -> tuple[str, ...]:
    """Return a group as a row of texts: its name, and a text for each column of `HEADER`."""
    price = group.cost_per_right
    return (
        group.name,
        str(group.turns),
        str(group.judged_count),
        write_share(group),
        f"{group.without_model / group.turns:.0%}",
        "unknown" if group.unknown_costs else f"{group.cost_usd:.2f}",
        "-" if price is None else f"{price:.3f}",
    )


def write_share(group: Bucket) -> str:
    """Return the share of right verdicts with its interval, in percent; "-" if none is judged."""
    return str(group.right_share) if group.judged_count else "-"


def write_digest(reports: Sequence[DayReport], days: int) -> str:
    """Return the report as Markdown for an issue or a chat."""
    lines = [f"## Verdicts of the last {days} days", ""]
    for name, groups in count_groups(reports).items():
        lines += [f"| {' | '.join((name, *HEADER))} |", f"|{'---|' * (len(HEADER) + 1)}"]
        for group in groups:
            cells = [each.replace("|", "\\|").replace("`", "'") for each in write_row(group)]
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    if frequent := [f"- {line}" for line in list_frequent_lines(reports, write_code)]:
        lines += ["Most frequent:", "", *frequent, ""]
    if wrong := list_wrong_verdicts(reports):
        lines += ["Contradicted, to be read and learnt from:", ""]
    for each in wrong:
        where = f"{each.web_url}, {each.session_id}"
        lines.append(f"- {each.verdict}: {write_code(each.reason)} ({where})")
    return "\n".join(lines).rstrip() + "\n"


def write_code(text: str) -> str:
    """Return text of a model or a job as Markdown code, in which it cannot mention, load or link
    anything."""
    line = one_line(text, _MOST_TEXT).replace("`", "'")
    return f"`{line}`" if line else ""


def make_json(days: Sequence[DayReport]) -> dict[str, Any]:
    """Return the report as JSON values."""
    return {
        name: [_describe(each) for each in groups] for name, groups in count_groups(days).items()
    } | {
        "flakiest": [_describe_failure(each) for each in list_frequent(days, Verdict.FLAKY)],
        "frequent": [_describe_failure(each) for each in list_frequent(days)],
        "contradicted": [
            {
                "session": each.session_id,
                "web_url": each.web_url,
                "verdict": each.verdict,
                "reason": each.reason,
            }
            for each in list_wrong_verdicts(days)
        ],
    }


def _describe_failure(failure: Frequent) -> dict[str, Any]:
    return {name: value for name, value in asdict(failure).items() if name != "project_id"}


def _describe(group: Bucket) -> dict[str, Any]:
    low, high = group.right_share.interval
    return {
        "name": group.name,
        "verdicts": group.turns,
        "confirmed": group.right_count,
        "contradicted": group.wrong_count,
        "open": group.turns - group.judged_count,
        "low": round(low, 4),
        "high": round(high, 4),
        "without_model": group.without_model,
        "cost_usd": None if group.unknown_costs else round(group.cost_usd, 6),
        "cost_usd_per_right": group.cost_per_right,
    }
