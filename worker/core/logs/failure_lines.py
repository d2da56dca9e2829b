"""The lines that a log's errors are read from: those of an excerpt, and every failed test and error
with its place, as an excerpt has no room for all of them. Pure."""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from worker.core.logs.excerpt.choose import clip_text
from worker.core.logs.ignored_failures import find_ignored
from worker.core.logs.line_kinds import GAP, is_in_a_list, strip_line
from worker.core.logs.normal_form import normalise_line, normalise_places
from worker.core.logs.signature import find_exact_errors, list_telling_lines

MOST = 5000
"""The most lines of a log that are examined for failed tests and errors with their places, and the
most lines of a passed run that are compared with them."""

MOST_TOLD = 1000
"""The most of them that `FailureLines.write_text` adds to the excerpt."""

_LISTED = re.compile(
    r"FAIL|not ok |<<< |stdout ----|rspec \./|[✕✗✖✘●]|\] › |\[E\]$|\) [\w\\]{1,200}::"
    r"|\) (?:test|property|doctest) |\berror\b|^[A-Z]{1,5}\d{2,5} ",
    re.IGNORECASE,
)
_LONGEST = 400
_NUMBER = re.compile(r"(\d{1,9}): ")
_LETTERS = re.compile(r"[^\W\d_]+")
_ZERO = re.compile(r"(?<![\w.,:-])0(?![\w.,:-]*\w)")


@dataclass(frozen=True, slots=True)
class FailureLines:
    """`excerpt` has an excerpt's lines, with their numbers; `failures` those of the whole log that
    name a failed test or an error with its place. Neither has lines about an ignored failure
    (see `ignored_failures`). `is_whole`: every line of the log that looks like one was examined.
    """

    excerpt: tuple[str, ...]
    failures: tuple[str, ...]
    is_whole: bool = True

    def find_usual(self, passed: Iterable[str]) -> frozenset[str]:
        """Return the shapes of those errors that the lines of a passed run have too.

        Passing tests print such lines, with other numbers in each run: they explain no failure. If
        the run has very many lines like them, the first are compared.
        """
        telling = list_telling_lines((*self.excerpt, *self.failures))
        shapes = frozenset(map(_make_shape, telling))
        words = {max(_LETTERS.findall(shape), key=len, default="") for shape in shapes}
        alike = (line for line in passed if not words.isdisjoint(_LETTERS.findall(line)))
        # A long line is cut in an excerpt.
        return shapes & {
            _make_shape(each) for line in islice(alike, MOST) for each in {line, clip_text(line)}
        }

    def drop_usual(self, usual: frozenset[str]) -> "FailureLines":
        """Return the lines without those of a `usual` shape."""
        if not usual:
            return self
        excerpt, failures = (
            tuple(line for line in lines if _make_shape(line) not in usual)
            for lines in (self.excerpt, self.failures)
        )
        return FailureLines(excerpt, failures, self.is_whole)

    def is_list(self) -> bool:
        """Whether the errors of the excerpt are part of a longer list, or it has no errors."""
        errors = find_exact_errors(self.excerpt)
        return not errors or any(map(is_in_a_list, errors.values()))

    def write_text(self) -> str:
        """Return the excerpt and, if its errors are part of a list, the others below a gap."""
        if not self.is_list():
            return "\n".join(self.excerpt)
        known = {_NUMBER.sub("", line, 1).strip()[:_LONGEST] for line in self.excerpt}
        others = [line for line in self.failures[:MOST_TOLD] if line not in known]
        return "\n".join((*self.excerpt, GAP, *others))


def read_failure_lines(cleaned: bytes, excerpt: str, most: int = MOST) -> FailureLines:
    """Return the lines of an excerpt of a cleaned log, and the log's lines that name a failure, of
    the first `most` that look like it.

    If a log has ignored failures and no others, they are not left out.
    """
    ignored = find_ignored(cleaned)
    lines = _read_lines(cleaned, excerpt, ignored, most)
    if ignored and not lines.failures and not find_exact_errors(lines.excerpt):
        return _read_lines(cleaned, excerpt, (), most)
    return lines


def _read_lines(cleaned: bytes, excerpt: str, ignored: Collection[int], most: int) -> FailureLines:
    candidates = [*islice(_list_candidates(cleaned, ignored), most + 1)] if most else []
    return FailureLines(
        tuple(line for line in excerpt.split("\n") if _read_number(line) not in ignored),
        tuple(line for line in candidates[:most] if is_in_a_list(strip_line(line))),
        len(candidates) <= most,
    )


def _make_shape(line: str) -> str:
    """Return a line without its numbers, but for a 0: `Errors: 0` is no error, `Errors: 2` is.

    Only places are left out of failed tests and of errors with a place: their parameters matter.
    """
    text = strip_line(line)
    return normalise_places(text) if is_in_a_list(text) else normalise_line(_ZERO.sub("none", text))


def _read_number(line: str) -> int:
    number = _NUMBER.match(line)
    return int(number[1]) if number else 0


def _list_candidates(cleaned: bytes, ignored: Collection[int]) -> Iterator[str]:
    lines = cleaned.decode("utf-8", "replace").split("\n")
    for number, line in enumerate(lines, 1):
        text = line[:_LONGEST].strip()
        if _LISTED.search(text) and number not in ignored:
            yield text
