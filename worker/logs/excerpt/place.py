"""What a line's place adds to its weight: where it is in the log, what is near it, and how much the
lines around it weigh, as those of one failure are close together.

Both tables are fitted so that the lines which people had marked in failed logs are each log's
likeliest (a softmax over the log), and validated on projects that were left out; each project
counts nearly the same, however many logs it has. The second one is fitted to the results of the
first for projects that this had not seen. Refit both when a value or a mark changes.
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import accumulate, pairwise
from operator import mul

from worker.logs.excerpt.lines import Line
from worker.logs.excerpt.scan import ScanResult

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

_CHANGED = ("+", "-")
"""What a changed line of a diff begins with."""

_NONE = -6.0  # weight of a line that does not exist
_FADE = 0.25  # how much a line's effect on its neighbours falls with each line
_GAP = 2  # at least this many lines left out separate the lines before from those after
_EXITS, _ENDS = (5, 25, 120), (8, 40, 200)
"""The scales, in lines, of how near a line is to the end of a command and of the script."""

_Columns = dict[str, list[float]]
"""Values by their names: one for each line, in order."""


def weigh_places(scan: ScanResult, lines: list[Line], own: list[float]) -> list[float]:
    """Return what each line's place adds to its weight; `own` is each line's weight by itself."""
    if not lines:
        return []
    places = [line.source.index for line in lines]
    gaps = [True, *(after - before > _GAP for before, after in pairwise(places)), True]
    columns = {
        **_compute_neighbours(own, gaps),
        **_compute_blocks(lines, own, gaps),
        **_compute_exits(scan, lines),
        **_compute_commands(scan, lines),
        **_compute_ends(scan, places),
        **_compute_repeats(lines),
        "hits_after": [math.log1p(len(scan.hits) - bisect_right(scan.hits, at)) for at in places],
        "hits_before": [math.log1p(bisect_right(scan.hits, at)) for at in places],
        "after_gap": [float(gap) for gap in gaps[:-1]],
    }
    return _add_up(columns, _PLACE)


def _add_up(columns: _Columns, weights: Mapping[str, float]) -> list[float]:
    """Return for each line the sum of its values, each multiplied by its weight."""
    factors = [weights[name] for name in columns]
    return [sum(map(mul, row, factors)) for row in zip(*columns.values(), strict=True)]


def _compute_neighbours(own: list[float], gaps: list[bool]) -> _Columns:
    """Return the weight of the line before and after, the best of two, and the best, faded."""
    previous, previous3, faded_before = _compute_before(own, gaps[:-1])
    following = [column[::-1] for column in _compute_before(own[::-1], gaps[:0:-1])]
    return {
        "previous": previous,
        "next": following[0],
        "previous3": previous3,
        "next3": following[1],
        "faded_before": faded_before,
        "faded_after": following[2],
    }


def _compute_before(own: list[float], gaps: list[bool]) -> list[list[float]]:
    """Return the weight of the line before, the best of two before, and the best before, faded."""
    one, two, faded = [], [], []
    last = last_but_one = fading = _NONE
    for weight, gap in zip(own, gaps, strict=True):
        if gap:
            last = last_but_one = fading = _NONE
        one.append(last)
        two.append(max(last, last_but_one))
        faded.append(fading)
        last, last_but_one = weight, last
        fading = max(weight, fading) - _FADE
    return [one, two, faded]


def _compute_blocks(lines: list[Line], own: list[float], gaps: list[bool]) -> _Columns:
    """Return, for each line: the greatest weight of the lines that it is indented under; how near
    before it an opening line is, with no closing line between (two scales); how deep in a stack
    trace it is; and, for a line of a diff, how near before it the diff's header is."""
    columns: _Columns = {name: [] for name in ("parent", "opened", "in_block", "frames", "in_diff")}
    stack: list[tuple[int, float]] = []  # with the best weight so far
    since, head, depth = math.inf, math.inf, 0
    for line, weight, gap in zip(lines, own, gaps, strict=False):
        if gap:
            stack, since, head, depth = [], math.inf, math.inf, 0
        indent = len(line.text) - len(line.text.lstrip())
        while stack and stack[-1][0] >= indent:
            stack.pop()
        above = stack[-1][1] if stack else _NONE
        stack.append((indent, max(weight, above) if stack else weight))
        since = math.inf if "closes" in line.marks else since + 1
        since = 0 if "opens" in line.marks else since
        depth = 0 if line.marks.isdisjoint(("frame", "python_frame")) else depth + 1
        head = 0 if "diff_head" in line.marks else head + 1
        is_changed = line.text.lstrip()[:1] in _CHANGED
        columns["parent"].append(above)
        columns["opened"].append(math.exp(-since / 6))
        columns["in_block"].append(math.exp(-since / 30))
        columns["frames"].append(min(4.0, math.log2(1 + depth)))
        columns["in_diff"].append(math.exp(-head / 20) if is_changed else 0.0)
    return columns


def _compute_exits(scan: ScanResult, lines: list[Line]) -> _Columns:
    """Return how near before the end of a failing command each line is (three scales), and 1 if no
    such end follows."""
    exits: list[float] = list(_find_endings(scan, lines) or [scan.end - 1])
    exits.append(math.inf)
    distances = [exits[bisect_left(exits, line.source.index)] - line.source.index for line in lines]
    return {
        **{f"exit{scale}": [math.exp(-each / scale) for each in distances] for scale in _EXITS},
        "no_exit": [float(distance == math.inf) for distance in distances],
    }


def _find_endings(scan: ScanResult, lines: list[Line]) -> list[int]:
    """Return the indexes of the script's lines that say that a command failed."""
    return [
        line.source.index
        for line in lines
        if line.ends and scan.first <= line.source.index < scan.end
    ]


