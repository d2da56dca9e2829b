"""`log outline`: the sections and commands of a job log, how long each took, where errors are.

What GitLab's section marks and timestamps said is not in the cleaned log; the worker writes it to
`FILE.outline` beside it, one JSON object:

    {"sections": [{"name": "step_script", "title": "…", "first": 13, "last": 99, "start": 17e8,
                   "end": 17e8}, …], "times": [[13, 17e8], …]}

`first` and `last` are line numbers, `start` and `end` epoch seconds, `last` and `end` 0 where the
section was never closed. `times` say when some lines were written. All of it is optional.
"""

# pathlib takes as long to import as all the rest together.
# ruff: noqa: PTH123

import json
import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Any

from sandbox.image.log_errors import Candidates
from sandbox.image.log_text import Page, answer, batches, counted, shown

MOST = 2_000
"""Commands, and sections, that are looked at."""

_SIDECAR = 16 << 20
_HEADING = re.compile(
    rb"\$ \S|={4,} \S.{0,100} ={4,}$|Running after_script|Uploading artifacts|Cleaning up project"
    rb"|> Task \S+ FAILED|\[INFO\] -+< |##\[group\]"
)


@dataclass
class Entry:
    """A part of the log: its lines, how deep it stands, its seconds or None."""

    first: int
    last: int
    depth: int
    title: str
    seconds: float | None


def outline(path: str, room: int) -> str:
    """One line for each part; small parts without an error give way to the others."""
    found, headings = Candidates(), list[tuple[int, str]]()
    first = 1
    for lines in batches(path):
        found.feed(lines)
        for number, line in enumerate(lines, first):
            if line[:1] in b"$=>[RUC#" and len(headings) < MOST and _HEADING.match(line):
                headings.append((number, shown(line, 100)))
        first += len(lines)
    told = _sidecar(path)
    entries = _entries(told, headings, found.lines)
    page = Page(room - 400)
    hits = {id(one): _between(found.hits, one) for one in entries}
    left = 0
    for entry in sorted(entries, key=lambda one: (-bool(hits[id(one)]), one.depth, -_size(one))):
        key = entry.first * 4 + min(entry.depth, 3)
        left += not page.add({key: _told(entry, hits[id(entry)])})
    best = ", ".join(str(group.first) for group in found.best()[:12])
    return answer(
        f"{counted(found.lines, 'line')}, {_seconds(_whole(told))}; lines, seconds, error "
        "candidates, what:",
        *(line for line in page.lines() if line != "…"),
        f"[{left:,} small parts are not shown: --bytes N]" if left else "",
        f"most telling error candidates: lines {best} (log errors {path})" if best else "",
    )


def _between(hits: list[int], entry: Entry) -> int:
    return bisect_right(hits, entry.last) - bisect_left(hits, entry.first)


def _size(entry: Entry) -> float:
    return entry.seconds or 0.0


def _told(entry: Entry, hits: int) -> str:
    lines = f"{entry.first}-{entry.last}"
    errors = str(hits) if hits else "-"
    time = "" if entry.seconds is None else f"{entry.seconds:.0f}"
    return f"{'  ' * entry.depth}{lines:<15} {time:>6} {errors:>6}  {entry.title}"


def _seconds(seconds: float | None) -> str:
    return "times unknown" if seconds is None else f"{seconds:,.0f} seconds"


# ------------------------------------------------------------------------------------- the sidecar


def _sidecar(path: str) -> dict[str, Any]:
    """What the worker wrote beside the log; a file that was changed is as none."""
    try:
        with open(f"{path}.outline", "rb") as file:
            told = json.loads(file.read(_SIDECAR))
        sections = [_section(one) for one in told.get("sections", [])[:MOST]]
        times = [(int(line), float(at)) for line, at in told.get("times", [])]
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return {"sections": [], "times": []}
    return {"sections": sections, "times": sorted(times)}


def _section(told: dict[str, Any]) -> dict[str, Any]:
    numbers = {key: float(told.get(key) or 0) for key in ("first", "last", "start", "end")}
    return {**numbers, "name": str(told["name"])[:80], "title": str(told.get("title", ""))[:100]}


def _whole(told: dict[str, Any]) -> float | None:
    times = [at for _, at in told["times"]]
    times += [one[key] for one in told["sections"] for key in ("start", "end") if one[key]]
    return max(times) - min(times) if times else None


def _entries(told: dict[str, Any], headings: list[tuple[int, str]], total: int) -> list[Entry]:
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
        seconds = _lasted(told["times"], number, end + 1)
        commands.append(Entry(number, end, len(around), title, seconds))
    return [*sections, *commands]


def _lasted(times: list[tuple[int, float]], first: int, after: int) -> float | None:
    """Seconds between what was known at one line and at another."""
    lines = [line for line, _ in times]
    start, end = bisect_right(lines, first) - 1, bisect_right(lines, after) - 1
    if start < 0 or end < 0:
        return None
    return times[end][1] - times[start][1]
