"""`log diff`: what a log says that the log of a run that passed does not, and the other way."""

# pathlib takes as long to import as all the rest together.
# ruff: noqa: PTH110

import os
from array import array
from bisect import bisect_left
from collections import Counter
from itertools import islice
from pathlib import Path

from sandbox.image.log_errors import weight
from sandbox.image.log_text import (
    Page,
    Shapes,
    Unreadable,
    answer,
    batches,
    counted,
    picked,
    shown,
)

MOST = 400_000
"""Different shapes of one log that are remembered."""

MOST_LINES = 20_000_000
"""Lines of one log that are compared."""

NEWS = 200_000
"""Lines that are remembered as new, from the end."""

ALIKE = 3
"""Lines of one shape that are shown, each."""

_TRAILER = b"[this is the log of job"


class Side:
    """The shapes of one log, in bounded memory: of each line, as a number."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lines = 0
        self.kinds = array("q")
        self.known: dict[int, bytes] = {}
        made = Shapes()
        for lines in batches(path):
            self.lines += len(lines)
            found = made.of(lines)
            kinds = list(map(hash, found))
            self.kinds.extend(kinds[: MOST_LINES - len(self.kinds)])
            if len(self.known) < MOST:
                self.known.update(zip(kinds, found, strict=True))

    @property
    def partly(self) -> str:
        """What is not known of it."""
        if len(self.known) < MOST and self.lines <= MOST_LINES:
            return ""
        return f"[{self.path} is only partly compared: it has too many different lines]"


class Fresh:
    """The lines of one log whose shapes the other has not."""

    def __init__(self, own: Side, other: Side) -> None:
        self.numbers, self.shapes = array("Q"), array("q")
        self.weights: dict[int, float] = {}
        self.counts: Counter[int] = Counter()
        news = own.known.keys() - other.known.keys()
        news = {kind for kind in news if own.known[kind] and own.known[kind][:23] != _TRAILER}
        for number, kind in enumerate(own.kinds, 1):
            if kind in news:
                self._note(number, kind, own.known[kind])

    def _note(self, number: int, kind: int, shape: bytes) -> None:
        self.counts[kind] += 1
        if self.counts[kind] > ALIKE:  # the first ones stand for the rest
            return
        if kind not in self.weights:
            self.weights[kind] = weight(shape)
        self.numbers.append(number)
        self.shapes.append(kind)
        if len(self.numbers) > 2 * NEWS:
            del self.numbers[:NEWS], self.shapes[:NEWS]

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def alike(self, number: int) -> str:
        """How many lines a line stands for, if some are left out."""
        count = self.counts[self.shapes[bisect_left(self.numbers, number)]]
        return f" [{count:,} like it]" if count > ALIKE else ""

    def ranked(self, after: int, most: int) -> list[int]:
        """The numbers of new lines: those after line `after`, or without it the most telling."""
        places = [at for at, number in enumerate(self.numbers) if number > after]
        if not after:
            last = self.numbers[-1] if places else 1
            places.sort(key=lambda at: -self._worth(at, last))
        return [self.numbers[at] for at in places[:most]]

    def _worth(self, at: int, last: int) -> float:
        kind = self.shapes[at]
        near = self.shapes[max(0, at - 2) : at + 3]
        rare = -0.5 * min(self.counts[kind], 512).bit_length()
        return (
            self.weights[kind]
            + max(map(self.weights.__getitem__, near))
            + self.numbers[at] / last
            + rare
        )


INSTALLED = 20
"""Packages of other versions that are named."""


def diff(path: str, green: str | None, room: int, most: int, after: int) -> str:
    """New lines and vanished ones in order, with their numbers, gaps marked."""
    green = green or f"{path}.green"
    if not os.path.exists(green):
        raise Unreadable(f"there is no {green}: fetch gitlab_get_last_green_log, and name its file")
    ours, theirs = Side(path), Side(green)
    new, gone = Fresh(ours, theirs), Fresh(theirs, ours)
    said = [
        f"{counted(new.total, 'line')} of {ours.lines:,} in {path} new, {gone.total:,} of "
        f"{theirs.lines:,} in {green} gone (numbers, times, hashes, folders ignored)",
        *_part("new:", path, new, room * 2 // 3 if gone.total and not after else room, most, after),
        *([] if after else _part("gone:", green, gone, room // 3, most, 0)),
    ]
    return answer(*_installed(path), *said, ours.partly, theirs.partly)


def _installed(path: str) -> list[str]:
    """The packages of other versions, which the shapes of lines hide; written beside the log."""
    try:
        with Path(f"{path}.installed").open(encoding="utf-8", errors="replace") as told:
            found = [line.strip()[:120] for line in islice(told, INSTALLED) if line.strip()]
    except OSError:
        return []
    return [f"installed differently: {', '.join(found)}"] if found else []


def _part(title: str, path: str, fresh: Fresh, room: int, most: int, after: int) -> list[str]:
    ranked = fresh.ranked(after, min(most, 1 + room // 20))
    found, page, told = picked(path, set(ranked)), Page(room), 0
    for number in ranked:
        if not page.add({number: f"{number}: {shown(found[number])}{fresh.alike(number)}"}):
            break
        told += 1
    left = sum(number > after for number in fresh.numbers) - told
    following = ranked[told - 1] if after and told else 0
    more = f"[{left:,} more: --after {following} shows all in order, or --bytes N]" if left else ""
    return [title, *page.lines(), more] if told else []
