"""How much each line weighs as an explanation of the failure, and how much it is worth showing.

A line's weight is made of its marks, its words, its place and the lines around it. Warnings weigh
less than failures, and the first of several failures that begin alike weighs most. If the last
green log of the same job is available, new lines weigh more.
"""

import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator

from worker.logs.excerpt.lines import Line
from worker.logs.excerpt.place import weigh_around, weigh_places
from worker.logs.excerpt.scan import ScanResult
from worker.logs.line_marks import sum_marks

_NEWS = {True: 2.5, False: -3.0, None: 0.0}
"""The weights of a line that the last green log lacks, and of one that it has."""

_TROUBLE, _STARTED_BADLY = 4.0, 4.0
"""The weight of a line of the runner's report that a service it started is not healthy, and what
is added for an error in it.

Not fitted.
"""

_WARNED, _TELLING = -5.0, -2.0
"""`_WARNED` is added for a line of a compiler's warning if any other line weighs more than
`_TELLING`.

Not fitted.
"""

_ASIDE = -2.15
"""The weight of a line that a tool writes after any error, or that comes from configuration checks.

Not fitted: people who mark a failure mark the whole block, but the budget has better uses.
"""


def compute_weights(scan: ScanResult, lines: list[Line]) -> list[float]:
    """Return the weight of each line; one above 0 rather explains the failure than not."""
    sums: dict[frozenset[str], tuple[float, float]] = {}
    for line in lines:
        if line.marks not in sums:
            sums[line.marks] = sum_marks(line.marks)
    own = [sums[line.marks][0] for line in lines]
    placed = weigh_places(scan, lines, own)
    alone = [sums[line.marks][1] + added for line, added in zip(lines, placed, strict=True)]
    around = weigh_around([line.source.index for line in lines], alone)
    weighed = [
        weight
        + _NEWS[line.source.new]
        + _weigh_trouble(scan, line)
        + (0.0 if line.marks.isdisjoint(("trailer", "probe")) else _ASIDE)
        + line.words
        for line, weight in zip(lines, around, strict=True)
    ]
    return favour_first(scan, lines, _weigh_warnings(lines, weighed))


def _weigh_trouble(scan: ScanResult, line: Line) -> float:
    """Return the weight of a line before the script that is on or below a report of the runner's
    that a service is not healthy; an error there may be the cause, and weighs more."""
    if not scan.troubles or not scan.troubles[0] <= line.source.index < scan.first:
        return 0.0
    is_cause = "fault" in line.marks and not line.text.startswith("Health check")
    return _TROUBLE + _STARTED_BADLY * is_cause


def _weigh_warnings(lines: list[Line], weighed: list[float]) -> list[float]:
    """Return the weights, reduced for warnings if any other line tells of a failure."""
    both = list(zip(weighed, _find_warned(lines), strict=True))
    others = (weight for weight, is_warned in both if not is_warned)
    less = _WARNED if max(others, default=_TELLING) > _TELLING else 0.0
    return [weight + less * is_warned for weight, is_warned in both]


# --------------------------------------------------------------------------------------- warnings

_NEAR = 3
"""Parts of one warning are fewer than this many lines apart."""

_LEADS = re.compile(
    r"\S{1,200}: (?:In [a-z ]{0,20}function |At (?:top level|global scope):)|In file included from "
    r"|\s{1,20}from \S{1,200}:\d"
)
"""How a compiler introduces the location of its next message."""


def _find_warned(lines: list[Line]) -> Iterator[bool]:
    """Yield for each line, in order, whether it belongs to a warning."""
    is_warned, last = False, -_NEAR
    for line, leads in zip(lines, _find_leads(lines), strict=True):
        near = line.source.index - last < _NEAR
        last = line.source.index
        explains = line.text[:1].isspace() or ": note: " in line.text
        goes_on = is_warned and near and explains and not _LEADS.match(line.text)
        is_warned = "warned" in line.marks or leads or goes_on
        yield is_warned


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


# -------------------------------------------------------------------- the first of alike failures

# A reader starts there, and often stops there: the later ones may follow from it. Otherwise, of
# many failed tests, the one nearest to the end of the log would weigh most, and the budget would be
# spent on parts of several.

_FORMS = frozenset(("numbered", "crossed", "judged", "loud", "named", "colon_error"))
"""The marks by which two beginnings of a failure are alike, if both are of one command."""

_NO_FAILURE = frozenset(("probe", "warned"))
_BEGINS = -3.0  # a line that weighs less is no beginning of a failure
_ABOVE_BEST = 0.05  # how far the first is put above the best
_MOST_ADDED = 2.0
_OF_ONE, _APART = 20, 2  # lines of one failure; lines that are further apart are of two


