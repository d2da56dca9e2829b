"""Where the value of a key is: what stands between them, in code, configuration, tables, lists and
commands; and the lines of a block of YAML (`password: |`) below its key."""

import re
from collections.abc import Iterator
from typing import NamedTuple

_COLOURS = rb"(?:\x1b\[[0-9;]{0,8}m){0,2}"
# At most one: what is read again of a stream begins between two lines that stayed as they were.
_TIME = rb"(?:[0-9][0-9TZ:.,+/-]{7,40}+[ ](?:[0-9]{2}[OE][ +])?)?"
_BREAK = rb"(?:\r?\n|(?:\\r)?\\n)%b" % _TIME
_LINE_END = rb"(?:%b[ \t+>-]{0,40}+)" % _BREAK
_QUOTE = (
    rb"(?:\\{0,7}[\"'`]|&(?:quot|apos|#0?3[49]|#[xX]2[27]);|%2[27]|\\{1,3}(?:u002[27]|x2[27])"
    rb"|[*]{2})"
)
"""A quote: plain, escaped, as in HTML or a URL; and what makes a name bold."""

_ASSIGNED = rb"(?:=>|:{0,2}={1,3}|\?=|:(?!:)|%3[aAdD]|&#(?:61|58|[xX]3[dDaA]);)"
_VALUE = rb"(?:[A-Za-z]{1,12}_?)?(?i:value|content|val|data|secret|plaintext)"
"""The name of the field, beside that of the key, that holds the value."""

_FIELD = rb"(?:\\?[\"'][\w-]{1,40}\\?[\"']:[ ]?\\?[\"'][^\"'\\\n]{0,80}\\?[\"'],[ ]?)?"
"""A field between the name and the value."""

_BEFORE_VALUE = rb"%b\\{0,3}[\"']?[ \t]*+[:=][ \t]*+" % _VALUE

_SEPARATOR = re.compile(
    b"|".join(
        (
            rb"%b%b?\]?%b(?:[ \t]{0,60}+(?:[.]{2,80}+[ \t]?)?%b[ \t]{0,20}+%b|[ ]?[.]{3,80}+[ ])"
            % (_COLOURS, _QUOTE, _COLOURS, _ASSIGNED, _COLOURS),
            rb"%b(?:[ \t]*+,[ \t]*+%b?%b\\{0,3}[\"']|[ \t]++)%b"
            % (_QUOTE, _LINE_END, _FIELD, _BEFORE_VALUE),
            rb"[\"']?(?:[ \t]{0,4}%b|,?[ \t]{1,4})(?i:value|content|data)[ \t]{0,20}[:=][ \t]*+"
            % _LINE_END,
            rb"[\"']?[ \t]{1,4}--?(?i:value|body|data|content|secret|b)(?:[ =]|(?=\\{0,3}[\"']))",
        )
    )
)
_AFTER_OPTION = re.compile(
    rb"[ \t]++(?!-)|\\{0,3}[\"'][ \t]{0,4},[ \t]{0,4}(?=\\{0,3}[\"'])"
    rb"|\\{0,3}[\"']?[ \t]{0,4}%b[ \t+>]{0,40}-[ ](?!-)" % _BREAK
)
"""After an option: a blank, or the next text or item of a list."""

_SPOKEN = re.compile(rb"[ \t](?:is|was)(?:[ \t]set[ \t]to)?:?[ \t]++")

_BAR = rb"(?:[|]|\xe2\x94[\x82\x83]|\xe2\x95\x91|\\{1,3}u25(?:0[23]|51))"
_IN_CELL = rb"[ \t*`]{0,60}+"
_NEXT_CELL = re.compile(rb"%b%b%b" % (_IN_CELL, _BAR, _IN_CELL))
_CELL_BEGINS = re.compile(rb"(?:%b|^|\n|\\n)%b$" % (_BAR, _IN_CELL))
_CELL = re.compile(rb"(?![\w.]{1,64}\()[^\s|`\xe2]{6,512}")

