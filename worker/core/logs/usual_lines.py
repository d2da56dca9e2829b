"""Errors that a job's passed run prints too: they explain no failure. Pure.

Passing tests print such lines, with other numbers in each run.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import islice

from worker.core.logs.excerpt.choose import clip_text
from worker.core.logs.line_kinds import is_in_a_list, strip_line
from worker.core.logs.normal_form import normalise_line, normalise_places
from worker.core.logs.signature import list_telling_lines

MOST = 5000
"""The most lines of a passed run that are compared."""

_LETTERS = re.compile(r"[^\W\d_]+")
_ZERO = re.compile(r"(?<![\w.,:-])0(?![\w.,:-]*\w)")


def find_usual(lines: Sequence[str], passed: Iterable[str]) -> frozenset[str]:
    """Return the shapes of those errors in `lines` that the lines of a passed run have too.

    Of a run with very many lines like them, the first are compared.
    """
    shapes = frozenset(map(_make_shape, list_telling_lines(lines)))
    words = {max(_LETTERS.findall(shape), key=len, default="") for shape in shapes}
    alike = (line for line in passed if not words.isdisjoint(_LETTERS.findall(line)))
    # A long line is cut in an excerpt.
    return shapes & {
        _make_shape(each) for line in islice(alike, MOST) for each in {line, clip_text(line)}
    }


def drop_usual(lines: Sequence[str], usual: frozenset[str]) -> list[str]:
    """Return the lines without those of a `usual` shape."""
    return [line for line in lines if not usual or _make_shape(line) not in usual]


def _make_shape(line: str) -> str:
    """Return a line without its numbers, but for a 0: `Errors: 0` is no error, `Errors: 2` is.

    Only places are left out of failed tests and of errors with a place: their parameters matter.
    """
    text = strip_line(line)
    return normalise_places(text) if is_in_a_list(text) else normalise_line(_ZERO.sub("none", text))
