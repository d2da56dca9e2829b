"""How much each weighed line is worth showing."""

import math
import re
from collections.abc import Iterator

from worker.logs.excerpt.place import Line

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
        0.0 if best is not None and _is_left_out(line, weight, best) else _likelihood(weight)
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
        goes_on = j < len(lines) and "frame" in lines[j].marks and _follows(lines, j)
        if goes_on:
            continue
        if j - start > 1 and "frame" not in lines[start].marks and lines[start].text.strip():
            yield start, range(start + 1, j)
        start = j


def _follows(lines: list[Line], j: int) -> bool:
    return lines[j].source.index == lines[j - 1].source.index + 1


def _is_left_out(line: Line, weight: float, best: float) -> bool:
    if weight < _LEAST or "well" in line.marks:
        return True
    return _is_idle(line) and weight < best - _IDLE


def _likelihood(weight: float) -> float:
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, weight))))


def _is_idle(line: Line) -> bool:
    return not line.marks.isdisjoint(_GOES_WELL) and line.marks.isdisjoint(TELLS)
