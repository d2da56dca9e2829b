"""Which of the weighed lines are shown: as much weight as the budget holds."""

import heapq
import math
from collections import Counter

from worker.core.excerpt.place import Line
from worker.core.excerpt.scan import CUT

SHOWN = 165
"""Bytes shown of one line."""

GAP = "…"

_REPEAT = 0.95  # what the next line of a chosen make is still worth
_TOGETHER = 0.7  # what a line beside a chosen one gains: it needs no gap mark, and reads better
_BASE, _COST = 40, 0.6  # how much a line's length counts against it
_LEAST = -6.5  # what a line must weigh to be shown at all
_IDLE = 2.0  # how much less than the weightiest a line that tells of work going well may weigh

_OFTEN = 3
_RAISES = frozenset(("named", "colon_error"))
_GOES_WELL = frozenset(("calm", "level", "progress", "closes", "percent", "fold"))
_TELLS = frozenset(
    (
        *("fault", "trouble", "shouted", "named", "crossed", "colon_error", "opens"),
        *("summary", "numbered", "judged", "diff", "expected"),
    )
)


class Choice:
    """The lines taken so far, and what they cost."""

    def __init__(self, lines: list[Line], weights: list[float], total: int, limit: int) -> None:
        self._lines = lines
        self._total = total
        self._limit = limit - len(GAP.encode()) - 1
        self._worth = _worths(lines, weights)
        self._index = {line.kept.at: j for j, line in enumerate(lines)}
        self._written: dict[int, str] = {}
        self._makes: Counter[str] = Counter()
        self._texts: set[str] = set()
        self._size = 0
        self._heap: list[tuple[float, int]] = []

    def text(self) -> str:
        """Choose, and write what was chosen: `NUMBER: text`, gaps marked."""
        self._heap = [(-self._value(j), j) for j, worth in enumerate(self._worth) if worth]
        heapq.heapify(self._heap)
        self._take_first()
        while self._heap and self._limit - self._size > 20:
            known, j = heapq.heappop(self._heap)
            if self._lines[j].kept.at in self._written:
                continue
            value = self._value(j)
            if value < -known:
                heapq.heappush(self._heap, (-value, j))
            else:
                self._take(j)
        return "\n".join(self._shown())

    def _take_first(self) -> None:
        """The last line that counts the failed tests and the exception that is raised most often:
        these are always shown."""
        marks = [line.marks for line in self._lines]
        tallies = [j for j, names in enumerate(marks) if "tally" in names]
        raised = [j for j, names in enumerate(marks) if names >= _RAISES and self._worth[j]]
        again = [j for j in raised if self._lines[j].kept.count >= _OFTEN]
        often = max(again, key=lambda j: (self._lines[j].kept.count, self._worth[j]), default=None)
        for j in (*tallies[-1:], often):
            if j is not None:
                self._take(j)

    def _value(self, j: int) -> float:
        line = self._lines[j]
        worth: float = self._worth[j] * _REPEAT ** self._makes[line.make]
        beside = sum(line.kept.at + step in self._written for step in (-1, 1))
        length = min(len(line.text), SHOWN) + len(str(line.kept.at)) + _BASE
        value: float = worth * (1 + _TOGETHER * beside) / length**_COST
        return value

    def _take(self, j: int) -> None:
        line = self._lines[j]
        at = line.kept.at
        if line.text in self._texts and len(line.text) > 11:
            return
        written = f"{at + 1}: {clipped(line.text, SHOWN)}"
        beside = at - 1 in self._written or at + 1 in self._written
        cost = len(written.encode()) + 1 + (0 if beside else len(GAP.encode()) + 1)
        if self._size + cost > self._limit:
            return
        self._size += cost
        self._written[at] = written
        self._makes[line.make] += 1
        self._texts.add(line.text)
        for near in (self._index.get(at - 1), self._index.get(at + 1)):
            if near is not None and self._worth[near]:
                heapq.heappush(self._heap, (-self._value(near), near))

    def _shown(self) -> list[str]:
        shown: list[str] = []
        previous = -1
        for at in sorted(self._written):
            if at != previous + 1:
                shown.append(GAP)
            shown.append(self._written[at])
            previous = at
        if previous + 1 < self._total:
            shown.append(GAP)
        return shown


def clipped(text: str, limit: int) -> str:
    """At most `limit` bytes of `text`; what is shorter says so."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text
    return data[: limit - len(CUT) - 1].decode("utf-8", "ignore") + " " + CUT


def _worths(lines: list[Line], weights: list[float]) -> list[float]:
    """How likely each line is to explain the failure; 0 of those that are not shown."""
    both = list(zip(lines, weights, strict=True))
    best = max((weight for line, weight in both if "well" not in line.marks), default=None)
    return [
        0.0 if best is not None and _is_left_out(line, weight, best) else _likelihood(weight)
        for line, weight in both
    ]


def _is_left_out(line: Line, weight: float, best: float) -> bool:
    if weight < _LEAST or "well" in line.marks:
        return True
    return _is_idle(line) and weight < best - _IDLE


def _likelihood(weight: float) -> float:
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, weight))))


def _is_idle(line: Line) -> bool:
    return not line.marks.isdisjoint(_GOES_WELL) and line.marks.isdisjoint(_TELLS)
