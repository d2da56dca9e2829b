"""The lines that no word of trouble tells of: how the job ended, and those that are like no other.

The last command with its last output, and how far a stopped job had got, are often the whole cause;
a model that sees only the loudest lines misses them.
"""

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple


class Piece(NamedTuple):
    """A line of a log; lines that differ only in digits and case have the same key."""

    at: int  # its index
    text: bytes
    key: bytes


_REPETITIVE = 5
"""A line that occurs more often than this is repetitive, such as a heartbeat or progress."""

_LAST, _BEFORE_STOP = 2, 8
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
    """Finds how a log ended: feed it the lines in order, then list the lines to show."""

    def __init__(self) -> None:
        self._rare: deque[Piece] = deque(maxlen=_KNOWN)
        self._started: Piece | None = None

    def feed(
        self, base: int, lines: Sequence[bytes], keys: Sequence[bytes], counts: Counter[bytes]
    ) -> None:
        """Add the next lines. `base` is the index of the first; `counts` includes them already."""
        rare: list[Piece] = []
        for at in range(len(lines) - 1, -1, -1):
            if len(rare) == _KNOWN:
                break
            if counts[keys[at]] <= _REPETITIVE and lines[at].strip():
                rare.append(Piece(base + at, lines[at], keys[at]))
        self._rare.extend(reversed(rare))
        text = b"\n" + b"\n".join(lines)
        if (at := max(map(text.rfind, _STARTED))) >= 0:
            started = text.count(b"\n", 0, at)
            self._started = Piece(base + started, lines[started], keys[started])

    def list_lines(
        self, command: Piece | None, script: Sequence[Piece], last: Piece, counts: Counter[bytes]
    ) -> Iterator[Piece]:
        """Yield the lines to show of a failed job, the most telling first; none of any other job.

        `command` is the script's last command, `script` its last lines, `last` the log's last line.
        """
        if not last.text.startswith(_FAILED):
            return
        said = [line for line in script if line.text.strip() and not line.text.startswith(_RUNNERS)]
        since = command.at if command else -1
        yield last
        if command:
            yield command
        output = [line for line in said if line.at > since]
        if _STOPPED.search(last.text):
            yield from output[-1:]
            yield from self._list_before_stop(since, output, counts)
        else:
            yield from reversed(output[-_LAST:])

    def _list_before_stop(
        self, since: int, output: Sequence[Piece], counts: Counter[bytes]
    ) -> Iterator[Piece]:
        """Yield the line of the test begun last, then the last lines that are not repetitive."""
        end = output[-1].at if output else since
        if self._started and since < self._started.at <= end:
            yield self._started
        rare = [
            line
            for line in self._rare
            if since < line.at <= end and counts[line.key] <= _REPETITIVE
        ]
        yield from reversed(rare[-_BEFORE_STOP:])


# ------------------------------------------------------------------- lines like no other

_RARE = 2
"""A shape with more lines that differ in more than digits and case is not rare."""

_READ = 200  # bytes of a line that its shape is made of
_MOST_RARE = 4_000  # lines at which the older ones are forgotten
_RARE_KEPT = 2_000
_MAX_SHAPES = 100_000

_NO_WORDS = re.compile(rb"(?<!\S)\S*[^a-z\s]\S*")
"""What a shape leaves out of a key: names, paths, punctuation."""


class RareLines:
    """Finds the lines of rare shapes: feed it the lines in order, then list them."""

    def __init__(self) -> None:
        self._shapes: Counter[bytes] = Counter()
        self._found: dict[bytes, Piece] = {}

    def feed(
        self, base: int, lines: Sequence[bytes], keys: Sequence[bytes], fresh: Iterable[bytes]
    ) -> None:
        """Add the next lines. `base` is the index of the first; `fresh` are the keys among `keys`
        that were not seen before."""
        shapes = dict(zip(fresh, _make_shapes(fresh), strict=True))
        self._shapes.update(shapes.values())
        rare = [key for key, shape in shapes.items() if self._shapes[shape] <= _RARE]
        if not rare:
            return
        first = dict(zip(reversed(keys), range(len(keys) - 1, -1, -1), strict=True))
        for key in rare:
            self._found[key] = Piece(base + first[key], lines[first[key]], key)
        self._forget()

    def list_lines(self, counts: Counter[bytes]) -> Iterator[tuple[int, Piece]]:
        """Yield the lines of rare shapes, each with how many lines there are like it."""
        shapes = dict(zip(self._found, _make_shapes(self._found), strict=True))
        for key, piece in self._found.items():
            alike = max(counts[key], self._shapes[shapes[key]])
            if shapes[key] and alike <= _RARE:
                yield alike, piece

    def _forget(self) -> None:
        if len(self._found) > _MOST_RARE:
            shapes = _make_shapes(self._found)
            rare = [
                key
                for key, shape in zip(self._found, shapes, strict=True)
                if shape and self._shapes[shape] <= _RARE
            ]
            self._found = {key: self._found[key] for key in rare[-_RARE_KEPT:]}
        if len(self._shapes) > _MAX_SHAPES:
            self._shapes = Counter({shape: n for shape, n in self._shapes.items() if n > _RARE})


def _make_shapes(keys: Iterable[bytes]) -> list[bytes]:
    """Return for each key its words of letters; it is the same for lines that differ in names."""
    text = b"".join([key[:_READ] + b"\n" for key in keys])
    return [b" ".join(line.split()) for line in _NO_WORDS.sub(b"", text).split(b"\n")[:-1]]
