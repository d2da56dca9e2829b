"""Chooses how much of a finding is visible at once, so that it fits; whole sentences where
possible."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from worker.core.text.sentences import (
    SHOWN,
    after_sentences,
    before_code,
    split_clauses,
    split_sentences,
)

MAX_QUOTES = 3
"""Quotes that are visible at once."""

LONGEST = (SHOWN, 280, 240, 120, 60)
"""Limits of the first sentence in characters: four lines, three, or less. Of a longer sentence, as
many clauses are shown as fit. The first limit with which the shortest note fits is used."""

_SEPARATED = (".", "!", "?", "…", ",", ":", ";")
_WIDE_SEPARATED = ("。", "！", "？", "，", "、", "：", "；")
"""Marks of Chinese and Japanese, which no blank follows."""


@dataclass(frozen=True, slots=True)
class QuoteShape:
    """How a quote may be shown: with all lines, or one of `several` lines if that is `legible`.

    `job` is the failed job that the quote is from, or 0.
    """

    several: bool = False
    legible: bool = True
    job: int = 0


@dataclass(frozen=True, slots=True)
class WholeParts:
    """All that could be shown: the number of sentences of both sections, and the quotes in order.

    `named_failures` counts the sentences of the cause up to the last one that names another
    failure; 0 if none does. `has_origin`: there is a link to the same failure elsewhere.
    """

    cause: int
    to_do: int
    quotes: Sequence[QuoteShape] = ()
    named_failures: int = 0
    has_origin: bool = False


@dataclass(frozen=True, slots=True)
class PartLimits:
    """How much of each part is shown.

    `cause` and `to_do` count sentences. `quotes` are the numbers (from 0) of the quotes that are
    shown; those in `one_line` are shown with one line only. `jobs_level` is the level of
    `shorten_jobs`, `longest` one of `LONGEST`. `origin`: see `WholeParts.has_origin`.
    """

    cause: int = 1
    to_do: int = 1
    quotes: frozenset[int] = frozenset()
    one_line: frozenset[int] = frozenset()
    jobs_level: int = 4
    longest: int = LONGEST[-1]
    origin: bool = False


def choose_room(whole: WholeParts, fits: Callable[[PartLimits], bool]) -> PartLimits:
    """Returns what is shown: the beginnings of both sections, even if they do not fit, and whatever
    else fits, the most important parts first."""
    return _Filler(whole, fits).fill()


class _Filler:
    """Adds one part after another to what is shown, if it fits."""

    def __init__(self, whole: WholeParts, fits: Callable[[PartLimits], bool]) -> None:
        self._whole = whole
        self._fits = fits
        sizes = (PartLimits(longest=size) for size in LONGEST)
        self._room = next(filter(fits, sizes), PartLimits())

    def fill(self) -> PartLimits:
        """Returns the room with all that fits: the names of the jobs first, then a quote, then
        sentences, and only then details of what failed, further quotes and their lines."""
        whole, every = self._whole, range(len(self._whole.quotes))
        self._add_jobs(3, 2)
        if whole.has_origin:
            self._add(origin=True)
        if not (whole.named_failures > 1 and self._add_quote(every, cause=whole.named_failures)):
            self._add_quote(every)
        self._add_sentences("cause", whole.cause)
        for job in dict.fromkeys(quote.job for quote in whole.quotes if quote.job):
            if all(whole.quotes[at].job != job for at in self._room.quotes):
                self._add_quote([at for at in every if whole.quotes[at].job == job])
        self._add_sentences("to_do", whole.to_do)
        self._add_jobs(1)
        for at in every:
            self._add_quote([at])
        self._add_jobs(0)
        for at in sorted(self._room.one_line):
            self._add(one_line=self._room.one_line - {at})
        return self._room

    def _add(self, **changes: Any) -> bool:
        room = replace(self._room, **changes)
        fitting = self._fits(room)
        self._room = room if fitting else self._room
        return fitting

    def _add_jobs(self, *levels: int) -> None:
        for level in levels:
            self._add(jobs_level=level)

    def _add_sentences(self, section: str, most: int) -> None:
        while (count := getattr(self._room, section)) < most:
            if not self._add(**{section: count + 1}):
                return

    def _add_quote(self, numbers: Iterable[int], **changes: int) -> bool:
        """Adds the first of these quotes that fits, together with the `changes`. Quotes of one line
        are tried first; of longer quotes, a single line is tried first. Returns whether one fit."""
        room, shapes = self._room, self._whole.quotes
        if len(room.quotes) >= MAX_QUOTES:
            return False
        for at in sorted(set(numbers) - room.quotes, key=lambda at: (shapes[at].several, at)):
            shown = room.quotes | {at}
            short = room.one_line | {at} if shapes[at].several else room.one_line
            if shapes[at].legible and self._add(quotes=shown, one_line=short, **changes):
                return True
            if shapes[at].several and self._add(quotes=shown, **changes):
                return True
        return False


# ---------------------------------------------------------------------------------------- sections


def count_sentences(text: str) -> int:
    """Counts the sentences before the first code block."""
    return len(split_sentences(before_code(text)))


def begin_section(text: str, sentences: int, longest: int) -> tuple[str, str]:
    """Returns the first `sentences` of a section on one line, and the rest of the section. If the
    first sentence has more than `longest` characters, returns its first clauses and the section."""
    shown = split_sentences(before_code(text))[:sentences]
    if shown and len(shown[0]) > longest:
        return _cut_to_clauses(shown[0], longest), text
    rest = after_sentences(text, shown)
    if not shown:
        return "See the details below." if rest else "", rest
    if before_code(rest) != rest:
        shown = _point_to_code(shown, below=not before_code(rest).strip())
    return _join_sentences(shown), rest


def _point_to_code(sentences: list[str], *, below: bool) -> list[str]:
    """Returns the sentences with a remark that code is folded; `below`: it follows directly."""
    *others, last = sentences
    if below and last.endswith(":"):
        return [*others, f"{last[:-1]} (in the details)."]
    first, *others = sentences
    end = first[-1] if first[-1] in ".!?" else ""
    if end or not others:
        return [f"{first.removesuffix(end)} (code in the details){end or '.'}", *others]
    return [*sentences, "The code is in the details."]


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


def count_named_failures(cause: str) -> int:
    """Counts the sentences up to the last one that names another failure; 0 if no sentence after
    the first one does."""
    sentences = split_sentences(before_code(cause))
    named = [at for at, each in enumerate(sentences, 1) if at > 1 and _names_failure(each)]
    return named[-1] if named else 0


def _names_failure(sentence: str) -> bool:
    found = _NAMES_FAILURE.search(sentence[:600])
    if found is None or _DENIES_FAILURE.search(sentence[: found.end()]):
        return False
    return not _FOLLOWS_FROM_IT.search(sentence[found.end() : 600])


def _join_sentences(sentences: list[str]) -> str:
    text = sentences[0]
    for each in sentences[1:]:
        if text.endswith(_WIDE_SEPARATED):
            text += each
        else:
            text += ("" if text.endswith(_SEPARATED) else ";") + f" {each}"
    return text


def _cut_to_clauses(sentence: str, longest: int) -> str:
    """Returns the clauses that fit into `longest` characters, or words if the first does not."""
    for marks in (";:", ",;:", ""):
        parts = split_clauses(sentence, marks) if marks else sentence.split(" ")
        text, glue = "", "" if marks else " "
        for part in parts:
            if len(text) + len(part) > longest:
                break
            text += part + glue
        if text:
            return f"{text.rstrip(' ,;:，、；：')} …"
    return f"{sentence[:longest]} …"


# ------------------------------------------------------------------------------------ failed jobs

_IDS = r"\(\[?(?:job )?#?\d{1,19}(?=[\]),])(?:[^()]|\([^()]{0,300}\)){0,300}\)"
_JOB = rf"(?:`[^`\n]{{1,200}}`|[\w.:/-]{{1,80}}) {_IDS}"
_JOBS = re.compile(rf"{_JOB}(?: and {_JOB}){{0,20}}")
"""Names of jobs with their ids."""

_ASIDE = re.compile(r"(\((?:job )?#?\d{1,19}), [^()\d][^()]{0,300}\)")
"""The id of a job, and words about it."""

_AND_MORE = re.compile(r"(?<=[`)]) and(?: (?=`)|, *$)")
_LISTED = re.compile(
    r"(?:and|or)\b(?! (?:the|its?|then|so|they|this|that|is|was|were)\b)|[`\"“A-Z0-9]"
)
"""The beginning of a further test or step in a list, not of a reason or of what came after."""

_ALLOWED = re.compile(r"\ballow")


@dataclass(slots=True)
class _Failed:
    """Jobs by name, and what failed in them; `ended` says that the sentence about them is over."""

    names: list[str]
    detail: str = ""
    ended: bool = False


def shorten_jobs(text: str, level: int) -> str:
    """Returns what failed, on one line. Level 0 is all of it, 1 each job with its first test or
    step, 2 the jobs with the number of failures in each if there are several, 3 the first three
    jobs, 4 nothing.

    From level 1 on, jobs that are allowed to fail are left out if there are others.
    """
    sentences = split_sentences(text)
    if not sentences or level >= 4:
        return ""
    if level == 0:
        return _join_sentences(sentences)
    every = _read_jobs(sentences)
    failed = [each for each in every if not _ALLOWED.search(each.detail)] or every
    if level == 1:
        return "; ".join(map(_write_first_failure, failed))
    if level == 2:
        return ", ".join(map(_write_count, failed))
    names = [name for each in failed for name in each.names]
    more = f" and {len(names) - 3} more" if level == 3 and len(names) > 3 else ""
    return ", ".join(names[:3] if more else names) + more


def _read_jobs(sentences: list[str]) -> list[_Failed]:
    found: list[_Failed] = []
    for sentence in sentences:
        for piece in split_clauses(sentence, ",;"):
            _add_clause(piece, found)
        found[-1].ended = True
    return found


def _add_clause(piece: str, found: list[_Failed]) -> None:
    """Adds a clause: names of jobs, or what failed in them. The first clause always names jobs."""
    named = _JOBS.match(piece)
    held = found[-1] if found else None
    if held and not named and (held.detail or held.ended):
        held.detail += "" if held.ended else piece
        return
    if held is None or held.detail or held.ended:
        held = _Failed([])
        found.append(held)
    name = named[0] if named else split_clauses(piece, ":")[0]
    held.names.append(name.rstrip(" :,;."))
    held.detail += piece[len(name) :].lstrip(" :,;.")


def _write_first_failure(failed: _Failed) -> str:
    """Returns the jobs and the first thing that failed in them."""
    names = _ASIDE.sub(r"\1)", ", ".join(failed.names))
    first, rest = _split_first(failed.detail)
    more = f" and {_count_listed(first, rest)[1]}" if rest else ""
    return f"{names}: {first.rstrip(' ,;:.')}{more}" if first else names


def _write_count(failed: _Failed) -> str:
    """Returns the jobs, and how many things failed in them if that is known to be several."""
    first, rest = _split_first(failed.detail)
    count, more = _count_listed(first, rest) if rest else (0, "")
    kind = "tests" if " test" in more else "failures"
    return f"{', '.join(failed.names)}{f': {count + 1} {kind}' if count else ''}"


def _split_first(detail: str) -> tuple[str, str]:
    """Returns the first thing that failed, and the list of the others if there is one."""
    clause = _AND_MORE.split(split_clauses(detail, ",;")[0])[0]
    first = split_clauses(clause, ":")[0]
    rest = detail[len(clause) :].lstrip(" ,;")
    return first, rest if first == clause and _LISTED.match(rest) else ""


_NAMED = re.compile(
    r"(?:and )?(?:(?!(?:and|or|in|of)\b)[\w-]{1,40} ){0,3}(`[^`]{1,500}`)"
    r"(?: \([^()]{0,300}\))?[ ,;.]*(?:in `[^`]{1,500}`\.?)?"
)
_TEST = re.compile(r"::|\btest|\bspec\b|Test|\.t$", re.IGNORECASE)


def _count_listed(first: str, rest: str) -> tuple[int, str]:
    """Returns how many things `rest` lists besides the `first`, as a number and in words ("1 more
    test"); 0 and "more" if that is not certain."""
    pieces = [
        name for piece in split_clauses(rest, ",;") for name in _AND_MORE.split(piece) if name
    ]
    named = [_NAMED.fullmatch(piece) for piece in pieces]
    if not all(named):
        return 0, "more"
    every = [*re.findall(r"`[^`]{1,500}`", first)[:1], *(each[1] for each in named if each)]
    tests = len(every) > len(named) and all(map(_TEST.search, every))
    kind = f" test{'s' if len(named) > 1 else ''}" if tests else ""
    return len(named), f"{len(named)} more{kind}"
