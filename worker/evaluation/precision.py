"""How often verdicts were right, by what came after them: per verdict, project, model, tier, week.

Pure.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from worker.core.failure.outcomes import Judgement, Label
from worker.core.failure.verdict import Verdict
from worker.core.statistics import compute_interval

MOST_CONTRADICTED, MOST_FREQUENT, MOST_URLS = 20, 10, 3


@dataclass(frozen=True, slots=True)
class JudgedTurn:
    """A turn with a verdict, and whether that was right. `cost_usd` is None if it is unknown."""

    session_id: str
    project: str
    web_url: str
    verdict: str
    judgement: Judgement
    model: str
    tier: str
    cost_usd: float | None
    started_at: float
    has_asked_model: bool = True
    jobs: str = ""
    cause: str = ""


@dataclass
class Group:
    """Turns that are counted together; shares are of those that are not open."""

    name: str
    turns: int = 0
    right_count: int = 0
    wrong_count: int = 0
    cost_usd: float = 0.0
    without_model: int = 0
    has_unknown_cost: bool = field(default=False)

    def add(self, turn: JudgedTurn) -> None:
        """Count a turn."""
        self.turns += 1
        self.right_count += turn.judgement.label is Label.CONFIRMED
        self.wrong_count += turn.judgement.label is Label.CONTRADICTED
        self.cost_usd += turn.cost_usd or 0.0
        self.has_unknown_cost |= turn.cost_usd is None
        self.without_model += not turn.has_asked_model

    @property
    def judged_count(self) -> int:
        """How many turns of which it is known whether they were right."""
        return self.right_count + self.wrong_count

    @property
    def cost_per_right(self) -> float | None:
        """Dollars for each verdict that is known to be right."""
        if not self.right_count or self.has_unknown_cost:
            return None
        return self.cost_usd / self.right_count


_Key = Callable[[JudgedTurn], str]
_CUTS: tuple[tuple[str, _Key], ...] = (
    ("verdict", lambda turn: turn.verdict),
    ("project", lambda turn: turn.project),
    ("model", lambda turn: turn.model if turn.has_asked_model else "no model"),
    ("tier", lambda turn: turn.tier),
    ("week", lambda turn: _name_week(turn.started_at)),
)


def _name_week(at: float) -> str:
    year, week, _ = datetime.fromtimestamp(at, UTC).isocalendar()
    return f"{year}-W{week:02}"


def count_turns(turns: Sequence[JudgedTurn]) -> dict[str, list[Group]]:
    """Return the groups of each cut, the largest first, weeks in their order; "all" has one."""
    cuts = {"all": _group(turns, lambda turn: "all")}
    for name, key in _CUTS:
        groups = [each for each in _group(turns, key) if each.name]
        cuts[name] = sorted(groups, key=lambda each: each.name) if name == "week" else groups
    return {name: groups for name, groups in cuts.items() if groups}


def _group(turns: Iterable[JudgedTurn], key: _Key) -> list[Group]:
    found: dict[str, Group] = defaultdict(lambda: Group(""))
    for turn in turns:
        group = found[key(turn)]
        group.name = key(turn)
        group.add(turn)
    return sorted(found.values(), key=lambda each: (-each.turns, each.name))


def list_contradicted(turns: Sequence[JudgedTurn]) -> list[JudgedTurn]:
    """Return the newest verdicts that were wrong, to be read and learnt from."""
    wrong = [each for each in turns if each.judgement.label is Label.CONTRADICTED]
    return sorted(wrong, key=lambda each: -each.started_at)[:MOST_CONTRADICTED]


@dataclass(frozen=True, slots=True)
class Frequent:
    """Failures of the same jobs of a project with the same verdict. `cause` is the newest one's,
    `urls` are their merge requests."""

    project: str
    jobs: str
    verdict: str
    count: int
    cause: str
    urls: tuple[str, ...]


def list_frequent(turns: Sequence[JudgedTurn], verdict: str = "") -> list[Frequent]:
    """Return what has failed most often, in several merge requests; of a `verdict`, or of any."""
    found: dict[tuple[str, str, str], list[JudgedTurn]] = defaultdict(list)
    for turn in sorted(turns, key=lambda each: -each.started_at):
        if turn.jobs and verdict in ("", turn.verdict):
            found[turn.project, turn.jobs, turn.verdict].append(turn)
    counted = (_make_frequent(*key, same) for key, same in found.items())
    several = (each for each in counted if len(each.urls) > 1)
    return sorted(several, key=lambda each: (-each.count, each.project))[:MOST_FREQUENT]


def _make_frequent(project: str, jobs: str, verdict: str, same: list[JudgedTurn]) -> Frequent:
    urls = tuple(dict.fromkeys(each.web_url for each in same))
    return Frequent(project, jobs, verdict, len(same), same[0].cause, urls)


def list_frequent_lines(turns: Sequence[JudgedTurn]) -> Iterator[str]:
    """Yield a line for each of the flakiest jobs, and for each of the most frequent failures."""
    for title, verdict in (("flaky", Verdict.FLAKY), ("frequent", "")):
        for each in list_frequent(turns, verdict):
            told = f"{each.verdict}: {each.cause}" if not verdict else each.cause
            urls = ", ".join(each.urls[:MOST_URLS])
            yield f"{title}: {each.project}, {each.jobs}, {each.count} times: {told} ({urls})"


HEADER = ("verdicts", "known", "right", "no model", "USD", "USD / right")


def write_row(group: Group) -> tuple[str, ...]:
    """Return a group as texts: its name, and a text for each of `HEADER`."""
    low, high = compute_interval(group.right_count, group.judged_count)
    share = group.right_count / group.judged_count if group.judged_count else 0.0
    right = f"{share:.0%} ({low * 100:.0f}-{high * 100:.0f})" if group.judged_count else "-"
    price = group.cost_per_right
    return (
        *(group.name, str(group.turns), str(group.judged_count), right),
        f"{group.without_model / group.turns:.0%}",
        "unknown" if group.has_unknown_cost else f"{group.cost_usd:.2f}",
        "-" if price is None else f"{price:.3f}",
    )


def write_digest(turns: Sequence[JudgedTurn], days: int) -> str:
    """Return the report as Markdown, fit for an issue or a chat."""
    lines = [f"## Verdicts of the last {days} days", ""]
    for name, groups in count_turns(turns).items():
        lines += [f"| {' | '.join((name, *HEADER))} |", f"|{'---|' * (len(HEADER) + 1)}"]
        lines += [f"| {' | '.join(map(_write_cell, write_row(each)))} |" for each in groups]
        lines.append("")
    if frequent := [f"- {_write_cell(line)}" for line in list_frequent_lines(turns)]:
        lines += ["Most frequent:", "", *frequent, ""]
    lines += _write_contradicted(turns)
    return "\n".join(lines).rstrip() + "\n"


def _write_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("`", "'")


def _write_contradicted(turns: Sequence[JudgedTurn]) -> Iterator[str]:
    wrong = list_contradicted(turns)
    if wrong:
        yield from ("Contradicted, to be read and learnt from:", "")
    for each in wrong:
        yield f"- {each.verdict}: {each.judgement.reason} ({each.web_url}, {each.session_id})"


def make_json(turns: Sequence[JudgedTurn]) -> dict[str, Any]:
    """Return the report as JSON values."""
    return {
        name: [_describe(each) for each in groups] for name, groups in count_turns(turns).items()
    } | {
        "flakiest": [asdict(each) for each in list_frequent(turns, Verdict.FLAKY)],
        "frequent": [asdict(each) for each in list_frequent(turns)],
        "contradicted": [
            {
                "session": each.session_id,
                "web_url": each.web_url,
                "verdict": each.verdict,
                "reason": each.judgement.reason,
            }
            for each in list_contradicted(turns)
        ],
    }


def _describe(group: Group) -> dict[str, Any]:
    low, high = compute_interval(group.right_count, group.judged_count)
    return {
        "name": group.name,
        "verdicts": group.turns,
        "confirmed": group.right_count,
        "contradicted": group.wrong_count,
        "open": group.turns - group.judged_count,
        "low": round(low, 4),
        "high": round(high, 4),
        "without_model": group.without_model,
        "cost_usd": None if group.has_unknown_cost else round(group.cost_usd, 6),
        "cost_usd_per_right": group.cost_per_right,
    }
