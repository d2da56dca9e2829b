"""The weights of the lines around each line: the lines of one failure are close together."""

from collections.abc import Iterable, Iterator
from itertools import accumulate

NAMES = (
    *("self", "before1", "after1", "before3", "after3", "before8", "after8"),
    *("mean3", "mean8", "between3", "between8", "fading_before", "fading_after"),
    *("below_best", "below_many"),
)
"""The names of the values of `compute_rows`, in order."""

_NONE = -6.0  # weight of a line that does not exist
_FADE = 0.1  # how much a line's effect on the others falls with each line
_REACH = 8
_GAP = 2  # at least this many lines left out separate the lines before from those after
_MANY = 20  # the rank of the weight that `below_many` compares with


def compute_rows(places: list[int], weights: list[float]) -> Iterator[tuple[float, ...]]:
    """Return for each line, in order, the values of `NAMES`."""
    clipped = [max(_NONE, min(-_NONE, weight)) for weight in weights]
    spread, own = _pad_gaps(places, clipped)
    ranked = sorted(clipped, reverse=True) or [_NONE]
    best, many = ranked[0], ranked[min(_MANY, len(ranked) - 1)]
    columns = [[column[at] for at in own] for column in _compute_columns(spread)]
    nearest, further = zip(columns[2], columns[3], strict=True), zip(*columns[4:6], strict=True)
    return zip(
        *(clipped, *columns[:8]),
        *(map(min, nearest), map(min, further), *columns[8:]),
        (weight - best for weight in clipped),
        (weight - many for weight in clipped),
        strict=False,
    )


def _compute_columns(spread: list[float]) -> Iterator[list[float]]:
    """Yield the columns for the `spread` weights: the weight before and after; the best of three
    before and after; the best of eight before and after; the means of three and of eight on both
    sides; and the best before and after, fading with the distance."""
    nothing = [_NONE] * _REACH
    two = list(map(max, spread, spread[1:]))
    three, four = list(map(max, two, spread[2:])), list(map(max, two, two[2:]))
    eight = list(map(max, four, four[4:]))
    yield [_NONE, *spread]
    yield [*spread[1:], _NONE]
    for reach, best in ((3, three), (_REACH, eight)):
        yield [*nothing[:reach], *best]
        yield [*best[1:], *nothing]
    sums = list(accumulate([0.0, *nothing, *spread, *nothing]))
    for reach in (3, _REACH):
        start, end = sums[_REACH - reach :], sums[_REACH + reach + 1 :]
        yield [
            (after - before - weight) / (2 * reach)
            for before, after, weight in zip(start, end, spread, strict=False)
        ]
    yield [_NONE, *_fade_weights(spread)]
    yield [*_fade_weights(reversed(spread))[-2::-1], _NONE]


def _fade_weights(weights: Iterable[float]) -> list[float]:
    return list(accumulate(weights, lambda best, weight: max(best - _FADE, weight)))


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
