"""Corrects the line numbers in a finding's prose where its quotes turned out to be on other lines.

Pure. A model that has miscounted names the same wrong line in its evidence and in its cause.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from worker.conversation.answer_text import find_fenced_lines
from worker.verdict.finding import Evidence, Finding, JobArtifact, JobLog, Place, RepoFile


@dataclass(frozen=True, slots=True)
class _Move:
    """The lines `first` to `last`, as a quote named them, are really `shift` lines further down."""

    place: Place
    first: int
    last: int
    shift: int


_BLANK = r"[`*_)\]]{0,4},?[ \t]{1,4}(?:(?:at|on|in)[ \t]{1,4})?[(\[*_`]{0,4}"
_NUMBERED = re.compile(
    rf"(?P<name>(?<![\w./@+-])[\w./@+-]{{1,300}})?"
    rf"(?P<sign>(?:{_BLANK}|^)(?:lines?[ \t]{{1,4}}|L[ \t]{{0,4}})|:L?|#L)"
    r"(?P<first>\d{1,9})(?:(?P<to>[ \t]?(?:-|–|to)[ \t]?)(?P<last>\d{1,9}))?(?!\w)",
    re.IGNORECASE,
)
_WORD = re.compile(r"[\w./@+-]+")
_FILE = re.compile(
    r"/|\.[A-Za-z]|^(?:(?:[A-Z]\w*|make|docker|just)file|README|LICEN[CS]E|CODEOWNERS|CHANGELOG"
    r"|BUILD|WORKSPACE)$"
)
_JOB = re.compile(
    r"\bjobs?[ \t]{1,4}[#`*]{0,3}(?P<id>\d{1,20})\b|\bjobs?[ \t]{1,4}[`\"'“]|[`\"'”][ \t]jobs?\b",
    re.IGNORECASE,
)
_DOCUMENT = re.compile(
    r"(?:(?P<log>log|trace)|(?P<file>file|script|source|config|configuration|manifest|template)"
    r"|(?P<artifact>artifact|report)|diff)s?",
    re.IGNORECASE,
)
_KINDS: dict[str | None, tuple[type, ...]] = {
    "log": (JobLog, JobArtifact),
    "file": (RepoFile, JobArtifact),
    "artifact": (JobArtifact,),
}
"""The kinds of place that a word for a document may mean."""


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
    """Return the text with its numbers corrected, except in blocks of code and where the line, or
    the one before or after it, names another place: the number may belong to that one."""
    lines = text.split("\n")
    coded = find_fenced_lines(lines)
    prose = ["" if at in coded else line for at, line in enumerate(lines)]
    corrected = []
    for at, line in enumerate(lines):
        near = "\n".join(prose[max(0, at - 1) : at + 2])
        sure = [move for move in moves if at not in coded and not _names_other(near, move.place)]
        corrected.append(_correct_line(line, sure, kept) if sure else line)
    return "\n".join(corrected)


def _correct_line(line: str, moves: Sequence[_Move], kept: set[int]) -> str:
    def correct(found: re.Match[str]) -> str:
        first, last = int(found["first"]), int(found["last"] or found["first"])
        shifts = {
            move.shift
            for move in moves
            if move.first <= first <= last <= move.last
            and _may_name(found["name"], found["sign"], move.place)
        }
        if len(shifts) != 1 or kept.intersection((first, last)):
            return found[0]
        (shift,) = shifts
        end = f"{found['to']}{last + shift}" if found["last"] else ""
        return f"{found['name'] or ''}{found['sign']}{first + shift}{end}"

    return _NUMBERED.sub(correct, line)


def _names_other(text: str, place: Place) -> bool:
    """Whether the text names a file, a job or a kind of document that is not the place."""
    words = [word.rstrip(".") for word in _WORD.findall(text)]
    if any(_FILE.search(word) and not _is_path(word, place) for word in words):
        return True
    job = str(getattr(place, "job_id", ""))
    if any(found["id"] != job for found in _JOB.finditer(text)):
        return True
    kinds = [found.lastgroup for word in words if (found := _DOCUMENT.fullmatch(word))]
    return any(not isinstance(place, _KINDS.get(kind, ())) for kind in kinds)


def _is_path(word: str, place: Place) -> bool:
    """Whether the word is the place's path, or the end of it."""
    return f"/{getattr(place, 'path', '')}".endswith(f"/{word}")


def _may_name(name: str | None, sign: str, place: Place) -> bool:
    """Whether the word before a line's number names the place, or, before "line", no place at
    all."""
    word = (name or "").rstrip(".")
    if isinstance(place, JobLog) and word == str(place.job_id):
        return True
    if word and _is_path(word, place):
        return True
    return sign[0] not in ":#" and not re.search(r"[./\d]", word)
