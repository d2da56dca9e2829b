"""Scores notes against what their cases expect, and sums the scores up in a table. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from worker.lab.cases import Expectation
from worker.verdict.aftermath import Share
from worker.verdict.finding import Finding
from worker.verdict.verdict import CLAIMS, Verdict


@dataclass(frozen=True, slots=True)
class Played:
    """One run of a case: the answer's scores, and its requests, tokens, dollars and seconds.

    `cause_fits` is a judge's opinion on the cause's meaning, None without one. `problem` says why
    there is no answer. Seconds are None if there was no such note.
    """

    case: str
    digest: str
    model: str
    repeat: int
    verdict: str = ""
    is_verdict_right: bool = False
    is_cause_right: bool = False
    proven_quotes: int = 0
    has_expected_line: bool = False
    is_hedged: bool = False
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    seconds_to_placeholder: float | None = None
    seconds_to_note: float | None = None
    cause_fits: bool | None = None
    problem: str = ""

    @property
    def is_right(self) -> bool:
        """Whether the verdict and the cause are right."""
        return self.is_verdict_right and self.is_cause_right

    @property
    def is_falsely_confident(self) -> bool:
        """Whether the note claims something wrong without saying that it is unsure."""
        return bool(self.verdict) and not self.is_right and not self.is_hedged


def score_finding(
    played: Played, finding: Finding | None, expected: Expectation, *, is_whole: bool
) -> Played:
    """Return the run with its scores; `is_whole` is False if the answer was cut short."""
    if finding is None:
        return replace(played, is_hedged=True)
    abstains = finding.verdict is Verdict.ABSTAIN
    cause = finding.missing_evidence if abstains else finding.cause
    everything = "\n".join([cause, finding.what_failed, finding.to_do, finding.details])
    names_files = all(path in everything for path in expected.files)
    flags = re.IGNORECASE | re.DOTALL
    fits = all(re.search(pattern, cause, flags) for pattern in expected.cause)
    quotes = [each.text for each in finding.evidence]
    is_proven = any(re.search(line, quote) for line in expected.lines for quote in quotes)
    return replace(
        played,
        verdict=str(finding.verdict),
        is_verdict_right=finding.verdict in expected.verdict,
        is_cause_right=names_files and fits,
        proven_quotes=len(quotes),
        has_expected_line=is_proven or not expected.lines,
        is_hedged=finding.verdict not in CLAIMS or not is_whole,
    )


@dataclass(frozen=True, slots=True)
class Summary:
    """The runs of one model: means of requests, tokens, `cost_usd` and seconds; None if unknown."""

    model: str
    runs: int
    right: Share
    verdict: Share
    cause: Share
    evidence: Share
    false_confidence: Share
    judged_cause: Share | None
    requests: float
    tokens: float
    cost_usd: float | None
    total_usd: float | None
    seconds_to_placeholder: float | None
    seconds_to_note: float | None


def summarise_runs(played: Sequence[Played]) -> list[Summary]:
    """Return a summary for each model, in the order of the runs."""
    models = dict.fromkeys(each.model for each in played)
    return [_summarise(name, [each for each in played if each.model == name]) for name in models]


def _summarise(model: str, runs: Sequence[Played]) -> Summary:
    judged = [each.cause_fits for each in runs if each.cause_fits is not None]
    costs = _list_known(each.cost_usd for each in runs)
    has_all_costs = len(costs) == len(runs)
    return Summary(
        model,
        len(runs),
        right=_share(each.is_right for each in runs),
        verdict=_share(each.is_verdict_right for each in runs),
        cause=_share(each.is_cause_right for each in runs),
        evidence=_share(each.has_expected_line for each in runs),
        false_confidence=_share(each.is_falsely_confident for each in runs),
        judged_cause=_share(judged) if judged else None,
        requests=_mean([each.requests for each in runs]) or 0.0,
        tokens=_mean([each.input_tokens + each.output_tokens for each in runs]) or 0.0,
        cost_usd=_mean(costs) if has_all_costs else None,
        total_usd=sum(costs) if has_all_costs else None,
        seconds_to_placeholder=_mean(_list_known(each.seconds_to_placeholder for each in runs)),
        seconds_to_note=_mean(_list_known(each.seconds_to_note for each in runs)),
    )


def _share(values: Iterable[bool]) -> Share:
    hits = list(values)
    return Share(sum(hits), len(hits))


def _list_known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


HEADER = (
    *("model", "runs", "right", "verdict", "cause", "evidence", "falsely sure"),
    *("requests", "tokens", "USD", "to placeholder", "to note"),
)


def list_rows(played: Sequence[Played]) -> list[tuple[str, ...]]:
    """Return a row of texts for each model, in the columns of `HEADER`."""
    return [
        (
            *(each.model, str(each.runs), str(each.right), str(each.verdict)),
            f"{each.cause}, judged {each.judged_cause}" if each.judged_cause else str(each.cause),
            *(str(each.evidence), str(each.false_confidence)),
            *(f"{each.requests:.1f}", f"{each.tokens:,.0f}"),
            "unknown" if each.cost_usd is None else f"{each.cost_usd:.4f}",
            *(_write_seconds(each.seconds_to_placeholder), _write_seconds(each.seconds_to_note)),
        )
        for each in summarise_runs(played)
    ]


def _write_seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.1f} s"


def list_wrong_runs(played: Sequence[Played]) -> Iterator[str]:
    """Yield a line for each run with a wrong verdict or cause, or without expected evidence."""
    for each in played:
        if each.is_right and each.has_expected_line:
            continue
        faults = [
            *([] if each.is_verdict_right else [f"verdict {each.verdict or 'none'}"]),
            *([] if each.is_cause_right else ["cause"]),
            *([] if each.has_expected_line else ["evidence"]),
            *(["falsely sure"] if each.is_falsely_confident else []),
            *([each.problem] if each.problem else []),
        ]
        yield f"{each.case} ({each.model}, {each.repeat}): {', '.join(faults)}"


def write_markdown(played: Sequence[Played]) -> str:
    """Return the table and the wrong runs as Markdown."""
    lines = [
        f"| {' | '.join(HEADER)} |",
        f"|{'---|' * len(HEADER)}",
        *(f"| {' | '.join(row)} |" for row in list_rows(played)),
    ]
    wrong = [f"- {line}" for line in list_wrong_runs(played)]
    return "\n".join([*lines, *(["", "Not right:", "", *wrong] if wrong else [])]) + "\n"


def make_json(played: Sequence[Played]) -> dict[str, Any]:
    """Return the summaries and the runs as JSON values."""
    models = [asdict(each) for each in summarise_runs(played)]
    for fields in models:
        for name, value in fields.items():
            if isinstance(value, dict):
                low, high = Share(**value).interval
                fields[name] = value | {"low": round(low, 4), "high": round(high, 4)}
    return {
        "models": models,
        "runs": [asdict(each) | {"right": each.is_right} for each in played],
    }
