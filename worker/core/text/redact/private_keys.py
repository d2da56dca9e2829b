"""Private keys: PEM, OpenSSH, PGP, SSH2 and PuTTY, whatever prefix their lines have.

A key extends from its first line to its last. The lines between may be prefixed by the marks of a
diff, the names and numbers of `grep`, quotes or timestamps, as long as every few lines contain
Base64. If the first or the last line is missing, as in a text that was cut, the key is the lines
that consist of Base64 after the same prefix.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from worker.core.text.redact.spans import Span

MOST_LINES = 250
"""The most lines of a key: fewer than the `redact_stream.OVERLAP` lines searched again."""

_MOST_BYTES = 1 << 18
_MOST_GAP = 12
"""The most consecutive lines within a key that hold no part of it."""

_LABEL = (
    rb"(?:[ +]|%20)(?:[A-Z0-9]{1,12}(?:[ +]|%20)){0,4}PRIVATE(?:[ +]|%20)KEY(?:(?:[ +]|%20)BLOCK)?"
)
_MARKER = re.compile(
    rb"(BEGIN%b|Private-Lines(?:: ?|%%3A(?:%%20)?)[0-9]{1,4})"
    rb"|END%b|Private-MAC(?:: ?|%%3A(?:%%20)?)[0-9a-f]{8,128}" % (_LABEL, _LABEL)
)
_DASH = rb"(?:-|\\-|\xe2\x80[\x90-\x95]|\xe2\x88\x92)"
_DASHES_BEFORE = re.compile(rb"%b{1,5}[ ]?$" % _DASH)
_DASHES_AFTER = re.compile(rb"[ ]?%b{1,5}" % _DASH)
_LONGEST_DASHES = 16
_LONGEST_PREFIX = 200

_LINE_END = re.compile(
    rb"\r?\n|(?<!\\)(?:\\++r)?\\++n|(?:%0[dD])?%0[aA]|(?<!\\)\\++u000[aA]|&#(?:10|x[aA]);"
    rb"|<br ?/?>"
)
"""A line end, plain or as in JSON, a URL or HTML. A run of backslashes is read only once."""

_SOME_BASE64 = re.compile(rb"[A-Za-z0-9+/]{16}")
_CHARACTER = rb"(?:[A-Za-z0-9+/]|\\{1,3}/|%2[bBfF])"
_BODY = re.compile(
    rb"(?<![A-Za-z0-9+/])((?:%b{16,}+[ ](?=%b))*+%b{2,}+(?:=|%%3[dD]){0,2})"
    rb"(?:((?:[^A-Za-z0-9+/=]|\+\}|\x1b\[[0-9;]{0,8}m){0,12}$)|(?=\\?[\"'<>\[(\xe2&]|[.]{3}))"
    rb"|(?<![A-Za-z0-9+/])(?:(?:%b{16,}+[ ])++%b*+|%b++)" % ((_CHARACTER,) * 6)
)
"""Base64 that extends to the end of a line or of a quoted text: group 1.

