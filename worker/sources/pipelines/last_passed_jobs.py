"""A job's last passed run, found with few requests: on the target branch, or in earlier pipelines
of the merge request."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from worker.core.conversation.context import Subject
from worker.errors import SourceError
from worker.sources.api import wire
from worker.sources.api.client import ReadClient

BRANCH_PIPELINES = 2
"""Passed pipelines of the target branch whose jobs are listed."""

MR_PIPELINES = 2
"""Earlier pipelines of the merge request whose jobs are listed."""

_LISTED = 20
_JOB_PAGES = 5


@dataclass(frozen=True, slots=True)
class PassedJob:
    """A job that passed, with its project and pipeline."""

    project: int
    pipeline: wire.Pipeline
    job: wire.Job


class LastPassedJobs:
    """Finds passed jobs by name; each list is read once. Safe to share between threads."""

    def __init__(self, client: ReadClient, subject: Subject) -> None:
        self._client = client
        self._subject = subject
        self._lock = threading.Lock()
        self._known: list[dict[str, PassedJob]] = []
        self._rest: Iterator[dict[str, PassedJob]] | None = None

    def find(self, name: str, deadline: float) -> PassedJob | None:
        """The newest passed run of the job `name`, or None; asks nothing past the deadline."""
        with self._lock:
            for jobs in self._known:
                if name in jobs:
                    return jobs[name]
            if self._rest is None:
                self._rest = self._list_passed(self._client.with_deadline(deadline))
            for jobs in self._rest:
                self._known.append(jobs)
                if name in jobs:
                    return jobs[name]
        return None

    def _list_passed(self, client: ReadClient) -> Iterator[dict[str, PassedJob]]:
        """The passed jobs by name, one pipeline at a time. Requests that fail are left out."""
        for pipelines, most in (
            (partial(self._read_branch_pipelines, client), BRANCH_PIPELINES),
            (partial(self._read_merge_request_pipelines, client), MR_PIPELINES),
        ):
            with suppress(SourceError):
                for pipeline in pipelines()[:most]:
                    yield self._read_passed_jobs(client, pipeline)

    def _read_branch_pipelines(self, client: ReadClient) -> Sequence[wire.Pipeline]:
        project = f"/projects/{self._subject.project_id}"
        mr_path = f"{project}/merge_requests/{self._subject.mr_iid}"
        mr = client.one(mr_path, wire.MergeRequest, "the merge request")
        query = {"ref": mr.target_branch, "status": "success"}
        what = f"the pipelines of {mr.target_branch}"
        path = f"{project}/pipelines"
        return client.page(path, wire.Pipeline, what, 1, _LISTED, query).items

    def _read_merge_request_pipelines(self, client: ReadClient) -> Sequence[wire.Pipeline]:
        """The merge request's pipelines before the session's own, passed ones first."""
        subject = self._subject
        path = f"/projects/{subject.project_id}/merge_requests/{subject.mr_iid}/pipelines"
        what = "the merge request's pipelines"
        listed = client.page(path, wire.Pipeline, what, 1, _LISTED).items
        earlier = [each for each in listed if each.id < subject.pipeline_id]
        return sorted(earlier, key=lambda each: (each.status != "success", -each.id))

    def _read_passed_jobs(
        self, client: ReadClient, pipeline: wire.Pipeline
    ) -> dict[str, PassedJob]:
        project = pipeline.project_id or self._subject.project_id
        if project not in (self._subject.project_id, self._subject.pipeline_project_id):
            return {}
        path, what = f"/projects/{project}/pipelines/{pipeline.id}/jobs", "passed jobs"
        query = {"scope[]": "success"}
        found = client.many(path, wire.Job, what, query, _JOB_PAGES).items
        return {
            job.name: PassedJob(project, pipeline, job) for job in sorted(found, key=_get_job_id)
        }


def _get_job_id(job: wire.Job) -> int:
    return job.id
