"""One captured job log: its lines, its preview, and what goes into the sandbox with it."""

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from worker.errors import SourceError
from worker.gitlab.read.spool import Lines, Spool
from worker.logs import trace
from worker.logs.excerpt import Digest, make_excerpt, preview_log
from worker.logs.installed_versions import (
    find_differences,
    find_runner,
    find_same,
    find_versions,
)
from worker.safety.redacted_values import Redacted, assume_redacted
from worker.tools.source import GREEN, INSTALLED, OUTLINE, Document, DocumentKind, SideFile
from worker.verdict.facts import MOST_INSTALLED, Installed, LastPass, Run, get_day, parse_time

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
        run = Run(passed.job_id, 0, "success", sha=passed.sha, url=passed.url)
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
