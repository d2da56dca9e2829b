"""The model's final answer as a value, and the proof of what it quotes (law 5).

The workflow asks for Markdown with the sections Verdict, Failed, Cause, Evidence, What to do and
Details, and for evidence as `- job 4711 line 1843: text of that line`. Models take liberties; what
stands elsewhere lands in `details`. Only in Evidence is anything dropped, and counted: a quote that
cannot be read cannot be proven.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from worker.core.ports import LogLines

NEAR = 2
"""How many lines off a quote's line number may be."""

MIN_QUOTE = 12
"""Characters besides blanks that a quote of a part of a line must have."""


class Verdict(StrEnum):
    """Whose failure it is."""

    CHANGE = "caused by this change"
    TARGET = "already failing on the target branch"
    FLAKY = "flaky"
    INFRASTRUCTURE = "infrastructure"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Evidence:
    """A quoted log line. `url` leads to it and is "" until the quote is proven."""

    job_id: int
    line: int
    text: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """An answer, taken apart. `unproven` counts the quotes that were left out."""

    verdict: Verdict = Verdict.UNKNOWN
    failed: str = ""
    cause: str = ""
    evidence: tuple[Evidence, ...] = ()
    to_do: str = ""
    details: str = ""
    unproven: int = 0


def parse(text: str) -> Finding:
    """`text` taken apart. Never raises: an answer without a verdict is UNKNOWN."""
    sections = _sections(text)
    verdict, said = _verdict(sections.get("verdict", ""))
    evidence, prose, unread = _evidence(sections.get("evidence", ""))
    details = (sections.get("", ""), said, sections.get("details", ""), prose)
    return Finding(
        verdict=verdict,
        failed=sections.get("failed", ""),
        cause=sections.get("cause", ""),
        evidence=evidence,
        to_do=sections.get("what to do", ""),
        details="\n\n".join(part for part in details if part),
        unproven=unread,
    )


def prove(finding: Finding, lines: LogLines) -> Finding:
    """`finding` with each piece of evidence proven byte for byte and linked, or left out."""
    proven = tuple(_proofs(finding.evidence, lines))
    missing = len(finding.evidence) - len(proven)
    return replace(finding, evidence=proven, unproven=finding.unproven + missing)


# ---------------------------------------------------------------------------------- sections

_NAMES = "verdict|failed|cause|root cause|evidence|what to do|next steps|details"
_ALIASES = {"root cause": "cause", "next steps": "what to do"}
_HEADINGS = tuple(
    re.compile(rf"[ ]{{0,3}}(?:{form})", re.IGNORECASE)
    for form in (
        rf"\#{{1,6}}[ \t]*(?:\*\*)?({_NAMES})(?:\*\*)?[ \t]*(?:\#*[ \t]*$|:(?:\*\*)?(.*))",
        rf"(?:\*\*|__)({_NAMES})[ \t]*(?:(?::(?:\*\*|__)|(?:\*\*|__):)(.*)|(?:\*\*|__)[ \t]*$)",
        rf"({_NAMES})[ \t]*:(.*)",
    )
)
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})(.*)")


def _sections(text: str) -> dict[str, str]:
    """The text of each section by its name; what stands before the first one by ""."""
    lines = text.split("\n")
    fenced = _fenced(lines)
    heading = next((form for form in _HEADINGS if any(map(form.match, lines))), None)
    found: dict[str, list[str]] = {}
    name = ""
    for number, line in enumerate(lines):
        start = heading.match(line) if heading and number not in fenced else None
        if start:
            name = _ALIASES.get(start[1].lower(), start[1].lower())
            line = (start[2] or "").strip()
        found.setdefault(name, []).append(line)
    return {name: "\n".join(part).strip() for name, part in found.items()}


def _fenced(lines: list[str]) -> set[int]:
    """The numbers of the lines in fences that are closed again."""
    inside: set[int] = set()
    opened: tuple[int, str] | None = None
    for number, line in enumerate(lines):
        fence = _FENCE.match(line)
        if opened is None:
            opened = (number, fence[1]) if fence else None
        elif fence and fence[1].startswith(opened[1]) and not fence[2].strip():
            inside.update(range(opened[0], number + 1))
            opened = None
    return inside


