"""One captured job log: its lines, its preview, and what goes into the sandbox with it.

It is stored while its session runs: in memory if short, else in unnamed files. Its line numbers are
those of the whole log, even if its middle was left out.
"""

import re
import tempfile
import threading
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import overload

from worker.errors import SourceError
from worker.logs import trace
from worker.logs.excerpt import Digest, make_excerpt, preview_log
from worker.logs.installed_versions import find_differences, find_runner, find_same, find_versions
from worker.safety.redacted_values import Redacted, assume_redacted
from worker.tools.source import GREEN, INSTALLED, OUTLINE, Document, DocumentKind, SideFile
from worker.verdict.facts import MOST_INSTALLED, Installed, JobRun, LastPass, get_day, parse_time

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


_LIMIT = re.compile(r"^Job's log exceeded limit of (\d{1,12}) bytes", re.IGNORECASE)

_CLOCKS_DIFFER = 600
"""Seconds from which on the clocks of a runner and of GitLab count as different."""

_SAME_TIME = 60
"""Seconds by which times of GitLab's may differ: it runs on several machines."""

HELD = 1 << 20
"""Most bytes of a log that its document holds in memory; a longer log is a stream."""


@dataclass(frozen=True, slots=True)
class PassedLog:
    """The log of a run that passed, and which run that is; `started_at` is ISO 8601 or ""."""

    job_id: int
    ref: str
    sha: str
    spool: Spool
    url: str = ""
    started_at: str = ""


