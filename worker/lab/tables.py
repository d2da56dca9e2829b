"""The table of an evaluation: for the terminal, as Markdown and as JSON. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from worker.lab.scoring import Played, Summary, summarise_runs
from worker.verdict.shares import Share

HEADER = (
    *("model", "runs", "right", "verdict", "cause", "evidence", "falsely sure"),
    *("requests", "tokens", "USD", "to placeholder", "to note"),
)


def list_rows(played: Sequence[Played]) -> list[tuple[str, ...]]:
    """Return a row of texts for each model, in the columns of `HEADER`."""
    return [_write_row(each) for each in summarise_runs(played)]


def _write_row(each: Summary) -> tuple[str, ...]:
    cause = f"{each.cause}, judged {each.judged_cause}" if each.judged_cause else str(each.cause)
    return (
        *(each.model, str(each.runs), str(each.right), str(each.verdict), cause),
        *(str(each.evidence), str(each.false_confidence)),
        *(f"{each.requests:.1f}", f"{each.tokens:,.0f}", _write_cost(each.cost_usd)),
        *(_write_seconds(each.seconds_to_placeholder), _write_seconds(each.seconds_to_note)),
    )


def _write_cost(dollars: float | None) -> str:
    return "unknown" if dollars is None else f"{dollars:.4f}"


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
    return {
        "models": [_make_summary(each) for each in summarise_runs(played)],
        "runs": [asdict(each) | {"right": each.is_right} for each in played],
    }


def _make_summary(summary: Summary) -> dict[str, Any]:
    fields = asdict(summary)
    for name, value in fields.items():
        if isinstance(value, dict):
            low, high = Share(**value).interval
            fields[name] = value | {"low": round(low, 4), "high": round(high, 4)}
    return fields
