"""How much each mark of a line and each value of its place counts.

Fitted by logistic regression on failed logs whose explaining lines people had marked: first the
marks alone, then marks and place together, the place being made of what the first stage gave.
Checked on projects that were left out; each project counts nearly the same however many logs it
has. Refit both stages when a mark or a value of the place changes.
"""

from collections.abc import Iterable

from worker.core.excerpt import place

_MARKS = {
    "fault": (1.25, 1.06),
    "trouble": (1.00, 0.83),
    "negation": (0.91, 0.21),
    "expected": (0.89, 0.78),
    "calm": (-0.73, -0.31),
    "level": (-1.11, -0.52),
    "soft": (-0.80, -0.47),
    "progress": (-1.36, -0.90),
    "advice": (0.10, -0.43),
    "test": (0.19, 0.44),
    "reason": (0.40, 0.45),
    "cleanup": (-0.20, -0.18),
    "code": (0.19, 0.18),
    "shouted": (1.64, 1.77),
    "stamp": (0.11, 0.49),
    "python_frame": (-0.14, -0.96),
    "frame": (1.17, 0.76),
    "caret": (-0.27, -0.88),
    "judged": (-0.01, -0.10),
    "pointed": (0.47, 0.75),
    "diff_head": (1.40, 0.92),
    "diff": (1.25, 1.23),
    "numbered": (3.80, 3.40),
    "bullet": (0.48, -0.47),
    "rule": (-1.71, -1.65),
    "heading": (0.21, 0.37),
    "echo": (0.01, 0.19),
    "source": (0.26, -0.80),
    "place_head": (0.55, 0.35),
    "make": (0.16, -1.21),
    "loud": (0.78, 0.12),
    "named": (0.50, 0.49),
    "crossed": (1.71, 1.46),
    "colon_error": (1.21, 1.21),
    "npm": (-2.77, -3.92),
    "link": (0.08, -0.27),
    "percent": (-1.61, -1.10),
    "fold": (-1.35, -0.79),
    "ended": (0.47, -2.92),
    "quoted": (0.50, 0.30),
    "test_name": (0.67, 0.53),
    "nothing": (-2.07, -1.44),
    "summary": (0.94, 0.47),
    "place": (0.36, 0.27),
    "opens": (1.16, -0.23),
    "closes": (-0.71, -0.49),
    "indented": (0.07, -0.23),
    "deep": (0.18, -0.44),
    "colon": (0.86, 0.78),
    "brace": (0.27, 0.67),
    "short": (-0.72, -0.76),
    "long": (0.33, 0.46),
    "quiet": (-0.19, -0.10),
}
"""Of a mark by itself, and beside its place."""

_PLACE = {
    "previous": 0.055,
    "next": 0.071,
    "previous3": -0.130,
    "next3": 0.055,
    "faded_before": 0.033,
    "faded_after": 0.015,
    "parent": 0.123,
    "opened": 1.623,
    "in_block": 0.333,
    "frames": 0.254,
    "exit5": 2.417,
    "exit25": 1.636,
    "exit120": 0.677,
    "no_exit": 0.733,
    "end8": -1.539,
    "end40": -0.006,
    "end200": -0.411,
    "progress": 1.068,
    "runner": 0.000,
    "count": -0.191,
    "makes": -0.085,
    "first": 0.287,
    "last": 0.344,
    "like_previous": -0.001,
    "like_next": 0.133,
    "hits_after": 0.088,
    "hits_before": 0.168,
    "after_gap": -1.230,
}
_BASE_OWN, _BASE = -1.15, -2.92

PLACE = tuple(_PLACE[name] for name in place.NAMES)
"""The weight of each value of `place.rows`."""

NEW, OLD = 2.5, -3.0
"""What counts a line that the last green log lacks, and one that it has."""

_MOST = 6.0


def of_marks(names: Iterable[str]) -> tuple[float, float]:
    """What a line weighs by itself, from -6 to 6, and its marks' part of its final weight."""
    pairs = [_MARKS[name] for name in names]
    own = _BASE_OWN + sum(first for first, _ in pairs)
    return max(-_MOST, min(_MOST, own)), _BASE + sum(second for _, second in pairs)
