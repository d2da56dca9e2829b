"""How a job ended: its last command with what that said last, and where one that was stopped was.

A model that sees only the loudest lines of a job misses these, and they often are the whole cause.
"""

import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence

Piece = tuple[int, bytes, bytes]
"""A line's place, its text and its key: the same for lines that differ in digits and case only."""

FEW = 5
"""Lines of a kind that are more than this repeat: a heartbeat, a progress."""

_LAST, _BEFORE_STOP = 2, 8
_KNOWN = 40

_FAILED = b"ERROR: Job failed"
_STOPPED = re.compile(
    rb"execution took longer than|timeout was exceeded|context (?:deadline exceeded|canceled)"
    rb"|Job failed: (?:canceled|aborted)|exit code 1(?:37|43)\b"
)
_RUNNERS = (_FAILED, b"WARNING: step_script could not", b"WARNING: script could not")
_STARTED = (b"\n=== RUN ", b"\n[ RUN      ] ", b"\nRUNS ", b"\nTest Case '", b"\ntest_")
"""How tools say that a test has begun."""


class Ending:
    """Feed it the lines of a log, in order, then ask where it ended."""

    def __init__(self) -> None:
        self._rare: deque[Piece] = deque(maxlen=_KNOWN)
        self._started: Piece | None = None

    def feed(
        self, base: int, lines: Sequence[bytes], keys: Sequence[bytes], counts: Counter[bytes]
    ) -> None:
        """The next lines, of which the first has the number `base`, counted already."""
        rare: list[Piece] = []
        for at in range(len(lines) - 1, -1, -1):
            if len(rare) == _KNOWN:
                break
            if counts[keys[at]] <= FEW and lines[at].strip():
                rare.append((base + at, lines[at], keys[at]))
        self._rare.extend(reversed(rare))
        text = b"\n" + b"\n".join(lines)
        if (at := max(map(text.rfind, _STARTED))) >= 0:
            started = text.count(b"\n", 0, at)
            self._started = (base + started, lines[started], keys[started])

    def lines(
        self, command: Piece | None, script: Sequence[Piece], last: Piece, counts: Counter[bytes]
    ) -> Iterator[Piece]:
        """What to show of a job that failed, the most telling first; nothing of another log.

        `script` are the last lines of the script whose last `command` it was, `last` is the log's
        last line.
        """
        if not last[1].startswith(_FAILED):
            return
        said = [line for line in script if line[1].strip() and not line[1].startswith(_RUNNERS)]
        since = command[0] if command else -1
        yield last
        if command:
            yield command
        output = [line for line in said if line[0] > since]
        if _STOPPED.search(last[1]):
            yield from output[-1:]
            yield from self._before_stop(since, output, counts)
        else:
            yield from reversed(output[-_LAST:])

    def _before_stop(
        self, since: int, output: Sequence[Piece], counts: Counter[bytes]
    ) -> Iterator[Piece]:
        """The test that was begun last, and the last lines that don't repeat."""
        end = output[-1][0] if output else since
        if self._started and since < self._started[0] <= end:
            yield self._started
        rare = [line for line in self._rare if since < line[0] <= end and counts[line[2]] <= FEW]
        yield from reversed(rare[-_BEFORE_STOP:])
