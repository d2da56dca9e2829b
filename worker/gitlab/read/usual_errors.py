"""Tells the errors of a branch's failed jobs from what its passing jobs write as well.

Passing tests print lines that look like errors. If these are all that a failed job shows, its error
is not known, and it explains nothing of a merge request. It is looked at once, where the branch is
read: so what a merge request has in common with the branch need not be held against a passed run
again.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from worker.errors import SourceError
from worker.gitlab.read.api import ReadClient
from worker.incidents.errors import list_errors
from worker.incidents.record import BranchPipeline, JobEnd, JobOutcome
from worker.incidents.sightings import has_known_error, make_silent_error
from worker.logs import trace
from worker.logs.failure_lines import FailureLines

MOST_LOGS = 4
"""The most logs of passed runs that are read at a time."""

MAX_LOG = 8 * 1024 * 1024
"""Most bytes of such a log; a longer one is not compared."""


def drop_usual_errors(
    pipelines: Mapping[int, BranchPipeline],
    new: Collection[int],
    known: Collection[int],
    project_id: int,
    client: ReadClient,
    redact: Callable[[str], str],
) -> dict[int, BranchPipeline]:
    """Return the pipelines by their ids, the `new` ones without a known error in those jobs that
    show no other than the job's newest passed run. `known` are the ids of jobs whose errors were
    kept before. Raises transient SourceErrors.

    Where that run is not known, or its log cannot be read, the errors stay.
    """
    passed = {
        job.name: job
        for number in sorted(pipelines)
        for job in pipelines[number].jobs
        if job.outcome is JobOutcome.PASSED and job.job_id
    }
    failed = {
        job.name
        for number in new
        for job in pipelines[number].jobs
        if has_known_error(job) and job.name in passed and job.job_id not in known
    }
    logs = {
        name: _read_lines(passed[name], project_id, client, redact)
        for name in sorted(failed)[:MOST_LOGS]
    }
    found = dict(pipelines)
    for number in new:
        jobs = tuple(
            replace(job, errors=(make_silent_error(job.name),))
            if job.job_id not in known and _is_usual(job, logs.get(job.name, ()))
            else job
            for job in pipelines[number].jobs
        )
        found[number] = replace(pipelines[number], jobs=jobs)
    return found


def _read_lines(
    job: JobEnd, project_id: int, client: ReadClient, redact: Callable[[str], str]
) -> tuple[str, ...]:
    path, what = f"/projects/{project_id}/jobs/{job.job_id}/trace", f"the log of job {job.job_id}"
    try:
        raw = b"".join(client.stream(path, what, MAX_LOG))
    except SourceError as error:
        if error.transient:
            raise
        return ()
    text = redact(trace.clean_trace(raw).decode("utf-8", "replace"))
    return tuple(trace.split_lines(text.encode()))


def _is_usual(job: JobEnd, passed: tuple[str, ...]) -> bool:
    """Whether a passed run has all errors of a failed one."""
    if not job.errors or not passed:
        return False
    lines = FailureLines(tuple(text for _, text in job.errors), ())
    usual = lines.find_usual(passed)
    return bool(usual) and not list_errors(lines.drop_usual(usual).excerpt)
