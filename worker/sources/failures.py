"""What can be told of a failed pipeline without a model: its failed jobs and their logs' lines."""

from worker.core import logs
from worker.core.ports import FailedJob
from worker.errors import SourceError
from worker.sources import wire
from worker.sources.pipeline_jobs import PAGES, retried_ids
from worker.sources.reader import Reader

MOST_JOBS = 5
EXCERPT = 1500
"""Bytes of one job's log."""


def failed_jobs(reader: Reader) -> tuple[FailedJob, ...]:
    """The jobs that failed the pipeline, newest attempts only, at most five. Raises nothing."""
    path = f"{reader.pipeline_project}/pipelines/{reader.subject.pipeline_id}/jobs"
    try:
        found = reader.client.many(
            path, wire.Job, "the failed jobs", {"include_retried": "true"}, PAGES
        )
    except SourceError:
        return ()
    retried = retried_ids(found.items)
    failed = [
        job
        for job in found.items
        if job.status == "failed" and not job.allow_failure and job.id not in retried
    ]
    return tuple(_told(job, reader) for job in sorted(failed, key=lambda job: job.id)[:MOST_JOBS])


def _told(job: wire.Job, reader: Reader) -> FailedJob:
    try:
        excerpt = logs.preview(reader.logs.document(job.id).data, EXCERPT)
    except SourceError as error:
        excerpt = str(error)
    return FailedJob(job.id, job.name, job.failure_reason or "", job.web_url, excerpt)
