"""Parses an answer into a Finding, finds what its sentences claim, and names what is missing. Pure.

The workflow asks for Markdown with named sections. Models deviate from that; text outside the
sections is put into `details`. Only in Evidence is anything dropped, and it is counted: a quote
that cannot be read cannot be proven.

What evidence is missing is read from the transcript, where the sources said what they could not
give. An answer that abstains without naming it is filled in with it.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from worker.answer.quotes import scan_quotes
from worker.conversation.answer_text import FENCE, split_sections
from worker.conversation.context import Context
from worker.conversation.messages import ToolResult, find_results
from worker.safety.sentences import before_code, split_sentences
from worker.safety.untrusted import parse_objects
from worker.verdict.finding import Evidence, Finding
from worker.verdict.verdict import Verdict

MAX_QUOTES = 20
"""The most quotes of one answer that are checked; the rest count as unproven."""


def parse_finding(text: str) -> Finding:
    """Parse an answer. Never raises: an answer without a verdict is UNKNOWN."""
    sections = split_sections(text)
    said = sections.get("verdict", "")
    named = _list_named(said)
    verdict = min(named)[1] if named else Verdict.UNKNOWN
    wording = "" if " ".join(re.findall(r"\w+", said)).lower() == verdict.value else said
    evidence, prose, unread = _read_evidence(sections.get("evidence", ""))
    details = (sections.get("", ""), wording, sections.get("details", ""), prose)
    return Finding(
        verdict=verdict,
        what_failed=sections.get("failed", ""),
        cause=sections.get("cause", ""),
        evidence=evidence,
        to_do=sections.get("what to do", ""),
        details="\n\n".join(part for part in details if part),
        unproven=len(unread),
        unread=unread,
        missing_evidence=sections.get("missing", ""),
        next_time=sections.get("keep it next time", ""),
    )


def is_finding(text: str) -> bool:
    """Whether an answer has a finding's sections: a verdict, and a cause or missing evidence."""
    sections = split_sections(text)
    named = _list_named(sections.get("verdict", ""))
    return bool(named) and bool(sections.get("cause") or sections.get("missing"))


_WORDS = tuple(
    (verdict, re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE))
    for verdict, pattern in (
        (Verdict.CHANGE, "caused by th(?:is|e) (?:change|merge request|mr)"),
        (Verdict.TARGET, "already (?:failing|broken|red)"),
        (Verdict.FLAKY, "flaky?|flakiness"),
        (Verdict.INFRASTRUCTURE, "infra|infrastructure"),
        (Verdict.UNKNOWN, "unknown|unclear"),
        (
            Verdict.ABSTAIN,
            "(?:not enough|insufficient) (?:evidence|information)|more information is needed",
        ),
    )
)
_EMPHASIS = re.compile(r"[*_]+(?=\S)|(?<=\S)[*_]+")
_CLAUSE_END = re.compile(
    r"[.;:!?,()\u2013\u2014]|\s-\s|\n\s*(?:\n|[-+*>])"
    r"|\b(?:but|and|because|since|as|so|yet|though|although|while|whereas)\b",
    re.IGNORECASE,
)
_DENIAL = re.compile(
    r"\b(?:not|no(?! (?:doubt|question))|nor|neither|never|non|hardly|unlikely|improbable|cannot"
    r"|without(?! (?:a |any )?doubt)|rather than|instead of"
    r"|(?:is|are|was|were|do|does|did|has|have|had|ca|could|wo|would|should)n['\u2019]?t)\b"
    # The words between it and what it denies: "does not appear to be".
    r"(?:\W+\w+){0,4}\W*$",
    re.IGNORECASE,
)
_REACH = 80
"""How many characters before a claim are searched for a denial of it."""


def _list_named(text: str) -> list[tuple[int, Verdict]]:
    """Return the verdicts that a section names and does not deny in the same clause, each with its
    first place."""
    plain = _EMPHASIS.sub("", text)
    named = []
    for verdict, word in _WORDS:
        for found in word.finditer(plain):
            before = plain[max(0, found.start() - _REACH) : found.start()]
            if not _DENIAL.search(_CLAUSE_END.split(before)[-1]):
                named.append((found.start(), verdict))
                break
    return named


def _read_evidence(text: str) -> tuple[tuple[Evidence, ...], str, tuple[str, ...]]:
    """Return the quotes of a section, its prose, and the items that are no readable quote."""
    quotes: list[Evidence] = []
    prose: list[str] = []
    unread: list[str] = []
    for each in scan_quotes(text):
        if isinstance(each, Evidence):
            quotes.append(each)
        elif each.item and not FENCE.match(each.text) and each.text.strip():
            unread.append(each.text.strip())
        elif each.text.strip() and not FENCE.match(each.text):
            prose.append(each.text)
    unread += [quote.where for quote in quotes[MAX_QUOTES:]]
    return tuple(quotes[:MAX_QUOTES]), "\n".join(prose), tuple(unread)


# ------------------------------------------------------------- what a cause says of other failures

