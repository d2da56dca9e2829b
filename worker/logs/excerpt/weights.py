"""The weights of a line's marks, of the values of its place, and of the lines around it.

Fitted in three stages on failed logs in which people had marked the explaining lines. First the
marks alone, by logistic regression; `logs.signature` uses these too. Then marks and place together,
the place computed from the first stage's results. Last the lines around a line, computed from the
second stage's results for projects that it had not seen. The last two are fitted so that the marked
lines of each log are its likeliest (a softmax over the log). Everything is validated on projects
that were left out; each project counts nearly the same, however many logs it has. Refit the last
two stages when a mark or a value changes.
"""

from collections.abc import Iterable

from worker.logs.excerpt import around, place

_MARKS = {
    "fault": (1.21, 0.468),
    "trouble": (0.91, 0.965),
    "negation": (0.81, 0.435),
    "expected": (0.93, 0.299),
    "calm": (-0.31, -0.550),
    "level": (-1.22, -0.759),
    "soft": (-0.99, -0.478),
    "progress": (-1.38, -0.631),
    "advice": (0.34, 0.122),
    "test": (0.16, 0.269),
    "claim": (1.64, 0.859),
    "told": (-1.00, -0.333),
    "record": (-1.00, -1.464),
    "reason": (0.36, -0.385),
    "shouted": (1.58, 1.988),
    "stamp": (-0.97, 0.006),
    "python_frame": (0.06, -0.952),
    "frame": (1.21, 0.234),
    "caret": (0.64, -0.875),
    "judged": (0.18, 0.757),
    "pointed": (0.42, 0.140),
    "diff_head": (1.73, -1.173),
    "diff": (0.80, -0.080),
    "numbered": (1.89, 1.544),
    "bullet": (0.23, 0.424),
    "rule": (-0.21, -1.606),
    "heading": (0.53, 0.128),
    "echo": (-0.56, -1.148),
    "place_head": (-0.24, -0.585),
    "make": (-0.35, -0.473),
    "loud": (0.81, -0.036),
    "named": (0.47, 0.312),
    "crossed": (1.11, 1.467),
    "colon_error": (0.07, -0.120),
    "link": (-0.10, -0.620),
    "fold": (-1.36, -1.119),
    "ended": (1.42, -0.507),
    "quoted": (0.41, -0.183),
    "test_name": (0.49, 1.042),
    "nothing": (-1.82, -0.846),
    "summary": (1.14, 0.570),
    "tally": (-0.70, -1.612),
    "place": (0.45, -0.110),
    "opens": (1.43, 0.384),
    "closes": (-0.30, -0.790),
    "well": (-1.84, -0.868),
    "trailer": (-0.33, 0.583),
    "warned": (0.00, -2.129),
    "probe": (-1.87, -2.223),
    "command": (-0.28, 0.684),
    "indented": (0.15, -0.849),
    "colon": (0.46, -0.222),
    "brace": (0.32, 0.180),
    "short": (-0.14, -0.482),
    "long": (0.14, 0.346),
    "quiet": (-0.77, -0.637),
}
"""The weights of each mark: by itself, and together with the line's place."""

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
_BASE_OWN, _BASE, BASE_AROUND = -1.63, -4.941, 0.032

PLACE = tuple(_PLACE[name] for name in place.NAMES)
"""The weight of each value of `place.compute_rows`."""

AROUND = tuple(_AROUND[name] for name in around.NAMES)
"""The weight of each value of `around.compute_rows`."""

NEW, OLD = 2.5, -3.0
"""The weights of a line that the last green log lacks, and of one that it has."""

TROUBLE, STARTED_BADLY = 4.0, 4.0
"""The weight of a line of the runner's report that a service it started is not healthy, and what
is added for an error in it.

Not fitted.
"""

WARNED, TELLING = -5.0, -2.0
"""WARNED is added for a line of a compiler's warning if any other line weighs more than TELLING.

Not fitted.
"""

ASIDE = -2.15
"""The weight of a line that a tool writes after any error, or that comes from configuration checks.

Not fitted: people who mark a failure mark the whole block, but the budget has better uses.
"""

_MOST = 6.0


def sum_marks(names: Iterable[str]) -> tuple[float, float]:
    """Return a line's own weight, from -6 to 6, and what its marks add to its final weight."""
    pairs = [_MARKS[name] for name in names]
    own = _BASE_OWN + sum(first for first, _ in pairs)
    return max(-_MOST, min(_MOST, own)), _BASE + sum(second for _, second in pairs)
