"""Reads the errors of a job's runs from their logs, in the same way, and compares the runs."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

from worker.gitlab.read import wire
from worker.gitlab.read.job_log import Log
from worker.gitlab.read.job_runs import get_project_id
from worker.gitlab.read.session_reader import Reader
from worker.gitlab.read.survey.compared_pipelines import read_or_unknown
from worker.logs import trace
from worker.logs.failed_tests import find_messages
from worker.logs.failing_command import find_last_words, keep_last_command
from worker.logs.failure_lines import (
    FailureLines,
    read_command_lines,
    read_excerpt_lines,
    read_failure_lines,
)
from worker.logs.line_kinds import may_tell_of_host
from worker.logs.signature import find_exact_errors
from worker.verdict.facts import TIME_LIMITS, JobRun, Unknown
from worker.verdict.jobs import TOLD, FailingJob

NAMED = 3
"""Errors that a comparison names."""


def make_failing_run(
    job: FailingJob, errors: frozenset[str], listed: wire.Job | None, pipeline: wire.Pipeline
) -> JobRun:
    """Return a failing job as a run; less is known of a job that its pipeline does not list."""
    return JobRun(
        job_id=job.job_id,
        pipeline_id=pipeline.id if listed else 0,
        status="failed",
        sha=pipeline.sha,
        reason=job.reason,
        errors=errors,
        url=job.url,
        started_at=(listed.started_at if listed else "") or pipeline.created_at or "",
        source=pipeline.source,
        has_started=listed is None or listed.started_at is not None,
        seconds=(listed.duration or 0.0) if listed else 0.0,
    )


def describe_run(
    job: wire.Job,
    pipeline: wire.Pipeline,
    errors: frozenset[str],
    ours: JobRun,
    words: Mapping[str, str],
) -> JobRun:
    """Describe a job with these errors as a run beside `ours`; `words` are those of the failing
    job's log for each of its errors."""
    of_mr = wire.OF_MR.match(pipeline.ref)
    lacked = ours.errors - errors if ours.errors & errors else frozenset()
    lacked = ours.failures & lacked or lacked
    return JobRun(
        job_id=job.id,
        pipeline_id=pipeline.id,
        status=job.status,
        sha=pipeline.sha,
        reason=(job.failure_reason or "") if job.status == "failed" else "",
        errors=errors,
        url=job.web_url,
        started_at=job.started_at or pipeline.created_at or "",
        place=f"!{of_mr[1]}" if of_mr else pipeline.ref,
        source=pipeline.source,
        has_started=job.started_at is not None,
        missing_errors=tuple(words.get(each, each) for each in sorted(lacked)[:NAMED]),
        seconds=job.duration or 0.0,
    )


MAX_LOG = 8 * 1024 * 1024
"""Most bytes of a log that is compared; the errors of a larger one are not known."""

COMPARED = 4096
"""Bytes of the log excerpt that errors are taken from. It is made in the same way for every log,
while a survey's excerpt is chosen by comparison with a passed run."""

_END = 80
"""Lines of a log's end in which a script's last words are looked for."""

_NOTHING: Mapping[str, str] = {}

Errors = Mapping[str, str]
"""The errors of a run in a normal form, which two runs of one failure share, each with the log's
own words."""


class OwnLogs:
    """The logs of the failing jobs, each asked for at most once: the cache would fetch a log that
    is not final, or has no lines, each time."""

    def __init__(self, reader: Reader, jobs: Iterable[FailingJob]) -> None:
        self._reader = reader
        self._wanted = {job.job_id for job in jobs if job.job_id and job.read and job.excerpt}
        self._found: dict[int, Log | None] = {}

    def find(self, job_id: int) -> Log | None:
        """Return the log, None if the survey has seen no line of it or it cannot be read again."""
        if job_id in self._wanted and job_id not in self._found:
            log = read_or_unknown(lambda: self._reader.logs.read_log(job_id))
            self._found[job_id] = None if isinstance(log, Unknown) else log
        return self._found.get(job_id)


@dataclass(frozen=True, slots=True)
class _OwnErrors:
    """The errors of a job of this pipeline. `usual` are the shapes of lines that look like errors
    but are in the log of its last passed run too: in no run are they errors."""

    job: wire.JobRef
    errors: Errors = field(default_factory=dict[str, str])
    usual: frozenset[str] = frozenset()


