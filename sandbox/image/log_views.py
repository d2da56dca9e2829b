"""`log grep`, `log slice`, `log templates`: parts of a log, numbered, clipped and capped."""

import re
from collections import deque
from dataclasses import dataclass

from sandbox.image.log_errors import weight
from sandbox.image.log_text import (
    MANY,
    Page,
    Shapes,
    Unreadable,
    answer,
    batches,
    counted,
    numbered,
    plain,
    shown,
)


@dataclass(frozen=True)
class Grep:
    """How to look, and how much to show."""

    room: int
    most: int
    after: int
    context: int
    caseless: bool
    fixed: bool

    def pattern(self, text: str) -> "re.Pattern[bytes]":
        """Raises Unreadable."""
        raw = text.encode("utf-8", "surrogateescape")
        try:
            wanted = re.escape(raw) if self.fixed else raw
            return re.compile(wanted, re.IGNORECASE if self.caseless else 0)
        except re.error as error:
            raise Unreadable(
                f"the pattern {text!r} is wrong: {error}; -F takes it as text"
            ) from error


def grep(text: str, path: str, how: Grep) -> str:
    """The matching lines as `N: text`, those around as `N- text`."""
    pattern, page = how.pattern(text), Page(how.room)
    before: deque[tuple[int, bytes]] = deque(maxlen=how.context)
    matches = told = owed = last = total = 0
    full = False
    for number, line in numbered(path):
        total = number
        if number <= how.after:
            continue
        found = pattern.search(plain(line)) is not None
        matches += found
        if found and not full:
            near = {n: f"{n}- {shown(other)}" for n, other in before}
            main = {number: f"{number}: {_around(pattern, line)}"}
            full = told >= how.most or not (page.add(near | main) or page.add(main))
            told, last, owed = (told, last, 0) if full else (told + 1, number, how.context)
        elif owed:
            owed -= 1
            page.add({number: f"{number}- {shown(line)}"})
        before.append((number, line))
    more = f"; {matches - told:,} more: --after {last}, or --bytes N" if told < matches else ""
    return answer(*page.lines(), f"[{counted(matches, 'matching line')} of {total:,}{more}]")


def _around(pattern: "re.Pattern[bytes]", line: bytes) -> str:
    """A line; of a very long one the part that matches."""
    text = plain(line)
    found = pattern.search(text)
    if found is None or found.start() < 200:
        return shown(line)
    start = found.start() - 60
    return f"[{start} bytes] …{shown(text[start:])}"


def part(path: str, wanted: str, room: int) -> str:
    """Lines A to B as `N: text`."""
    bounds = re.fullmatch(r"(\d+)(?:(-|:|,)(\d*))?", wanted.strip())
    if bounds is None:
        raise Unreadable(f"{wanted!r} is no range of lines: write A-B, A- or A")
    first = max(1, int(bounds[1]))
    last = int(bounds[3]) if bounds[3] else (1 << 62 if bounds[2] else first)
    page, total, more = Page(room), 0, ""
    for total, line in numbered(path):
        if total > last:
            break
        text = f"{total}: {shown(line, min(1000, room // 4))}"
        if total >= first and not page.add({total: text}):
            more = f"[go on with: log slice {path} {total}-{bounds[3] or ''}]"
            break
    return answer(*page.lines(), more or (f"[it has {total:,} lines]" if first > total else ""))


@dataclass
class _Kind:
    count: int
    first: int


def templates(path: str, room: int, most: int, after: int, common: bool) -> str:
    """One line for each shape: how often, where first, and what it looks like."""
    kinds: dict[bytes, _Kind] = {}
    shapes, total, other = Shapes(), 0, 0
    for lines in batches(path):
        for number, shape in enumerate(shapes.of(lines), total + 1):
            if number <= after:
                continue
            if shape in kinds:
                kinds[shape].count += 1
            elif len(kinds) < MANY:
                kinds[shape] = _Kind(1, number)
            else:
                other += 1
        total += len(lines)
    sign = -1 if common else 1
    ranked = sorted(
        kinds.items(), key=lambda item: (sign * item[1].count, -weight(item[0]), -item[1].first)
    )
    page, told = Page(room), 0
    for shape, kind in ranked[:most]:
        if not page.add({told: f"{kind.count:,} × {kind.first}: {shown(shape, 160)}"}):
            break
        told += 1
    return answer(
        f"{counted(len(kinds), 'template')} in {total:,} lines: count × first line: template",
        *page.lines(),
        f"[{len(ranked) - told:,} more: --bytes N, --common]" if told < len(ranked) else "",
        f"[{other:,} lines of still other shapes]" if other else "",
    )
