"""Names missing evidence, and the one change to the CI configuration that would keep it.

For an answer that abstains without naming them itself. Pure: everything is read from the
transcript, where the sources said what they could not give.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from worker.answer.repair import find_entries, find_unavailable
from worker.conversation.context import Context
from worker.conversation.messages import find_results
from worker.verdict.finding import Finding
from worker.verdict.verdict import Verdict

MAX_NAMED = 3

REMEDIES = {
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
    reasons = map(_get_reason, find_unavailable(context))
    known = list(dict.fromkeys((*reasons, *_list_incomplete(context))))
    missing = finding.missing_evidence or "; ".join(known[:MAX_NAMED])
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
    fitting = (advice for signs, advice in REMEDIES.items() if any(sign in text for sign in signs))
    return next(fitting, USUAL)


def _list_incomplete(context: Context) -> Iterator[str]:
    """Yield what this turn's documents say is missing from them."""
    for result in find_results(context.messages[context.turn_start :]):
        yield from (entry["missing"] for entry in find_entries(result, "missing"))
