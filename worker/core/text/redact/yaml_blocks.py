"""Block scalars of YAML: a value on the lines below its key, as in `password: |`."""

import re
from collections.abc import Iterator

_MARK = (
    rb"(?:\x1b\[[0-9;]{0,8}m){0,2}(?:[!&][\w!/:.-]{0,60}[ \t]{1,4}){0,2}"
    rb"[|>][+-]?[1-9]?[+-]?[ \t]{0,20}(?:#[^\n\\]{0,200})?\r?"
)
_HEADER = re.compile(rb"(?<=[:\s])%b(\n|\\n)" % _MARK)
_HEADER_INSIDE = re.compile(rb":[ \t]{0,4}%b$" % _MARK)
_MOST_LINES = 100
"""A longer block is redacted up to here. Less than what is read again of a text in pieces."""

_LONGEST_LINE = 4096
_LINES = {
    b"\n": re.compile(rb"[^\n]{0,%d}" % _LONGEST_LINE),
    b"\\n": re.compile(rb"(?:[^\"\\\n]|\\(?!n)[^\n]){0,%d}" % _LONGEST_LINE),
}
"""By what ends a line: also the escape in a string of JSON, which a quote ends."""

_LONGEST_PREFIX = 120


def list_block_lines(data: bytes, name: int, value: int) -> list[tuple[int, int]]:
    """Return where the lines of the block begin and end, without the blanks around them.

    `name` is where the key begins, `value` where its value does; [] if that is no block. Before the
    key there may be what a log puts before every line, or the mark of a diff. A block ends before
    what may be the head of another one, so that every line is examined for one block only.
    """
    header = _HEADER.match(data, value)
    if header is None or data[name:value].rstrip(b" \t")[-1:] != b":":
        return []
    start = _find_line_start(data, name, value, header[1])
    prefix, end = data[start:name], header[1]
    column, skipped = len(prefix), len(prefix.rstrip(b" \t"))
    found: list[tuple[int, int]] = []
    for begin, line in _read_lines(data, header.end(), end):
        text = line[skipped:].strip()
        outside = line.strip() and not _is_inside(line, skipped, column)
        if outside or _HEADER_INSIDE.search(text[-400:]):
            break
        if text:
            at = begin + line.index(text, skipped)
            found.append((at, at + len(text)))
    return found


def _find_line_start(data: bytes, name: int, value: int, end: bytes) -> int:
    """Return where the line of a key begins; of a longer one, a place not far before it.

    `name` may be a letter too early: that of the escape before it.
    """
    first = max(0, name - _LONGEST_PREFIX)
    line = data.rfind(end, first, value)
    quote = data.rfind(b'"', first, name) if end == b"\\n" else -1
    begins = quote >= 0 and data[quote - 1 : quote] != b"\\"
    return max(first, line + len(end) if line >= 0 else 0, quote + 1 if begins else 0)


def _read_lines(data: bytes, at: int, end: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield at most `_MOST_LINES` lines that end in `end`, and where each begins."""
    for _ in range(_MOST_LINES):
        found = _LINES[end].match(data, at)
        line = found[0] if found else b""
        yield at, line
        at += len(line)
        if not data.startswith(end, at):
            return
        at += len(end)


def _is_inside(line: bytes, skipped: int, column: int) -> bool:
    """Whether a line is indented further than its key, which stands in `column`."""
    rest = line[skipped:]
    return len(rest) - len(rest.lstrip(b" \t")) > column - skipped
