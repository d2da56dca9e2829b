"""Block scalars of YAML: a value on the lines below its key, as in `password: |`."""

import re
from collections.abc import Iterator

_COLOUR = re.compile(rb"\x1b\[[0-9;]{0,20}[mK]?")
"""A colour; its end may be missing, as it may have been taken for the beginning of a key."""

_BLANKS = rb"(?:[ \t]|\x1b\[[0-9;]{0,20}[mK]){0,20}+"
_MARK = rb"%b(?:[!&][\w!/:.-]{0,60}+[ \t]{1,4}){0,2}[|>][+-]?[1-9]?[+-]?%b" % (_BLANKS, _BLANKS)
_HEADER = re.compile(rb"%b(?:#[^\n\\]{0,200})?\r?(\n|\\n)" % _MARK)
_HEADER_INSIDE = re.compile(rb":%b(?:#|$)" % _MARK)
"""In a line without colours."""

_LINE_NUMBER = re.compile(rb"\d{1,9}(?=\D{0,3}$)")
_DIGITS = re.compile(rb"\d{1,9}")
_MOST_LINES = 100
"""A longer block is redacted up to here. Fewer than `redact_stream.OVERLAP`."""

_LONGEST_LINE = 4096
_LINES = {
    b"\n": re.compile(rb"[^\n]{0,%d}" % _LONGEST_LINE),
    b"\\n": re.compile(rb"(?:[^\"\\\n]|\\(?!n)[^\n]){0,%d}" % _LONGEST_LINE),
}
"""A line, by what ends it: a newline, or its escape in a JSON string, which a quote ends."""

_LONGEST_PREFIX = 120


def list_block_lines(data: bytes, name: int, value: int) -> list[tuple[int, int]]:
    """Return where each line of the block begins and ends, without blanks; [] if there is no block.

    The key begins at `name`, its value at `value`. Before the key there may be the prefix of a
    log's lines or the mark of a diff, and anything may be coloured. A block ends before what may be
    the head of another, so that every line is examined for one block only.
    """
    header = _HEADER.match(data, value)
    if header is None or _remove_colours(data[name:value]).rstrip(b" \t")[-1:] != b":":
        return []
    start = _find_line_start(data, name, value, header[1])
    prefix = _remove_colours(data[start:name])
    found: list[tuple[int, int]] = []
    for begin, line in _read_lines(data, header.end(), header[1]):
        plain = _remove_colours(line)
        text, inside = _split_prefix(plain, prefix)
        if (plain.strip() and not inside) or _HEADER_INSIDE.search(text[-400:]):
            break
        if text:
            at = plain.rindex(text)
            last = at + len(text) - 1
            found.append((begin + _find_coloured(line, at), begin + _find_coloured(line, last) + 1))
    return found


def _remove_colours(text: bytes) -> bytes:
    return _COLOUR.sub(b"", text) if b"\x1b" in text else text


def _find_coloured(line: bytes, at: int) -> int:
    """Return the index in `line` of the byte at index `at` of the line without colours."""
    for colour in _COLOUR.finditer(line):
        if colour.start() > at:
            break
        at += len(colour[0])
    return at


def _find_line_start(data: bytes, name: int, value: int, end: bytes) -> int:
    """Return where the line of a key begins, or a place not far before the key in a long line.

    `name` may be one character too early, if an escape such as `\\n` precedes the key.
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


def _split_prefix(line: bytes, prefix: bytes) -> tuple[bytes, bool]:
    """Return the rest of a line after what corresponds to the key's `prefix`, without the blanks
    around it, and whether it is indented further than the key.

    A line's number may have more digits than that of the key's line.
    """
    skipped = len(prefix.rstrip(b" \t"))
    column = len(prefix) - skipped
    number = _LINE_NUMBER.search(prefix[:skipped])
    if number and (digits := _DIGITS.match(line, number.start())):
        skipped += max(0, len(digits[0]) - len(number[0]))
    rest = line[skipped:]
    return rest.strip(), len(rest) - len(rest.lstrip(b" \t")) > column
