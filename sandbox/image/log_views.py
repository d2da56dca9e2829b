"""`log grep`, `log slice`, `log templates`: parts of a log, numbered, clipped and capped."""

import re
from collections import deque
from dataclasses import dataclass

from sandbox.image.log_errors import rate_shape
from sandbox.image.log_text import (
    MANY,
    Page,
    ShapeCache,
    Unreadable,
    clip_line,
    format_count,
    join_parts,
    number_lines,
    read_batches,
    strip_escapes,
)


@dataclass(frozen=True)
class GrepOptions:
    """The options of `log grep`."""

    room: int
    most: int
    after_line: int
    context: int
    caseless: bool
    is_literal: bool

    def compile_pattern(self, text: str) -> "re.Pattern[bytes]":
        """Compile the pattern `text`. Raises Unreadable."""
        raw = text.encode("utf-8", "surrogateescape")
        try:
            wanted = re.escape(raw) if self.is_literal else raw
            return re.compile(wanted, re.IGNORECASE if self.caseless else 0)
        except re.error as error:
            raise Unreadable(
                f"the pattern {text!r} is wrong: {error}; -F takes it as text"
            ) from error


def show_matches(text: str, path: str, options: GrepOptions) -> str:
    """Format matching lines as `N: text` and their context as `N- text`."""
    pattern, page = options.compile_pattern(text), Page(options.room)
    before: deque[tuple[int, bytes]] = deque(maxlen=options.context)
    matches = shown = owed = last = total = 0
    full = False
    for number, line in number_lines(path):
        total = number
        if number <= options.after_line:
            continue
        is_match = pattern.search(strip_escapes(line)) is not None
        matches += is_match
        if is_match and not full:
            near = {n: f"{n}- {clip_line(other)}" for n, other in before}
            main = {number: f"{number}: {_clip_around_match(pattern, line)}"}
            full = shown >= options.most or not (page.add(near | main) or page.add(main))
            shown, last, owed = (shown, last, 0) if full else (shown + 1, number, options.context)
        elif owed:
            owed -= 1
            page.add({number: f"{number}- {clip_line(line)}"})
        before.append((number, line))
    more = f"; {matches - shown:,} more: --after {last}, or --bytes N" if shown < matches else ""
    return join_parts(
        *page.format_lines(), f"[{format_count(matches, 'matching line')} of {total:,}{more}]"
    )


def _clip_around_match(pattern: "re.Pattern[bytes]", line: bytes) -> str:
    """Clip a very long line to the part that matches."""
    text = strip_escapes(line)
    match = pattern.search(text)
    if match is None or match.start() < 200:
        return clip_line(line)
    start = match.start() - 60
    return f"[{start} bytes] …{clip_line(text[start:])}"


def show_lines(path: str, wanted: str, room: int) -> str:
    """Format lines A to B as `N: text`."""
    bounds = re.fullmatch(r"(\d+)(?:(-|:|,)(\d*))?", wanted.strip())
    if bounds is None:
        raise Unreadable(f"{wanted!r} is no range of lines: write A-B, A- or A")
    first = max(1, int(bounds[1]))
    last = int(bounds[3]) if bounds[3] else (1 << 62 if bounds[2] else first)
    if last < first:
        raise Unreadable(f"{wanted!r} ends before it begins: write A-B, A- or A")
    page, total, more = Page(room), 0, ""
    for total, line in number_lines(path):
        if total > last:
            break
        text = f"{total}: {clip_line(line, min(1000, room // 4))}"
        if total >= first and not page.add({total: text}):
            more = f"[go on with: log slice {path} {total}-{bounds[3] or ''}]"
            break
    return join_parts(
        *page.format_lines(), more or (f"[it has {total:,} lines]" if first > total else "")
    )


@dataclass
class _Kind:
    count: int
    first: int


def show_templates(path: str, room: int, most: int, after: int, common: bool) -> str:
    """Format one line for each shape: its count, its first line and an example."""
    kinds: dict[bytes, _Kind] = {}
    shapes, total, other = ShapeCache(), 0, 0
    for lines in read_batches(path):
        for number, shape in enumerate(shapes.look_up(lines), total + 1):
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
        kinds.items(), key=lambda item: (sign * item[1].count, -rate_shape(item[0]), -item[1].first)
    )
    page = Page(room)
    shown = page.fill(
        (rank, f"{kind.count:,} × {kind.first}: {clip_line(shape, 160)}")
        for rank, (shape, kind) in enumerate(ranked[:most])
    )
    return join_parts(
        f"{format_count(len(kinds), 'template')} in {total:,} lines: count × first line: template",
        *page.format_lines(),
        f"[{len(ranked) - shown:,} more: --bytes N, --common]" if shown < len(ranked) else "",
        f"[{other:,} lines of still other shapes]" if other else "",
    )
