"""`log errors`: the lines that look most like the failure, one of each shape, and the other lines
that have a rare value of theirs: who took the port, which id it was. And `log outline`: a job log's
sections and commands, how long each took, where errors are.
"""

# pathlib takes as long to import as all the rest together.
# ruff: noqa: PTH123

import json
import re
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, product
from typing import Any

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

MOST_GROUPS = 20_000
"""The most groups that are kept while reading."""

TRIED = 200
"""The most groups that are shown."""

BEST = 20
"""The groups whose values are looked for in other lines."""


@dataclass
class _Group:
    """Lines of one shape: their weight, their number, the first and the last."""

    weight: float
    count: int
    first: int
    last: int


class Candidates:
    """Groups the lines that look like the failure. `feed` takes a log's lines in order."""

    def __init__(self) -> None:
        self.groups: dict[bytes, _Group] = {}
        self.lines = 0
        self.hits: list[int] = []
        self._shapes = ShapeCache()
        self._weights: dict[bytes, float] = {}

    def feed(self, lines: list[bytes]) -> None:
        weights, groups = self._weights, self.groups
        if len(weights) > 4 * MOST_GROUPS:
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
            elif len(groups) < MOST_GROUPS:
                groups[shape] = _Group(weights[shape], 1, number, number)
        self.lines += len(lines)

    def rank_groups(self) -> list[_Group]:
        """Return the groups, the most telling first: high weight, few lines, late in the log."""

        def rank(group: _Group) -> float:
            lateness = group.first / max(1, self.lines)
            return -(group.weight + lateness - 0.5 * (min(group.count, 1024).bit_length() - 1))

        return sorted(self.groups.values(), key=rank)


def show_errors(path: str, room: int, most: int, after: int, context: int | None) -> str:
    """Format the most telling groups that fit, in the order of the log."""
    refuse_stream(path)
    candidates = Candidates()
    for lines in read_batches(path):
        candidates.feed(lines)
    ranked = [group for group in candidates.rank_groups() if group.first > after]
    tried = ranked[: min(most, TRIED)]
    steps = range(-1, 4) if context is None else range(-context, context + 1)
    near = read_lines(path, {group.first + step for group in tried for step in steps})
    texts = {number: f"{number}- {clip_line(line, 160)}" for number, line in near.items()}
    for group in tried:
        alike = f" [{group.count:,} like it, last at {group.last}]" if group.count > 1 else ""
        texts[group.first] = f"{group.first}: {clip_line(near[group.first])}{alike}"
    best = [near[group.first] for group in tried[:BEST]]
    elsewhere = _list_elsewhere(path, best, candidates.hits, room // 3)
    page, shown = Page(room - sum(len(line.encode()) + 1 for line in elsewhere)), 0
    for group in tried:
        numbers = [group.first + step for step in steps if group.first + step in near]
        around = {number: texts[number] for number in numbers}
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


# ------------------------------------------------------------------------------------- the outline

# The cleaned log no longer has GitLab's section marks and timestamps; the worker writes them to
# `FILE.outline` next to it, as one JSON object:
#
#     {"sections": [{"name": "step_script", "title": "…", "first": 13, "last": 99, "start": 17e8,
#                    "end": 17e8}, …], "times": [[13, 17e8], …]}
#
# `first` and `last` are line numbers, `start` and `end` epoch seconds; `last` and `end` are 0 if
# the section was never closed. `times` says when some of the lines were written. All is optional.

MOST_PARTS = 2_000
"""The most commands, and the most sections, that are read."""

_SIDECAR = 16 << 20
_HEADING = re.compile(
    rb"\$ \S|={4,} \S.{0,100} ={4,}$|Running after_script|Uploading artifacts|Cleaning up project"
    rb"|> Task \S+ FAILED|\[INFO\] -+< |##\[group\]"
)


@dataclass
class _Entry:
    """A part of the log: its lines, its nesting depth, its duration in seconds or None."""

    first: int
    last: int
    depth: int
    title: str
    seconds: float | None


def show_outline(path: str, room: int) -> str:
    """Format one line for each part; if room is short, small parts without errors are left out."""
    candidates, headings = Candidates(), list[tuple[int, str]]()
    first = 1
    for batch in read_batches(path):
        candidates.feed(batch)
        for number, line in enumerate(batch, first):
            if line[:1] in b"$=>[RUC#" and len(headings) < MOST_PARTS and _HEADING.match(line):
                headings.append((number, clip_line(line, 100)))
        first += len(batch)
    sidecar = _read_sidecar(path)
    entries = _make_entries(sidecar, headings, candidates.lines)
    page = Page(room - 400)
    hits = {
        id(entry): bisect_right(candidates.hits, entry.last)
        - bisect_left(candidates.hits, entry.first)
        for entry in entries
    }
    left = 0
    for entry in sorted(
        entries, key=lambda each: (-bool(hits[id(each)]), each.depth, -(each.seconds or 0.0))
    ):
        key = entry.first * 4 + min(entry.depth, 3)
        lines, errors = f"{entry.first}-{entry.last}", str(hits[id(entry)] or "-")
        seconds = "" if entry.seconds is None else f"{entry.seconds:.0f}"
        text = f"{'  ' * entry.depth}{lines:<15} {seconds:>6} {errors:>6}  {entry.title}"
        left += not page.add({key: text})
    best = ", ".join(str(group.first) for group in candidates.rank_groups()[:12])
    return join_parts(
        f"{format_count(candidates.lines, 'line')}, {_format_time(sidecar)}; "
        "lines, seconds, error candidates, what:",
        *(line for line in page.format_lines() if line != "…"),
        f"[{left:,} small parts are not shown: --bytes N]" if left else "",
        f"most telling error candidates: lines {best} (log errors {path})" if best else "",
    )


def _format_time(sidecar: dict[str, Any]) -> str:
    bounds = [each[key] for each in sidecar["sections"] for key in ("start", "end")]
    times = [at for _, at in sidecar["times"]] + list(filter(None, bounds))
    try:
        start = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(min(times)))
    except (OverflowError, ValueError, OSError):  # also if there are no times
        return "times unknown"
    return f"{max(times) - min(times):,.0f} seconds from {start} UTC by the runner's clock"


