"""Job logs: fetched, cleaned and redacted once, then kept, so that a quote is checked against
exactly what the model was given; with the log of the job's last passed run.
"""

import threading
import time
from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from worker.conversation.context import Subject
from worker.errors import SourceError
from worker.gitlab.read import wire
from worker.gitlab.read.access import Binding
from worker.gitlab.read.api import NotFound, ReadClient, ask_in_turn
from worker.gitlab.read.job_log import Log, PassedLog, Spool
from worker.gitlab.read.last_passed_jobs import LastPassedJobs, Trail
from worker.gitlab.read.redactions import Redactions
from worker.logs import trace
from worker.logs.excerpt import Digest, Excerpt, make_excerpt
from worker.logs.trace import Timeline

MAX_LOG = 240 * 1024 * 1024
"""Bytes of one log that are kept: less than a file in the sandbox may have."""

MAX_KEPT = 512 * 1024 * 1024
"""Bytes of all logs that are kept; all but the short ones are on disk."""

_MAX_TRACE = 8 << 30
"""Bytes of a trace that are read at most."""

_MAX_PASSED_TRACE = 16 * 1024 * 1024
"""Most bytes of the trace of a passed run that is fetched for comparison."""

SECONDS = 240.0
"""Most seconds for reading one log."""

_PASSED_SECONDS = 5.0
"""Most seconds for finding a passed run, and again for reading its log."""

_MAX_SEARCHES = 12
"""Most passed runs that a session looks for on its own, to fetch their logs."""

_MAX_ERRORS = 8
ERROR = 2048
"""How many logs of failed jobs, and how many bytes of each, choose what the previews of files and
diffs show."""

ENDED = frozenset({"success", "failed", "canceled", "skipped"})


class JobLogs:
    """The logs of the jobs that one session may read.

    These are jobs of the pipeline's and the merge request's project, as far as `binding` allows. A
    job of another project can be read once it was allowed. Safe to share between threads.
    """

    def __init__(
        self,
        client: ReadClient,
        subject: Subject,
        redact: Redactions,
        max_log: int = MAX_LOG,
        max_kept: int = MAX_KEPT,
        binding: Binding | None = None,
    ) -> None:
        self._client = client
        self._binding = binding or Binding(client, subject)
        self._subject = subject
        self._redact = redact
        self._max_log = max_log
        self._max_kept = max_kept
        self._kept: OrderedDict[int, Log] = OrderedDict()
        self._allowed: dict[int, tuple[int, Trail]] = {}
        self._listed: dict[int, tuple[int, wire.Job]] = {}
        self._lock = threading.Lock()
        self._reading: dict[int, threading.Lock] = {}
        self._passed = LastPassedJobs(client, subject)
        self._searches = 0
        self.known_errors = ""

    def allow_job(self, job_id: int, project_id: int, trail: Trail = ()) -> None:
        """Allow reading a job of a downstream pipeline.

        The caller has checked that the session may read its project, and that an own pipeline
        started the job or has a job of the same name. `trail` names the trigger jobs that led to
        it: behind those of the same names its last passed run is looked for.
        """
        with self._lock:
            self._allowed[job_id] = project_id, trail

    def expect_jobs(self, project_id: int, jobs: Iterable[wire.Job]) -> None:
        """Read the logs of jobs of the session's own pipeline, just listed, without asking for each
        job first."""
        with self._lock:
            self._listed.update((job.id, (project_id, job)) for job in jobs)

    def get_error_text(self) -> str:
        """Return the parts that explain the failures, of the failed jobs' logs read so far.

        If none was read yet, as in a reply, `known_errors`.
        """
        with self._lock:
            failed = [log for log in self._kept.values() if log.job_failed][-_MAX_ERRORS:]
        return "\n".join(log.preview(ERROR) for log in failed) or self.known_errors

    def link_line(self, job_id: int, number: int) -> str:
        """Return a link to the line, or to the job if its page does not show the line."""
        try:
            log = self.read_log(job_id)
        except SourceError:
            return f"{self._subject.gitlab_url}/{self._subject.project}/-/jobs/{job_id}"
        shown = number - log.hidden_lines - bisect_left(log.unshown_lines, number)
        is_shown = shown > 0 and number not in log.unshown_lines
        return f"{log.web_url}#L{shown}" if is_shown else log.web_url

    def read_log(self, job_id: int) -> Log:
        """Return the log of a job, which only one thread at a time reads. Raises SourceError.

        A log that is not final (its job still runs, or it is late) is read again each time.
        """
        with self._lock:
            reading = self._reading.setdefault(job_id, threading.Lock())
        with reading:
            with self._lock:
                if job_id in self._kept:
                    self._kept.move_to_end(job_id)
                    return self._kept[job_id]
            log = self._fetch(job_id)
            if log.final:
                with self._lock:
                    self._kept[job_id] = log
                    size = sum(each.spool.size for each in self._kept.values())
                    while len(self._kept) > 1 and size > self._max_kept:
                        _, gone = self._kept.popitem(last=False)
                        size -= gone.spool.size
            return log

    def _fetch(self, job_id: int) -> Log:
        project, job = self.find_job(job_id)
        if job.erased_at:
            raise SourceError(f"the log of job {job_id} ({job.name}) was erased")
        reading = self._read_trace(project, job, _MAX_TRACE, SECONDS)
        times = reading.timeline.to_json()  # strangers name the sections
        has_failed = job.status == "failed"
        return Log(
            spool=reading.spool,
            missing_parts=_describe_missing(job, reading),
            web_url=job.web_url,
            hidden_lines=reading.hidden_lines,
            unshown_lines=reading.timeline.unshown,
            final=job.status in ENDED and reading.size > 0 and not reading.broken,
            began=reading.timeline.began,
            seconds=reading.timeline.seconds,
            outline=self._redact.redact_to_json(times) if times else None,
            digest=reading.digest,
            job_failed=has_failed,
            find_passed=(lambda: self._find_passed_log(job, project)) if has_failed else None,
        )

    def _find_passed_log(self, job: wire.Job, project: int) -> PassedLog | None:
        """Return the log of the newest run of this job that passed, if it can be had cheaply."""
        with self._lock:
            self._searches += 1
            if self._searches > _MAX_SEARCHES:
                return None
        _, trail = self._allowed.get(job.id, (project, ()))
        deadline = time.monotonic() + _PASSED_SECONDS
        before = job.pipeline.id if job.pipeline else 0
        found = self._passed.find(job.name, deadline, trail, project, before)
        if found is None or found.job.id == job.id:
            return None
        passed, run = found.job, found.pipeline
        with self._lock:
            kept = self._kept.get(passed.id)
        if kept:
            spool = kept.spool
        else:
            reading = self._read_trace(found.project, passed, _MAX_PASSED_TRACE, _PASSED_SECONDS)
            if reading.broken or not reading.size:
                return None
            spool = reading.spool
        began = passed.started_at or run.created_at or ""
        return PassedLog(passed.id, run.ref, run.sha, spool, passed.web_url, began)

    def _read_trace(self, project: int, job: wire.Job, most: int, seconds: float) -> "_Reading":
        path = f"/projects/{project}/jobs/{job.id}/trace"
        client = self._client.with_deadline(time.monotonic() + seconds)
        reading = _Reading(Spool(self._max_log))
        redact = self._redact.for_document(f"the log of job {job.id}")
        reading.run(client.stream(path, f"the log of job {job.id}", most), redact)
        return reading

    def find_job(self, job_id: int) -> tuple[int, wire.Job]:
        """Return the id of the project a job is in, and the job.

        Raises SourceError, also for a job that this session may not read.
        """

        def read(project: int) -> tuple[int, wire.Job]:
            path = f"/projects/{project}/jobs/{job_id}"
            return project, self._client.one(path, wire.Job, f"job {job_id}")

        if listed := self._listed.pop(job_id, None):
            return listed
        own = dict.fromkeys((self._subject.pipeline_project_id, self._subject.project_id))
        allowed = self._allowed.get(job_id)
        try:
            project, job = ask_in_turn([allowed[0]] if allowed else [*own], read)
        except NotFound as error:
            hint = "one of a downstream project is read once gitlab_list_pipeline_jobs has shown it"
            raise NotFound(f"{error}; {hint}") from error
        if not allowed:
            self._binding.check_job(project, job)
        return project, job


