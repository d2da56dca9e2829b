"""`log outline`: the sections and commands of a job log, how long each took, where errors are.

The cleaned log no longer has GitLab's section marks and timestamps; the worker writes them to
`FILE.outline` next to it, as one JSON object:

    {"sections": [{"name": "step_script", "title": "…", "first": 13, "last": 99, "start": 17e8,
                   "end": 17e8}, …], "times": [[13, 17e8], …]}

`first` and `last` are line numbers, `start` and `end` epoch seconds; `last` and `end` are 0 if the
section was never closed. `times` says when some of the lines were written. All of it is optional.
"""

# pathlib takes as long to import as all the rest together.
# ruff: noqa: PTH123

import json
import re
import time
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Any

from sandbox.image.log_errors import Candidates
from sandbox.image.log_text import Page, clip_line, format_count, join_parts, read_batches

MOST = 2_000
"""The most commands, and the most sections, that are read."""

_SIDECAR = 16 << 20
_HEADING = re.compile(
    rb"\$ \S|={4,} \S.{0,100} ={4,}$|Running after_script|Uploading artifacts|Cleaning up project"
    rb"|> Task \S+ FAILED|\[INFO\] -+< |##\[group\]"
)


@dataclass
class Entry:
    """A part of the log: its lines, its nesting depth, its duration in seconds or None."""

    first: int
    last: int
    depth: int
    title: str
    seconds: float | None


def show_outline(path: str, room: int) -> str:
    """Format one line for each part; if room is short, small parts without errors are left out."""
    found, headings = Candidates(), list[tuple[int, str]]()
    first = 1
    for lines in read_batches(path):
        found.feed(lines)
        for number, line in enumerate(lines, first):
            if line[:1] in b"$=>[RUC#" and len(headings) < MOST and _HEADING.match(line):
                headings.append((number, clip_line(line, 100)))
        first += len(lines)
    told = _read_sidecar(path)
    entries = _make_entries(told, headings, found.lines)
    page = Page(room - 400)
    hits = {id(one): _count_between(found.hits, one) for one in entries}
    left = 0
    for entry in sorted(
        entries, key=lambda one: (-bool(hits[id(one)]), one.depth, -_rate_entry(one))
    ):
        key = entry.first * 4 + min(entry.depth, 3)
        left += not page.add({key: _format_entry(entry, hits[id(entry)])})
    best = ", ".join(str(group.first) for group in found.rank_groups()[:12])
    return join_parts(
        f"{format_count(found.lines, 'line')}, {_format_time(told)}; "
        "lines, seconds, error candidates, what:",
        *(line for line in page.format_lines() if line != "…"),
        f"[{left:,} small parts are not shown: --bytes N]" if left else "",
        f"most telling error candidates: lines {best} (log errors {path})" if best else "",
    )


def _count_between(hits: list[int], entry: Entry) -> int:
    return bisect_right(hits, entry.last) - bisect_left(hits, entry.first)


def _rate_entry(entry: Entry) -> float:
    return entry.seconds or 0.0


def _format_entry(entry: Entry, hits: int) -> str:
    lines = f"{entry.first}-{entry.last}"
    errors = str(hits) if hits else "-"
    seconds = "" if entry.seconds is None else f"{entry.seconds:.0f}"
    return f"{'  ' * entry.depth}{lines:<15} {seconds:>6} {errors:>6}  {entry.title}"


def _format_time(told: dict[str, Any]) -> str:
    times = _list_times(told)
    if not times:
        return "times unknown"
    try:
        start = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(min(times)))
    except (OverflowError, ValueError, OSError):
        return "times unknown"
    return f"{max(times) - min(times):,.0f} seconds from {start} UTC by the runner's clock"


# ------------------------------------------------------------------------------------- the sidecar


def _read_sidecar(path: str) -> dict[str, Any]:
    """Read the outline that the worker wrote; empty lists if it is missing or invalid."""
    try:
        with open(f"{path}.outline", "rb") as file:
            told = json.loads(file.read(_SIDECAR))
        sections = [_parse_section(one) for one in told.get("sections", [])[:MOST]]
        times = [(int(line), float(at)) for line, at in told.get("times", [])]
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return {"sections": [], "times": []}
    return {"sections": sections, "times": sorted(times)}


def _parse_section(told: dict[str, Any]) -> dict[str, Any]:
    numbers = {key: float(told.get(key) or 0) for key in ("first", "last", "start", "end")}
    return {**numbers, "name": str(told["name"])[:80], "title": str(told.get("title", ""))[:100]}


def _list_times(told: dict[str, Any]) -> list[float]:
    times = [at for _, at in told["times"]]
    return times + [one[key] for one in told["sections"] for key in ("start", "end") if one[key]]


def _make_entries(told: dict[str, Any], headings: list[tuple[int, str]], total: int) -> list[Entry]:
    sections = []
    for one in told["sections"]:
        first, last = int(one["first"]), min(int(one["last"]) or total, total)
        seconds = one["end"] - one["start"] if one["end"] else None
        title = f"section {one['name']}" + (f": {one['title']}" if one["title"] else "")
        if first <= total:
            sections.append(Entry(first, max(first, last), 0, title, seconds))
    for one, other in ((a, b) for a in sections for b in sections if len(sections) < 300):
        inside = one is not other and other.first <= one.first and one.last <= other.last
        one.depth += inside and (one.last - one.first) < (other.last - other.first)
    starts = [number for number, _ in headings] + [total + 1]
    commands = []
    for (number, title), following in zip(headings, starts[1:], strict=True):
        around = [one for one in sections if one.first <= number <= one.last]
        end = min([following - 1, *(one.last for one in around)])
        seconds = _measure_between(told["times"], number, end + 1)
        commands.append(Entry(number, end, len(around), title, seconds))
    return [*sections, *commands]


def _measure_between(times: list[tuple[int, float]], first: int, after: int) -> float | None:
    """Return the seconds between two lines, if known."""
    lines = [line for line, _ in times]
    start, end = bisect_right(lines, first) - 1, bisect_right(lines, after) - 1
    if start < 0 or end < 0:
        return None
    return times[end][1] - times[start][1]