_ARROW = re.compile(rb"%b?[ \t]{1,60}+(?:->|\xe2\x86\x92)[ \t]{1,20}+" % _QUOTE)
_COLUMN = re.compile(
    rb"(?:[ ]{2,60}+|[ ]?(?:\t|\\t){1,20}+[ ]{0,60}+)"
    rb"(?=[^\s\\\"]{6,512}+(?:\x1b\[[0-9;]{0,8}m)?\"?[ \t\r]*+(?:\n|\\[nr]|$))"
)
_ARGUMENT = re.compile(rb"\\{0,3}[\"'][ \t]{0,4},[ \t]{0,4}(?=[bBuU]?\\{0,3}[\"'])")
_TAGS = re.compile(
    rb"(?:</[\w:]{1,20}>(?:%b|[ \t]{0,40}+)){1,3}+(?:<[\w:]{1,20}(?:[ ][^<>\n]{0,60}+)?>){1,3}+"
    % _LINE_END
)
_ATTRIBUTE = re.compile(rb"\\{0,3}[\"'](?:[ ][^<>\n]{0,60}+)?>")
_TEXT = re.compile(rb"[^<>\s]{6,512}(?=</)")
_TOLD = re.compile(
    rb"[ \t](?:(?:for|of)[ \t]\S{1,40}[ \t](?:is|was):?|set[ \t]to:?)[ \t]++"
    rb"|(?<!pass)[ \t](?=[\"'`])"
)

_SETS = re.compile(
    rb"(?:(?<!\w)|(?<=[0-9]m)|(?<=\\n))(?:ENV|ARG|setenv|setx|export"
    rb"|set(?:[ ]-{1,2}[A-Za-z]{1,9}){1,3}|[a-z-]{2,12}[ ][a-z: -]{0,30}(?:set|put|add|config)"
    rb"(?:[ ]--?[\w-]{1,20}(?:[ =][\w./-]{1,40})?){0,3})[ \t]++\\{0,3}[\"']?(?:[\w.-]{1,30}:)?$"
)
"""What only a blank separates from a name and its value: the words of a Dockerfile, and commands
that set a variable or a secret."""

_SET = re.compile(rb"(?:[.][\w-]{1,30})?\\{0,3}[\"']?[ \t]++(?!-)")


class ValuePlace(NamedTuple):
    """Where a value begins. `certain`: only what is no word by any looks can be a secret there.
    `pattern` is what the value consists of, None if that depends on its quotes."""

    start: int
    certain: bool = False
    pattern: re.Pattern[bytes] | None = None


def find_place(
    data: bytes, start: int, at: int, before: bytes, *, password: bool
) -> ValuePlace | None:
    """Return where the value begins, None if none follows the name from `start` to `at`.

    `before` is the part of the name before the word that tells a secret; `password` says that the
    word is one for passwords.
    """
    if (found := _SEPARATOR.match(data, at)) is not None:
        return ValuePlace(found.end())
    if before.startswith(b"-") and (found := _AFTER_OPTION.match(data, at)) is not None:
        return ValuePlace(found.end())
    if password and (found := _SPOKEN.match(data, at)) is not None:
        return ValuePlace(found.end())
    return _find_by_layout(data, start, at, before, password)


def _find_by_layout(
    data: bytes, start: int, at: int, before: bytes, password: bool
) -> ValuePlace | None:
    """Return where the value begins if only the layout tells that it is one."""
    match data[at : at + 1]:
        case b"<":
            found = _TAGS.match(data, at)
            return ValuePlace(found.end(), True, _TEXT) if found is not None else None
        case b'"' | b"'" | b"\\":
            if data[start - 1 : start] in (b'"', b"'") and (found := _ARGUMENT.match(data, at)):
                return ValuePlace(found.end(), True)
            if (found := _ATTRIBUTE.match(data, at)) is not None:
                return ValuePlace(found.end(), False, _TEXT)
    if (found := _NEXT_CELL.match(data, at)) is not None:
        line = data[max(0, start - 80, data.rfind(b"\n", 0, start) + 1) : start]
        if _CELL_BEGINS.search(line) or not line.strip(b" \t*`+-"):
            return ValuePlace(found.end(), False, _CELL)
    if (found := _SET.match(data, at)) is not None:
        line = data[max(0, start - 120, data.rfind(b"\n", 0, start) + 1) : start]
        if before == b"_auth" or _SETS.search(line):
            return ValuePlace(found.end())
    for pattern in (_COLUMN, _ARROW):
        if (found := pattern.match(data, at)) is not None:
            return ValuePlace(found.end(), True)
    if password and (found := _TOLD.match(data, at)) is not None:
        return ValuePlace(found.end(), True)
    return None


# ----------------------------------------------------------------------------------- blocks of YAML

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
"""A longer block is redacted up to here. Fewer than `redacted_values.OVERLAP`."""

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
