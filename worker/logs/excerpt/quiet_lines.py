"""The lines of a log that no word of trouble tells of: how the job ended, and those that are like
no other.

The last command with its last output, and how far a stopped job had got, are often the whole cause;
a model that sees only the loudest lines misses them.
"""

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

CUT = "[cut]"
"""Marks where a part of a line was left out."""

_RAISED = (b"Error: ", b"Exception: ", b"error: ", b"panic: ", b"Fatal Python error: ")
_FAR = 110  # a line whose error begins at most this far into it is shown from its beginning
_LEAD = 40  # bytes kept before an error that begins later
_FITS = 180  # bytes of such a line that are shown: more of its beginning, if its end is short
_LAST = 200  # bytes kept of the end of a line that is longer than `MAX_KEPT`

MAX_KEPT = 1_500
"""The most bytes of a line that are kept."""


class Piece(NamedTuple):
    """A line of the log, cut if it is very long; lines that differ only in digits and case have the
    same key."""

    place: int  # its index
    text: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive lines of the log with their keys; `base` is the index of the first."""

    base: int
    lines: list[bytes]
    keys: list[bytes]

    def cut(self, at: int) -> Piece:
        """Return one of the lines, cut if it is very long."""
        line = self.lines[at]
        if len(line) > MAX_KEPT:
            line = cut_before_error(line)
        if len(line) > MAX_KEPT:
            line = b"%s %s %s" % (line[: MAX_KEPT - _LAST], CUT.encode(), line[-_LAST:])
        return Piece(self.base + at, line, self.keys[at])


def cut_before_error(line: bytes) -> bytes:
    """Return a line; if its error begins far into it, only the part from just before the error."""
    at = min((at for word in _RAISED if (at := line.find(word)) >= 0), default=0)
    if at <= _FAR:
        return line
    start = min(at - _LEAD, max(0, len(line) - _FITS))
    parts = (line.find(mark, start, at) + 1 for mark in (b" ", b"/"))
    start = min(filter(None, parts), default=start)
    return b"%s %s" % (CUT.encode(), line[start:])


# ------------------------------------------------------------------------------ how the job ended

_REPETITIVE = 5
"""A line that occurs more often than this is repetitive, such as a heartbeat or progress."""

_SAID, _BEFORE_STOP = 2, 8
_KNOWN = 40

_FAILED = b"ERROR: Job failed"
_STOPPED = re.compile(
    rb"execution took longer than|timeout was exceeded|context (?:deadline exceeded|canceled)"
    rb"|Job failed: (?:canceled|aborted)|exit code 1(?:24|37|43)\b"
)
_RUNNERS = (_FAILED, b"WARNING: step_script could not", b"WARNING: script could not")
_STARTED = (b"\n=== RUN ", b"\n[ RUN      ] ", b"\nRUNS ", b"\nTest Case '", b"\ntest_")
"""How tools report that a test has begun."""


class Ending:
    """Finds how a log ended."""

    def __init__(self) -> None:
        self._rare: deque[Piece] = deque(maxlen=_KNOWN)
        self._started: Piece | None = None

    def feed(self, chunk: Chunk, text: bytes, counts: Counter[bytes]) -> None:
        """Add the next lines: `text`, a line break before each. `counts` includes them already."""
        rare = (
            chunk.cut(at)
            for at in range(len(chunk.lines) - 1, -1, -1)
            if counts[chunk.keys[at]] <= _REPETITIVE and chunk.lines[at].strip()
        )
        self._rare.extend(reversed([*islice(rare, _KNOWN)]))
        if (at := max(map(text.rfind, _STARTED))) >= 0:
            self._started = chunk.cut(text.count(b"\n", 0, at))

    def list_lines(
        self,
        last: Piece | None,
        commands: Sequence[Piece],
        script: Sequence[Piece],
        counts: Counter[bytes],
    ) -> Iterator[Piece]:
        """Yield the lines to show of a failed job, the most telling first; none of any other job.

        `last` is the log's last line, `commands` and `script` are the script's last lines.
        """
        if last is None or not last.text.startswith(_FAILED):
            return
        yield last
        yield from commands[-1:]
        since = commands[-1].place if commands else -1
        output = [
            piece
            for piece in script
            if piece.place > since and piece.text.strip() and not piece.text.startswith(_RUNNERS)
        ]
        if not _STOPPED.search(last.text):
            yield from reversed(output[-_SAID:])
            return
        yield from output[-1:]
        within = range(since + 1, output[-1].place + 1 if output else since + 1)
        if self._started and self._started.place in within:
            yield self._started
        rare = [
            piece
            for piece in self._rare
            if piece.place in within and counts[piece.key] <= _REPETITIVE
        ]
        yield from reversed(rare[-_BEFORE_STOP:])


# ------------------------------------------------------------------------------ lines like no other

_RARE = 2
"""A shape with more lines that differ in more than digits and case is not rare."""

_RAREST = 150
"""The most lines that are kept because there is none like them."""

_READ = 200  # bytes of a line that its shape is made of
_MOST_RARE = 4_000  # lines at which the older ones are forgotten
_RARE_KEPT = 2_000
_MAX_SHAPES = 100_000

_NO_WORDS = re.compile(rb"(?<!\S)\S*[^a-z\s]\S*")
"""What a shape leaves out of a key: names, paths, punctuation."""


class RareLines:
    """Finds the lines of rare shapes."""

    def __init__(self) -> None:
        self._shapes: Counter[bytes] = Counter()
        self._found: dict[bytes, Piece] = {}

    def feed(self, chunk: Chunk, fresh: Iterable[bytes]) -> None:
        """Add the next lines; `fresh` are those of their keys that were not seen before."""
        shapes = dict(zip(fresh, _make_shapes(fresh), strict=True))
        self._shapes.update(shapes.values())
        if rare := [key for key, shape in shapes.items() if self._shapes[shape] <= _RARE]:
            first = dict(zip(reversed(chunk.keys), range(len(chunk.keys) - 1, -1, -1), strict=True))
            self._found.update((key, chunk.cut(first[key])) for key in rare)
        if len(self._found) > _MOST_RARE:
            known = zip(self._found, _make_shapes(self._found), strict=True)
            rare = [key for key, shape in known if shape and self._shapes[shape] <= _RARE]
            self._found = {key: self._found[key] for key in rare[-_RARE_KEPT:]}
        if len(self._shapes) > _MAX_SHAPES:
            self._shapes = Counter({shape: n for shape, n in self._shapes.items() if n > _RARE})

    def list_rarest(self, counts: Counter[bytes], script: range) -> list[Piece]:
        """Return the script's lines of the rarest shapes, of equally rare ones the last."""
        rated = []
        for piece, shape in zip(self._found.values(), _make_shapes(self._found), strict=True):
            alike = max(counts[piece.key], self._shapes[shape])
            if shape and alike <= _RARE and piece.place in script:
                rated.append((alike, -piece.place, piece))
        return [piece for _, _, piece in sorted(rated)[:_RAREST]]


def _make_shapes(keys: Iterable[bytes]) -> list[bytes]:
    """Return for each key its words of letters; it is the same for lines that differ in names."""
    text = b"".join([key[:_READ] + b"\n" for key in keys])
    return [b" ".join(line.split()) for line in _NO_WORDS.sub(b"", text).split(b"\n")[:-1]]
