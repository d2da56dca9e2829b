"""Private keys: PEM, OpenSSH, PGP, SSH2 and PuTTY, whatever prefix their lines have.

A key is a first line, lines that are nearly all Base64, and a last line; the first or the last may
be missing, as in a text that was cut. Before each line there may be what stands before the first
one: the marks of a diff, the names and numbers of `grep`, quotes, timestamps. Whoever writes a
first and a last line of a key therefore hides nothing that stands between them: a line that is no
Base64 stays, and so does what is longer than a key of its algorithm. If other output is mixed with
a key's lines, each part of the key is redacted by itself.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from worker.safety.redact.rules import Span, looks_like_base64

MOST_LINES = 250
"""The most lines of a key: fewer than the `redacted_values.OVERLAP` lines searched again."""

_MOST_GAP = 12
"""The most consecutive lines within a key that hold no part of it."""

_MOST_BODY = 16_384
"""The most Base64 of a key in characters: an RSA key of 16,384 bits, or two of 8,192 in a diff."""

_SHORTER = ((b"EC ", 1_536), (b"DSA ", 4_096))
"""The same for keys whose first line names an algorithm with shorter keys."""

_LABEL = (
    rb"(?:[ +]|%20)(?:[A-Z0-9]{1,12}(?:[ +]|%20)){0,4}PRIVATE(?:[ +]|%20)KEY(?:(?:[ +]|%20)BLOCK)?"
)
_MARKER = re.compile(
    rb"(BEGIN%b|Private-Lines(?:: ?|%%3A(?:%%20)?)([0-9]{1,4}))"
    rb"|END%b|Private-MAC(?:: ?|%%3A(?:%%20)?)[0-9a-f]{8,128}" % (_LABEL, _LABEL)
)
_DASH = rb"(?:-|\\-|\xe2\x80[\x90-\x95]|\xe2\x88\x92)"
_DASHES_BEFORE = re.compile(rb"%b{1,5}[ ]?$" % _DASH)
_DASHES_AFTER = re.compile(rb"[ ]?%b{1,5}" % _DASH)
_LONGEST_DASHES = 16
_LONGEST_PREFIX = 200

_LINE_END = re.compile(
    rb"\r?\n|(?<!\\)(?:\\++r)?\\++n|(?:%0[dD])?%0[aA]|(?<!\\)\\++u000[aA]|&#(?:10|x[aA]);"
    rb"|<br ?/?>|-\]\{\+|(?<!\\)\\{0,3}[\"'][ ]?[,+][ ]?\\{0,3}[\"']"
)
"""A line end: plain, as in JSON, a URL or HTML, between the texts of a list, or between the two
lines of a word diff. A run of backslashes is read only once."""

_CHARACTER = rb"(?:[A-Za-z0-9+/]|\\{1,3}/|%2[bBfF])"
_BODY = re.compile(
    rb"(?<![A-Za-z0-9+/])((?:%b{16,}+[ ](?=%b))*+%b{2,}+(?:=|%%3[dD]){0,2}(?:[ ]=%b{4})?)"
    rb"(?:((?:[^A-Za-z0-9+/=]|\+\}|\x1b\[[0-9;]{0,8}m){0,12}$)|(?=\\?[\"'<>\[(\xe2&]|[.]{3}))"
    rb"|(?<![A-Za-z0-9+/])(?:(?:%b{16,}+[ ])++%b*+|%b++)" % ((_CHARACTER,) * 7)
)
"""Base64 that extends to the end of a line or of a quoted text: group 1.