@dataclass(slots=True)
class _Reading:
    """One pass over a trace: cleans, redacts and keeps it, and makes a digest if it is large."""

    spool: Spool
    timeline: Timeline = field(default_factory=Timeline)
    digest: Digest | None = None
    size: int = 0
    broken: str = ""
    _end: deque[bytes] = field(default_factory=deque)
    _held: int = 0

    @property
    def hidden_lines(self) -> int:
        """How many lines come before the part that the job's page shows."""
        if self.size <= trace.PAGE_BYTES:
            return 0
        shown = trace.count_shown_lines(b"".join(self._end))
        return self.spool.lines - len(self.timeline.unshown) - shown

    def run(self, raw: Iterator[bytes], redact: Redactions) -> None:
        """Read it. Raises SourceError if nothing could be read; a later error goes to `broken`."""
        found: Excerpt | None = None
        for lines in redact.redact_stream(
            trace.clean_pieces(self._count_bytes(raw), self.timeline)
        ):
            self.spool.write(lines)
            if found is not None:
                found.feed(lines)
            elif self.spool.size > trace.LARGE:
                found = make_excerpt(self.spool.chunks())
        self.digest = found.make_digest() if found is not None else None

    def _count_bytes(self, raw: Iterator[bytes]) -> Iterator[bytes]:
        try:
            for chunk in raw:
                self.size += len(chunk)
                self._held += len(chunk)
                self._end.append(chunk)
                while self._held - len(self._end[0]) >= trace.PAGE_BYTES:
                    self._held -= len(self._end.popleft())
                yield chunk
        except SourceError as error:
            if not self.size:
                raise
            self.broken = str(error)


def _describe_missing(job: wire.Job, reading: _Reading) -> str:
    spool = reading.spool
    reasons = []
    if reading.broken:
        reasons.append(f"the log after its first {reading.size} bytes: {reading.broken}")
    if spool.dropped_bytes:
        first, last = spool.dropped_lines[0], spool.dropped_lines[-1]
        reasons.append(
            f"lines {first} to {last}, {spool.dropped_bytes} bytes from the log's middle: in the "
            "file they are empty, and line numbers count them"
        )
    if job.status not in ENDED:
        reasons.append(f"job {job.id} is still {job.status}: this is its log so far")
    elif not reading.size:
        reasons.append(
            f"GitLab has no log for job {job.id} ({job.status}); right after a job ends it may "
            "come late, and a job that never started has none"
        )
    return "; ".join(reasons)
