"""`gitlab_list_pipeline_jobs`: the jobs of a pipeline, all attempts, failed ones first."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from worker.gitlab.read.api import wire
from worker.gitlab.read.api.client import Listing
from worker.gitlab.read.base import RawDocument, SourceDef, present
from worker.gitlab.read.merge_request.details import describe_pipeline
from worker.gitlab.read.pipelines.downstream import DownstreamPipelines
from worker.gitlab.read.session_reader import Reader
from worker.gitlab.read.survey.matrix import parse_dimensions
from worker.tools.arguments import Arguments

PAGES = 20
"""Pages of 100 jobs."""


class OfPipeline(Arguments):
    """Which pipeline."""

    pipeline_id: int = Field(
        default=0,
        ge=0,
        description="One of the merge request or its target branch; default: this one.",
    )


def fetch(args: OfPipeline, reader: Reader) -> RawDocument:
    """Return the pipeline, its jobs and those of the pipelines it has started, as JSON."""
    number = args.pipeline_id or reader.subject.pipeline_id
    path, pipeline, own = reader.find_pipeline(number, f"pipeline {number}")
    found = read_all_jobs(path, number, reader)
    started = DownstreamPipelines(reader, own=own)
    downstream = started.list_below(path, pipeline.id)
    content = _describe_pipeline(pipeline, found.items) | present(downstream=downstream)
    missing = [*_list_missing(pipeline, found, bool(downstream)), *started.missing_parts]
    final = pipeline.status not in ("created", "pending", "running")
    return RawDocument(content, "; ".join(missing), final)


def read_all_jobs(path: str, number: int, reader: Reader) -> Listing[wire.Job]:
    """Return the jobs of the pipeline at `path`, earlier attempts too. Raises SourceError."""
    what = f"the jobs of pipeline {number}"
    query = {"include_retried": "true"}
    found = reader.client.many(f"{path}/jobs", wire.Job, what, query, PAGES)
    reader.binding.learn_jobs(number, found.items)
    return found


def _describe_pipeline(pipeline: wire.Pipeline, found: Sequence[wire.Job]) -> dict[str, Any]:
    retried = find_retried_ids(found)
    runs = _group_attempts(found)
    jobs = sorted(found, key=lambda job: (_rank_job(job, retried), job.id))
    return {
        "pipeline": describe_pipeline(pipeline),
        "counts": dict(Counter(job.status for job in jobs if job.id not in retried)),
        "jobs": [_describe_job(job, job.id in retried, runs[job.name]) for job in jobs],
    }


def _group_attempts(jobs: Sequence[wire.Job]) -> dict[str, list[int]]:
    runs: dict[str, list[int]] = {}
    for job in sorted(jobs, key=lambda job: job.id):
        runs.setdefault(job.name, []).append(job.id)
    return runs


def find_retried_ids(jobs: Sequence[wire.Job]) -> frozenset[int]:
    """Find retried jobs: GitLab does not mark them, but a newer job has the same name."""
    newest = {name: ids[-1] for name, ids in _group_attempts(jobs).items()}
    return frozenset(job.id for job in jobs if job.id != newest[job.name])


def _rank_job(job: wire.Job, retried: frozenset[int]) -> int:
    if job.status != "failed":
        return 3
    return 2 if job.id in retried else int(job.allow_failure)


def _describe_job(job: wire.Job, retried: bool, runs: list[int]) -> dict[str, Any]:
    attempt = f"{runs.index(job.id) + 1} of {len(runs)}" if len(runs) > 1 else None
    return present(
        id=job.id,
        name=job.name,
        **parse_dimensions(job.name),
        stage=job.stage,
        status=job.status,
        failure_reason=job.failure_reason,
        allow_failure=job.allow_failure,
        retried=retried,
        attempt=attempt,
        seconds=job.duration,
        started_at=job.started_at,
        finished_at=job.finished_at,
        runner=job.runner.description if job.runner else None,
        tags=list(job.tag_list),
        artifacts=any(file.file_type == "archive" for file in job.artifacts),
        web_url=job.web_url,
    )


def _list_missing(pipeline: wire.Pipeline, found: Listing[wire.Job], descended: bool) -> list[str]:
    if found.more:
        return [f"jobs older than the newest {len(found.items)}"]
    retried = find_retried_ids(found.items)
    failed = [job for job in found.items if job.status == "failed" and job.id not in retried]
    if pipeline.status != "failed" or failed or descended or pipeline.yaml_errors:
        return []
    return ["the failed job: GitLab shows none, nor a child pipeline that the read token may see"]


PIPELINE_JOBS = SourceDef(
    name="gitlab_list_pipeline_jobs",
    description=(
        "A pipeline's jobs, every attempt, failed ones first: id, stage, status, failure reason; "
        "errors in the CI configuration; under `downstream` child and triggered pipelines with "
        "their failed jobs."
    ),
    args=OfPipeline,
    fetch=fetch,
)
