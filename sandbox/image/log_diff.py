"""`log diff`: compares a log with the log of a run that passed."""

# pathlib takes as long to import as all the rest together.
# ruff: noqa: PTH110, PTH123

import contextlib
import os
import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice

from sandbox.image.failure_words import rate_shape
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
    strip_escapes,
)

MAX_SHAPES = 400_000
"""The most shapes of one log that are compared."""

MAX_LINES = 20_000_000
"""The most lines of one log that are compared."""

MAX_NEW_LINES = 200_000
"""At least this many of the last new lines are kept, and at most twice as many."""

MAX_ALIKE = 3
"""The most lines of one shape that are shown."""

MAX_PACKAGES = 20
"""The most packages with changed versions that are named."""

MAX_COUNTED = 20_000
"""The most lines of one log whose numbers are compared."""

_BORDER = re.compile(rb"(?:[\s|+=_.*~-]|\xe2[\x94\x95][\x80-\xbf])*")
"""An empty line, or one between the rows of a table."""

_TRAILER = b"[this is the log of job"


class _LogShapes:
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


class _NewLines:
    """The lines of one log whose shapes are not in the other log."""

    def __init__(self, own: _LogShapes, other: _LogShapes) -> None:
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
            if kind not in new_kinds:
                continue
            self.counts[kind] += 1
            if self.counts[kind] > MAX_ALIKE:  # only the first lines of a shape are kept
                continue
            if kind not in self.weights:
                self.weights[kind] = rate_shape(own.shapes_by_hash[kind])
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

            def rate(index: int) -> float:
                """Rate a line higher if its neighbours are telling, if it is late, and if rare."""
                kind = self.shapes[index]
                neighbours = self.shapes[max(0, index - 2) : index + 3]
                rarity = -0.5 * min(self.counts[kind], 512).bit_length()
                best = max(map(self.weights.__getitem__, neighbours))
                return self.weights[kind] + best + self.numbers[index] / last + rarity

            indexes.sort(key=lambda i: -rate(i))
        return [self.numbers[i] for i in indexes[:most]]


@dataclass
class _Recounted:
    """A line, and the line of the other log that differs from it in its numbers only."""

    number: int
    line: bytes
    other_number: int
    other_line: bytes
    weight: float


def _find_recounted(ours: _LogShapes, theirs: _LogShapes) -> list[_Recounted]:
    """Find lines of rare shapes with counts that the other log does not have, most telling first.

    A shape that a log has more than `MAX_ALIKE` times is left out: it is progress or a table.
    """
    shapes = ours.shapes_by_hash
    shared = {
        kind for kind in shapes.keys() & theirs.shapes_by_hash.keys() if _has_counts(shapes[kind])
    }
    own, other = _read_rare(ours, shared), _read_rare(theirs, shared)
    recounted = [
        pair
        for kind in own.keys() & other.keys()
        for pair in _pair_lines(own[kind], other[kind], shapes[kind])
    ]
    return sorted(recounted, key=lambda pair: (-pair.weight, pair.number))


def _read_rare(log: _LogShapes, shared: set[int]) -> dict[int, list[tuple[int, bytes]]]:
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
) -> Iterator[_Recounted]:
    other_counts = [_find_counts(line, shape) for _, line in other]
    other_sizes = [_find_sizes(line) for _, line in other]
    for i, (number, line) in enumerate(own):
        counts, sizes = _find_counts(line, shape), _find_sizes(line)
        i = min(i, len(other) - 1)
        if counts not in other_counts:
            pairs = zip(counts, other_counts[i], strict=False)
            turned = any(one != two and b"0" in (one, two) for one, two in pairs)
            yield _Recounted(number, line, *other[i], rate_shape(shape) + 2 * turned)
        elif all(_differ_much(sizes, each) for each in other_sizes):
            yield _Recounted(number, line, *other[i], rate_shape(shape) - 1)


def _show_recounted(
    ours: _LogShapes, theirs: _LogShapes, room: int, most: int, after: int | None
) -> list[str]:
    pairs = [each for each in _find_recounted(ours, theirs) if each.number > (after or 0)][:most]
    page = Page(room)
    shown = page.fill(
        (
            each.number,
            f"{each.number}: {clip_line(each.line)} "
            f"[green {each.other_number}: {clip_line(each.other_line, 120)}]",
        )
        for each in pairs
    )
    more = f"[{len(pairs) - shown:,} more: --bytes N]" if shown < len(pairs) else ""
    return ["other numbers:", *page.format_lines(), more] if shown else []


