"""How much each mark of a line, each value of its place and of what stands around it counts.

Fitted by logistic regression on failed logs whose explaining lines people had marked, in three
stages: the marks alone; marks and place together, the place being made of what the first stage
gave; and what stands around a line, made of what the second gave. Each stage is fitted on what the
one before gave for projects that it had not seen, and the whole is checked on projects that were
left out; each project counts nearly the same however many logs it has. Refit all stages when a
mark or a value changes.
"""

from collections.abc import Iterable

from worker.core.logs.excerpt import around, place

_MARKS = {
    "fault": (1.21, 0.70),
    "trouble": (0.91, 1.00),
    "negation": (0.81, 0.45),
    "expected": (0.93, 0.23),
    "calm": (-0.31, -0.30),
    "level": (-1.22, -0.14),
    "soft": (-0.99, -0.67),
    "progress": (-1.38, -0.71),
    "advice": (0.34, -0.09),
    "test": (0.16, 0.17),
    "claim": (1.64, 0.97),
    "told": (-1.00, -0.80),
    "record": (-1.00, -0.84),
    "reason": (0.36, 0.09),
    "cleanup": (-0.28, -0.35),
    "code": (0.16, -0.02),
    "shouted": (1.58, 1.32),
    "stamp": (-0.97, -0.14),
    "python_frame": (0.06, -0.71),
    "frame": (1.21, 0.11),
    "caret": (0.64, -0.15),
    "judged": (0.18, 0.13),
    "pointed": (0.42, 0.06),
    "diff_head": (1.73, 0.76),
    "diff": (0.80, 0.80),
    "numbered": (1.89, 0.57),
    "bullet": (0.23, -0.07),
    "rule": (-0.21, -0.20),
    "heading": (0.53, 0.28),
    "echo": (-0.56, -0.77),
    "source": (0.02, -0.69),
    "place_head": (-0.24, -0.15),
    "make": (-0.35, -0.34),
    "loud": (0.81, -0.07),
    "named": (0.47, 0.17),
    "crossed": (1.11, 0.91),
    "colon_error": (0.07, -0.26),
    "npm": (-1.69, -0.90),
    "link": (-0.10, -0.20),
    "percent": (-1.66, -0.42),
    "fold": (-1.36, -0.28),
    "ended": (1.42, -0.71),
    "quoted": (0.41, 0.08),
    "test_name": (0.49, 0.58),
    "nothing": (-1.82, -0.49),
    "summary": (1.14, 0.08),
    "tally": (-0.70, -0.60),
    "place": (0.45, -0.15),
    "opens": (1.43, 0.36),
    "closes": (-0.30, -0.57),
    "well": (-1.84, -1.04),
    "trailer": (-0.33, 0.10),
    "warned": (0.00, 0.00),
    "probe": (-1.87, -0.31),
    "tree": (-1.66, -0.15),
    "command": (-0.28, -0.19),
    "indented": (0.15, -0.57),
    "deep": (0.50, -0.38),
    "colon": (0.46, 0.06),
    "brace": (0.32, 0.20),
    "short": (-0.14, 0.11),
    "long": (0.14, 0.19),
    "quiet": (-0.77, -0.39),
}
"""Of a mark by itself, and beside its place."""

_PLACE = {
    "previous": 0.134,
    "next": 0.098,
    "previous3": -0.153,
    "next3": 0.022,
    "faded_before": 0.072,
    "faded_after": 0.003,
    "parent": 0.154,
    "opened": 1.048,
    "in_block": 0.478,
    "frames": 0.367,
    "exit5": 0.896,
    "exit25": 1.548,
    "exit120": 0.688,
    "no_exit": 0.711,
    "later_commands": -0.127,
    "last_command": -0.092,
    "failing_command": 0.499,
    "before_commands": -1.216,
    "since_command": 0.134,
    "end8": -0.284,
    "end40": -0.057,
    "end200": -0.610,
    "progress": 0.624,
    "runner": 0.000,
    "count": -0.206,
    "makes": -0.171,
    "first": 0.178,
    "last": -0.036,
    "like_previous": -0.003,
    "like_next": 0.129,
    "hits_after": 0.076,
    "hits_before": 0.119,
    "after_gap": -0.214,
}
_AROUND = {
    "self": 0.442,
    "before1": 0.005,
    "after1": 0.006,
    "before3": -0.027,
    "after3": 0.039,
    "before8": 0.349,
    "after8": 0.251,
    "mean3": 0.232,
    "mean8": -0.626,
    "between3": -0.082,
    "between8": -0.372,
    "fading_before": 0.112,
    "fading_after": 0.161,
    "best": -0.139,
    "below_best": 0.359,
    "many": 0.092,
    "below_many": 0.128,
}
_BASE_OWN, _BASE, BASE_AROUND = -1.63, -4.29, -0.91

PLACE = tuple(_PLACE[name] for name in place.NAMES)
"""The weight of each value of `place.rows`."""

AROUND = tuple(_AROUND[name] for name in around.NAMES)
"""The weight of each value of `around.rows`."""

NEW, OLD = 2.5, -3.0
"""What counts a line that the last green log lacks, and one that it has."""

TROUBLE = 4.0
"""What counts a line of the runner's report that something it started is not well."""

WARNED, TELLING = -5.0, 0.0
"""What counts a line of a compiler's warning, where a line that is none weighs more than TELLING.

Not fitted.
"""

ASIDE = -2.5
"""What counts a line that any error of a tool ends with, or that tells of what configuring tried.

Not fitted: who marks a failure takes the whole block, but the budget has better use.
"""

_MOST = 6.0


def of_marks(names: Iterable[str]) -> tuple[float, float]:
    """What a line weighs by itself, from -6 to 6, and its marks' part of its final weight."""
    pairs = [_MARKS[name] for name in names]
    own = _BASE_OWN + sum(first for first, _ in pairs)
    return max(-_MOST, min(_MOST, own)), _BASE + sum(second for _, second in pairs)