@dataclass(slots=True, eq=False)
class Log:
    """A job's log, cleaned and redacted. Safe to share between threads."""

    spool: Spool
    missing_parts: str
    """What is not in it, and why, or ""."""
    web_url: str
    hidden_lines: int
    """How many lines the job's page leaves out at its beginning; it counts from the next one."""
    unshown_lines: Sequence[int]
    """The numbers of the lines that the job's page neither shows nor counts."""
    final: bool
    """Whether the log will not change."""
    began: int
    """Its first timestamp, in epoch seconds by the runner's clock; 0 if it has none."""
    seconds: int
    """The time between its first and last timestamp."""
    job_failed: bool
    outline: Redacted | None
    """Its times and sections as JSON."""
    digest: Digest | None
    """A large log is digested while it is read, without the last passed run."""
    find_passed: Callable[[], PassedLog | None] | None
    """Finds the job's last passed run; asked once."""
    _passed: PassedLog | None = None
    _installed: tuple[str, ...] | None = None
    _same: tuple[Installed, ...] = ()
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def lines(self) -> Sequence[str]:
        """Its lines; line N is item N - 1. A line that was left out is ""."""
        return Lines(self.spool)

    def preview(self, limit: int) -> str:
        """Return the lines that explain the failure, at most `limit` bytes.

        For a log that is not large, the job's last passed run is looked for once, and lines that
        are new since then count for more. A large log was digested while it was read, without that.
        """
        if self.spool.size <= limit:
            return preview_log(b"".join(self.spool.chunks()), limit)
        with self._lock:
            if self.digest is None:
                passed = self._get_passed()
                chunks = passed.spool.chunks() if passed else None
                self.digest = make_excerpt(self.spool.chunks(), chunks).make_digest()
            return self.digest.write_text(limit)

    def _get_passed(self) -> PassedLog | None:
        """Return the run that passed, looked for once. The caller holds the lock."""
        if self.find_passed is not None:
            find, self.find_passed = self.find_passed, None
            with suppress(SourceError):
                self._passed = find()
        return self._passed

    def find_passed_job_id(self) -> int:
        """Find the id of the passed job whose log is saved beside this one; 0 if there is none."""
        with self._lock:
            passed = self._get_passed()
        return passed.job_id if passed else 0

    def read_passed_lines(self) -> Iterator[str]:
        """Yield the lines of the job's last passed run; none if it is not known, or large."""
        with self._lock:
            passed = self._get_passed()
        if passed is not None and passed.spool.size <= trace.LARGE:
            yield from Lines(passed.spool)

    def describe_last_pass(self) -> LastPass | None:
        """Return the job's last passed run and what was installed differently then, or None."""
        with self._lock:
            passed = self._get_passed()
            if passed is None or max(self.spool.size, passed.spool.size) > trace.LARGE:
                return None
            if self._installed is None:
                found = find_versions(self.spool.chunks()), find_versions(passed.spool.chunks())
                self._installed = tuple(map(str, find_differences(*found)))
                same = [
                    Installed(each.kind, each.name, version) for each, version in find_same(*found)
                ]
                runner = find_runner(self.lines)
                if runner and runner == find_runner(Lines(passed.spool)):
                    same.insert(0, Installed("runner", "", runner))
                self._same = tuple(same)
        run = JobRun(passed.job_id, 0, "success", sha=passed.sha, url=passed.url)
        return LastPass(run, self._installed, same=self._same[:MOST_INSTALLED])

    def describe_cut(self, duration: float | None) -> str:
        """Say where the runner cut the log; "" if it did not.

        `duration` is how long the job ran, in seconds.
        """
        lines = self.lines
        ends = (lines[at] for at in range(max(0, len(lines) - 10), len(lines)))
        found = next(filter(None, map(_LIMIT.match, ends)), None)
        if found is None:
            return ""
        kept = f" after {self.seconds:,} s" if self.seconds else ""
        whole = f" of the job's {duration:,.0f} s" if duration else ""
        return f"the runner cut the log at {int(found[1]):,} bytes{kept}{whole}"

    def describe_clock(self, started_at: str | None, now: float | None) -> str:
        """Say how far the runner's clock is from GitLab's; "" if they agree or it is unknown.

        `started_at` is when the job began by GitLab's record, `now` what GitLab's own clock shows.
        The record is taken for that clock's only of a job that has just ended by it: nearer to now
        than the two clocks are to each other. Of an imported or restored job it may be anything.
        """
        began = parse_time(started_at or "")
        if not self.began or began is None or now is None:
            return ""
        apart, ago = abs(self.began - began), now - began - self.seconds
        if apart < _CLOCKS_DIFFER or not -_SAME_TIME <= ago < apart:
            return ""
        off = timedelta(seconds=int(apart))
        side = "behind" if self.began < began else "ahead of"
        ours, theirs = (
            f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}" for at in (self.began, began)
        )
        return (
            f"the runner's clock is {off} (h:mm:ss) {side} GitLab's: its log begins at {ours} UTC, "
            f"by GitLab the job began at {theirs} UTC"
        )

    def make_document(self) -> Document:
        """Return the log as a source returns it."""
        spool = self.spool
        whole = spool.size <= HELD and not spool.dropped_lines
        summary = assume_redacted(b"a log of %d bytes" % spool.size)
        data = Redacted.join_all(spool.chunks()) if whole else summary
        return Document(
            data,
            DocumentKind.LOG,
            self.missing_parts,
            chunks=None if whole else spool.chunks,
            final=self.final,
            lines=spool.lines,
            preview=self.preview,
            side_files=self._list_beside,
            part=spool.chunks,
        )

    def _list_beside(self) -> Iterator[SideFile]:
        if (outline := self.outline) is not None:
            about = "times and sections, for `log outline`"
            yield SideFile(OUTLINE, lambda: iter([outline]), about)
        with self._lock:
            passed = self._get_passed()
        if passed:
            day = get_day(passed.started_at)
            where = f"{passed.ref} at {passed.sha[:12]}{day and ', on '}{day}"
            what = f"the log of job {passed.job_id}, which passed on {where}"
            yield SideFile(GREEN, passed.spool.chunks, f"{what}: compare with `log diff`")
        if (last_pass := self.describe_last_pass()) and last_pass.package_changes:
            text = "".join(f"{each}\n" for each in last_pass.package_changes)
            lines = assume_redacted(text.encode())
            yield SideFile(INSTALLED, lambda: iter([lines]), "what was installed differently then")
