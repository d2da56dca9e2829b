"""`gitlab_list_pipeline_jobs`: the jobs of a pipeline, all attempts, failed ones first, and those
of the pipelines that it has started.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pydantic import Field

from worker.errors import SourceError
from worker.gitlab.read import wire
from worker.gitlab.read.api import Listing
from worker.gitlab.read.base import RawDocument, SourceDef, present
from worker.gitlab.read.last_passed_jobs import Trail
from worker.gitlab.read.merge_request import describe_pipeline
from worker.gitlab.read.session_reader import Reader
from worker.gitlab.read.wire import parse_dimensions
from worker.tools.arguments import Arguments

JOB_PAGES = 20
"""Pages of 100 jobs."""


class OfPipeline(Arguments):
    """Which pipeline."""

    pipeline_id: int = Field(
        default=0,
        ge=0,
        description="One of the merge request or its target branch; default: this one.",
    )


def _list_pipeline_jobs(args: OfPipeline, reader: Reader) -> RawDocument:
    """Return the pipeline, its jobs and those of the pipelines it has started, as JSON."""
    number = args.pipeline_id or reader.subject.pipeline_id
    path, pipeline, own = reader.find_pipeline(number, f"pipeline {number}")
    found = read_all_jobs(path, number, reader)
    started = DownstreamPipelines(reader, own=own)
    downstream = started.list_below(path, pipeline.id)
    retried, runs = find_retried_ids(found.items), _group_attempts(found.items)

    def rank(job: wire.Job) -> int:
        if job.status != "failed":
            return 3
        return 2 if job.id in retried else int(job.allow_failure)

    jobs = sorted(found.items, key=lambda job: (rank(job), job.id))
    content = {
        "pipeline": describe_pipeline(pipeline),
        "counts": dict(Counter(job.status for job in jobs if job.id not in retried)),
        "jobs": [_describe_attempt(job, job.id in retried, runs[job.name]) for job in jobs],
        **present(downstream=downstream),
    }
    failed = any(job.status == "failed" and job.id not in retried for job in jobs)
    missing = list(started.missing_parts)
    if found.more:
        missing.insert(0, f"jobs older than the newest {len(found.items)}")
    elif pipeline.status == "failed" and not (failed or downstream or pipeline.yaml_errors):
        why = "GitLab shows none, nor a child pipeline that the read token may see"
        missing.insert(0, f"the failed job: {why}")
    final = pipeline.status not in ("created", "pending", "running")
    return RawDocument(content, "; ".join(missing), final)


def read_all_jobs(path: str, number: int, reader: Reader) -> Listing[wire.Job]:
    """Return the jobs of the pipeline at `path`, earlier attempts too. Raises SourceError."""
    what = f"the jobs of pipeline {number}"
    query = {"include_retried": "true"}
    found = reader.client.many(f"{path}/jobs", wire.Job, what, query, JOB_PAGES)
    reader.binding.learn_jobs(number, found.items)
    return found


def _group_attempts(jobs: Sequence[wire.Job]) -> dict[str, list[int]]:
    runs: dict[str, list[int]] = {}
    for job in sorted(jobs, key=lambda job: job.id):
        runs.setdefault(job.name, []).append(job.id)
    return runs


def find_retried_ids(jobs: Sequence[wire.Job]) -> frozenset[int]:
    """Find retried jobs: GitLab does not mark them, but a newer job has the same name."""
    newest = {name: ids[-1] for name, ids in _group_attempts(jobs).items()}
    return frozenset(job.id for job in jobs if job.id != newest[job.name])


def _describe_attempt(job: wire.Job, retried: bool, runs: list[int]) -> dict[str, Any]:
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


PIPELINE_JOBS = SourceDef(
    name="gitlab_list_pipeline_jobs",
    description=(
        "A pipeline's jobs, every attempt, failed ones first: id, stage, status, failure reason; "
        "errors in the CI configuration; under `downstream` child and triggered pipelines with "
        "their failed jobs."
    ),
    args=OfPipeline,
    fetch=_list_pipeline_jobs,
)


MAX_DEPTH = 4
MAX_PIPELINES = 25

_PASSED_SHOWN = 20
"""The most passed jobs that are listed of a downstream pipeline."""


class DownstreamPipelines:
    """Follows the downstream pipelines of one pipeline. `missing_parts` says what was not read.

    Each pipeline is read once. `own` says that the first one is the merge request's: then all jobs
    that are found may be read, otherwise only those whose names an own pipeline has.
    """

    def __init__(self, reader: Reader, *, own: bool = True) -> None:
        self._reader = reader
        self._own = own
        self._seen: set[int] = set()
        self.missing_parts: list[str] = []

    def list_below(
        self, path: str, number: int, trail: Trail = (), *, allowed: bool = False
    ) -> list[dict[str, Any]]:
        """List all pipelines below the one at `path`, each with its failed jobs and, if there are
        any, its passed ones.

        `trail` names the trigger jobs that led to the one at `path`. `allowed` says that it may
        fail: then whatever it has started may fail too.
        """
        self._seen.add(number)
        try:
            found = self._reader.client.list_trigger_jobs(
                path, f"the trigger jobs of pipeline {number}"
            )
        except SourceError as error:
            self.missing_parts.append(str(error))
            return []
        if found.more:
            self.missing_parts.append(f"trigger jobs of pipeline {number} after {len(found.items)}")
        return [
            each
            for bridge in found.items
            for each in self._follow_bridge(bridge, number, trail, allowed)
        ]

    def _follow_bridge(
        self, bridge: wire.Bridge, parent: int, trail: Trail, allowed: bool
    ) -> list[dict[str, Any]]:
        entry = present(
            started_by=bridge.name,
            of_pipeline=parent,
            status=bridge.status,
            failure_reason=bridge.failure_reason,
            allow_failure=bridge.allow_failure or allowed,
        )
        child = bridge.downstream_pipeline
        if child is None:
            return [entry] if bridge.status == "failed" else []
        entry |= present(pipeline=child.id, pipeline_status=child.status, web_url=child.web_url)
        if child.id in self._seen:
            return []
        if len(self._seen) > MAX_PIPELINES or len(trail) >= MAX_DEPTH:
            self.missing_parts.append(
                f"pipeline {child.id} and what it has started: too many or too deep"
            )
            return [entry]
        reader, project = self._reader, child.project_id
        project = project or reader.subject.pipeline_project_id
        path, trail = f"/projects/{project}/pipelines/{child.id}", (*trail, bridge.name)
        try:
            if not reader.may_read(project):
                return [entry | {"not_read": f"project {project} is not one this session may read"}]
            failed = self._list_failed_jobs(path, child.id, project, trail)
        except SourceError as error:
            self._seen.add(child.id)
            return [entry | {"not_read": str(error)}]
        passed: Sequence[wire.Job] = ()
        what, query = f"the passed jobs of pipeline {child.id}", {"scope[]": "success"}
        with suppress(SourceError):
            if failed:
                found = reader.client.page(f"{path}/jobs", wire.Job, what, 1, _PASSED_SHOWN, query)
                self._allow_jobs(found.items, project, trail)
                passed = found.items[::-1]
        named = [{"id": job.id, "name": job.name} for job in passed]
        below = self.list_below(path, child.id, trail, allowed=bridge.allow_failure or allowed)
        return [entry | present(failed_jobs=failed, passed_jobs=named), *below]

    def _list_failed_jobs(
        self, path: str, number: int, project: int, trail: Trail
    ) -> list[dict[str, Any]]:
        what, query = f"the failed jobs of pipeline {number}", {"scope[]": "failed"}
        found = self._reader.client.many(f"{path}/jobs", wire.Job, what, query)
        self._allow_jobs(found.items, project, trail)
        return [
            present(
                id=job.id,
                name=job.name,
                **parse_dimensions(job.name),
                stage=job.stage,
                failure_reason=job.failure_reason,
                allow_failure=job.allow_failure,
                started_at=job.started_at,
                web_url=job.web_url,
            )
            for job in found.items
        ]

    def _allow_jobs(self, jobs: Sequence[wire.Job], project: int, trail: Trail) -> None:
        reader = self._reader
        for job in jobs:
            if self._own:
                reader.binding.learn_name(job.name)
            if self._own or reader.binding.has_name(job.name):
                reader.logs.allow_job(job.id, project, trail)