Other Base64 matches without the group, so that none of it is read again from its middle.
"""

_LONG = re.compile(rb"(?=.{0,80}?[a-z])(?=.{0,80}?[A-Z])(?=.{0,80}?[0-9+/]).{24}", re.DOTALL)
_HEADER = re.compile(
    rb"(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset|Subject|Key-\w{4,12}|Argon2-\w{4,12})(?::|%3A)"
)
_BLANK = re.compile(rb"(?:[^A-Za-z0-9%]|%[0-9A-Fa-f]{2}|\x1b\[[0-9;]{0,8}m){0,40}$")
_MOST_HEADERS = 10
_MOST_BLANK = 2


class _Marker(NamedTuple):
    start: int
    end: int
    begins: bool


def find_private_keys(data: bytes) -> Iterator[Span]:
    """Yield where every private key is, whole or cut."""
    markers = list(_find_markers(data))
    done = 0
    for index, marker in enumerate(markers):
        if marker.start < done:
            continue
        following = markers[index + 1] if index + 1 < len(markers) else None
        if marker.begins:
            found = _find_from_begin(data, marker, following)
        else:
            found = _find_to_end(data, marker, max(done, markers[index - 1].end if index else 0))
        if found is not None:
            done = found[1]
            yield Span(*found, 0, "private-key")


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
        )


def _find_from_begin(
    data: bytes, begin: _Marker, following: _Marker | None
) -> tuple[int, int] | None:
    if following is not None and not following.begins and _holds_key(data, begin, following):
        return (begin.start, following.end)
    limit = following.start if following is not None else len(data)
    end = _find_cut_end(data, begin, limit)
    return (begin.start, end) if end is not None else None


def _holds_key(data: bytes, begin: _Marker, end: _Marker) -> bool:
    """Whether the text between two markers is one key."""
    if end.start - begin.end > _MOST_BYTES or not _SOME_BASE64.search(data, begin.end, end.start):
        return False
    if data.count(b"\n", begin.end, end.start) > MOST_LINES:
        return False
    gap = 0
    for _, line in _split_lines(data, begin.end, end.start):
        gap = 0 if _SOME_BASE64.search(line) else gap + 1
        if gap > _MOST_GAP:
            return False
    return True


def _find_cut_end(data: bytes, begin: _Marker, limit: int) -> int | None:
    """Return where a key without an end marker ends, None if no key follows its first line."""
    prefix: bytes | None = None
    end, gap = None, 0
    for start, line in _split_lines(data, begin.end, limit):
        found = _find_body(line)
        if found is not None and found.is_long and prefix in (None, found.prefix):
            prefix, end, gap = found.prefix, start + found.end, 0
            if not found.ends_line:
                return end
        elif end is None:
            if gap == _MOST_HEADERS or not _is_header(data, begin, line):
                return None
            gap += 1
        elif gap < _MOST_BLANK and _BLANK.match(line):
            gap += 1
        else:
            last = found is not None and found.is_last and found.prefix == prefix
            return start + found.end if last and found is not None else end
    return end


def _find_to_end(data: bytes, marker: _Marker, floor: int) -> tuple[int, int] | None:
    """Return where a key without a begin marker begins and ends, None if there is no key."""
    prefix: bytes | None = None
    begin, gap = None, 0
    lines = list(_split_lines(data, max(floor, marker.start - _MOST_BYTES // 8), marker.start))
    for start, line in reversed(lines[-MOST_LINES:-1]):
        found = _find_body(line)
        if found is None and gap < _MOST_BLANK and _BLANK.match(line):
            gap += 1
        elif found is None or prefix not in (None, found.prefix):
            break
        elif found.is_long:
            prefix, begin, gap = found.prefix, start + found.start, 0
        elif prefix is None:
            prefix = found.prefix
        else:
            break
    return (begin, marker.end) if begin is not None else None


class _Body(NamedTuple):
    """The Base64 in a line: where it is, and its prefix without numbers."""

    start: int
    end: int
    prefix: bytes
    is_long: bool
    is_last: bool
    ends_line: bool


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
    base64, prefix = found[1], line[max(0, start - _LONGEST_PREFIX) : start]
    is_last = base64.endswith((b"=", b"3D", b"3d")) or not base64.isalpha() or end - start >= 16
    is_long = _LONG.match(base64) is not None
    return _Body(start, end, _make_shape(prefix), is_long, is_last, found[2] is not None)


def _is_header(data: bytes, begin: _Marker, line: bytes) -> bool:
    """Whether a line may be between the first line of a key and its Base64."""
    if _BLANK.match(line) or _HEADER.search(line, 0, _LONGEST_PREFIX):
        return True
    before = data[max(0, begin.start - _LONGEST_PREFIX) : begin.start].rpartition(b"\n")[2]
    return len(line) < _LONGEST_PREFIX and _make_shape(line) == _make_shape(before)


def _split_lines(data: bytes, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield each line between two positions, and where it begins."""
    for found in _LINE_END.finditer(data, start, end):
        yield start, data[start : found.start()]
        start = found.end()
    yield start, data[start:end]


def _make_shape(prefix: bytes) -> bytes:
    """Return a prefix without what differs from line to line: its numbers and their width."""
    return re.sub(rb"[0-9]+|\s+", b"0", prefix[-_LONGEST_PREFIX:].strip().replace(b":", b"-"))