Other Base64 matches without the group, so that none of it is read again from its middle.
"""

_LONG = re.compile(rb"(?=.{0,80}?[a-z])(?=.{0,80}?[A-Z])(?=.{0,80}?[0-9+/]).{24}", re.DOTALL)
_WIDTHS = (64, 70, 72, 76)
"""The lengths of the lines that tools write."""

_HEADER = re.compile(
    rb"(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset|Subject|Key-\w{4,12}|Argon2-\w{4,12})(?::|%3A)"
)
_NO_TEXT = re.compile(rb"\x1b\[[0-9;]{0,8}[mK]?|%[0-9A-Fa-f]{2}|[^A-Za-z0-9\x1b]+|\x1b")
_DIGITS = re.compile(rb"[0-9]+")
_MOST_HEADERS = 10
_MOST_BLANK = 2
_MOST_SHORT = 2
"""The most consecutive lines of a key that are shorter than the rest: in a diff two last ones."""


class _Marker(NamedTuple):
    """The first (`begins`) or last line of a key; `most` is the most Base64 that may follow."""

    start: int
    end: int
    begins: bool
    most: int


class _Body(NamedTuple):
    """The Base64 in a line: where it is, and what it may be by its own looks.

    `is_long`: a line of a key; `is_like`: one if others are as long; `is_last`: a shorter one.
    """

    start: int
    end: int
    is_long: bool
    is_like: bool
    is_last: bool
    ends_line: bool


def find_private_keys(data: bytes) -> Iterator[Span]:
    """Yield where the private keys are, whole or cut, or each of their parts."""
    markers = list(_find_markers(data))
    done = 0
    for index, marker in enumerate(markers):
        if marker.start < done:
            continue
        if marker.begins:
            following = markers[index + 1] if index + 1 < len(markers) else None
            found = list(_KeyReader(data, marker, following).read())
        else:
            found = _find_to_end(data, marker, max(done, markers[index - 1].end if index else 0))
        for start, end in found:
            done = end
            yield Span(start, end, 0, "private-key")


def _find_markers(data: bytes) -> Iterator[_Marker]:
    if b"PRIVATE" not in data and b"Private-" not in data:
        return
    for found in _MARKER.finditer(data):
        start, end = found.span()
        first = max(0, start - _LONGEST_DASHES)
        before = _DASHES_BEFORE.search(data[first:start])
        after = _DASHES_AFTER.match(data, end)
        yield _Marker(
            first + before.start() if before is not None else start,
            after.end() if after is not None else end,
            found[1] is not None,
            _find_most(found),
        )


def _find_most(marker: re.Match[bytes]) -> int:
    """Return how many characters of Base64 a key has at most by its first line."""
    if marker[2] is not None:
        return min(2 * _WIDTHS[0] * int(marker[2]), _MOST_BODY)
    shorter = (most for name, most in _SHORTER if name in marker[0].replace(b"+", b" "))
    return next(shorter, _MOST_BODY)


class _KeyReader:
    """Reads the lines after the first line of a key."""

    def __init__(self, data: bytes, begin: _Marker, following: _Marker | None) -> None:
        self._data = data
        self._begin = begin
        self._limit = following.start if following is not None else len(data)
        self._last = following if following is not None and not following.begins else None
        self._before = _find_prefix(data, begin.start)
        self._start: int | None = begin.start
        """Where the part that is being read begins; None after a line that is none of the key's."""
        self._end: int | None = None
        self._width = self._size = self._blank = self._short = self._gap = 0

    def read(self) -> Iterator[tuple[int, int]]:
        """Yield where each part of the key begins and ends; nothing if there is no key."""
        first = True
        newlines = 0
        for start, line in _split_lines(self._data, self._begin.end, self._limit):
            body = _find_body(line)
            fits = body is not None and self._fits(line, body, first)
            if body is not None and fits and self._is_part(body):
                self._add(start + body.start, start + body.end, body)
                if not body.ends_line and self._last is None:
                    break
            elif not self._may_skip(line):
                yield from self._close()
                self._gap += 1
                # Other output may be mixed with the lines of a key, whole or already begun.
                if self._gap > _MOST_GAP or not (self._last or self._width):
                    break
                if body is not None and not fits and self._last and body.is_long:
                    self._size += body.end - body.start
                    yield start + body.start, start + body.end
            first = False
            newlines += self._data.startswith((b"\n", b"\r\n"), start + len(line))
            if self._size > self._begin.most or newlines > MOST_LINES:
                break
        else:
            if self._last is not None and self._start is not None and self._width:
                self._end = self._last.end
        yield from self._close()

    def _fits(self, line: bytes, body: _Body, first: bool) -> bool:
        """Whether nothing stands before the Base64 that does not stand before the key."""
        before = line[max(0, body.start - _LONGEST_PREFIX) : body.start]
        if first and _HEADER.match(before.lstrip()):
            return body.start < _LONGEST_PREFIX
        return self._before.startswith(_make_shape(before))

    def _is_part(self, body: _Body) -> bool:
        """Whether a line's Base64 may be the key's."""
        if body.is_long or (body.is_like and self._width == body.end - body.start):
            return True
        follows = self._start is not None and self._width > 0 and self._short < _MOST_SHORT
        return follows and body.is_last

    def _add(self, start: int, end: int, body: _Body) -> None:
        self._start = start if self._start is None else self._start
        self._end = end
        size = end - start
        self._short = self._short + 1 if 0 < size < self._width else 0
        self._width = self._width or size
        self._size += size
        self._blank = self._gap = 0

    def _may_skip(self, line: bytes) -> bool:
        """Whether a line without Base64 may stand within a key: blank, or one of its headers."""
        if len(line) > _LONGEST_PREFIX:
            return False
        self._blank += 1
        if self._before.startswith(_make_shape(line)):
            return self._blank <= (_MOST_BLANK if self._width else _MOST_HEADERS)
        header = _HEADER.search(line)
        return (
            header is not None
            and not self._width
            and self._blank <= _MOST_HEADERS
            and self._before.startswith(_make_shape(line[: header.start()]))
        )

    def _close(self) -> Iterator[tuple[int, int]]:
        if self._start is not None and self._end is not None:
            yield self._start, self._end
        self._start = self._end = None
        self._blank = self._short = 0


