"""Job logs: fetched, cleaned and redacted once, then kept, so that a quote is proven against
exactly what the model was given (law 5)."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from worker.core import logs
from worker.core.context import Subject
from worker.core.ports import Document, DocumentKind
from worker.errors import SourceError
from worker.sources import wire
from worker.sources.client import Blob, NotFound, ReadClient

MAX_LOG = 16 * 1024 * 1024
"""Bytes of one trace that are kept: its first quarter and the rest from its end."""

MAX_KEPT = 64 * 1024 * 1024
"""Bytes of all logs in the cache."""

ENDED = frozenset({"success", "failed", "canceled", "skipped"})


@dataclass(frozen=True, slots=True)
class _Log:
    """`hidden` lines at the top are not on the job's page, which counts from the line after."""

    document: Document
    web_url: str
    hidden: int


class JobLogs:
    """The logs of the jobs of one session's projects: the log source, and LogLines.

    Those are the project the pipeline ran in and the merge request's; a job of another one is read
    once it was adopted. Safe to share by threads.
    """

    def __init__(
        self,
        client: ReadClient,
        subject: Subject,
        redact: Callable[[bytes], bytes],
        max_log: int = MAX_LOG,
        max_kept: int = MAX_KEPT,
    ) -> None:
        self._client = client
        self._subject = subject
        self._redact = redact
        self._max_log = max_log
        self._max_kept = max_kept
        self._kept: OrderedDict[int, _Log] = OrderedDict()
        self._adopted: dict[int, int] = {}
        self._lock = threading.Lock()

    def adopt(self, job_id: int, project_id: int) -> None:
        """Let the log of a job of another project be read: the operator allows that project."""
        with self._lock:
            self._adopted[job_id] = project_id

    def document(self, job_id: int) -> Document:
        """The log of a job, cleaned and redacted. Raises SourceError."""
        return self._log(job_id).document

    def line(self, job_id: int, number: int) -> str | None:
        """Line `number` (from 1) of the cleaned log, or None if there is none or it is gone."""
        try:
            lines = logs.split(self.document(job_id).data)
        except SourceError:
            return None
        return lines[number - 1] if 0 < number <= len(lines) else None

    def url(self, job_id: int, number: int) -> str:
        """A link to the line, or to the job if its page does not show the line."""
        try:
            log = self._log(job_id)
        except SourceError:
            return f"{self._subject.gitlab_url}/{self._subject.project}/-/jobs/{job_id}"
        shown = number - log.hidden
        return f"{log.web_url}#L{shown}" if shown > 0 else log.web_url

    def _log(self, job_id: int) -> _Log:
        with self._lock:
            if job_id in self._kept:
                self._kept.move_to_end(job_id)
                return self._kept[job_id]
        log, final = self._fetch(job_id)
        if final:
            self._keep(job_id, log)
        return log

    def _fetch(self, job_id: int) -> tuple[_Log, bool]:
        """The log, and whether it will stay as it is."""
        project, job = self.job(job_id)
        if job.erased_at:
            raise SourceError(f"the log of job {job_id} ({job.name}) was erased")
        path = f"/projects/{project}/jobs/{job_id}/trace"
        trace = self._client.blob(path, f"the log of job {job_id}", self._max_log)
        cleaned, hidden = _cleaned(trace)
        missing = _missing(job, trace)
        final = job.status in ENDED and trace.size > 0
        document = Document(self._redact(cleaned), DocumentKind.LOG, missing, final=final)
        return _Log(document, job.web_url, hidden), final

    def job(self, job_id: int) -> tuple[int, wire.Job]:
        """The id of the project a job is in, and the job. Raises SourceError."""
        *first, last = self._projects(job_id)
        for project in first:
            with suppress(NotFound):
                return project, self._read(project, job_id)
        try:
            return last, self._read(last, job_id)
        except NotFound as error:
            hint = "one of a downstream project is read once gitlab_list_pipeline_jobs has shown it"
            raise NotFound(f"{error}; {hint}") from error

    def _projects(self, job_id: int) -> list[int]:
        if job_id in self._adopted:
            return [self._adopted[job_id]]
        subject = self._subject
        return list(dict.fromkeys((subject.pipeline_project_id, subject.project_id)))

    def _read(self, project: int, job_id: int) -> wire.Job:
        path = f"/projects/{project}/jobs/{job_id}"
        return self._client.one(path, wire.Job, f"job {job_id}")

    def _keep(self, job_id: int, log: _Log) -> None:
        with self._lock:
            self._kept[job_id] = log
            while sum(len(each.document.data) for each in self._kept.values()) > self._max_kept:
                self._kept.popitem(last=False)


def _cleaned(trace: Blob) -> tuple[bytes, int]:
    """The log's text, and how many of its lines the job's page does not show."""
    if not trace.dropped:
        return logs.clean(trace.head), logs.hidden_lines(trace.head)
    # Cut at line ends, so that no line is shown that the log does not have.
    head = logs.clean(trace.head[: trace.head.rfind(b"\n") + 1])
    tail = trace.tail[trace.tail.find(b"\n") + 1 :]
    top = head + f"[... {trace.dropped} bytes of this log are left out here ...]\n".encode()
    return top + logs.clean(tail), top.count(b"\n") + logs.hidden_lines(tail)


def _missing(job: wire.Job, trace: Blob) -> str:
    if trace.dropped:
        return f"{trace.dropped} of the log's {trace.size} bytes, cut from its middle"
    if job.status not in ENDED:
        return f"job {job.id} is still {job.status}: this is its log so far"
    if not trace.size:
        return (
            f"GitLab has no log for job {job.id} ({job.status}); right after a job ends it may "
            "come late, and a job that never started has none"
        )
    return ""
