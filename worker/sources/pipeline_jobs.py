"""`gitlab_list_pipeline_jobs`: the jobs of a pipeline, all attempts, failed ones first."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from worker.arguments import Arguments
from worker.core.ports import Document
from worker.sources import wire
from worker.sources.base import SourceDef, present, to_json
from worker.sources.mr_details import pipeline_facts
from worker.sources.reader import Reader

PAGES = 20
"""Pages of 100 jobs."""


class PipelineJobs(Arguments):
    """Which pipeline."""

    pipeline_id: int = Field(
        default=0, ge=0, description="A pipeline of the same project; 0 for this session's."
    )


def fetch(args: PipelineJobs, reader: Reader) -> Document:
    """The pipeline and its jobs as JSON."""
    number = args.pipeline_id or reader.subject.pipeline_id
    path = f"{reader.pipeline_project}/pipelines/{number}"
    pipeline = reader.client.one(path, wire.Pipeline, f"pipeline {number}")
    found = reader.client.many(
        f"{path}/jobs",
        wire.Job,
        f"the jobs of pipeline {number}",
        {"include_retried": "true"},
        PAGES,
    )
    retried = retried_ids(found.items)
    jobs = sorted(found.items, key=lambda job: (_rank(job, retried), job.id))
    data = to_json(
        {
            "pipeline": pipeline_facts(pipeline),
            "counts": dict(Counter(job.status for job in jobs if job.id not in retried)),
            "jobs": [_facts(job, job.id in retried) for job in jobs],
        }
    )
    missing = _missing(pipeline, found.items, found.more, retried)
    return Document(data, missing=missing)


def retried_ids(jobs: Sequence[wire.Job]) -> frozenset[int]:
    """The jobs that were run again: GitLab does not say so, but a newer one has their name."""
    newest: dict[str, int] = {}
    for job in jobs:
        newest[job.name] = max(job.id, newest.get(job.name, 0))
    return frozenset(job.id for job in jobs if job.id != newest[job.name])


def _rank(job: wire.Job, retried: frozenset[int]) -> int:
    if job.status != "failed":
        return 3
    return 2 if job.id in retried else int(job.allow_failure)


def _facts(job: wire.Job, retried: bool) -> dict[str, Any]:
    return present(
        id=job.id,
        name=job.name,
        stage=job.stage,
        status=job.status,
        failure_reason=job.failure_reason,
        allow_failure=job.allow_failure,
        retried=retried,
        seconds=job.duration,
        started_at=job.started_at,
        finished_at=job.finished_at,
        runner=job.runner.description if job.runner else None,
        tags=list(job.tag_list),
        web_url=job.web_url,
    )


def _missing(
    pipeline: wire.Pipeline, jobs: Sequence[wire.Job], more: bool, retried: frozenset[int]
) -> str:
    if more:
        return f"jobs older than the newest {len(jobs)}"
    failed = [job for job in jobs if job.status == "failed" and job.id not in retried]
    if pipeline.status == "failed" and not failed and not pipeline.yaml_errors:
        return "the failed job: it may be in a child pipeline, whose jobs are not listed here"
    return ""


PIPELINE_JOBS = SourceDef(
    name="gitlab_list_pipeline_jobs",
    description=(
        "A pipeline and its jobs with id, stage, status and failure reason: failed ones first, "
        "earlier attempts of a retried job marked. Also shows errors in the CI configuration."
    ),
    args=PipelineJobs,
    fetch=fetch,
    note="the pipeline's jobs: which failed, why by GitLab's account, which were retried",
)