def favour_first(scan: ScanResult, lines: list[Line], weights: list[float]) -> list[float]:
    """Return the weights; the first of each group of alike failures weighs as much as the best."""
    favoured = list(weights)
    for heads in _group_heads(scan, lines):
        first, best = heads[0], max(heads, key=weights.__getitem__)
        if best == first or weights[first] < _BEGINS:
            continue
        more = min(_MOST_ADDED, weights[best] - weights[first] + _ABOVE_BEST)
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
    for j in range(first + 1, min(following, first + _OF_ONE)):
        if lines[j].source.index - lines[j - 1].source.index > _APART:
            return
        yield j


# -------------------------------------------------------------------------- what is worth showing

SHORT = 11
"""A text that is at most this long says too little to be a copy of another."""

_LEAST = -5.5  # the least weight of a line that is shown
_FAINT, _FAINTER = -4.0, 4.0  # a faint line weighs less, and is so much below the heaviest line
_IDLE = 2.6  # how much less than the heaviest line a line about work going well may weigh

_FRAME = re.compile("[ \\t\u2500-\u257f]*")  # box drawing

_GOES_WELL = frozenset(("calm", "level", "progress", "closes", "fold"))
_PROGRESS = frozenset(("level", "progress", "fold"))
_ADVISES = frozenset(("advice", "claim", "negation"))
TELLS = frozenset(
    (
        *("fault", "trouble", "shouted", "named", "crossed", "colon_error", "opens"),
        *("summary", "numbered", "judged", "diff", "expected"),
    )
)
"""The marks of lines that have words or a form of trouble."""


def compute_worths(lines: list[Line], weights: list[float]) -> list[float]:
    """Return how likely each line is to explain the failure, 0 for lines that are not shown.

    Copies of a line are worth the same, so that one failure is shown whole instead of parts of
    several. An exception is worth no less than the stack trace below it.
    """
    both = list(zip(lines, weights, strict=True))
    best = max((weight for line, weight in both if "well" not in line.marks), default=None)
    worths = [
        0.0
        if best is not None and _is_left_out(line, weight, best)
        else 1 / (1 + math.exp(-max(-30.0, min(30.0, weight))))
        for line, weight in both
    ]
    _level_copies(lines, worths)
    _raise_heads(lines, worths)
    return worths


def find_faint(lines: list[Line], weights: list[float], worths: list[float]) -> list[bool]:
    """Return for each line whether it says too little to be shown merely because it fits.

    Such a line is shown only between two others, or if it says how the job ended. A line of a drawn
    frame without words is one.
    """
    heaviest = max((w for w, worth in zip(weights, worths, strict=True) if worth), default=0.0)
    faint = min(_FAINT, heaviest - _FAINTER)
    return [
        weight < faint or _FRAME.fullmatch(line.text) is not None
        for line, weight in zip(lines, weights, strict=True)
    ]


def says_it_goes_well(line: Line) -> bool:
    """Whether a line is about a test that passed, progress or a debug message, and no advice."""
    idle = not line.marks.isdisjoint(_PROGRESS) and line.marks.isdisjoint(TELLS | _ADVISES)
    return "well" in line.marks or idle


def _level_copies(lines: list[Line], worths: list[float]) -> None:
    """Let all copies of a line be worth as much as the best of them."""
    best: dict[str, float] = {}
    for line, worth in zip(lines, worths, strict=True):
        best[line.text] = max(worth, best.get(line.text, 0.0))
    for j, line in enumerate(lines):
        if worths[j] and len(line.text) > SHORT:
            worths[j] = best[line.text]


def _raise_heads(lines: list[Line], worths: list[float]) -> None:
    """Let the line above each stack trace be worth as much as the best line of the trace."""
    for head, frames in _find_traces(lines):
        if worths[head]:
            worths[head] = max(worths[head], *(worths[j] for j in frames))


def _find_traces(lines: list[Line]) -> Iterator[tuple[int, range]]:
    """Yield the positions of the line above each stack trace, and of the trace's lines."""
    start = 0
    for j in range(1, len(lines) + 1):
        follows = j < len(lines) and lines[j].source.index == lines[j - 1].source.index + 1
        if follows and "frame" in lines[j].marks:
            continue
        if j - start > 1 and "frame" not in lines[start].marks and lines[start].text.strip():
            yield start, range(start + 1, j)
        start = j


def _is_left_out(line: Line, weight: float, best: float) -> bool:
    if weight < _LEAST or "well" in line.marks:
        return True
    is_idle = not line.marks.isdisjoint(_GOES_WELL) and line.marks.isdisjoint(TELLS)
    return is_idle and weight < best - _IDLE
