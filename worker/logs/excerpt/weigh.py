"""How much each kept line weighs as an explanation of the failure.

A line's weight is made of its marks, its words, its place, and the weights of the lines around it,
as those of one failure are close together. Warnings weigh less than failures, and the first of
several failures that begin alike weighs most. If the last green log of the same job is available,
new lines weigh more.

Both tables are fitted so that the lines which people had marked in failed logs are each log's
likeliest (a softmax over the log), and validated on projects that were left out; each project
counts nearly the same, however many logs it has. The second one is fitted to the results of the
first for projects that this had not seen. Refit both when a value or a mark changes.
"""

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise

from worker.logs.excerpt.scan import Line, ScanResult
from worker.logs.line_marks import sum_marks

_NEWS = {True: 2.5, False: -3.0, None: 0.0}
"""The weights of a line that the last green log lacks, and of one that it has."""

_TROUBLE, _STARTED_BADLY = 4.0, 4.0
"""The weight of a line of the runner's report that a service it started is not healthy, and what
is added for an error in it, which may be the cause. Not fitted."""

_ASIDE = -2.15
"""The weight of a line that a tool writes after any error, or that comes from configuration checks.
Not fitted: people who mark a failure mark the whole block, but the budget has better uses."""


def compute_weights(scan: ScanResult, lines: list[Line]) -> list[float]:
    """Return the weight of each line; one above 0 rather explains the failure than not."""
    sums = {marks: sum_marks(marks) for marks in {line.marks for line in lines}}
    placed = _weigh_places(scan, lines, [sums[line.marks][0] for line in lines])
    alone = [sums[line.marks][1] + added for line, added in zip(lines, placed, strict=True)]
    weighed = []
    for line, weight in zip(lines, _weigh_around(lines, alone), strict=True):
        weight += _NEWS[line.new]
        if scan.troubles and scan.troubles[0] <= line.index < scan.first:
            is_cause = "fault" in line.marks and not line.text.startswith("Health check")
            weight += _TROUBLE + _STARTED_BADLY * is_cause
        if not line.marks.isdisjoint(("trailer", "probe")):
            weight += _ASIDE
        weighed.append(weight + line.words)
    return favour_first(scan, lines, _weigh_warnings(lines, weighed))


# ----------------------------------------------------------------------------------- a line's place

_PLACE = {
    "previous": 0.085,
    "next": 0.005,
    "previous3": -0.091,
    "next3": 0.039,
    "faded_before": 0.090,
    "faded_after": 0.163,
    "parent": 0.152,
    "opened": 1.189,
    "in_block": 0.871,
    "frames": 0.460,
    "in_diff": 0.535,
    "exit5": 0.350,
    "exit25": 1.331,
    "exit120": 1.063,
    "no_exit": 0.976,
    "later_commands": -0.238,
    "last_command": -0.014,
    "failing_command": 1.141,
    "before_commands": -1.185,
    "since_command": 0.226,
    "end8": 0.333,
    "end40": -1.632,
    "end200": 0.697,
    "progress": 0.852,
    "count": -0.169,
    "makes": -0.045,
    "first": 0.284,
    "last": 0.359,
    "like_previous": -0.299,
    "like_next": -0.120,
    "hits_after": 0.205,
    "hits_before": -0.149,
    "after_gap": -0.563,
}
"""The weight of each value of a line's place."""

_AROUND = {
    "self": 0.447,
    "before1": 0.012,
    "after1": 0.010,
    "before3": 0.080,
    "after3": 0.067,
    "before8": 0.174,
    "after8": 0.083,
    "mean3": 0.011,
    "mean8": -0.038,
    "between3": -0.143,
    "between8": -0.277,
    "fading_before": 0.060,
    "fading_after": 0.164,
    "below_best": 0.196,
    "below_many": 0.253,
}
"""The weight of each value of what is around a line."""

_BASE_AROUND = 0.032

_NONE = -6.0  # weight of a line that does not exist
_FADE = 0.25  # how much a line's effect on its neighbours falls with each line
_GAP = 2  # at least this many lines left out separate the lines before from those after

_Values = Iterator[dict[str, float]]
"""Some values of each line by their names."""


def _weigh_places(scan: ScanResult, lines: list[Line], own: list[float]) -> list[float]:
    """Return what each line's place adds to its weight; `own` is each line's weight by itself."""
    if not lines:
        return []
    apart = (after.index - before.index > _GAP for before, after in pairwise(lines))
    gaps = [True, *apart, True]
    values = zip(
        _measure_neighbours(own, gaps),
        _measure_blocks(lines, own, gaps),
        _measure_commands(scan, lines),
        _measure_repeats(scan, lines, gaps),
        strict=False,
    )
    return [
        sum(_PLACE[name] * value for part in each for name, value in part.items())
        for each in values
    ]


def _measure_neighbours(own: list[float], gaps: list[bool]) -> _Values:
    """Yield the weight of the line before and after, the best of two, and the best, faded."""
    after = reversed(_look_back(own[::-1], gaps[:0:-1]))
    for before, below in zip(_look_back(own, gaps[:-1]), after, strict=True):
        yield {
            "previous": before[0],
            "next": below[0],
            "previous3": before[1],
            "next3": below[1],
            "faded_before": before[2],
            "faded_after": below[2],
        }


