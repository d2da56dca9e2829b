"""`log diff`: compares a log with the log of a run that passed."""

# pathlib takes as long to import as all the rest together.
# ruff: noqa: PTH110

import os
import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from sandbox.image.log_counts import differ_much, find_counts, find_sizes, has_counts
from sandbox.image.log_errors import rate_shape
from sandbox.image.log_text import (
    Page,
    ShapeCache,
    Unreadable,
    clip_line,
    format_count,
    join_parts,
    read_batches,
    read_lines,
    refuse_stream,
)

MAX_SHAPES = 400_000
"""The most shapes of one log that are compared."""

MAX_LINES = 20_000_000
"""The most lines of one log that are compared."""

MAX_NEW_LINES = 200_000
"""At least this many of the last new lines are kept, and at most twice as many."""

MAX_ALIKE = 3
"""The most lines of one shape that are shown."""

MAX_COUNTED = 20_000
"""The most lines of one log whose numbers are compared."""

_BORDER = re.compile(rb"(?:[\s|+=_.*~-]|\xe2[\x94\x95][\x80-\xbf])*")
"""An empty line, or one between the rows of a table."""

_TRAILER = b"[this is the log of job"


class LogShapes:
    """The shapes of one log in bounded memory.

    `kinds` has the hash of each line's shape, in the order of the lines.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.lines = 0
        self.kinds = array("q")
        self.shapes_by_hash: dict[int, bytes] = {}
        refuse_stream(path)
        shapes = ShapeCache()
        for lines in read_batches(path):
            self.lines += len(lines)
            line_shapes = shapes.look_up(lines)
            kinds = list(map(hash, line_shapes))
            self.kinds.extend(kinds[: MAX_LINES - len(self.kinds)])
            if len(self.shapes_by_hash) < MAX_SHAPES:
                self.shapes_by_hash.update(zip(kinds, line_shapes, strict=True))

    def describe_omission(self) -> str:
        """Say that only part of the log was compared; "" if all of it was."""
        if len(self.shapes_by_hash) < MAX_SHAPES and self.lines <= MAX_LINES:
            return ""
        return f"[{self.path} is only partly compared: it has too many different lines]"


class NewLines:
    """The lines of one log whose shapes are not in the other log."""

    def __init__(self, own: LogShapes, other: LogShapes) -> None:
        self.numbers, self.shapes = array("Q"), array("q")
        self.weights: dict[int, float] = {}
        self.counts: Counter[int] = Counter()
        new_kinds = {
            kind
            for kind in own.shapes_by_hash.keys() - other.shapes_by_hash.keys()
            if not _BORDER.fullmatch(own.shapes_by_hash[kind])
            and own.shapes_by_hash[kind][:23] != _TRAILER
        }
        for number, kind in enumerate(own.kinds, 1):
            if kind in new_kinds:
                self._add_line(number, kind, own.shapes_by_hash[kind])

    def _add_line(self, number: int, kind: int, shape: bytes) -> None:
        self.counts[kind] += 1
        if self.counts[kind] > MAX_ALIKE:  # only the first lines of a shape are kept
            return
        if kind not in self.weights:
            self.weights[kind] = rate_shape(shape)
        self.numbers.append(number)
        self.shapes.append(kind)
        if len(self.numbers) > 2 * MAX_NEW_LINES:
            del self.numbers[:MAX_NEW_LINES], self.shapes[:MAX_NEW_LINES]

    @property
    def count(self) -> int:
        return sum(self.counts.values())

    def describe_repeats(self, number: int) -> str:
        """Say how many new lines have this line's shape, if not all of them are shown."""
        count = self.counts[self.shapes[bisect_left(self.numbers, number)]]
        return f" [{count:,} like it]" if count > MAX_ALIKE else ""

    def rank_lines(self, after: int | None, most: int) -> list[int]:
        """Return line numbers of new lines: the most telling first, or those after line `after`."""
        indexes = [i for i, number in enumerate(self.numbers) if number > (after or 0)]
        if after is None:
            last = self.numbers[-1] if indexes else 1
            indexes.sort(key=lambda i: -self._rate_line(i, last))
        return [self.numbers[i] for i in indexes[:most]]

    def _rate_line(self, index: int, last: int) -> float:
        """Rate a line higher if its neighbours are telling, if it is late, and if it is rare."""
        kind = self.shapes[index]
        neighbours = self.shapes[max(0, index - 2) : index + 3]
        rarity = -0.5 * min(self.counts[kind], 512).bit_length()
        best = max(map(self.weights.__getitem__, neighbours))
        return self.weights[kind] + best + self.numbers[index] / last + rarity


@dataclass
class Recounted:
    """A line, and the line of the other log that differs from it in its numbers only."""

    number: int
    line: bytes
    other_number: int
    other_line: bytes
    weight: float

    def format(self) -> str:
        other = f"[green {self.other_number}: {clip_line(self.other_line, 120)}]"
        return f"{self.number}: {clip_line(self.line)} {other}"


