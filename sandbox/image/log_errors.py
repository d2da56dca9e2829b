"""`log errors`: the lines that look most like the failure, one of each shape, and the other lines
that have a rare value of theirs: who took the port, which id it was."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

from sandbox.image.failure_words import rate_shape
from sandbox.image.log_text import (
    Page,
    ShapeCache,
    clip_line,
    format_count,
    join_parts,
    number_lines,
    read_batches,
    read_lines,
    refuse_stream,
    strip_escapes,
)

MOST = 20_000
"""The most groups that are kept while reading."""

TRIED = 200
"""The most groups that are shown."""

BEST = 20
"""The groups whose values are looked for in other lines."""


@dataclass
class Group:
    """Lines of one shape: their weight, their number, the first and the last."""

    weight: float
    count: int
    first: int
    last: int


class Candidates:
    """Groups the lines that look like the failure. `feed` takes a log's lines in order."""

    def __init__(self) -> None:
        self.groups: dict[bytes, Group] = {}
        self.lines = 0
        self.hits: list[int] = []
        self._shapes = ShapeCache()
        self._weights: dict[bytes, float] = {}

    def feed(self, lines: list[bytes]) -> None:
        weights, groups = self._weights, self.groups
        if len(weights) > 4 * MOST:
            weights.clear()
        for number, shape in enumerate(self._shapes.look_up(lines), self.lines + 1):
            if shape not in weights:
                weights[shape] = rate_shape(shape)
            if not weights[shape]:
                continue
            self.hits.append(number)
            if shape in groups:
                groups[shape].count += 1
                groups[shape].last = number
            elif len(groups) < MOST:
                groups[shape] = Group(weights[shape], 1, number, number)
        self.lines += len(lines)

    def rank_groups(self) -> list[Group]:
        """Return the groups, the most telling first: high weight, few lines, late in the log."""

        def rank(group: Group) -> float:
            lateness = group.first / max(1, self.lines)
            return -(group.weight + lateness - 0.5 * (min(group.count, 1024).bit_length() - 1))

        return sorted(self.groups.values(), key=rank)


def find_candidates(path: str) -> Candidates:
    candidates = Candidates()
    for lines in read_batches(path):
        candidates.feed(lines)
    return candidates


def show_errors(path: str, room: int, most: int, after: int, context: int | None) -> str:
    """Format the most telling groups that fit, in the order of the log."""
    refuse_stream(path)
    candidates = find_candidates(path)
    ranked = [group for group in candidates.rank_groups() if group.first > after]
    tried = ranked[: min(most, TRIED)]
    steps = range(-1, 4) if context is None else range(-context, context + 1)
    lines = read_lines(path, {group.first + step for group in tried for step in steps})
    texts = {number: f"{number}- {clip_line(line, 160)}" for number, line in lines.items()}
    texts |= {group.first: _format_group(group, lines[group.first]) for group in tried}
    best = [lines[group.first] for group in tried[:BEST]]
    elsewhere = _list_elsewhere(path, best, candidates.hits, room // 3)
    page, shown = Page(room - sum(len(line.encode()) + 1 for line in elsewhere)), 0
    for group in tried:
        near = [group.first + step for step in steps if group.first + step in lines]
        around = {number: texts[number] for number in near}
        main = {group.first: texts[group.first]}
        if not page.add(around | main) and not page.add(main):
            break
        shown += 1
    total = format_count(len(candidates.hits), "candidate line")
    groups = format_count(len(candidates.groups), "group")
    more = f"[{len(ranked) - shown:,} less telling ones are not shown: --bytes N, --after LINE]"
    return join_parts(
        f"{total} in {groups}, of {candidates.lines:,} lines:",
        *page.format_lines(),
        more if shown < len(ranked) else "",
        *elsewhere,
    )


def _format_group(group: Group, line: bytes) -> str:
    alike = f" [{group.count:,} like it, last at {group.last}]" if group.count > 1 else ""
    return f"{group.first}: {clip_line(line)}{alike}"


# ------------------------------------------------------------------- where else its values are

_MOST_VALUES = 20
"""The most values that are looked for."""

_RARE = 4
"""A value is rare if at most so many other lines have it; a common one, such as a process id, tells
nothing."""

_MOST_LINES = 4
_CLIPPED = 200

_VALUE = re.compile(
    rb"(?<![\w.-])(?:\d{4,12}|0x[0-9a-f]{4,16}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![\w.-])"
)
_YEAR = re.compile(rb"(?:19|20)\d\d")


def _list_elsewhere(
    path: str, errors: Iterable[bytes], candidates: Sequence[int], room: int
) -> list[str]:
    """List lines that have a rare value of the `errors` (a long number, an address or an id) and
    are not among the `candidates`: at most about `room` bytes."""
    values = dict.fromkeys(
        value for line in errors for value in _VALUE.findall(strip_escapes(line)[:1000])
    )
    wanted = [value for value in values if not _YEAR.fullmatch(value)][:_MOST_VALUES]
    if not wanted:
        return []
    skipped, numbers_by_value = set(candidates), dict[bytes, list[int]]()
    lines: dict[int, bytes] = {}
    for number, line in number_lines(path):
        if number in skipped or not any(value in line for value in wanted):
            continue
        for value in set(_VALUE.findall(strip_escapes(line)[:1000])).intersection(wanted):
            numbers = numbers_by_value.setdefault(value, [])
            numbers.append(number)
            if len(numbers) <= _RARE:
                lines[number] = line
    rare = chain(*(numbers for numbers in numbers_by_value.values() if len(numbers) <= _RARE))
    first = sorted(set(rare))[:_MOST_LINES]
    shown = [f"{number}: {clip_line(lines[number], _CLIPPED)}" for number in first]
    sizes = accumulate(len(line.encode()) for line in shown)
    shown = [line for line, size in zip(shown, sizes, strict=True) if size <= room]
    return ["the values of these errors are also in:", *shown] if shown else []