def _look_back(own: list[float], gaps: list[bool]) -> list[tuple[float, float, float]]:
    found = []
    last = last_but_one = fading = _NONE
    for weight, gap in zip(own, gaps, strict=True):
        if gap:
            last = last_but_one = fading = _NONE
        found.append((last, max(last, last_but_one), fading))
        last, last_but_one = weight, last
        fading = max(weight, fading) - _FADE
    return found


def _measure_blocks(lines: list[Line], own: list[float], gaps: list[bool]) -> _Values:
    """Yield, for each line: the greatest weight of the lines that it is indented under; how near
    before it an opening line is, with no closing line between (two scales); how deep in a stack
    trace it is; and, for a line of a diff, how near before it the diff's header is."""
    stack: list[tuple[int, float]] = []  # with the best weight so far
    since, head, depth = math.inf, math.inf, 0
    for line, weight, gap in zip(lines, own, gaps, strict=False):
        if gap:
            stack, since, head, depth = [], math.inf, math.inf, 0
        bare = line.text.lstrip()
        indent = len(line.text) - len(bare)
        while stack and stack[-1][0] >= indent:
            stack.pop()
        above = stack[-1][1] if stack else _NONE
        stack.append((indent, max(weight, above) if stack else weight))
        closes, opens = "closes" in line.marks, "opens" in line.marks
        since = 0 if opens else math.inf if closes else since + 1
        depth = 0 if line.marks.isdisjoint(("frame", "python_frame")) else depth + 1
        head = 0 if "diff_head" in line.marks else head + 1
        yield {
            "parent": above,
            "opened": math.exp(-since / 6),
            "in_block": math.exp(-since / 30),
            "frames": min(4.0, math.log2(1 + depth)),
            "in_diff": math.exp(-head / 20) if bare.startswith(("+", "-")) else 0.0,
        }


def _measure_commands(scan: ScanResult, lines: list[Line]) -> _Values:
    """Yield, for each line: how near before the end of a failing command it is (three scales), and
    1 if no such end follows; how many of the script's commands follow; whether its command is the
    last one, says that it failed, or has not begun yet; how near the line is after its command, and
    before the script's end (three scales), and how far into the script."""
    ends = [line.index for line in lines if line.ends and scan.first <= line.index < scan.end]
    exits: list[float] = [*(ends or [scan.end - 1]), math.inf]
    ends, begun = [*ends, scan.total], [*scan.commands, scan.total + 1]
    for at in (line.index for line in lines):
        to_exit = exits[bisect_left(exits, at)] - at
        count = bisect_right(scan.commands, at)
        later = len(scan.commands) - count
        fails = ends[bisect_left(ends, at)] < min(begun[count], scan.total)
        left = scan.end - 1 - at if at < scan.end else math.inf
        inside = scan.first <= at < scan.end
        yield {
            "exit5": math.exp(-to_exit / 5),
            "exit25": math.exp(-to_exit / 25),
            "exit120": math.exp(-to_exit / 120),
            "no_exit": to_exit == math.inf,
            "later_commands": math.log1p(min(later, 50)),
            "last_command": count > 0 and not later,
            "failing_command": count > 0 and fails,
            "before_commands": later > 0 and not count,
            "since_command": math.exp((begun[count - 1] - at) / 10) if count else 0.0,
            "end8": math.exp(-left / 8),
            "end40": math.exp(-left / 40),
            "end200": math.exp(-left / 200),
            "progress": (at - scan.first) / max(1, scan.end - scan.first) * inside,
        }


def _measure_repeats(scan: ScanResult, lines: list[Line], gaps: list[bool]) -> _Values:
    """Yield how many lines are the same, and of one make; whether a line is the first or the last
    of its make, and of one make with the line before and after it; how many lines with a word of
    trouble follow and precede it; and whether lines are left out above it."""
    makes = [line.make for line in lines]
    counts = Counter(makes)
    last = {make: at for at, make in enumerate(makes)}
    seen = set[str]()
    for at, (line, gap) in enumerate(zip(lines, gaps, strict=False)):
        hits = bisect_right(scan.hits, line.index)
        yield {
            "count": math.log2(line.count),
            "makes": math.log2(counts[line.make]),
            "first": line.make not in seen,
            "last": last[line.make] == at,
            "like_previous": [line.make] == makes[at - 1 : at],
            "like_next": [line.make] == makes[at + 1 : at + 2],
            "hits_after": math.log1p(len(scan.hits) - hits),
            "hits_before": math.log1p(hits),
            "after_gap": gap,
        }
        seen.add(line.make)


# ----------------------------------------------------------------------------- the lines around it

_SPREADS = 0.1  # how much a line's effect on the others falls with each line
_REACH = 8
_MANY = 20  # the rank of the weight that `below_many` compares with