def show_diff(path: str, green: str | None, room: int, most: int, after: int | None) -> str:
    """Format new and missing lines in order, with their numbers and gaps marked: the most telling
    ones, or the new ones after line `after`."""
    green = green or f"{path}.green"
    if not os.path.exists(green):
        raise Unreadable(f"there is no {green}: fetch gitlab_get_last_green_log, and name its file")
    ours, theirs = _LogShapes(path), _LogShapes(green)
    new, gone = _NewLines(ours, theirs), _NewLines(theirs, ours)
    counted = _show_recounted(ours, theirs, room // 4, most, after)
    changed = list[str]()
    # Which packages changed version: shapes hide versions.
    with (
        contextlib.suppress(OSError),
        open(f"{path}.installed", encoding="utf-8", errors="replace") as file,
    ):
        changes = [line.strip()[:120] for line in islice(file, MAX_PACKAGES) if line.strip()]
        changed = [f"installed differently: {', '.join(changes)}"] if changes else []
    left = max(0, room - sum(len(line.encode("utf-8", "replace")) + 1 for line in counted))
    all_new = after is not None or not gone.count
    parts = [
        f"{format_count(new.count, 'line')} of {ours.lines:,} in {path} new, {gone.count:,} of "
        f"{theirs.lines:,} in {green} gone (times, hashes, folders, most numbers ignored)",
        *_show_part("new:", path, new, left if all_new else left * 2 // 3, most, after),
        *counted,
        *([] if all_new else _show_part("gone:", green, gone, left // 3, most, None)),
    ]
    return join_parts(*changed, *parts, ours.describe_omission(), theirs.describe_omission())


def _show_part(
    title: str, path: str, new: _NewLines, room: int, most: int, after: int | None
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


# ---------------------------------------------------- the numbers of a line that mean something

# They are counts, settings (`maximumPoolSize=30`), and sizes beside a limit that differ by more
# than a little (`used 1358241 bytes of 1310720 bytes`); others differ by chance.

_UNIT = (
    rb"(?:(?:[nmu]|\xc2\xb5)?s|secs?|seconds?|m?secs?|milliseconds?|min|mins|minutes?|h|hrs?|hours?"
    rb"|days?|elapsed|[kmgt]?i?b(?:ytes?|/s|it/s)?|[kmg]bps|am|pm|threads?|cores?|cpus?|processors?)"
)
_MONTH = rb"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}"
_CHANCE = re.compile(
    rb"(?i)^\W*(?:#\d+ )?\d+\.\d+ |^\W*\d+ ?\|"  # a builder's seconds, a source line's number
    rb"|\b" + _MONTH + rb"\.? +\d{1,2}\b|\b\d{1,2} " + _MONTH + rb"\b"
    rb"|\b(?:pid|tid|port|seed|lines?|col|column|thread|process|job|runner|worker|build|id|took)"
    rb"[ :=#-]{1,3}\d+"
    rb"|(?<![\d.,])\d[\d.,]* ?(?:%|" + _UNIT + rb"\b)"  # from a number's beginning, so linear
    rb"|(?<!\d)\d+ ?/ ?\d+|\[[\d\s:.%of-]*\]"
)
"""Times, durations, sizes, percentages, progress, places and ids."""

_BARE = rb"(?<![\w.:/#@%+,-])-?\d{1,6}(?:\.\d{1,6})?(?![\w%/:-]|[.,]\d)"
_COUNT = re.compile(_BARE + rb"(?= [a-zA-Z]{3})")
_VALUE = re.compile(_BARE)
_NAME = rb"\b([A-Za-z]\w{1,120})(?:[ :=]{1,3}|\.{2,80})"
_SETTING = re.compile(_NAME + rb"(-?\d{1,9})(?![\w.%])")
_SHAPED_SETTING = re.compile(_NAME + rb"#")
_CAMEL = re.compile(rb"[a-z][A-Z]")
_SIZE = re.compile(
    rb"(?i)(?<![\w.,:/-])(\d{1,15}(?:\.\d{1,6})?) ?(?:%|[kmgt]?i?b(?:ytes)?(?![\w/]))"
)
_MAY_COUNT = re.compile(rb"# [a-zA-Z]{3}|(?i:# ?(?:%|[kmgt]?i?b(?:ytes)?\b))")

_TOTAL = re.compile(rb"\W{0,8}(?:All files|TOTAL|Total)\b")
"""The last row of a table, such as that of coverage."""

_MUCH = 0.03
"""Sizes differ much if they differ by more than this share of the larger one."""

_LEAST_SIZES = 2
"""Lines with fewer sizes are not compared: a single size differs by chance."""


def _has_counts(shape: bytes) -> bool:
    """Whether lines of a shape may have numbers that mean something."""
    if b"#" not in shape:
        return False
    if _MAY_COUNT.search(shape) or _TOTAL.match(shape) or rate_shape(shape) >= 1:
        return True
    return any(map(_is_setting, _SHAPED_SETTING.findall(shape)))


def _find_counts(line: bytes, shape: bytes) -> tuple[bytes, ...]:
    """Return the counts of a line (`0 characters`), and of an error also its other numbers."""
    text = _CHANCE.sub(b" ", strip_escapes(line)[:500])
    every = rate_shape(shape) >= 1 or _TOTAL.match(shape)
    counts = (_VALUE if every else _COUNT).findall(text)
    settings = (value for name, value in _SETTING.findall(text) if _is_setting(name))
    return (*counts, *settings)


def _is_setting(name: bytes) -> bool:
    """Whether a name consists of several words, as a program's settings do."""
    return b"_" in name or _CAMEL.search(name) is not None


def _find_sizes(line: bytes) -> tuple[float, ...]:
    """Return the sizes and shares that a line names."""
    return tuple(map(float, _SIZE.findall(strip_escapes(line)[:500])))


def _differ_much(some: tuple[float, ...], others: tuple[float, ...]) -> bool:
    """Whether two lines have one size in common, such as a limit, and one that differs by more than
    `_MUCH`."""
    pairs = [*zip(some, others, strict=False)]
    differ = any(abs(one - other) > _MUCH * max(one, other) for one, other in pairs)
    return len(pairs) >= _LEAST_SIZES and differ and any(one == other for one, other in pairs)