_FURTHER = r"(?:second|another|separate|further|unrelated|independent|additional|other)"
_FAILURE = r"(?:failures?|failing \w+|causes?|errors?|problems?|bugs?|breakages?|flakes?)"
_NAMES_FAILURE = re.compile(
    rf"\b{_FURTHER}\b,?(?: [\w-]+,?){{0,2}} {_FAILURE}\b"
    r"|^(?:Separately|Independently|Secondly|Second|Besides|Additionally|In addition|Also)\b"
    r".{0,200}\b(?:fail|broke|break|caus|error|flaky|red\b)"
    r"|\bfail(?:s|ed|ing)? .{0,40}\b(?:another|a different|an unrelated|a separate|(?:its|their) "
    r"own) (?:reason|cause)\b",
    re.IGNORECASE,
)
_DENIES_FAILURE = re.compile(
    r"\b(?:no|not|nor|without|never|neither|rather than|consequences?|follows?|only because)\b"
    r"|n't\b",
    re.IGNORECASE,
)

_IT = r"(?:it|this|that|them|these|those|the (?:first|same))"
_FOLLOWS_FROM_IT = re.compile(
    rf"\b(?:(?:follow|stem|come|result|arise)s? from {_IT}"
    rf"|(?:disappear|vanish|go)\w* .{{0,10}}with {_IT}"
    rf"|(?:caused by|due to|because of) {_IT}|(?:(?:its|the|are|only|merely|just|a) )+consequences?"
    r"|(?:has|have) the same (?:cause|reason))\b",
    re.IGNORECASE,
)


def list_named_failures(cause: str) -> dict[int, str]:
    """Return the sentences after the first one that name another failure than those before, each
    with its number, from 1."""
    sentences = enumerate(split_sentences(before_code(cause)), 1)
    return {at: each for at, each in sentences if at > 1 and _names_failure(each)}


def _names_failure(sentence: str) -> bool:
    found = _NAMES_FAILURE.search(sentence[:600])
    if found is None or _DENIES_FAILURE.search(sentence[: found.end()]):
        return False
    return not _FOLLOWS_FROM_IT.search(sentence[found.end() : 600])


# ------------------------------------------------------------------ what advice says about a retry

_NO_RETRY = re.compile(
    r"\b(?:retr(?:y|ies|ying)|re-?runs?|re-?running|another run)\b[^.;]{0,40}"
    r"(?:\b(?:not|never|cannot|no use|useless|pointless)\b|n't\b)"
    r"|(?:\b(?:do not|no use to|never)|\bdon't) (?:retry|re-?run)\b",
    re.IGNORECASE,
)
_CONDITION = re.compile(r"\b(?:if|unless|when|until|where|should)\b", re.IGNORECASE)


def advises_against_retry(advice: str) -> bool:
    """Whether a sentence of the advice says, without a condition, that a retry does not help."""
    return any(
        found is not None and not _CONDITION.search(sentence[: found.end()])
        for sentence in split_sentences(before_code(advice))
        for found in [_NO_RETRY.search(sentence[:600])]
    )


_RETRY = re.compile(
    r"\W{0,4}(?:(?:please|just|simply|first) ){0,2}(?:retry|re-?run|restart|re-?trigger)\b",
    re.IGNORECASE,
)
_LATER = re.compile(r"\b(?:after|once|when|as soon as|until|with)\b", re.IGNORECASE)


def advises_retry(advice: str) -> bool:
    """Whether the advice begins with a retry of the job as it is."""
    first = "".join(split_sentences(before_code(advice))[:1])[:600]
    clause = re.split(r"[,;:]", first, maxsplit=1)[0]
    return bool(_RETRY.match(clause)) and not (_LATER.search(clause) or _NO_RETRY.search(first))


# ------------------------------------------------------------------------------- missing evidence

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
    text = "\n".join([*known, finding.missing_evidence])
    fitting = (advice for signs, advice in _REMEDIES.items() if any(sign in text for sign in signs))
    advice = finding.next_time or next(fitting, USUAL)
    return replace(finding, missing_evidence=missing, next_time=advice)


def select_untold(lines: Iterable[str], finding: Finding | None) -> Iterator[str]:
    """Return the `find_unavailable` lines that `finding` does not name yet."""
    named = finding.missing_evidence if finding else ""
    return (line for line in lines if _get_reason(line) not in named)


def _get_reason(line: str) -> str:
    return line.partition(": ")[2]


def find_unavailable(context: Context) -> tuple[str, ...]:
    """Find what sources could not give in this turn, one line each."""
    lines: dict[str, None] = {}
    for result in find_results(context.messages[context.turn_start :]):
        for entry in _find_entries(result, "unavailable"):
            lines[f"{entry.get('source', result.name)}: {entry['unavailable']}"] = None
    return tuple(lines)


def list_failed_calls(context: Context) -> tuple[tuple[str, str], ...]:
    """List the tools whose last call in this turn failed, each with the reason."""
    failed = []
    last = {result.name: result for result in find_results(context.messages[context.turn_start :])}
    for name, result in last.items():
        fields = ("unavailable", "error")
        reasons = (entry[field] for field in fields for entry in _find_entries(result, field))
        if result.is_error:
            failed.append((name, next(reasons, "no reason given")))
    return tuple(failed)


def _find_entries(result: ToolResult, name: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of a result, itself or those in its list, that have a text under `name`."""
    if f'"{name}"' not in result.content:
        return
    parts = parse_objects(result.content, "results")
    yield from (part for part in parts if isinstance(part.get(name), str))