def read_failure(log: Log, size: int, most: int) -> FailureLines:
    """Read the lines on its failure of the output of the command that ended the job: an excerpt of
    `size` bytes and at most `most` others, without errors that the job's last passed run has too.

    Of a very large log, only the lines of its excerpt are read.
    """
    if log.spool.size > MAX_LOG:
        return _drop_usual(log, read_excerpt_lines(log.preview(size)))
    cleaned = b"".join(log.spool.chunks())
    passed = (f"{line}\n".encode() for line in log.read_passed_lines())
    return _drop_usual(log, read_command_lines(cleaned, size, most, passed))


def read_excerpt(log: Log, size: int) -> tuple[str, ...]:
    """Read an excerpt of `size` bytes of a whole log, without errors that the job's last passed run
    has too."""
    cleaned = b"".join(log.spool.chunks()) if log.spool.size <= MAX_LOG else b""
    return _drop_usual(log, read_failure_lines(cleaned, log.preview(size), 0)).excerpt


def _drop_usual(log: Log, lines: FailureLines) -> FailureLines:
    return lines.drop_usual(lines.find_usual(log.read_passed_lines()))


def may_blame_host(log: Log) -> bool:
    """Whether the output of the failed command may tell of trouble of the network or the host."""
    excerpt = log.preview(TOLD).split("\n")
    return may_tell_of_host(keep_last_command(excerpt))


def read_own_errors(
    jobs: Sequence[wire.Job], logs: OwnLogs, pool: Executor
) -> dict[int, _OwnErrors]:
    """Read the errors of jobs of this pipeline whose logs the survey has read, by job id."""
    read = pool.map(lambda job: _read_own(job, logs), jobs)
    return {job.id: found for job, found in zip(jobs, read, strict=True)}


def read_errors(
    runs: Sequence[tuple[wire.Job, wire.Pipeline]],
    own: Iterable[_OwnErrors],
    reader: Reader,
    pool: Executor,
) -> dict[int, Errors]:
    """Read the errors of these jobs of other pipelines, by job id; none where they are unknown.
    What is usual in this pipeline's jobs of the same names is left out."""
    usual: dict[wire.JobRef, frozenset[str]] = {}
    for each in own:
        usual[each.job] = usual.get(each.job, frozenset()) | each.usual

    def read_one(job: wire.Job, pipeline: wire.Pipeline) -> Errors:
        expected = usual.get(job.ref, frozenset())
        found = read_or_unknown(lambda: _read_other(job, pipeline, expected, reader))
        return _NOTHING if isinstance(found, Unknown) else found

    read = pool.map(lambda run: read_one(*run), runs)
    return {job.id: found for (job, _), found in zip(runs, read, strict=True)}


def _read_own(job: wire.Job, logs: OwnLogs) -> _OwnErrors:
    log = logs.find(job.id)
    if log is None or log.spool.size > MAX_LOG or log.spool.dropped_lines:
        return _OwnErrors(job.ref)
    cleaned = b"".join(log.spool.chunks())
    lines = read_command_lines(cleaned, COMPARED)
    usual = lines.find_usual(log.read_passed_lines())
    errors = _find_errors(job.failure_reason, cleaned, lines.drop_usual(usual))
    return _OwnErrors(job.ref, errors, usual)


def _read_other(
    job: wire.Job, pipeline: wire.Pipeline, usual: frozenset[str], reader: Reader
) -> Errors:
    path = f"/projects/{get_project_id(pipeline, reader)}/jobs/{job.id}/trace"
    raw = b"".join(reader.client.stream(path, f"the log of job {job.id}", MAX_LOG))
    cleaned = reader.redact(trace.clean_trace(raw))
    return find_errors(cleaned, job.failure_reason, usual)


def find_errors(cleaned: bytes, reason: str | None, usual: frozenset[str] = frozenset()) -> Errors:
    """Find the errors of a cleaned log whose job failed for GitLab's `reason`, without those of a
    `usual` shape."""
    return _find_errors(reason, cleaned, read_command_lines(cleaned, COMPARED).drop_usual(usual))


def _find_errors(reason: str | None, cleaned: bytes, lines: FailureLines) -> Errors:
    """Find the errors of a log, of which `lines` are a part; none if the log may list too many to
    look at. Those of a job that timed out include its last words; without these there are none."""
    command = lines.command.name if lines.command else ""
    found: Errors = find_exact_errors(lines.excerpt, command)
    if len(cleaned) > COMPARED and lines.is_list():
        more = find_exact_errors(lines.failures, command)
        found = {**more, **found} if lines.is_whole else _NOTHING
    found = {**found, **find_messages(found.values(), trace.split_lines(cleaned))}
    if reason not in TIME_LIMITS:
        return found
    place = find_last_words(trace.split_lines(cleaned)[-_END:])
    return {**found, **place} if place else _NOTHING
