"""A line's text with fewer blanks: they cost as much as letters do, and say less."""

import re

from worker.core.logs.excerpt.place import Line

_MANY = " " * 12
_DEEP, _KEPT = 16, 4  # of the indentation that is deeper than _DEEP, one in _KEPT blanks is kept
_GAP = re.compile(r"(?<=\S) {12,}(?=\S)")
_POINTER = re.compile(r"(?:E )?[\s|?]*+(?:[\^~]|[-+][-+^~\s]*+$)")
"""A line that points at a part of the line above it."""


def shorten_blanks(lines: list[Line]) -> list[str]:
    """Return the texts of the lines, with long runs of blanks shortened and none at the end.

    What is indented deeper stays so. A line that points at a part of the one above it, and the one
    above, keep their columns.
    """
    return [
        line.text.rstrip()
        if _MANY not in line.text or _POINTER.match(line.text) or _POINTER.match(below.text)
        else _shorten_blanks(line.text.rstrip())
        for line, below in zip(lines, [*lines[1:], *lines[-1:]], strict=True)
    ]


def _shorten_blanks(text: str) -> str:
    bare = text.lstrip(" ")
    depth = len(text) - len(bare)
    depth -= max(0, depth - _DEEP) * (_KEPT - 1) // _KEPT
    return " " * depth + _GAP.sub("  ", bare)