def _weigh_around(lines: list[Line], weights: list[float]) -> list[float]:
    """Return the weight of each line by its `weights` and those of the lines around it."""
    clipped = [max(_NONE, min(-_NONE, weight)) for weight in weights]
    ranked = sorted(clipped, reverse=True) or [_NONE]
    best, many = ranked[0], ranked[min(_MANY, len(ranked) - 1)]
    return [
        _BASE_AROUND
        + sum(
            _AROUND[name] * value
            for name, value in {
                "self": weight,
                **around,
                "below_best": weight - best,
                "below_many": weight - many,
            }.items()
        )
        for weight, around in zip(clipped, _measure_around(lines, clipped), strict=True)
    ]


def _measure_around(lines: list[Line], weights: list[float]) -> _Values:
    """Yield for each line: the weight before and after; the best of three and of eight before and
    after; the means of three and of eight on both sides; the lesser of the best before and after;
    and the best, fading with the distance."""
    nothing = [_NONE] * _REACH
    spread, own = [*nothing], list[int]()
    for line, before, weight in zip(lines, [*lines[:1], *lines], weights, strict=False):
        if line.index - before.index > _GAP:
            spread += nothing
        own.append(len(spread))
        spread.append(weight)
    spread += nothing
    sums = [*accumulate(spread, initial=_REACH * _NONE)]
    fading_before = _fade_weights(spread)
    fading_after = _fade_weights(reversed(spread))[::-1]
    for at in own:
        three, eight = spread[at - 3 : at + 4], spread[at - 8 : at + 9]
        before3, after3 = max(three[:3]), max(three[4:])
        before8, after8 = max(eight[:8]), max(eight[9:])
        yield {
            "before1": spread[at - 1],
            "after1": spread[at + 1],
            "before3": before3,
            "after3": after3,
            "before8": before8,
            "after8": after8,
            "mean3": (sums[at + 4] - sums[at - 3] - spread[at]) / 6,
            "mean8": (sums[at + 9] - sums[at - 8] - spread[at]) / 16,
            "between3": min(before3, after3),
            "between8": min(before8, after8),
            "fading_before": fading_before[at - 1],
            "fading_after": fading_after[at + 1],
        }


def _fade_weights(weights: Iterable[float]) -> list[float]:
    return list(accumulate(weights, lambda best, weight: max(best - _SPREADS, weight)))


# --------------------------------------------------------------------------------------- warnings

_WARNED, _TELLING = -5.0, -2.0
"""`_WARNED` is added for a line of a compiler's warning if any other line weighs more than
`_TELLING`. Not fitted."""

_NEAR = 3  # parts of one warning are fewer lines apart

_LEADS = re.compile(
    r"\S{1,200}: (?:In [a-z ]{0,20}function |At (?:top level|global scope):)|In file included from "
    r"|\s{1,20}from \S{1,200}:\d"
)
"""How a compiler introduces the location of its next message."""


def _weigh_warnings(lines: list[Line], weighed: list[float]) -> list[float]:
    """Return the weights, reduced for warnings if any other line tells of a failure."""
    warned = _find_warned(lines)
    others = (weight for weight, aside in zip(weighed, warned, strict=True) if not aside)
    if max(others, default=_TELLING) <= _TELLING:
        return weighed
    return [weight + _WARNED * aside for weight, aside in zip(weighed, warned, strict=True)]


def _find_warned(lines: list[Line]) -> list[bool]:
    """Return whether each line belongs to a warning: names it, introduces it, or explains it."""
    leads = [_LEADS.match(line.text) is not None for line in lines]
    warned = ["warned" in line.marks for line in lines]
    introduces = [*warned]
    for at in range(len(lines) - 2, -1, -1):
        near = lines[at + 1].index - lines[at].index < _NEAR
        introduces[at] = introduces[at] or (leads[at] and near and introduces[at + 1])
    for at, line in enumerate(lines):
        near = at > 0 and line.index - lines[at - 1].index < _NEAR
        explains = line.text[:1].isspace() or ": note: " in line.text
        goes_on = near and explains and not leads[at] and warned[at - 1]
        warned[at] = introduces[at] or goes_on
    return warned


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
    """Return the weights; of the failures of one command that begin alike, the first weighs as much
    as the best, up to the line where the next one begins."""
    groups: defaultdict[tuple[int, frozenset[str]], list[int]] = defaultdict(list)
    for j, line in enumerate(lines):
        opens = "opens" in line.marks and line.marks.isdisjoint(_NO_FAILURE)
        if opens and line.index >= scan.first:
            command = bisect_right(scan.commands, line.index)
            groups[command, line.marks & _FORMS].append(j)
    favoured = list(weights)
    for heads in groups.values():
        first, best = heads[0], max(heads, key=weights.__getitem__)
        if best == first or weights[first] < _BEGINS:
            continue
        more = min(_MOST_ADDED, weights[best] - weights[first] + _ABOVE_BEST)
        favoured[first] += more
        for j in range(first + 1, min(heads[1], first + _OF_ONE)):
            if lines[j].index - lines[j - 1].index > _APART:
                break
            favoured[j] += more
    return favoured
