"""Proves quotes: each one is byte for byte in the captured evidence, or is left out.

In a reply in free text, `note_parts` puts a remark in place of a quote that is not proven.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice

from worker.answer.parse import MAX_QUOTES
from worker.answer.quotes import correct_line_numbers, scan_quotes
from worker.errors import ArgumentError, SourceError
from worker.safety.untrusted import visible
from worker.verdict.finding import (
    Captures,
    Evidence,
    Finding,
    Place,
    ReportedTest,
    Unproven,
    name_place,
)
from worker.verdict.verdict import CLAIMS, Verdict

NEAR = 2
"""How many lines off a quote's line number may be."""

_MIN_QUOTE = 12
"""The fewest non-blank characters of a quote that is part of a line."""

MAX_SHOWN = 200
"""The most characters of a line that is shown to the model again."""

_MAX_SEARCHED = 200_000
"""The most lines that are searched for a quote that is not where it should be."""

MAX_LIKELY = 2_000
"""The most of these lines that are compared without their blanks."""

MOST_OTHERS = 4
"""The most other lines with a quote that are found; all but the last are named."""

UNREADABLE = "this is not in the form of a quote"

ReplyPart = str | Evidence | Unproven
"""A part of a reply: Markdown, a proven quote, or one that must not be shown."""


_AFTER_NUMBER = re.compile(r"[:|][ \t]?| [+ ]")


def prove_finding(finding: Finding, captures: Captures) -> Finding:
    """Return `finding` with each quote proven byte for byte and linked, or left out.

    Where a quote is on another line than it says, the number is corrected, also in the prose. If no
    quote of a verdict could be proven, the verdict becomes UNKNOWN.
    """
    evidence, failed = _check_quotes(finding.evidence, captures)
    unproven = finding.unproven + len(failed)
    proven = replace(finding, evidence=evidence, unproven=unproven)
    proven = correct_line_numbers(proven, finding.evidence)
    if evidence or not unproven or finding.verdict not in CLAIMS:
        return proven
    return _add_doubt(proven, "none of its quotes could be proven")


def require_evidence(finding: Finding, others: Iterable[str] = ()) -> Finding:
    """Return `finding`; a verdict that claims something and quotes nothing that proves it becomes
    UNKNOWN.

    It stays if there are other verdicts (`others`), such as a rule's, and all of them agree.
    """
    proven = any(not quote.lacks for quote in finding.evidence)
    if finding.verdict not in CLAIMS or proven or set(others) == {finding.verdict}:
        return finding
    return _add_doubt(finding, "quoted nothing that proves it")


def _add_doubt(finding: Finding, why: str) -> Finding:
    doubt = f"The model said “{finding.verdict}”, but {why}: take what it says for a guess."
    return replace(finding, verdict=Verdict.UNKNOWN, doubt=doubt)


def find_unproven(finding: Finding, captures: Captures) -> tuple[Unproven, ...]:
    """Return every quote of `finding` that cannot be proven, and why."""
    unread = (Unproven("", _clip_line(text), UNREADABLE) for text in finding.unread)
    return (*unread, *_check_quotes(finding.evidence, captures)[1])


def _check_quotes(
    quotes: Iterable[Evidence], captures: Captures
) -> tuple[tuple[Evidence, ...], tuple[Unproven, ...]]:
    """Return the quotes that are proven, with their links, and those that are not.

    Of quotes of the same lines only the first is returned.
    """

    @cache
    def read_lines(place: Place) -> tuple[Sequence[str], str]:
        try:
            return captures.read_lines(place), ""
        except (SourceError, ArgumentError) as error:
            return (), f"{name_place(place)} could not be read: {error}"

    proven: dict[tuple[Place, int, int, str], Evidence] = {}
    failed: list[Unproven] = []
    for quote in quotes:
        lines, unreadable = read_lines(quote.place)
        found = _make_unproven(quote, unreadable) if unreadable else _prove_quote(quote, lines)
        if isinstance(found, Unproven):
            failed.append(found)
        else:
            text = "" if found.line else found.text
            linked = replace(found, url=captures.link_lines(found.place, found.line, found.last))
            proven.setdefault((found.place, found.line, found.last, text), linked)
    return tuple(proven.values()), tuple(failed)


