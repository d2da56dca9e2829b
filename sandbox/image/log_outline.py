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
from itertools import product
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
    candidates, headings = Candidates(), list[tuple[int, str]]()
    first = 1
    for lines in read_batches(path):
        candidates.feed(lines)
        for number, line in enumerate(lines, first):
            if line[:1] in b"$=>[RUC#" and len(headings) < MOST and _HEADING.match(line):
                headings.append((number, clip_line(line, 100)))
        first += len(lines)
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
        left += not page.add({key: _format_entry(entry, hits[id(entry)])})
    best = ", ".join(str(group.first) for group in candidates.rank_groups()[:12])
    return join_parts(
        f"{format_count(candidates.lines, 'line')}, {_format_time(sidecar)}; "
        "lines, seconds, error candidates, what:",
        *(line for line in page.format_lines() if line != "…"),
        f"[{left:,} small parts are not shown: --bytes N]" if left else "",
        f"most telling error candidates: lines {best} (log errors {path})" if best else "",
    )


def _format_entry(entry: Entry, hits: int) -> str:
    lines = f"{entry.first}-{entry.last}"
    errors = str(hits) if hits else "-"
    seconds = "" if entry.seconds is None else f"{entry.seconds:.0f}"
    return f"{'  ' * entry.depth}{lines:<15} {seconds:>6} {errors:>6}  {entry.title}"


def _format_time(sidecar: dict[str, Any]) -> str:
    times = _list_times(sidecar)
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
            sidecar = json.loads(file.read(_SIDECAR))
        sections = [_parse_section(each) for each in sidecar.get("sections", [])[:MOST]]
        times = [(int(line), float(at)) for line, at in sidecar.get("times", [])]
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return {"sections": [], "times": []}
    return {"sections": sections, "times": sorted(times)}


def _parse_section(raw: dict[str, Any]) -> dict[str, Any]:
    numbers = {key: float(raw.get(key) or 0) for key in ("first", "last", "start", "end")}
    return {**numbers, "name": str(raw["name"])[:80], "title": str(raw.get("title", ""))[:100]}


def _list_times(sidecar: dict[str, Any]) -> list[float]:
    bounds = [each[key] for each in sidecar["sections"] for key in ("start", "end")]
    return [at for _, at in sidecar["times"]] + list(filter(None, bounds))


def _make_entries(
    sidecar: dict[str, Any], headings: list[tuple[int, str]], total: int
) -> list[Entry]:
    sections = []
    for raw in sidecar["sections"]:
        first, last = int(raw["first"]), min(int(raw["last"]) or total, total)
        seconds = raw["end"] - raw["start"] if raw["end"] else None
        title = f"section {raw['name']}" + (f": {raw['title']}" if raw["title"] else "")
        if first <= total:
            sections.append(Entry(first, max(first, last), 0, title, seconds))
    for inner, outer in product(sections, sections) if len(sections) < 300 else ():
        is_inside = outer.first <= inner.first and inner.last <= outer.last
        inner.depth += is_inside and (inner.last - inner.first) < (outer.last - outer.first)
    starts = [number for number, _ in headings] + [total + 1]
    commands = []
    for (number, title), following in zip(headings, starts[1:], strict=True):
        around = [each for each in sections if each.first <= number <= each.last]
        end = min([following - 1, *(each.last for each in around)])
        seconds = _measure_between(sidecar["times"], number, end + 1)
        commands.append(Entry(number, end, len(around), title, seconds))
    return [*sections, *commands]


def _measure_between(times: list[tuple[int, float]], first: int, after: int) -> float | None:
    """Return the seconds between two lines, if known."""
    lines = [line for line, _ in times]
    start, end = bisect_right(lines, first) - 1, bisect_right(lines, after) - 1
    if start < 0 or end < 0:
        return None
    return times[end][1] - times[start][1]
