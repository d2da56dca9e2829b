"""Parses the text of an answer into a Finding.

The workflow asks for Markdown with named sections. Models deviate from that; text outside the
sections is put into `details`. Only in Evidence is anything dropped, and it is counted: a quote
that cannot be read cannot be proven.
"""

import re

from worker.answer.quotes import scan_quotes
from worker.conversation.answer_text import FENCE, split_sections
from worker.verdict.finding import Evidence, Finding
from worker.verdict.verdict import Verdict

MAX_QUOTES = 20
"""The most quotes of one answer that are checked; the rest count as unproven."""


def parse_finding(text: str) -> Finding:
    """Parse an answer. Never raises: an answer without a verdict is UNKNOWN."""
    sections = split_sections(text)
    verdict, wording = _read_verdict(sections.get("verdict", ""))
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


def _read_verdict(text: str) -> tuple[Verdict, str]:
    """Return the first verdict that a section names and does not deny, and the section's text if
    that says more."""
    places = _list_named(text)
    verdict = min(places)[1] if places else Verdict.UNKNOWN
    bare = " ".join(re.findall(r"\w+", text)).lower()
    return verdict, "" if bare == verdict.value else text


def _list_named(text: str) -> list[tuple[int, Verdict]]:
    """Return the verdicts that a section names and does not deny, each with its first place."""
    plain = _EMPHASIS.sub("", text)
    places = ((_find_claim(word, plain), verdict) for verdict, word in _WORDS)
    return [(at, verdict) for at, verdict in places if at is not None]


def _find_claim(word: re.Pattern[str], text: str) -> int | None:
    starts = (found.start() for found in word.finditer(text))
    return next((at for at in starts if not _is_denied(text, at)), None)


def _is_denied(text: str, at: int) -> bool:
    """Whether the same clause denies what begins at `at`."""
    before = _CLAUSE_END.split(text[max(0, at - _REACH) : at])[-1]
    return bool(_DENIAL.search(before))


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
