"""What can be told of a failed pipeline without a model: its failed jobs and their logs' lines."""

from collections.abc import Iterator
from typing import Any

from worker.core.ports import FailedJob
from worker.errors import SourceError
from worker.sources.api import wire
from worker.sources.pipelines.downstream import Descent
from worker.sources.pipelines.pipeline_jobs import all_jobs, retried_ids
from worker.sources.session_reader import Reader

MOST_JOBS = 5
EXCERPT = 1500
"""Bytes of one job's log."""


def failed_jobs(reader: Reader) -> tuple[FailedJob, ...]:
    """The jobs that failed the pipeline, at most five. Raises nothing.

    Newest attempts only; its own jobs first, then those of the pipelines that it has started.
    """
    number = reader.subject.pipeline_id
    path = f"{reader.pipeline_project}/pipelines/{number}"
    found = list(_own(path, number, reader))
    if len(found) < MOST_JOBS:
        found += _below(path, number, reader)
    return reader.redact.value(tuple(_told(job, reader) for job in found[:MOST_JOBS]))


def _own(path: str, number: int, reader: Reader) -> Iterator[FailedJob]:
    try:
        listed = all_jobs(path, number, reader).items
    except SourceError:
        return
    retried = retried_ids(listed)
    for job in sorted(listed, key=lambda job: job.id):
        if job.status == "failed" and not job.allow_failure and job.id not in retried:
            yield _failed(job)


def _failed(job: wire.Job) -> FailedJob:
    return FailedJob(job.id, job.name, job.failure_reason or "", job.web_url, "")


def _below(path: str, number: int, reader: Reader) -> Iterator[FailedJob]:
    for pipeline in Descent(reader).below(path, number):
        if not pipeline.get("allow_failure"):
            jobs = pipeline.get("failed_jobs", ())
            yield from (_child(job) for job in jobs if not job.get("allow_failure"))


def _child(job: dict[str, Any]) -> FailedJob:
    name, reason = str(job.get("name", "")), str(job.get("failure_reason", ""))
    return FailedJob(int(job["id"]), name, reason, str(job.get("web_url", "")), "")


def _told(job: FailedJob, reader: Reader) -> FailedJob:
    try:
        excerpt = reader.logs.log(job.job_id).preview(EXCERPT)
    except SourceError as error:
        excerpt = str(error)
    return FailedJob(job.job_id, job.name, job.reason, job.url, excerpt)
