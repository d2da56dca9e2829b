"""Names missing evidence, and the one change to the CI configuration that would keep it. Pure.

Everything is read from the transcript, where the sources said what they could not give. An answer
that abstains without naming what is missing is filled in with it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from worker.conversation.context import Context
from worker.conversation.messages import (
    ToolResult,
    find_results,
)
from worker.safety.untrusted import parse_objects
from worker.verdict.finding import Finding
from worker.verdict.verdict import Verdict

_MAX_NAMED = 3

_REMEDIES = {
    ("they expired at",): (
        "Keep the job's artifacts longer: `artifacts: expire_in: 1 week` in `.gitlab-ci.yml`."
    ),
    ("it has kept none", "has no artifacts"): (
        "Let the job keep its reports when it fails: `artifacts: when: always` with their "
        "`paths` (by default GitLab keeps them only when a job succeeds)."
    ),
    ("uploaded a test report",): (
        "Let the job upload its test results: `artifacts: reports: junit: report.xml` together "
        "with `artifacts: when: always`."
    ),
    ("was erased",): (
        "Don't erase job logs before the merge request is merged, or keep the tool's own log with "
        "`artifacts: when: always`."
    ),
    ("bytes, cut from its middle", "of the log's", "exceeded limit"): (
        "Make the log smaller: write the verbose output to a file and keep that with "
        "`artifacts: when: always`."
    ),
    (
        "too little access",
        "has not the scope",
        "refuses the read token",
        "may not see it",
        "permission",
        "HTTP 403",
        "403 Forbidden",
    ): ("Let Sandpiper's read token see it: at least the role Reporter and the scope `read_api`."),
    ("GitLab has no log",): (
        "Keep the tool's own log with `artifacts: when: always`; GitLab has none for the job."
    ),
}
"""Advice on missing evidence, by words from the sources' messages of which one is enough. The most
helpful change comes first."""

USUAL = (
    "Keep what the job leaves behind: `artifacts: when: always` with the tool's own logs and "
    "reports as `paths`."
)


def fill_missing_evidence(finding: Finding, context: Context) -> Finding:
    """Return `finding`; if it abstains, with the missing evidence and advice on how to keep it."""
    if finding.verdict is not Verdict.ABSTAIN:
        return finding
    # What the sources could not give, and what this turn's documents say is missing from them.
    reasons = [_get_reason(line) for line in find_unavailable(context)]
    for result in find_results(context.messages[context.turn_start :]):
        reasons += [entry["missing"] for entry in _find_entries(result, "missing")]
    known = list(dict.fromkeys(reasons))
    missing = finding.missing_evidence or "; ".join(known[:_MAX_NAMED])
    advice = finding.next_time or _choose_advice(known, finding.missing_evidence)
    return replace(finding, missing_evidence=missing, next_time=advice)


def select_untold(lines: Iterable[str], finding: Finding | None) -> Iterator[str]:
    """Return the `find_unavailable` lines that `finding` does not name yet."""
    named = finding.missing_evidence if finding else ""
    return (line for line in lines if _get_reason(line) not in named)


def _get_reason(line: str) -> str:
    return line.partition(": ")[2]


def _choose_advice(known: list[str], named: str) -> str:
    text = "\n".join([*known, named])
    fitting = (advice for signs, advice in _REMEDIES.items() if any(sign in text for sign in signs))
    return next(fitting, USUAL)


def find_unavailable(context: Context) -> tuple[str, ...]:
    """Find what sources could not give in this turn, one line each."""
    lines: dict[str, None] = {}
    for result in find_results(context.messages[context.turn_start :]):
        for entry in _find_entries(result, "unavailable"):
            lines[f"{entry.get('source', result.name)}: {entry['unavailable']}"] = None
    return tuple(lines)


def list_failed_calls(context: Context) -> tuple[tuple[str, str], ...]:
    """List the tools whose last call in this turn failed, each with the reason."""
    last = {result.name: result for result in find_results(context.messages[context.turn_start :])}
    return tuple(
        (name, next(_list_reasons(result), "no reason given"))
        for name, result in last.items()
        if result.is_error
    )


def _list_reasons(result: ToolResult) -> Iterator[str]:
    for field in ("unavailable", "error"):
        yield from (str(entry[field]) for entry in _find_entries(result, field))


def _find_entries(result: ToolResult, name: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of a result, itself or those in its list, that have a text under `name`."""
    if f'"{name}"' not in result.content:
        return
    parts = parse_objects(result.content, "results")
    yield from (part for part in parts if isinstance(part.get(name), str))
