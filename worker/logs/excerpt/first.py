"""Favours the first of failures that begin alike: a reader starts there, and often stops there.

The later ones may follow from it. Otherwise, of many failed tests, the one nearest to the end of
the log would weigh most, and the budget would be spent on parts of several.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator

from worker.logs.excerpt.place import Line
from worker.logs.excerpt.scan import ScanResult

_FORMS = frozenset(("numbered", "crossed", "judged", "loud", "named", "colon_error"))
"""The marks by which two beginnings of a failure are alike, if both are of one command."""

_NO_FAILURE = frozenset(("probe", "warned"))
_LEAST = -3.0  # a line that weighs less is no beginning of a failure
_LEAD, _MOST = 0.05, 2.0  # how far the first is put above the best; the most that is added
_REACH, _GAP = 20, 2  # lines of one failure; lines that are further apart are of two


def favour_first(scan: ScanResult, lines: list[Line], weights: list[float]) -> list[float]:
    """Return the weights; the first of each group of alike failures weighs as much as the best."""
    favoured = list(weights)
    for heads in _group_heads(scan, lines):
        first, best = heads[0], max(heads, key=weights.__getitem__)
        if best == first or weights[first] < _LEAST:
            continue
        more = min(_MOST, weights[best] - weights[first] + _LEAD)
        for j in _list_block(lines, first, heads[1]):
            favoured[j] += more
    return favoured


def _group_heads(scan: ScanResult, lines: list[Line]) -> Iterator[list[int]]:
    """Yield groups of positions of lines that begin a failure: those of one command and form, in
    order."""
    groups: defaultdict[tuple[int, frozenset[str]], list[int]] = defaultdict(list)
    for j, line in enumerate(lines):
        opens = "opens" in line.marks and line.marks.isdisjoint(_NO_FAILURE)
        if opens and line.source.index >= scan.first:
            command = bisect_right(scan.commands, line.source.index)
            groups[command, line.marks & _FORMS].append(j)
    yield from groups.values()


def _list_block(lines: list[Line], first: int, following: int) -> Iterator[int]:
    """Yield the positions of a failure's lines, from the first up to the failure that follows."""
    yield first
    for j in range(first + 1, min(following, first + _REACH)):
        if lines[j].source.index - lines[j - 1].source.index > _GAP:
            return
        yield j
