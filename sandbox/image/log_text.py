"""Lines of a log of any size and any bytes: read, shown, and compared by their shape."""

# pathlib takes as long to import as all the rest together.
# ruff: noqa: PTH123

import re
from collections.abc import Iterator, Mapping

ROOM = 3900
"""Bytes of one answer: what the model is shown of an output, and room for what it adds."""

PIECE = 1 << 20
LONGEST = 1 << 16
"""Bytes of one line that are looked at."""

SHOWN = 240
"""Characters of one line that are shown."""

SHAPED = 500
"""Bytes of one line that its shape is made of."""

MANY = 200_000
"""Different lines whose shapes are remembered at a time."""

ZEROES = bytes(range(256)).translate(bytes.maketrans(b"123456789", b"000000000"))
_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*\x07?|[@-Z\\-_])")
_FOLDER = re.compile(rb"/[\w.@+~-]+(?=/)")
_DATED = re.compile(
    rb"\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? +)?"
    rb"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6} +(?=0)"
)
# A word is looked at from its beginning only, so that this stays linear. What follows a number is
# part of it: 1.5, 12:30:11, 10.0.0.1:80, the rest of a UUID.
_VARIABLE = re.compile(rb"\b[a-zA-Z_]*0\w*(?:[.,:/-](?:0\w*|[a-f]{4,12}\b))*")


class Unreadable(Exception):
    """A file, pattern or range that cannot be used; the message says why."""


def batches(path: str) -> Iterator[list[bytes]]:
    """The lines of a file in lists, without their ends; of a very long one the beginning.

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


def numbered(path: str) -> Iterator[tuple[int, bytes]]:
    """Each line with its number, from 1."""
    first = 1
    for lines in batches(path):
        yield from enumerate(lines, first)
        first += len(lines)


def picked(path: str, wanted: set[int]) -> dict[int, bytes]:
    """The lines of these numbers."""
    found, first, last = {}, 1, max(wanted, default=0)
    for lines in batches(path):
        end = first + len(lines)
        if any(first <= number < end for number in wanted):
            found.update({n: lines[n - first] for n in wanted if first <= n < end})
        first = end
        if first > last:
            break
    return found


def plain(line: bytes) -> bytes:
    """A line without escape sequences, and of overwritten text only the last."""
    if b"\x1b" in line:
        line = _ESCAPE.sub(b"", line)
    if b"\r" in line:
        line = line.rstrip(b"\r").rpartition(b"\r")[2]
    return line


def shown(line: bytes, most: int = SHOWN) -> str:
    """A line as it is printed: clipped, and nothing in it but what can be seen."""
    text = plain(line).decode("utf-8", "replace")
    kept = "".join(c if c.isprintable() or c == "\t" else " " for c in text[:most])
    return kept if len(text) <= most else f"{kept}… [+{len(text) - most} characters]"


def shapes(lines: list[bytes]) -> list[bytes]:
    """Lines without what differs from run to run: equal for those that say the same.

    Words with a digit (numbers, times, durations, hashes, addresses, ports) are `#`, the folders of
    a path are left out. All of them at once: several times as fast as one by one.
    """
    text = b"\n".join(lines)
    if b"\x1b" in text or b"\r" in text:
        text = b"\n".join(map(plain, lines))
    text = text.translate(ZEROES)
    if b"00:00" in text:
        text = _DATED.sub(b"", text)
    text = _VARIABLE.sub(b"#", _FOLDER.sub(b"", text)).replace(b"\t", b" ")
    while b"  " in text:
        text = text.replace(b"  ", b" ")
    text = text.replace(b"[ #", b"[#").replace(b"( #", b"(#")  # numbers are padded
    return text.replace(b"\n ", b"\n").replace(b" \n", b"\n").strip(b" ").split(b"\n")


class Shapes:
    """Remembers the shapes of lines that differ in digits only: most lines of a large log."""

    def __init__(self) -> None:
        self._known: dict[bytes, bytes] = {}

    def of(self, lines: list[bytes]) -> list[bytes]:
        """The shape of each line."""
        known = self._known
        if len(known) > MANY:
            known.clear()
        keys = b"\n".join(lines).translate(ZEROES).split(b"\n")
        if max(map(len, keys)) > SHAPED:
            keys = [key[:SHAPED] for key in keys]
        fresh = [key for key in dict.fromkeys(keys) if key not in known]
        if fresh:
            known.update(zip(fresh, shapes(fresh), strict=True))
        return [known[key] for key in keys]


class Page:
    """An answer that is written until its room is full, in any order: it comes out by number."""

    def __init__(self, room: int) -> None:
        self._left = max(room - 250, 200)  # the first and the last words come on top
        self._written: dict[int, str] = {}

    def add(self, lines: Mapping[int, str]) -> bool:
        """Write these lines, those that are there already excepted; none if they don't fit."""
        fresh = {number: text for number, text in lines.items() if number not in self._written}
        cost = sum(len(text.encode("utf-8", "replace")) + 4 for text in fresh.values())
        if cost > self._left:
            return False
        self._left -= cost
        self._written.update(fresh)
        return True

    def lines(self) -> list[str]:
        """What was written, gaps marked."""
        told: list[str] = []
        previous = min(self._written, default=0) - 1
        for number in sorted(self._written):
            told += ["…"] if number > previous + 1 else []
            told.append(self._written[number])
            previous = number
        return told


def answer(*parts: str) -> str:
    return "\n".join(filter(None, parts))


def counted(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")
