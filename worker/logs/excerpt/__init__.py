"""Which lines of a failed job's log explain the failure.

One pass keeps the lines with words of trouble, the lines around them (`scan`), and those that are
like no other (`rare`). Each line is weighed by itself (`marks`, with the formats of
`logs.ecosystems`), by its words (`words`), by its place (`place`) and by the lines around it
(`around`); warnings weigh less than failures (`warned`), and the first of several failures that
begin alike weighs most (`first`). The budget of bytes is spent on the heaviest lines (`weights`,
`worth`, `choose`); what is left of it, if none is surely of the failure, on all others. If the last
green log of the same job is available, new lines weigh more (`passed_lines`).
"""

from collections.abc import Iterable, Iterator
from operator import mul

from worker.logs.excerpt import around, place, weights
from worker.logs.excerpt.choose import Choice
from worker.logs.excerpt.first import favour_first
from worker.logs.excerpt.place import Line
from worker.logs.excerpt.scan import Scan, ScanResult
from worker.logs.excerpt.warned import find_warned
from worker.logs.line_kinds import GAP

CHUNK = 1 << 20
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
        self._lines = place.list_lines(scan)
        self._weights = _compute_weights(scan, self._lines)
        if self._lines and self._lines[-1].text == _PASSED:
            self._whole = None
            self._lines, self._weights = _choose_end(scan, self._lines)

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
            self._keep(lines)

    def make_digest(self) -> Digest:
        """Return what was found so far."""
        whole = b"".join(self._whole) if self._whole is not None else None
        return Digest(self._scan.make_result(), whole)

    def write_text(self) -> str:
        """Return the text in at most `limit` bytes."""
        return self.make_digest().write_text(self._limit)

    def _keep(self, lines: bytes) -> None:
        self._size += len(lines)
        if self._size > self._limit:
            self._whole = None
        elif self._whole is not None:
            self._whole.append(lines)


def _compute_weights(scan: ScanResult, lines: list[Line]) -> list[float]:
    sums: dict[frozenset[str], tuple[float, float]] = {}
    for line in lines:
        if line.marks not in sums:
            sums[line.marks] = weights.sum_marks(line.marks)
    own = [sums[line.marks][0] for line in lines]
    placed = place.compute_rows(scan, lines, own)
    alone = [
        sums[line.marks][1] + sum(map(mul, row, weights.PLACE))
        for line, row in zip(lines, placed, strict=True)
    ]
    rows = around.compute_rows([line.source.index for line in lines], alone)
    weighed = [
        weights.BASE_AROUND
        + sum(map(mul, row, weights.AROUND))
        + _weigh_news(line)
        + _weigh_trouble(scan, line)
        + _weigh_aside(line)
        + line.words
        for line, row in zip(lines, rows, strict=True)
    ]
    return favour_first(scan, lines, _weigh_warnings(lines, weighed))


def _weigh_trouble(scan: ScanResult, line: Line) -> float:
    """Return the weight of a line before the script that is on or below a report of the runner's
    that a service is not healthy; an error there may be the cause, and weighs more."""
    if not scan.troubles or not scan.troubles[0] <= line.source.index < scan.first:
        return 0.0
    is_cause = "fault" in line.marks and not line.text.startswith("Health check")
    return weights.TROUBLE + weights.STARTED_BADLY * is_cause


def _weigh_aside(line: Line) -> float:
    return 0.0 if line.marks.isdisjoint(("trailer", "probe")) else weights.ASIDE


def _weigh_warnings(lines: list[Line], weighed: list[float]) -> list[float]:
    """Return the weights, reduced for warnings if any other line tells of a failure."""
    warned = list(find_warned(lines))
    others = (weight for weight, is_warned in zip(weighed, warned, strict=True) if not is_warned)
    is_telling = max(others, default=weights.TELLING) > weights.TELLING
    less = weights.WARNED if is_telling else 0.0
    return [weight + less * is_warned for weight, is_warned in zip(weighed, warned, strict=True)]


def _choose_end(scan: ScanResult, lines: list[Line]) -> tuple[list[Line], list[float]]:
    """Return the last two kept lines of the script and the last line of all, with their weights."""
    script = [line for line in lines[:-1] if scan.first <= line.source.index < scan.end]
    shown = [*script[-2:], lines[-1]]
    return shown, [1.0] * len(shown)


def _weigh_news(line: Line) -> float:
    if line.source.new is None:
        return 0.0
    return weights.NEW if line.source.new else weights.OLD


def _number_lines(cleaned: bytes, first: int, limit: int) -> str:
    """Return all lines from index `first` on with their numbers, or nothing if that is too long."""
    texts = cleaned.decode("utf-8", "replace").removesuffix("\n").split("\n") if cleaned else []
    numbered = (
        f"{number}: {place.without_stamp(text)}"
        for number, text in enumerate(texts[first:], first + 1)
    )
    shown = "\n".join([*[GAP] * bool(first), *numbered])
    return shown if len(shown.encode()) <= limit else ""


def _split_chunks(cleaned: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(cleaned):
        end = len(cleaned)
        if end - start > CHUNK:
            end = cleaned.find(b"\n", start + CHUNK) + 1 or end
        yield cleaned[start:end]
        start = end
