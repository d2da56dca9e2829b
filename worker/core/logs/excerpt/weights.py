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
    "fault": (1.24, 0.77),
    "trouble": (0.93, 1.05),
    "negation": (0.71, 0.39),
    "expected": (0.65, 0.18),
    "calm": (-0.47, -0.42),
    "level": (-1.28, -0.28),
    "soft": (-1.04, -0.71),
    "progress": (-1.51, -0.79),
    "advice": (0.24, -0.23),
    "test": (0.29, 0.19),
    "claim": (1.60, 0.96),
    "told": (-1.02, -0.82),
    "record": (-1.00, -0.86),
    "reason": (0.38, 0.02),
    "cleanup": (-0.39, -0.40),
    "code": (0.19, 0.11),
    "shouted": (1.53, 1.19),
    "stamp": (-0.36, -0.13),
    "python_frame": (-0.15, -0.90),
    "frame": (1.11, 0.15),
    "caret": (0.58, -0.17),
    "judged": (0.98, 0.47),
    "pointed": (0.43, 0.05),
    "diff_head": (1.99, 0.81),
    "diff": (1.23, 0.82),
    "numbered": (1.87, 0.55),
    "bullet": (0.25, -0.11),
    "rule": (-0.19, -0.19),
    "heading": (0.58, 0.34),
    "echo": (-0.40, -0.83),
    "source": (0.00, -0.69),
    "place_head": (0.25, 0.12),
    "make": (-0.02, -0.27),
    "loud": (0.66, -0.03),
    "named": (0.34, 0.13),
    "crossed": (1.26, 0.97),
    "colon_error": (0.84, 0.12),
    "npm": (-1.46, -0.66),
    "link": (-0.02, -0.24),
    "percent": (-1.66, -0.46),
    "fold": (-1.33, -0.31),
    "ended": (0.51, -0.71),
    "quoted": (0.45, 0.04),
    "test_name": (0.59, 0.63),
    "nothing": (-1.79, -0.52),
    "summary": (0.90, -0.02),
    "tally": (-0.47, -0.61),
    "place": (0.60, 0.03),
    "opens": (1.15, 0.17),
    "closes": (-0.58, -0.69),
    "well": (-1.71, -1.06),
    "indented": (0.16, -0.58),
    "deep": (0.48, -0.49),
    "colon": (0.51, 0.02),
    "brace": (0.28, 0.10),
    "short": (-0.11, 0.05),
    "long": (0.09, 0.18),
    "quiet": (-0.79, -0.51),
}
"""Of a mark by itself, and beside its place."""

_PLACE = {
    "previous": 0.116,
    "next": 0.050,
    "previous3": -0.125,
    "next3": 0.066,
    "faded_before": 0.024,
    "faded_after": 0.012,
    "parent": 0.160,
    "opened": 0.869,
    "in_block": 0.685,
    "frames": 0.380,
    "exit5": 0.925,
    "exit25": 1.513,
    "exit120": 0.615,
    "no_exit": 0.593,
    "later_commands": -0.153,
    "last_command": -0.000,
    "failing_command": 0.470,
    "before_commands": -1.133,
    "since_command": 0.094,
    "end8": -0.159,
    "end40": -0.134,
    "end200": -0.631,
    "progress": 0.593,
    "runner": 0.000,
    "count": -0.178,
    "makes": -0.169,
    "first": 0.164,
    "last": -0.001,
    "like_previous": 0.013,
    "like_next": 0.178,
    "hits_after": 0.092,
    "hits_before": 0.078,
    "after_gap": -0.353,
}
_AROUND = {
    "self": 0.465,
    "before1": 0.020,
    "after1": 0.019,
    "before3": 0.017,
    "after3": 0.046,
    "before8": 0.334,
    "after8": 0.243,
    "mean3": 0.233,
    "mean8": -0.603,
    "between3": -0.143,
    "between8": -0.303,
    "fading_before": 0.075,
    "fading_after": 0.122,
    "best": -0.184,
    "below_best": 0.387,
    "many": 0.101,
    "below_many": 0.101,
}
_BASE_OWN, _BASE, BASE_AROUND = -1.65, -4.14, -0.73

PLACE = tuple(_PLACE[name] for name in place.NAMES)
"""The weight of each value of `place.rows`."""

AROUND = tuple(_AROUND[name] for name in around.NAMES)
"""The weight of each value of `around.rows`."""

NEW, OLD = 2.5, -3.0
"""What counts a line that the last green log lacks, and one that it has."""

TROUBLE = 4.0
"""What counts a line of the runner's report that something it started is not well."""

_MOST = 6.0


def of_marks(names: Iterable[str]) -> tuple[float, float]:
    """What a line weighs by itself, from -6 to 6, and its marks' part of its final weight."""
    pairs = [_MARKS[name] for name in names]
    own = _BASE_OWN + sum(first for first, _ in pairs)
    return max(-_MOST, min(_MOST, own)), _BASE + sum(second for _, second in pairs)