# ----------------------------------------------------------------------------------- verdict

_WORDS = tuple(
    (verdict, re.compile(rf"(?<!not )(?<!not a )\b(?:{pattern})\b", re.IGNORECASE))
    for verdict, pattern in (
        (Verdict.CHANGE, "caused by th(?:is|e) (?:change|merge request|mr)"),
        (Verdict.TARGET, "already (?:failing|broken|red)"),
        (Verdict.FLAKY, "flaky?|flakiness"),
        (Verdict.INFRASTRUCTURE, "infra|infrastructure"),
        (Verdict.UNKNOWN, "unknown|unclear"),
    )
)


def _verdict(text: str) -> tuple[Verdict, str]:
    """The first verdict named in a section, and the section's text if it says more."""
    places = [(found.start(), verdict) for verdict, word in _WORDS if (found := word.search(text))]
    verdict = min(places)[1] if places else Verdict.UNKNOWN
    bare = " ".join(re.findall(r"\w+", text)).lower()
    return verdict, "" if bare == verdict.value else text


# ---------------------------------------------------------------------------------- evidence

_BULLET = re.compile(r"[ \t>]*(?:[-*+]|\d{1,3}[.)])[ \t]")
_QUOTE = re.compile(
    r"[ \t>]*(?:(?:[-*+]|\d{1,3}[.)])[ \t]+)?[*_`\[]{0,3}job[ \t]+\#?(\d{1,15})[*_`]{0,2}[ \t,]+"
    r"line[ \t]+(\d{1,9})[*_`\]]{0,3}(?:\([^()\s]{0,500}\))?[*_]{0,2}[ \t]*"
    r":(?:\*\*(?=[ \t]|$))?[ \t]*(.*)",
    re.IGNORECASE,
)


def _evidence(text: str) -> tuple[tuple[Evidence, ...], str, int]:
    """The quotes of a section, its prose, and the number of items that are no readable quote."""
    lines = text.split("\n")
    fenced = _fenced(lines)
    quotes: list[Evidence] = []
    prose: list[str] = []
    unread = 0
    for number, line in enumerate(lines):
        if found := _QUOTE.match(line):
            quotes.append(Evidence(int(found[1]), int(found[2]), _bare(found[3])))
        elif not line.strip() or _FENCE.match(line):
            continue
        elif quotes and not quotes[-1].text:
            quotes[-1] = replace(quotes[-1], text=_bare(line))
        elif number in fenced or _BULLET.match(line):
            unread += 1
        else:
            prose.append(line)
    return tuple(quotes), "\n".join(prose), unread


def _bare(text: str) -> str:
    """A quote without the blanks and backticks around it."""
    text = text.strip()
    ticks = len(text) - len(text.lstrip("`"))
    if ticks and text.endswith("`" * ticks) and len(text) > 2 * ticks:
        text = text[ticks:-ticks]
    elif text.endswith("`") and text.count("`") % 2:
        text = text[:-1]
    return text.strip()


def _proofs(evidence: tuple[Evidence, ...], lines: LogLines) -> Iterator[Evidence]:
    seen: set[tuple[int, int]] = set()
    for quote in evidence:
        number = _stands_on(quote, lines)
        if number is not None and (quote.job_id, number) not in seen:
            seen.add((quote.job_id, number))
            yield replace(quote, line=number, url=lines.url(quote.job_id, number))


def _stands_on(quote: Evidence, lines: LogLines) -> int | None:
    """The number of the line, at most `NEAR` off, that holds the quote."""
    for number in sorted(
        range(max(1, quote.line - NEAR), quote.line + NEAR + 1),
        key=lambda number: abs(number - quote.line),
    ):
        line = lines.line(quote.job_id, number)
        if line is not None and _holds(line, quote.text):
            return number
    return None


def _holds(line: str, text: str) -> bool:
    if line.strip() == text:
        return bool(text)
    text = text.removesuffix("…").rstrip()  # a preview clips long lines so
    return len("".join(text.split())) >= MIN_QUOTE and text in line
