"""Chooses how much of a finding is visible at once, so that it fits; whole sentences where
possible."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from worker.answer.failed_jobs import Detail
from worker.answer.parse import list_named_failures
from worker.safety.sentences import (
    ASKED,
    SHOWN,
    after_code,
    after_sentences,
    before_code,
    begin_words,
    join_sentences,
    split_clauses,
    split_sentences,
)

_BEGINNINGS = (90, 160, 250, 400)
"""How many characters may be shown of a sentence about another failure that does not fit."""

MAX_TESTS = 20
"""Tests of one job that are named at once."""

MAX_QUOTES = 3
"""Quotes that are visible at once."""

_QUOTE_SIZES = (300, 240, 165, 145, 130, 110, 75, 68, 60, 52)
"""How many characters of a quote's line are visible: four lines of the note or less."""

SHORT_QUOTE = 75
"""Up to so many characters, a quote's line hardly proves anything."""

BRIEF = 60
"""The most characters of advice such as "Retry the job: it may need more than one try."."""

LONGEST = (SHOWN, 280, 240, 120, 60)
"""Limits of the first sentence in characters: four lines, three, or less. Of a longer sentence, as
many clauses are shown as fit. The first limit with which the shortest note fits is used."""


@dataclass(frozen=True, slots=True)
class QuoteShape:
    """How a quote may be shown: with all lines, or with one of them."""

    several: bool = False
    """It has several lines."""
    legible: bool = True
    """One of its lines can be read alone."""
    announces: bool = False
    """That line only says what comes next."""
    fails: bool = True
    """It is from what failed."""
    job: int = 0
    """The failed job that it is from, or 0."""
    repeats: bool = False
    """An earlier quote has the same line."""
    tells: bool = True
    """Its line is none that any failed log has, or that only counts: such a one is shown only
    alone."""


@dataclass(frozen=True, slots=True)
class WholeParts:
    """All that could be shown."""

    cause: int
    """Sentences of the cause, or of what is missing."""
    to_do: int
    """Sentences of what to do, or of how to keep next time what is missing."""
    quotes: Sequence[QuoteShape] = ()
    named_failures: int = 0
    """Sentences of the cause up to the last one that names another failure; 0 if none does."""
    has_origin: bool = False
    """There is a link to the same failure elsewhere."""
    jobs_detail: Detail = Detail.ONE_LINE
    """The most detail about what failed that takes no more lines than ONE_LINE."""
    tests: int = 0
    """See `FailedLine.count_tests`."""
    is_advice_brief: bool = False
    """The first sentence of what to do is so short (`BRIEF`) that the next one says more than
    another one of the cause."""
    has_extra_advice: bool = False
    """`cause` and `to_do` are about missing evidence, and there is other advice."""


@dataclass(frozen=True, slots=True)
class PartLimits:
    """How much of each part is shown."""

    cause: int = 1
    to_do: int = 1
    """Sentences, as of `WholeParts`."""
    quotes: frozenset[int] = frozenset()
    """The numbers (from 0) of the quotes that are shown."""
    one_line: frozenset[int] = frozenset()
    """Those of them that are shown with one line only."""
    jobs_detail: Detail = Detail.NOTHING
    tests: int = 1
    """These two are those of `FailedLine.write`."""
    longest: int = LONGEST[-1]
    """The most characters of a first sentence: one of `LONGEST`."""
    further_size: int = _BEGINNINGS[0]
    """Characters of a sentence about another failure: one of `_BEGINNINGS`."""
    origin: bool = False
    """See `WholeParts.has_origin`."""
    quote_size: int = _QUOTE_SIZES[0]
    """Characters of a quote's line: one of `_QUOTE_SIZES`."""
    extra_advice: bool = False
    """The first sentence of the other advice is shown (`WholeParts.has_extra_advice`)."""


def choose_limits(whole: WholeParts, fits: Callable[[PartLimits], bool]) -> PartLimits:
    """Return what is shown: the beginnings of both sections, even if they do not fit, and whatever
    else fits, the most important parts first."""
    return _Filler(whole, fits).fill()


