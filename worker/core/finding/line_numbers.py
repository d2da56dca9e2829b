"""Corrects the line numbers in a finding's prose where its quotes turned out to be on other lines.

Pure. A model that has miscounted names the same wrong line in its evidence and in its cause.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from worker.core.finding.model import Evidence, Finding
from worker.core.finding.sections import find_fenced_lines
from worker.core.ports.evidence import JobLog, Place


@dataclass(frozen=True, slots=True)
class _Move:
    """The lines `first` to `last`, as a quote named them, are really `shift` lines further down."""

    place: Place
    first: int
    last: int
    shift: int

    def moves(self, first: int, last: int) -> bool:
        return self.first <= first <= last <= self.last


_BLANK = r"[`*_)\]]{0,4},?[ \t]{1,4}(?:(?:at|on|in)[ \t]{1,4})?[(\[*_`]{0,4}"
_NUMBERED = re.compile(
    rf"(?P<name>(?<![\w./@+-])[\w./@+-]{{1,300}})?"
    rf"(?P<sign>(?:{_BLANK}|^)(?:lines?[ \t]{{1,4}}|L[ \t]{{0,4}})|:L?|#L)"
    r"(?P<first>\d{1,9})(?:(?P<to>[ \t]?(?:-|–|to)[ \t]?)(?P<last>\d{1,9}))?(?!\w)",
    re.IGNORECASE,
)


def correct_line_numbers(finding: Finding, claimed: Iterable[Evidence]) -> Finding:
    """Return `finding`, whose quotes are proven, with the line numbers that its prose took from the
    `claimed` quotes corrected as those quotes were.

    A number that a proven quote has as well stays as it is.
    """
    moves = tuple(_find_moves(claimed, finding.evidence))
    if not moves:
        return finding
    kept = {each for quote in finding.evidence for each in range(quote.line, quote.last + 1)}
    return replace(
        finding,
        what_failed=_correct_text(finding.what_failed, moves, kept),
        cause=_correct_text(finding.cause, moves, kept),
        to_do=_correct_text(finding.to_do, moves, kept),
        details=_correct_text(finding.details, moves, kept),
    )


def _find_moves(claimed: Iterable[Evidence], proven: Sequence[Evidence]) -> Iterator[_Move]:
    for quote in claimed:
        found = [each for each in proven if _is_same(quote, each)]
        if len(found) == 1 and quote.line and found[0].line != quote.line:
            yield _Move(quote.place, quote.line, quote.last, found[0].line - quote.line)


def _is_same(quote: Evidence, other: Evidence) -> bool:
    lines, others = (each.text.split("\n") for each in (quote, other))
    return quote.place == other.place and [*map(str.strip, lines)] == [*map(str.strip, others)]


def _correct_text(text: str, moves: Sequence[_Move], kept: set[int]) -> str:
    """The text with its numbers corrected, but not within blocks of code."""

    def correct(found: re.Match[str]) -> str:
        first, last = int(found["first"]), int(found["last"] or found["first"])
        shifts = {
            move.shift
            for move in moves
            if move.moves(first, last) and _may_name(found["name"], found["sign"], move.place)
        }
        if len(shifts) != 1 or kept.intersection((first, last)):
            return found[0]
        (shift,) = shifts
        end = f"{found['to']}{last + shift}" if found["last"] else ""
        return f"{found['name'] or ''}{found['sign']}{first + shift}{end}"

    lines = text.split("\n")
    coded = find_fenced_lines(lines)
    return "\n".join(
        line if at in coded else _NUMBERED.sub(correct, line) for at, line in enumerate(lines)
    )


def _may_name(name: str | None, sign: str, place: Place) -> bool:
    """Whether the word before a line's number is the place, or no place before the word "line"."""
    word = (name or "").rstrip(".")
    if isinstance(place, JobLog) and word == str(place.job_id):
        return True
    path: str = getattr(place, "path", "")
    if path and (f"/{path}".endswith(f"/{word}") if "." in word or "/" in word else word == path):
        return True
    return sign[0] not in ":#" and not re.search(r"[./\d]", word)
