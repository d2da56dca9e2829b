"""Which lines of a failed job's log explain the failure.

One pass keeps the lines with words of trouble and the lines around them (`scan`), those that tell
how the job ended and those that are like no other (`quiet_lines`). Each line is weighed by what it
says (`logs.line_marks`), by its place and by the lines around it (`weigh`). The budget of bytes is
spent on the heaviest lines (`choose`); what is left of it, if none is surely of the failure, on all
others.
"""

from collections.abc import Iterable, Iterator

from worker.logs.excerpt.choose import Choice
from worker.logs.excerpt.scan import Scan, ScanResult, without_stamp
from worker.logs.excerpt.weigh import compute_weights
from worker.logs.line_kinds import GAP
from worker.logs.trace import clean_pieces

LONGEST_PREVIEW = 1 << 16
"""The most bytes of a preview, unless the caller sets a limit."""

_CHUNK = 1 << 20
"""Bytes that are processed together."""

_PASSED = "Job succeeded"
"""What the runner writes at the end of a job that passed."""


class Digest:
    """What was found in a log; small, however large the log is."""

    def __init__(self, scan: ScanResult, whole: bytes | None) -> None:
        self._whole = whole
        self._total = scan.total
        self._end_lines = scan.end_lines
        self._first = 0 if scan.troubles else scan.first
        self._script = range(self._first, scan.end)
        self._lines = scan.lines
        self._weights = compute_weights(scan, self._lines)
        if self._lines and self._lines[-1].text == _PASSED:
            self._whole = None
            script = [line for line in self._lines[:-1] if scan.first <= line.index < scan.end]
            self._lines = [*script[-2:], self._lines[-1]]
            self._weights = [1.0] * len(self._lines)

    def write_text(self, limit: int) -> str:
        """Return the explaining lines as `1843: text`, in order, gaps marked, in `limit` bytes.

        A log that fits is shown whole, except for what the runner did before the script if nothing
        went wrong there. If the job passed, only the end is shown.
        """
        if self._whole is not None and (shown := _number_lines(self._whole, self._first, limit)):
            return shown
        choice = Choice(self._lines, self._weights, self._total, limit, self._script)
        return choice.write_text(self._end_lines)


class Excerpt:
    """The excerpt of a log that comes in pieces; memory does not grow with the log.

    `limit` is the most bytes that a text of it may have. `green` is the cleaned log of the last run
    that passed, also in pieces.
    """

    def __init__(self, limit: int, green: Iterable[bytes] | None = None) -> None:
        self._limit = limit
        self._scan = Scan(green)
        self._whole: list[bytes] | None = []
        self._size = 0

    def feed(self, cleaned: bytes) -> None:
        """Add the next whole lines of a cleaned log."""
        for lines in _split_chunks(cleaned):
            self._scan.feed(lines)
        self._size += len(cleaned)
        if self._size > self._limit:
            self._whole = None
        elif self._whole is not None:
            self._whole.append(cleaned)

    def make_digest(self) -> Digest:
        """Return what was found so far."""
        whole = b"".join(self._whole) if self._whole is not None else None
        return Digest(self._scan.make_result(), whole)

    def write_text(self) -> str:
        """Return the text in at most `limit` bytes."""
        return self.make_digest().write_text(self._limit)


def preview_log(cleaned: bytes, limit: int = 4096) -> str:
    """Return the lines of a cleaned log that explain the failure, as `1843: text`, gaps marked.

    At most `limit` bytes of UTF-8; long lines are clipped. A log that fits is shown from its
    script on.
    """
    return make_excerpt([cleaned], limit=limit).write_text()


def preview_trace(
    raw: Iterable[bytes], limit: int = 4096, green: Iterable[bytes] | None = None
) -> str:
    """Return the preview of a trace that comes in pieces; memory does not grow with the trace.

    `green` is the trace of the same job's last run that passed, also in pieces: lines that it lacks
    count more.
    """
    passed = clean_pieces(green) if green is not None else None
    return make_excerpt(clean_pieces(raw), passed, limit).write_text()


def make_excerpt(
    cleaned: Iterable[bytes], green: Iterable[bytes] | None = None, limit: int = LONGEST_PREVIEW
) -> Excerpt:
    """Make the excerpt of a cleaned log that comes in pieces of whole lines; more may be fed."""
    excerpt = Excerpt(limit, green)
    for lines in cleaned:
        excerpt.feed(lines)
    return excerpt


def _number_lines(cleaned: bytes, first: int, limit: int) -> str:
    """Return all lines from index `first` on with their numbers, or nothing if that is too long."""
    texts = cleaned.decode("utf-8", "replace").removesuffix("\n").split("\n") if cleaned else []
    numbered = (
        f"{number}: {without_stamp(text)}" for number, text in enumerate(texts[first:], first + 1)
    )
    shown = "\n".join([*[GAP] * bool(first), *numbered])
    return shown if len(shown.encode()) <= limit else ""


def _split_chunks(cleaned: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(cleaned):
        end = len(cleaned)
        if end - start > _CHUNK:
            end = cleaned.find(b"\n", start + _CHUNK) + 1 or end
        yield cleaned[start:end]
        start = end