class _Filler:
    """Adds one part after another to what is shown, if it fits."""

    def __init__(self, whole: WholeParts, fits: Callable[[PartLimits], bool]) -> None:
        self._whole = whole
        self._fits = fits
        sizes = (PartLimits(longest=size) for size in LONGEST)
        self._limits = next(filter(fits, sizes), PartLimits())

    def fill(self) -> PartLimits:
        """Return limits with all that fits: the beginning of a quote first, then the names of the
        jobs, then what names another failure with two sentences of advice, then more of the quote,
        then sentences, and only then the quote's other lines, details of what failed and further
        quotes."""
        whole, every = self._whole, range(len(self._whole.quotes))
        self._reserve_quote()
        self._add_jobs(Detail.NAMES, Detail.ONE_LINE, whole.jobs_detail)
        if whole.has_origin:
            self._add(origin=True)
        if whole.has_extra_advice:
            self._add(extra_advice=True)
        named = whole.named_failures
        if named:
            self._add_causes(named)
        self._enlarge_quote()
        self._lengthen_quote()
        if named > self._limits.cause:
            self._add(further_size=_BEGINNINGS[1])
        if whole.is_advice_brief:
            self._add_second("to_do")
        self._add_second("cause")
        self._add_second("to_do")
        self._raise_limit("cause", whole.cause)
        for job in dict.fromkeys(quote.job for quote in whole.quotes if quote.job):
            if all(whole.quotes[at].job != job for at in self._limits.quotes):
                self._add_quote([at for at in every if whole.quotes[at].job == job])
        self._raise_limit("to_do", whole.to_do)
        self._add_jobs(min(Detail.FIRST_TESTS, whole.jobs_detail))
        self._complete_quotes()
        for at in every:
            self._add_quote([at])
        self._add_jobs(Detail.WHOLE)
        if self._limits.jobs_detail is Detail.FIRST_TESTS:
            self._raise_limit("tests", min(whole.tests, MAX_TESTS))
        self._complete_quotes()
        for size in _BEGINNINGS[1:] if whole.named_failures else ():
            self._add(further_size=size)
        return self._limits

    def _reserve_quote(self) -> None:
        """Show the beginning of one quote, if need be by cutting first sentences that are longer
        than the model is asked for. What a reader cannot check is worth less than all else."""
        before = self._limits
        for longest in (size for size in LONGEST if ASKED <= size <= before.longest):
            self._limits = replace(before, longest=longest)
            if self._add_quote(range(len(self._whole.quotes)), _QUOTE_SIZES[-1:]):
                return
        self._limits = before

    def _enlarge_quote(self) -> None:
        """Show as much of the reserved quote as fits; if there is none, any that fits."""
        if self._limits.quotes:
            any(self._add(quote_size=size) for size in _QUOTE_SIZES)
        else:
            self._add_quote(range(len(self._whole.quotes)), _QUOTE_SIZES)

    def _add_causes(self, count: int) -> None:
        """Add the sentences that name the causes of several failures. Why something else has
        failed, and what to do about it, matter more than the rest of the first cause's proof."""
        any(
            self._add(cause=count, to_do=to_do)
            for to_do in dict.fromkeys((min(self._whole.to_do, 2), 1))
        )

    def _add(self, **changes: Any) -> bool:
        limits = replace(self._limits, **changes)
        fitting = self._fits(limits)
        self._limits = limits if fitting else self._limits
        return fitting

    def _add_jobs(self, *details: Detail) -> None:
        for detail in details:
            self._add(jobs_detail=detail)

    def _raise_limit(self, name: str, most: int) -> None:
        """Raise a limit by one, again and again, as long as that fits."""
        while (count := getattr(self._limits, name)) < most:
            if not self._add(**{name: count + 1}):
                return

    def _add_second(self, section: str) -> None:
        """Add the second sentence of a section, if need be by cutting the quote, which is whole in
        the details; that of the cause also by saying less of the jobs."""
        limits, whole = self._limits, getattr(self._whole, section)
        if whole < 2 or getattr(limits, section) >= 2:
            return
        sizes = [each for each in _QUOTE_SIZES if each <= limits.quote_size or not limits.quotes]
        least = max(limits.jobs_detail, Detail.NAMES) if section == "cause" else limits.jobs_detail
        details = {limits.jobs_detail, least}
        for detail, size in product(sorted(details), sizes):
            if self._add(**{section: 2, "quote_size": size, "jobs_detail": detail}):
                return

    def _lengthen_quote(self) -> None:
        """Show more of a quote that may be cut short, and less of what failed."""
        shown = self._limits.quote_size
        if self._limits.quotes and shown <= SHORT_QUOTE:
            any(
                self._add(jobs_detail=Detail.NAMES, quote_size=size)
                for size in _QUOTE_SIZES
                if size > SHORT_QUOTE
            )

    def _complete_quotes(self) -> None:
        for at in sorted(self._limits.one_line):
            self._add(one_line=self._limits.one_line - {at})

    def _add_quote(self, numbers: Iterable[int], sizes: Iterable[int] = ()) -> bool:
        """Add the first of these quotes that fits in one of the `sizes`, which are those of the
        visible quotes if none are given.

        Those from what failed come first, those without a legible line last. Of longer quotes, a
        single line is tried first. Return whether one fit.
        """
        limits, shapes = self._limits, self._whole.quotes
        if len(limits.quotes) >= MAX_QUOTES:
            return False

        def rank(at: int) -> tuple[bool, bool, bool, int]:
            shape = shapes[at]
            return not shape.fails, not shape.legible, shape.announces, at

        sizes = (*sizes,) or (limits.quote_size,)
        return any(
            self._add(quotes=limits.quotes | {at}, one_line=lines, quote_size=size)
            for at in sorted(set(numbers) - limits.quotes, key=rank)
            if not shapes[at].repeats and (shapes[at].tells or not limits.quotes)
            for lines in self._list_line_choices(at)
            for size in sizes
        )

    def _list_line_choices(self, at: int) -> list[frozenset[int]]:
        """Return what `PartLimits.one_line` may be with this quote, the best first."""
        shape, lines = self._whole.quotes[at], self._limits.one_line
        short = [lines | {at}] * shape.legible if shape.several else []
        return [*short, *[lines] * (shape.several or shape.legible)]


