"""`log`: shows parts of a job log, short enough for the model's preview.

Every answer is at most `--bytes` long; it counts what is left out and says how to see that. Line
numbers are those of the file. Standard library only; the log may hold any bytes.
"""

import argparse
import re
import sys
from collections import Counter, deque

from sandbox.image import log_diff, log_errors
from sandbox.image.failure_words import rate_shape
from sandbox.image.log_text import (
    MANY,
    ROOM,
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

MAX_CONTEXT = 500
"""The most lines of context on each side; a larger number is reduced to this."""

ABOUT = """\
log outline FILE              sections and commands: lines, seconds, where error candidates are
log errors FILE               lines that look like the failure, grouped, with context
log grep PATTERN FILE         matching lines with context (Python regular expression)
log slice FILE A-B            lines A to B, numbered
log templates FILE            lines by their shape, the rarest first: what is unusual
log diff FILE [GREEN]         what is new against the log of a run that passed (FILE.green)
"""


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="log", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--bytes", type=size, default=ROOM, help="the most that is printed")
    listed = argparse.ArgumentParser(add_help=False, parents=[common])
    listed.add_argument("--max", type=size, default=1000, help="the most items that are shown")
    listed.add_argument("--after", type=size, metavar="LINE", help="begin after LINE")
    around = argparse.ArgumentParser(add_help=False)
    about = f"lines of context, at most {MAX_CONTEXT}"
    around.add_argument("-C", dest="context", type=context_size, default=None, help=about)

    outline = verbs.add_parser("outline", parents=[common])
    outline.add_argument("file")
    outline.set_defaults(show=lambda given: log_errors.show_outline(given.file, given.bytes))
    errors = verbs.add_parser("errors", parents=[listed, around])
    errors.add_argument("file")
    errors.set_defaults(
        show=lambda given: log_errors.show_errors(
            given.file, given.bytes, given.max, given.after or 0, given.context
        )
    )
    grep = verbs.add_parser("grep", parents=[listed, around])
    grep.set_defaults(show=_show_matches)
    grep.add_argument("-i", dest="caseless", action="store_true", help="whatever the case")
    grep.add_argument("-F", dest="fixed", action="store_true", help="PATTERN is plain text")
    grep.add_argument("pattern")
    grep.add_argument("file")
    part = verbs.add_parser("slice", parents=[common])
    part.set_defaults(show=_show_lines)
    part.add_argument("file")
    part.add_argument("range", help="A-B, A- or A")
    shapes = verbs.add_parser("templates", parents=[listed])
    shapes.set_defaults(show=_show_templates)
    shapes.add_argument("--common", action="store_true", help="the most frequent first")
    shapes.add_argument("file")
    diff = verbs.add_parser("diff", parents=[listed])
    diff.add_argument("file")
    diff.add_argument("green", nargs="?", help="by default FILE.green")
    diff.set_defaults(
        show=lambda given: log_diff.show_diff(
            given.file, given.green, given.bytes, given.max, given.after
        )
    )
    return parser


def size(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError
    return number


def context_size(text: str) -> int:
    return min(size(text), MAX_CONTEXT)


def main(words: list[str]) -> int:
    options = _make_parser().parse_args(words)
    try:
        text: str = options.show(options)
        sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")
        sys.stdout.flush()
    except Unreadable as error:
        print(f"log: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 1
    return 0


# ------------------------------------------------------------------ grep, slice and templates


def _show_matches(options: argparse.Namespace) -> str:
    """Format matching lines as `N: text` and their context as `N- text`."""
    raw = options.pattern.encode("utf-8", "surrogateescape")
    try:
        wanted = re.escape(raw) if options.fixed else raw
        pattern = re.compile(wanted, re.IGNORECASE if options.caseless else 0)
    except re.error as error:
        message = f"the pattern {options.pattern!r} is wrong: {error}; -F takes it as text"
        raise Unreadable(message) from error
    page, context, after = Page(options.bytes), options.context or 0, options.after or 0
    before: deque[tuple[int, bytes]] = deque(maxlen=context)
    matches = shown = owed = last = total = 0
    full = False
    for number, line in number_lines(options.file):
        total = number
        if number <= after:
            continue
        is_match = pattern.search(strip_escapes(line)) is not None
        matches += is_match
        if is_match and not full:
            near = {n: f"{n}- {clip_line(other)}" for n, other in before}
            main = {number: f"{number}: {_clip_around_match(pattern, line)}"}
            full = shown >= options.max or not (page.add(near | main) or page.add(main))
            shown, last, owed = (shown, last, 0) if full else (shown + 1, number, context)
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


def _show_lines(options: argparse.Namespace) -> str:
    """Format lines A to B as `N: text`."""
    path, wanted, room = options.file, options.range, options.bytes
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


def _show_templates(options: argparse.Namespace) -> str:
    """Format one line for each shape: its count, its first line and an example."""
    counts, firsts = Counter[bytes](), dict[bytes, int]()
    shapes, total, other = ShapeCache(), 0, 0
    for lines in read_batches(options.file):
        for number, shape in enumerate(shapes.look_up(lines), total + 1):
            if number <= (options.after or 0):
                continue
            if shape in firsts or len(firsts) < MANY:
                counts[shape] += 1
                firsts.setdefault(shape, number)
            else:
                other += 1
        total += len(lines)
    sign = -1 if options.common else 1
    ranked = sorted(
        firsts, key=lambda each: (sign * counts[each], -rate_shape(each), -firsts[each])
    )
    page = Page(options.bytes)
    shown = page.fill(
        (rank, f"{counts[shape]:,} × {firsts[shape]}: {clip_line(shape, 160)}")
        for rank, shape in enumerate(ranked[: options.max])
    )
    return join_parts(
        f"{format_count(len(firsts), 'template')} in {total:,} lines: count × first line: template",
        *page.format_lines(),
        f"[{len(ranked) - shown:,} more: --bytes N, --common]" if shown < len(ranked) else "",
        f"[{other:,} lines of still other shapes]" if other else "",
    )
