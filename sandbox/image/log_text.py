"""Reads, shows and compares the lines of a log of any size and with any bytes."""

# pathlib takes as long to import as all the rest together.
# ruff: noqa: PTH116, PTH123

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping

ROOM = 3900
"""Bytes of one answer: less than a preview, so that other output fits in as well."""

PIECE = 1 << 20
LONGEST = 1 << 16
"""Bytes of one line that are read."""

SHOWN = 240
"""Characters of one line that are shown."""

SHAPED = 500
"""Bytes of one line that its shape is computed from."""

MANY = 200_000
"""The most lines whose shapes are cached at a time."""

ZEROES = bytes(range(256)).translate(bytes.maketrans(b"123456789", b"000000000"))
_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*\x07?|[@-Z\\-_])")
_FOLDER = re.compile(rb"/[\w.@+~-]+(?=/)")
_DATED = re.compile(
    rb"\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? +)?"
    rb"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6} +(?=0)"
)
_COUNTED = re.compile(rb"(?m)^00:00 \+0{1,6}(?: ~0{1,6})?(?: -0{1,6})?: ")
"""What Dart prints before each test: the time, and the counts of tests until then."""
# A word is matched from its beginning only, so that this stays linear. Suffixes belong to a number:
# 1.5, 12:30:11, 10.0.0.1:80, the rest of a UUID.
_VARIABLE = re.compile(rb"\b[a-zA-Z_]*0\w*(?:[.,:/-](?:0\w*|[a-f]{4,12}\b))*")
_ASKED = ("GET", "POST", "PUT", "HTTP/1.1", "HTTP/2")
_REFUSED = re.compile(rb"(\b(?:%s)|\") [45]\d\d\b" % "|".join(map(re.escape, _ASKED)).encode())
_MAY_BE_REFUSED = tuple(f"{asked} {digit}".encode() for asked in (*_ASKED, '"') for digit in "45")
"""Finding one of these is several times as fast as matching the pattern."""


class Unreadable(Exception):
    """A file, pattern or range that cannot be used; the message says why."""


def read_batches(path: str) -> Iterator[list[bytes]]:
    """Read the lines of a file in lists, without line ends; very long lines are cut.

    Raises Unreadable.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            held = b""
            while piece := file.read(PIECE):
                lines = (held + piece).split(b"\n")
                held = lines.pop()[:LONGEST]
                if lines:
                    yield lines
            if held:
                yield [held]
    except OSError as error:
        raise Unreadable(f"cannot read {path}: {error.strerror}") from error


def refuse_stream(path: str) -> None:
    """Raise Unreadable for what cannot be read twice, such as a pipe."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return  # reading it says why
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise Unreadable(f"{path} is a stream, and is read twice: save it to a file first")


def number_lines(path: str) -> Iterator[tuple[int, bytes]]:
    """Yield each line with its number, which counts from 1."""
    first = 1
    for lines in read_batches(path):
        yield from enumerate(lines, first)
        first += len(lines)


def read_lines(path: str, wanted: set[int]) -> dict[int, bytes]:
    """Read the lines with these numbers."""
    read, first, last = {}, 1, max(wanted, default=0)
    for lines in read_batches(path):
        end = first + len(lines)
        if any(first <= number < end for number in wanted):
            read.update({n: lines[n - first] for n in wanted if first <= n < end})
        first = end
        if first > last:
            break
    return read


def strip_escapes(line: bytes) -> bytes:
    """Remove escape sequences and overwritten text from a line."""
    if b"\x1b" in line:
        line = _ESCAPE.sub(b"", line)
    if b"\r" in line:
        line = line.rstrip(b"\r").rpartition(b"\r")[2]
    return line


def clip_line(line: bytes, most: int = SHOWN) -> str:
    """Clip a line for printing, and remove invisible characters."""
    text = strip_escapes(line).decode("utf-8", "replace")
    kept = "".join(c if c.isprintable() or c == "\t" else " " for c in text[:most])
    return kept if len(text) <= most else f"{kept}… [+{len(text) - most} characters]"


def compute_shapes(lines: list[bytes]) -> list[bytes]:
    """Remove from lines what differs from run to run, so that lines that say the same are equal.

    Words with a digit (numbers, times, durations, hashes, addresses, ports) become `#`, the folders
    of a path are left out. Doing all lines at once is several times as fast as one by one.
    """
    text = b"\n".join(lines)
    if b"\x1b" in text or b"\r" in text:
        text = b"\n".join(map(strip_escapes, lines))
    text = text.translate(ZEROES)
    if b"00:00" in text:
        text = _COUNTED.sub(b"", _DATED.sub(b"", text))
    text = _VARIABLE.sub(b"#", _FOLDER.sub(b"", text)).replace(b"\t", b" ")
    while b"  " in text:
        text = text.replace(b"  ", b" ")
    text = text.replace(b"[ #", b"[#").replace(b"( #", b"(#")  # numbers were padded with spaces
    return text.replace(b"\n ", b"\n").replace(b" \n", b"\n").strip(b" ").split(b"\n")


class ShapeCache:
    """Caches shapes by lines with digits zeroed: most lines of a large log differ only there."""

    def __init__(self) -> None:
        self._known: dict[bytes, bytes] = {}

    def look_up(self, lines: list[bytes]) -> list[bytes]:
        """Return the shape of each line."""
        known = self._known
        if len(known) > MANY:
            known.clear()
        text = b"\n".join(lines)
        if any(words in text for words in _MAY_BE_REFUSED):  # shapes hide numbers
            text = _REFUSED.sub(rb"\1 error status", text)
        keys = text.translate(ZEROES).split(b"\n")
        if max(map(len, keys)) > SHAPED:
            keys = [key[:SHAPED] for key in keys]
        fresh = [key for key in dict.fromkeys(keys) if key not in known]
        if fresh:
            known.update(zip(fresh, compute_shapes(fresh), strict=True))
        return [known[key] for key in keys]


class Page:
    """An answer of limited size. Lines are added in any order and come out by number."""

    def __init__(self, room: int) -> None:
        self._left = max(room - 250, 200)  # the rest is for the heading and the last line
        self._written: dict[int, str] = {}

    def add(self, lines: Mapping[int, str]) -> bool:
        """Add the lines that are not yet there. If they don't fit, add none and return False."""
        fresh = {number: text for number, text in lines.items() if number not in self._written}
        cost = sum(len(text.encode("utf-8", "replace")) + 4 for text in fresh.values())
        if cost > self._left:
            return False
        self._left -= cost
        self._written.update(fresh)
        return True

    def fill(self, lines: Iterable[tuple[int, str]]) -> int:
        """Add numbered lines until one doesn't fit; return how many were added."""
        count = 0
        for number, text in lines:
            if not self.add({number: text}):
                break
            count += 1
        return count

    def format_lines(self) -> list[str]:
        """Return the lines in order, with gaps marked."""
        lines: list[str] = []
        previous = min(self._written, default=0) - 1
        for number in sorted(self._written):
            lines += ["…"] if number > previous + 1 else []
            lines.append(self._written[number])
            previous = number
        return lines


def join_parts(*parts: str) -> str:
    return "\n".join(filter(None, parts))


def format_count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")
