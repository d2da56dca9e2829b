"""Stores a redacted job log while its session runs: in memory if short, else in unnamed files.

Its line numbers are those of the whole log, even if its middle was left out.
"""

import tempfile
import threading
import weakref
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from worker.errors import SourceError
from worker.safety.redacted_values import Redacted, assume_redacted

_IN_MEMORY = 1 << 20
"""Bytes up to which a segment of a log stays in memory."""


BLOCK = 1 << 17
"""Bytes that are read to look at one line."""


_SEGMENTS = 8


_HEAD = 2  # segments that are kept from the log's beginning


_READ = 1 << 20


@dataclass(frozen=True, slots=True)
class _Block:
    """Some whole lines in a segment; `first` is the number of the first line."""

    first: int
    count: int
    segment: "_Segment"
    offset: int
    size: int


class _Segment:
    """A part of the log. Its file is removed when nothing refers to the segment any more."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.size = self.lines = 0
        self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY, prefix="sandpiper-log-")  # noqa: SIM115
        # A reader may still use the file after the log has dropped this segment.
        weakref.finalize(self, self._file.close)
        self._lock = threading.Lock()

    def write(self, data: bytes) -> int:
        """Append `data`, and return its offset. Raises OSError."""
        with self._lock:
            self._file.seek(self.size)
            self._file.write(data)
        offset, self.size = self.size, self.size + len(data)
        return offset

    def read(self, offset: int, size: int) -> bytes:
        with self._lock:
            self._file.seek(offset)
            return self._file.read(size)


class Spool:
    """The lines of one log. Written by one thread, then read by any number.

    Of a log over `cap` bytes, the first `cap` / 4 bytes and the end are kept.
    """

    def __init__(self, cap: int) -> None:
        self._room = max(1, cap // _SEGMENTS)
        self._segments: list[_Segment] = []
        self._blocks: list[_Block] = []
        self.size = 0
        """Bytes that are kept."""
        self.lines = 0
        """Lines of the whole log."""
        self.dropped_lines = range(0)
        """The numbers of the lines that are left out."""
        self.dropped_bytes = 0

    def write(self, lines: Redacted) -> None:
        """Append whole lines, each ended by a newline. Raises SourceError if there is no room."""
        start = 0
        while start < len(lines):
            end = lines.find(b"\n", start + BLOCK) + 1 or len(lines)
            self._write(lines[start:end])
            start = end

    def _write(self, lines: bytes) -> None:
        if not self._segments or self._segments[-1].size >= self._room:
            self._segments.append(_Segment(self.lines + 1))
        segment, count = self._segments[-1], lines.count(b"\n")
        try:
            offset = segment.write(lines)
        except OSError as error:
            raise SourceError(f"no room for a log on the worker: {error.strerror}") from error
        self._blocks.append(_Block(self.lines + 1, count, segment, offset, len(lines)))
        segment.lines += count
        self.lines += count
        self.size += len(lines)
        if len(self._segments) > _SEGMENTS:
            gone = self._segments.pop(_HEAD)
            self._blocks = [block for block in self._blocks if block.segment is not gone]
            self.size -= gone.size
            self.dropped_bytes += gone.size
            first = self.dropped_lines.start or gone.first
            self.dropped_lines = range(first, gone.first + gone.lines)

    def chunks(self, most: int | None = None) -> Iterator[Redacted]:
        """Yield the log, with empty lines for what was left out, so that line N stays line N.

        If the log has more than `most` bytes, more of its middle is left out.
        """
        hidden = self.dropped_lines if most is None else self._choose_hidden(most)
        is_marked = not hidden
        for block in self._blocks:
            if not is_marked and block.first >= hidden.stop:
                yield from map(assume_redacted, _make_gap(hidden))
                is_marked = True
            if block.first not in hidden:
                yield assume_redacted(block.segment.read(block.offset, block.size))
        if not is_marked:
            yield from map(assume_redacted, _make_gap(hidden))

    def _choose_hidden(self, most: int) -> range:
        """Choose the lines to leave out, dropped ones included, to keep `most` bytes."""
        blocks, size = list(self._blocks), self.size
        at = next(
            (n for n, one in enumerate(blocks) if one.first >= self.dropped_lines.stop > 0), None
        )
        at = at if at is not None else len(blocks) // 4
        gone: list[_Block] = []
        while at < len(blocks) - 1 and size > most:
            gone.append(blocks.pop(at))
            size -= gone[-1].size
        while len(blocks) > 1 and size > most and at > 0:
            at -= 1
            gone.append(blocks.pop(at))
            size -= gone[-1].size
        if not gone:
            return self.dropped_lines
        numbers = [*self.dropped_lines[:1], *self.dropped_lines[-1:], *(one.first for one in gone)]
        return range(min(numbers), max(*numbers, *(one.first + one.count - 1 for one in gone)) + 1)

    def holds(self, text: bytes) -> bool:
        """Whether `text`, of one line, is in the log's first megabytes."""
        return any(
            text in block.segment.read(block.offset, block.size) for block in self._blocks[:32]
        )

    def block(self, number: int) -> tuple[int, list[str]]:
        """Return the number of the first of some lines around line `number` (from 1), and these."""
        if number in self.dropped_lines:
            return number, [""]
        at = bisect_right(self._blocks, number, key=lambda block: block.first) - 1
        block = self._blocks[at]
        text = block.segment.read(block.offset, block.size).decode("utf-8", "replace")
        return block.first, text.split("\n")[:-1]


def _make_gap(hidden: range) -> Iterator[bytes]:
    yield f"[lines {hidden[0]} to {hidden[-1]} of this log are left out here]\n".encode()
    for start in range(1, len(hidden), _READ):
        yield b"\n" * min(_READ, len(hidden) - start)


class Lines(Sequence[str]):
    """The lines of a spool; line N is item N - 1. A line that was left out is ""."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._near: tuple[int, list[str]] = (0, [])

    def __len__(self) -> int:
        return self._spool.lines

    @overload
    def __getitem__(self, at: int) -> str: ...

    @overload
    def __getitem__(self, at: slice) -> list[str]: ...

    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        number = at + 1 if at >= 0 else len(self) + at + 1
        if not 0 < number <= len(self):
            raise IndexError(at)
        first, lines = self._near
        if not first <= number < first + len(lines):
            self._near = first, lines = self._spool.block(number)
        return lines[number - first]

    def __iter__(self) -> Iterator[str]:
        number = 1
        while number <= len(self):
            first, lines = self._spool.block(number)
            yield from lines[number - first :]
            number = first + len(lines)