def find_recounted(ours: LogShapes, theirs: LogShapes) -> list[Recounted]:
    """Find lines of rare shapes with counts that the other log does not have, most telling first.

    A shape that a log has more than `MAX_ALIKE` times is left out: it is progress or a table.
    """
    shapes = ours.shapes_by_hash
    shared = {
        kind for kind in shapes.keys() & theirs.shapes_by_hash.keys() if has_counts(shapes[kind])
    }
    own, other = _read_rare(ours, shared), _read_rare(theirs, shared)
    recounted = [
        pair
        for kind in own.keys() & other.keys()
        for pair in _pair_lines(own[kind], other[kind], shapes[kind])
    ]
    return sorted(recounted, key=lambda pair: (-pair.weight, pair.number))


def _read_rare(log: LogShapes, shared: set[int]) -> dict[int, list[tuple[int, bytes]]]:
    """Read, with their numbers, the lines of shapes that a log has at most `MAX_ALIKE` times."""
    rare = [kind for kind, n in Counter(log.kinds).items() if n <= MAX_ALIKE and kind in shared]
    numbers: dict[int, list[int]] = {kind: [] for kind in rare[: MAX_COUNTED // MAX_ALIKE]}
    for number, kind in enumerate(log.kinds, 1):
        if kind in numbers:
            numbers[kind].append(number)
    lines = read_lines(log.path, set(chain(*numbers.values())))
    return {kind: [(n, lines[n]) for n in own if n in lines] for kind, own in numbers.items()}


def _pair_lines(
    own: list[tuple[int, bytes]], other: list[tuple[int, bytes]], shape: bytes
) -> Iterator[Recounted]:
    other_counts = [find_counts(line, shape) for _, line in other]
    other_sizes = [find_sizes(line) for _, line in other]
    for i, (number, line) in enumerate(own):
        counts, sizes = find_counts(line, shape), find_sizes(line)
        i = min(i, len(other) - 1)
        if counts not in other_counts:
            pairs = zip(counts, other_counts[i], strict=False)
            turned = any(one != two and b"0" in (one, two) for one, two in pairs)
            yield Recounted(number, line, *other[i], rate_shape(shape) + 2 * turned)
        elif all(differ_much(sizes, each) for each in other_sizes):
            yield Recounted(number, line, *other[i], rate_shape(shape) - 1)


def _show_recounted(
    ours: LogShapes, theirs: LogShapes, room: int, most: int, after: int | None
) -> list[str]:
    pairs = [each for each in find_recounted(ours, theirs) if each.number > (after or 0)][:most]
    page = Page(room)
    shown = page.fill((each.number, each.format()) for each in pairs)
    more = f"[{len(pairs) - shown:,} more: --bytes N]" if shown < len(pairs) else ""
    return ["other numbers:", *page.format_lines(), more] if shown else []


MAX_PACKAGES = 20
"""The most packages with changed versions that are named."""


def show_diff(path: str, green: str | None, room: int, most: int, after: int | None) -> str:
    """Format new and missing lines in order, with their numbers and gaps marked: the most telling
    ones, or the new ones after line `after`."""
    green = green or f"{path}.green"
    if not os.path.exists(green):
        raise Unreadable(f"there is no {green}: fetch gitlab_get_last_green_log, and name its file")
    ours, theirs = LogShapes(path), LogShapes(green)
    new, gone = NewLines(ours, theirs), NewLines(theirs, ours)
    counted = _show_recounted(ours, theirs, room // 4, most, after)
    left = max(0, room - sum(len(line.encode("utf-8", "replace")) + 1 for line in counted))
    all_new = after is not None or not gone.count
    parts = [
        f"{format_count(new.count, 'line')} of {ours.lines:,} in {path} new, {gone.count:,} of "
        f"{theirs.lines:,} in {green} gone (times, hashes, folders, most numbers ignored)",
        *_show_part("new:", path, new, left if all_new else left * 2 // 3, most, after),
        *counted,
        *([] if all_new else _show_part("gone:", green, gone, left // 3, most, None)),
    ]
    return join_parts(
        *_read_package_changes(path), *parts, ours.describe_omission(), theirs.describe_omission()
    )


def _read_package_changes(path: str) -> list[str]:
    """Read from `PATH.installed` which packages changed version, because shapes hide versions."""
    try:
        with Path(f"{path}.installed").open(encoding="utf-8", errors="replace") as file:
            changes = [line.strip()[:120] for line in islice(file, MAX_PACKAGES) if line.strip()]
    except OSError:
        return []
    return [f"installed differently: {', '.join(changes)}"] if changes else []


def _show_part(
    title: str, path: str, new: NewLines, room: int, most: int, after: int | None
) -> list[str]:
    ranked = new.rank_lines(after, min(most, 1 + room // 20))
    lines, page = read_lines(path, set(ranked)), Page(room)
    shown = page.fill(
        (number, f"{number}: {clip_line(lines[number])}{new.describe_repeats(number)}")
        for number in ranked
    )
    left = sum(number > (after or 0) for number in new.numbers) - shown
    following = 0 if after is None else ranked[shown - 1] if shown else after
    more = f"[{left:,} more: --after {following} shows all in order, or --bytes N]" if left else ""
    return [title, *page.format_lines(), more] if shown else []