# ------------------------------------------------------------------------------------- the sidecar


def _read_sidecar(path: str) -> dict[str, Any]:
    """Read the outline that the worker wrote; empty lists if it is missing or invalid."""
    try:
        with open(f"{path}.outline", "rb") as file:
            sidecar = json.loads(file.read(_SIDECAR))
        sections = [
            {
                **{key: float(raw.get(key) or 0) for key in ("first", "last", "start", "end")},
                "name": str(raw["name"])[:80],
                "title": str(raw.get("title", ""))[:100],
            }
            for raw in sidecar.get("sections", [])[:MOST_PARTS]
        ]
        times = [(int(line), float(at)) for line, at in sidecar.get("times", [])]
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return {"sections": [], "times": []}
    return {"sections": sections, "times": sorted(times)}


def _make_entries(
    sidecar: dict[str, Any], headings: list[tuple[int, str]], total: int
) -> list[_Entry]:
    sections = []
    for raw in sidecar["sections"]:
        first, last = int(raw["first"]), min(int(raw["last"]) or total, total)
        seconds = raw["end"] - raw["start"] if raw["end"] else None
        title = f"section {raw['name']}" + (f": {raw['title']}" if raw["title"] else "")
        if first <= total:
            sections.append(_Entry(first, max(first, last), 0, title, seconds))
    for inner, outer in product(sections, sections) if len(sections) < 300 else ():
        is_inside = outer.first <= inner.first and inner.last <= outer.last
        inner.depth += is_inside and (inner.last - inner.first) < (outer.last - outer.first)
    starts = [number for number, _ in headings] + [total + 1]
    times = sidecar["times"]
    timed = [line for line, _ in times]
    commands = []
    for (number, title), following in zip(headings, starts[1:], strict=True):
        around = [each for each in sections if each.first <= number <= each.last]
        end = min([following - 1, *(each.last for each in around)])
        begun, ended = bisect_right(timed, number) - 1, bisect_right(timed, end + 1) - 1
        seconds = times[ended][1] - times[begun][1] if begun >= 0 and ended >= 0 else None
        commands.append(_Entry(number, end, len(around), title, seconds))
    return [*sections, *commands]