def _compute_commands(scan: ScanResult, lines: list[Line]) -> _Columns:
    """Return, for each line: how many of the script's commands follow; whether its command is the
    last one; whether its command says that it failed; whether no command has begun yet; and how
    near the line is after its command."""
    places = [line.source.index for line in lines]
    own = [bisect_right(scan.commands, at) for at in places]
    later = [len(scan.commands) - count for count in own]
    begun, ends = [*scan.commands, scan.total + 1], [*_find_endings(scan, lines), scan.total]
    following = [ends[bisect_left(ends, at)] for at in places]
    return {
        "later_commands": [math.log1p(min(count, 50)) for count in later],
        "last_command": [
            float(count > 0 and not left) for count, left in zip(own, later, strict=True)
        ],
        "failing_command": [
            float(count > 0 and end < min(begun[count], scan.total))
            for count, end in zip(own, following, strict=True)
        ],
        "before_commands": [
            float(left > 0 and not count) for count, left in zip(own, later, strict=True)
        ],
        "since_command": [
            math.exp((begun[count - 1] - at) / 10) if count else 0.0
            for count, at in zip(own, places, strict=True)
        ],
    }


def _compute_ends(scan: ScanResult, places: list[int]) -> _Columns:
    """Return how near before the script's end each line is (three scales), and how far into it."""
    length = max(1, scan.end - scan.first)
    left = [scan.end - 1 - at for at in places]
    return {
        **{
            f"end{scale}": [math.exp(-n / scale) if n >= 0 else 0.0 for n in left]
            for scale in _ENDS
        },
        "progress": [(at - scan.first) / length * (scan.first <= at < scan.end) for at in places],
    }


def _compute_repeats(lines: list[Line]) -> _Columns:
    """Return how many lines are the same, and of one make; whether a line is the first or the last
    of its make, and of one make with the line before and after it."""
    makes = [line.make for line in lines]
    count = Counter(makes)
    first = {make: len(makes) - 1 - at for at, make in enumerate(reversed(makes))}
    last = {make: at for at, make in enumerate(makes)}
    like = [float(before == after) for before, after in pairwise(makes)]
    return {
        "count": [math.log2(line.source.count) for line in lines],
        "makes": [math.log2(count[make]) for make in makes],
        "first": [float(first[make] == at) for at, make in enumerate(makes)],
        "last": [float(last[make] == at) for at, make in enumerate(makes)],
        "like_previous": [0.0, *like],
        "like_next": [*like, 0.0],
    }


# --------------------------------------------------------------------- the lines around a line

_SPREADS = 0.1  # how much a line's effect on the others falls with each line
_REACH = 8
_MANY = 20  # the rank of the weight that `below_many` compares with


def weigh_around(places: list[int], weights: list[float]) -> list[float]:
    """Return the weight of each line by its `weights` and those of the lines around it."""
    clipped = [max(_NONE, min(-_NONE, weight)) for weight in weights]
    spread, own = _pad_gaps(places, clipped)
    ranked = sorted(clipped, reverse=True) or [_NONE]
    best, many = ranked[0], ranked[min(_MANY, len(ranked) - 1)]
    columns = {
        "self": clipped,
        **{name: [column[at] for at in own] for name, column in _compute_around(spread).items()},
        "below_best": [weight - best for weight in clipped],
        "below_many": [weight - many for weight in clipped],
    }
    return [_BASE_AROUND + added for added in _add_up(columns, _AROUND)]


def _compute_around(spread: list[float]) -> _Columns:
    """Return for the `spread` weights: the weight before and after; the best of three before and
    after; the best of eight before and after; the means of three and of eight on both sides;
    the lesser of the best before and after; and the best, fading with the distance."""
    nothing = [_NONE] * _REACH
    two = list(map(max, spread, spread[1:]))
    three, four = list(map(max, two, spread[2:])), list(map(max, two, two[2:]))
    eight = list(map(max, four, four[4:]))
    columns = {"before1": [_NONE, *spread], "after1": [*spread[1:], _NONE]}
    for reach, best in ((3, three), (_REACH, eight)):
        columns[f"before{reach}"] = [*nothing[:reach], *best]
        columns[f"after{reach}"] = [*best[1:], *nothing]
    sums = list(accumulate([0.0, *nothing, *spread, *nothing]))
    for reach in (3, _REACH):
        start, end = sums[_REACH - reach :], sums[_REACH + reach + 1 :]
        columns[f"mean{reach}"] = [
            (after - before - weight) / (2 * reach)
            for before, after, weight in zip(start, end, spread, strict=False)
        ]
    columns["between3"] = [*map(min, columns["before3"], columns["after3"])]
    columns["between8"] = [*map(min, columns["before8"], columns["after8"])]
    columns["fading_before"] = [_NONE, *_fade_weights(spread)]
    columns["fading_after"] = [*_fade_weights(reversed(spread))[-2::-1], _NONE]
    return columns


def _fade_weights(weights: Iterable[float]) -> list[float]:
    return list(accumulate(weights, lambda best, weight: max(best - _SPREADS, weight)))


def _pad_gaps(places: list[int], weights: list[float]) -> tuple[list[float], list[int]]:
    """Return the weights, padded with missing lines before, after and where lines are left out; and
    the index of each weight in the result."""
    nothing = [_NONE] * _REACH
    spread, own, last = [*nothing], list[int](), places[0] if places else 0
    for place, weight in zip(places, weights, strict=True):
        if place - last > _GAP:
            spread += nothing
        own.append(len(spread))
        spread.append(weight)
        last = place
    return [*spread, *nothing], own
