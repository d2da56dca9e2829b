"""The rows that say what a table's other rows mean: its head, and its row of totals."""

import re
from collections.abc import Container, Iterator, Sequence

from worker.logs.excerpt.place import Line

_CELLS = re.compile(r" {0,40}\| {0,40}| {2,40}")
_TOTAL = re.compile(r"\W{0,3}(?:all(?: files)?|totals?|sum|overall)\b", re.IGNORECASE)
_RULE = re.compile(r"[-=+| ]{9,200}$")
_LEAST = 3
"""A row has at least this many cells."""


def find_table_rows(lines: Sequence[Line], written: Container[int]) -> Iterator[int]:
    """Yield the positions of the head and the total row of each table of which a row is written.

    `written` are indexes of lines. The rows of a table have one number of cells, of which the last
    may be empty, and are mostly numbers; the head has none.
    """
    head, total, width, shown = None, None, 0, False
    for j, line in enumerate(lines):
        cells = _CELLS.split(line.text.strip(" |")) if _may_be_row(line.text) else []
        if len(cells) < _LEAST or _RULE.match(line.text):
            continue
        numbers = sum(any(map(str.isdigit, cell)) for cell in cells)
        if not numbers:
            head, total, width, shown = j, None, len(cells), False
        elif head is None or abs(len(cells) - width) > 1:
            continue
        elif _TOTAL.match(cells[0]):
            total = j
        shown = shown or line.source.index in written
        if shown and numbers:
            yield from (row for row in (head, total) if row is not None)


def _may_be_row(text: str) -> bool:
    return "|" in text or "  " in text.strip()
