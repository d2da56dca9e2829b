"""How a job ended: its last command with its last output, and how far a stopped job had got.

These lines are often the whole cause, and a model that sees only the loudest ones misses them.
"""

import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence

Piece = tuple[int, bytes, bytes]
"""A line's index, text and key; lines that differ only in digits and case have the same key."""

FEW = 5
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
            if counts[keys[at]] <= FEW and lines[at].strip():
                rare.append((base + at, lines[at], keys[at]))
        self._rare.extend(reversed(rare))
        text = b"\n" + b"\n".join(lines)
        if (at := max(map(text.rfind, _STARTED))) >= 0:
            started = text.count(b"\n", 0, at)
            self._started = (base + started, lines[started], keys[started])

    def list_lines(
        self, command: Piece | None, script: Sequence[Piece], last: Piece, counts: Counter[bytes]
    ) -> Iterator[Piece]:
        """Yield the lines to show of a failed job, the most telling first; none of any other job.

        `command` is the script's last command, `script` its last lines, `last` the log's last line.
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
            yield from self._list_before_stop(since, output, counts)
        else:
            yield from reversed(output[-_LAST:])

    def _list_before_stop(
        self, since: int, output: Sequence[Piece], counts: Counter[bytes]
    ) -> Iterator[Piece]:
        """Yield the line of the test begun last, then the last lines that are not repetitive."""
        end = output[-1][0] if output else since
        if self._started and since < self._started[0] <= end:
            yield self._started
        rare = [line for line in self._rare if since < line[0] <= end and counts[line[2]] <= FEW]
        yield from reversed(rare[-_BEFORE_STOP:])