def prove_reply(text: str, captures: Captures) -> tuple[ReplyPart, ...]:
    """Split `text` into parts and prove its quotes, but not those after the first `MAX_QUOTES`."""
    parts: list[ReplyPart] = []
    count = 0
    for each in scan_quotes(text, replying=True):
        if isinstance(each, Evidence):
            count += 1
            proven, failed = _check_quotes((each,) if count <= MAX_QUOTES else (), captures)
            unchecked = Unproven(each.where, each.text, "too many quotes", lead=each.lead)
            parts += [*proven, *failed] or [unchecked]
        elif parts and isinstance(parts[-1], str):
            parts[-1] += "\n" + each.text
        else:
            parts.append(each.text)
    return tuple(part for part in parts if not isinstance(part, str) or part.strip())


def _prove_quote(quote: Evidence, lines: Sequence[str]) -> Evidence | Unproven:
    """Return the quote as it stands in the lines of its place, or why it is not proven.

    A quote that is nowhere near its line, but on exactly one other, is proven there.
    """
    start, wanted = _find_start(quote, lines)
    if not start:
        others = _find_elsewhere(wanted, lines) if quote.line else []
        if len(others) != 1 or len(lines) > _MAX_SEARCHED:
            return _explain_miss(quote, wanted, lines, others)
        start = others[0]
    first, last = (start, start + len(wanted) - 1) if _has_numbers(quote) else (0, 0)
    if len(wanted) == 1:
        return replace(quote, line=first, last=last, text=wanted[0])
    found = [line.rstrip() for line in lines[start - 1 : start - 1 + len(wanted)]]
    indent = min((len(line) - len(line.lstrip()) for line in found if line), default=0)
    return replace(quote, line=first, last=last, text="\n".join(line[indent:] for line in found))


def _has_numbers(quote: Evidence) -> bool:
    return not isinstance(quote.place, ReportedTest)


def _find_start(quote: Evidence, lines: Sequence[str]) -> tuple[int, Sequence[str]]:
    """Return the number of the line near its own on which the quote begins, or 0, and its texts.

    The texts may begin with their lines' numbers, as previews show them, and a diff's mark; these
    are removed.
    """
    wanted = quote.text.split("\n")
    for at in _list_starts(quote, len(lines)):
        if _matches_at(wanted, lines, at):
            return at, wanted
        if not _has_numbers(quote):
            continue
        bare = []
        for number, text in enumerate(wanted, at):
            own = text.startswith(str(number))
            mark = _AFTER_NUMBER.match(text, len(str(number))) if own else None
            bare.append((text[mark.end() :] if mark else text).strip())
        if _matches_at(bare, lines, at):
            return at, bare
    return 0, wanted


def _list_starts(quote: Evidence, count: int) -> Iterator[int]:
    """Yield the numbers of the lines on which the quote may begin, the nearest first."""
    if not _has_numbers(quote):
        yield from range(1, count + 1)
        return
    end = min(max(quote.line, quote.last), quote.line + 20) + NEAR
    near = range(max(1, quote.line - NEAR), min(end, count) + 1) if quote.line else range(0)
    yield from sorted(near, key=lambda number: abs(number - quote.line))


def _matches_at(wanted: Sequence[str], lines: Sequence[str], at: int) -> bool:
    """Whether the lines from number `at` on match the texts, one each: a line is its text, or
    contains it and the text has at least _MIN_QUOTE characters. One of several may be empty."""
    if at - 1 + len(wanted) > len(lines) or not any(wanted):
        return False
    for text, line in zip(wanted, lines[at - 1 : at - 1 + len(wanted)], strict=True):
        if line.strip() == text and (text or len(wanted) > 1):
            continue
        part = text.removesuffix("…").rstrip()  # as a preview clips long lines
        if line.strip() == text or part not in line or len("".join(part.split())) < _MIN_QUOTE:
            return False
    return True