def _find_to_end(data: bytes, marker: _Marker, floor: int) -> list[tuple[int, int]]:
    """Return where the key is whose last line alone is there, [] if there is none."""
    before = _find_prefix(data, marker.start)
    begin, gap, lasts, size = None, 0, 0, 0
    lines = list(_split_lines(data, max(floor, marker.start - _MOST_BODY * 2), marker.start))
    for start, line in reversed(lines[-MOST_LINES:]):
        body = _find_body(line)
        beside = start + len(line) == marker.start
        if beside and not (body is not None and body.is_long):
            continue  # what stands before the last line
        size += body.end - body.start if body is not None else 0
        shape = _make_shape(line[:_LONGEST_PREFIX] if body is None else line[: body.start])
        if size > marker.most or not (beside or before.startswith(shape)):
            break
        if body is None:
            gap += 1
            if gap > _MOST_BLANK:
                break
        elif body.is_long:
            begin, gap = start + body.start, 0
        elif begin is None and body.is_last and lasts < _MOST_SHORT:
            gap, lasts = 0, lasts + 1
        else:
            break
    return [(begin, marker.end)] if begin is not None else []


def _find_body(line: bytes) -> _Body | None:
    """Return the first long Base64 of a line, else the last short one, None if there is none."""
    body = None
    for found in _BODY.finditer(line):
        if found[1] is None:
            continue
        body = _to_body(line, found)
        if body.is_long:
            break
    return body


def _to_body(line: bytes, found: re.Match[bytes]) -> _Body:
    start, end = found.span(1)
    base64 = found[1].lstrip(b"+/")  # or a mark of a diff or a comment
    is_like = looks_like_base64(base64)
    is_long = is_like and (_LONG.match(base64) is not None or end - start in _WIDTHS)
    ends = base64.endswith((b"=", b"3D", b"3d")) or line[:start].endswith(b"=")
    is_last = ends or (is_like and (not base64.isalpha() or len(base64) >= 16))
    return _Body(start, end, is_long, is_like, is_last, found[2] is not None)


def _split_lines(data: bytes, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield each line between two positions, and where it begins."""
    for found in _LINE_END.finditer(data, start, end):
        yield start, data[start : found.start()]
        start = found.end()
    yield start, data[start:end]


def _find_prefix(data: bytes, marker: int) -> bytes:
    """Return the shape of what stands before a marker in its line."""
    *_, (_, before) = _split_lines(data, max(0, marker - _LONGEST_PREFIX), marker)
    return _make_shape(before)


def _make_shape(prefix: bytes) -> bytes:
    """Return the letters and digits of a prefix, each number as 0: numbers and marks differ from
    line to line."""
    return _DIGITS.sub(b"0", _NO_TEXT.sub(b"", prefix[-_LONGEST_PREFIX:]))
