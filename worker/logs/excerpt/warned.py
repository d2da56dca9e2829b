"""The lines that belong to a compiler's warning, with those that introduce or explain it."""

import re
from collections.abc import Iterator

from worker.logs.excerpt.place import Line

_NEAR = 3
"""Parts of one warning are fewer than this many lines apart."""

_LEADS = re.compile(
    r"\S{1,200}: (?:In [a-z ]{0,20}function |At (?:top level|global scope):)|In file included from "
    r"|\s{1,20}from \S{1,200}:\d"
)
"""How a compiler introduces the location of its next message."""


def find_warned(lines: list[Line]) -> Iterator[bool]:
    """Yield for each line, in order, whether it belongs to a warning."""
    is_warned, last = False, -_NEAR
    for line, leads in zip(lines, _find_leads(lines), strict=True):
        near = line.source.index - last < _NEAR
        last = line.source.index
        is_warned = "warned" in line.marks or leads or (is_warned and near and _continues(line))
        yield is_warned


def _continues(line: Line) -> bool:
    """Whether the line explains what a compiler said before."""
    explains = line.text[:1].isspace() or ": note: " in line.text
    return explains and not _LEADS.match(line.text)


def _find_leads(lines: list[Line]) -> list[bool]:
    """Return for each line whether it introduces a warning, as "In function 'f':" does."""
    leads, is_warning, following = list[bool](), False, -1
    for line in reversed(lines):
        near = following - line.source.index < _NEAR
        following = line.source.index
        is_lead = bool(_LEADS.match(line.text))
        is_warning = "warned" in line.marks or (is_warning and near and is_lead)
        leads.append(is_warning and is_lead)
    return leads[::-1]