def _explain_miss(
    quote: Evidence, wanted: Sequence[str], lines: Sequence[str], others: Sequence[int]
) -> Unproven:
    place = name_place(quote.place)
    if at := _find_other_blanks(wanted, lines, _list_starts(quote, len(lines))):
        shown = _show_lines(lines, at, at + len(wanted) - 1)
        return _make_unproven(quote, f"only its blanks differ from {place}", tuple(shown))
    if not _has_numbers(quote):
        return _make_unproven(quote, f"{place} has no such line", tuple(_show_lines(lines, 1, 5)))
    if others:
        # Of MOST_OTHERS numbers the last one means "and more".
        named = ", ".join(map(str, others[: MOST_OTHERS - 1]))
        more = " and more" if len(others) == MOST_OTHERS else ""
        plural = "s" if len(others) > 1 else ""
        reason = f"it stands on line{plural} {named}{more} of {place}, not there"
        return _make_unproven(quote, reason)
    # The first lines with the longest word of the first text.
    word = max(wanted[0].removesuffix("…").split(), key=len, default="")
    searched = enumerate(islice(lines, _MAX_SEARCHED), 1)
    likely = islice((number for number, line in searched if word in line), MAX_LIKELY)
    if at := _find_other_blanks(wanted, lines, likely):
        shown = _show_lines(lines, at, at + len(wanted) - 1)
        reason = f"it stands on line {at} of {place}, not there, and its blanks differ"
        return _make_unproven(quote, reason, tuple(shown))
    if quote.line > len(lines):
        return _make_unproven(quote, f"{place} has {len(lines)} lines")
    shown = _show_lines(lines, max(1, quote.line - NEAR), quote.line + NEAR)
    return _make_unproven(quote, f"{place} has on these lines", tuple(shown))


def _find_other_blanks(wanted: Sequence[str], lines: Sequence[str], starts: Iterable[int]) -> int:
    """Return the first of the line numbers `starts` on which the texts begin if blanks are ignored,
    0 if there is none."""
    texts = [_strip_blanks(text) for text in wanted]
    long = sum(map(len, texts)) >= _MIN_QUOTE
    holds = str.__contains__ if long else str.__eq__
    for at in starts if any(texts) else ():
        if at - 1 + len(texts) <= len(lines) and all(
            holds(_strip_blanks(lines[number]), text) for number, text in enumerate(texts, at - 1)
        ):
            return at
    return 0


def _strip_blanks(text: str) -> str:
    return "".join(text.removesuffix("…").split())


def _find_elsewhere(wanted: Sequence[str], lines: Sequence[str]) -> list[int]:
    """Return the numbers of the first MOST_OTHERS lines on which the texts begin."""
    part = wanted[0].removesuffix("…").rstrip()
    found = (
        number
        for number, line in enumerate(islice(lines, _MAX_SEARCHED), 1)
        if part in line and _matches_at(wanted, lines, number)
    )
    return list(islice(found, MOST_OTHERS))


def _show_lines(lines: Sequence[str], first: int, last: int) -> Iterator[str]:
    for number in range(first, min(last, len(lines)) + 1):
        yield f"{number}: {_clip_line(lines[number - 1])}"


def _make_unproven(quote: Evidence, reason: str, near: tuple[str, ...] = ()) -> Unproven:
    return Unproven(quote.where, _clip_line(quote.text), reason, near, quote.lead)


def _clip_line(text: str) -> str:
    """Return `text` clipped, on one line, with its blanks: the model may copy it as a quote."""
    line = visible(text).replace("\n", " / ")
    return line if len(line) <= MAX_SHOWN else line[: MAX_SHOWN - 1] + "…"