# ---------------------------------------------------------------------------------------- sections


def count_sentences(text: str) -> int:
    """Count the sentences before the first code block."""
    return len(split_sentences(before_code(text)))


def is_brief(text: str) -> bool:
    """Whether the first sentence of a section has at most `BRIEF` characters."""
    return len("".join(split_sentences(before_code(text))[:1])) <= BRIEF


def begin_section(text: str, sentences: int, longest: int) -> tuple[str, str]:
    """Return the first `sentences` of a section on one line, and the rest of the section. If the
    first sentence has more than `longest` characters, returns its first clauses and the section."""
    shown = split_sentences(before_code(text))[:sentences]
    if shown and len(shown[0]) > longest:
        return _cut_to_clauses(shown[0], longest), text
    rest = after_sentences(text, shown)
    if not shown:
        return "See the details below." if rest else "", rest
    if rest != before_code(rest) == "":
        shown = _point_to_code(shown)
    line = join_sentences(shown)
    if line.endswith(":"):  # what it announces is folded
        line = f"{line[:-1]}{' (in the details)' if rest else ''}."
    return line, rest


def list_hidden_sentences(
    text: str, shown: int, longest: int, further: str
) -> tuple[tuple[str, ...], int]:
    """Return the sentences of a section that `begin_section` does not show, and how many
    characters it shows; the sentence `further` is shown as well. A sentence that announces a block
    of code is not counted as hidden."""
    sentences = split_sentences(before_code(text))
    if before_code(text) != text:
        labels = {each for each in sentences[shown:] if each.endswith(":")}
        sentences = [each for each in sentences if each not in labels]
    sentences += split_sentences(after_code(text))
    if sentences and len(sentences[0]) > longest:
        return tuple(sentences), min(longest, ASKED)
    hidden = tuple(each for each in sentences[shown:] if each != further)
    return hidden, sum(len(each) + 1 for each in sentences if each not in hidden)


_ANNOUNCING = 60
"""The most characters of a sentence that only says that code follows, such as "The new line:"."""


def _point_to_code(sentences: list[str]) -> list[str]:
    """Return the sentences with a remark that the code which follows them is folded."""
    *others, last = sentences
    if last.endswith(":"):
        if others and len(last) <= _ANNOUNCING:
            return _point_to_code(others)
        return [*others, f"{_add_remark(last[:-1], 'in the details')}."]
    ended = last if others or last[-1] in ".!?" else f"{last}."
    return [*others, ended, "Code is in the details."]


def _add_remark(text: str, remark: str) -> str:
    """Return the text with a remark in brackets; if it ends in brackets, inside those."""
    return f"{text[:-1]}; {remark})" if text.endswith(")") else f"{text} ({remark})"


def find_further_failure(cause: str, shown: int, longest: int) -> str:
    """Return the first sentence after the `shown` ones that names another failure, or its
    beginning in `longest` characters; "" if there is none."""
    visible = split_sentences(before_code(cause))[: max(shown, 1)]
    hidden = (each for each in list_named_failures(cause).values() if each not in visible)
    sentence = next(hidden, "")
    if len(sentence) <= longest:
        return sentence
    return _cut_to_clauses(sentence, longest, longest // 2)


def _cut_to_clauses(sentence: str, longest: int, shortest: int = 1) -> str:
    """Return the clauses that fit into `longest` characters, or words if those that fit have less
    than `shortest`."""
    for marks in (";:", ",;:"):
        text = ""
        for part in split_clauses(sentence, marks):
            if len(text) + len(part) > longest:
                break
            text += part
        if len(text) >= shortest:
            break
    else:
        text = begin_words(sentence, longest) or sentence[:longest]
    return f"{text.rstrip(' ,;:，、；：')} …"
