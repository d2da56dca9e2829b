"""A job's last passed run, found with few requests: on the target branch, or in earlier pipelines
of the merge request."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

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
        self._rest = self._list_passed()

    def find(self, name: str, deadline: float) -> PassedJob | None:
        """Return the newest passed run of the job `name`, or None. Past the deadline (monotonic)
        nothing is requested; a later call reads the lists that this one did not."""
        with self._lock:
            for jobs in self._known:
                if name in jobs:
                    return jobs[name]
            self._client = self._client.with_deadline(deadline)
            while time.monotonic() <= deadline:
                read = next(self._rest, None)
                if read is None:
                    break
                self._known.append(read)
                if name in read:
                    return read[name]
        return None

    def _list_passed(self) -> Iterator[dict[str, PassedJob]]:
        """Yield the passed jobs by name, one pipeline at a time; nothing for failed requests."""
        for list_pipelines, most in (
            (self._read_branch_pipelines, BRANCH_PIPELINES),
            (self._read_merge_request_pipelines, MR_PIPELINES),
        ):
            pipelines: Sequence[wire.Pipeline] = ()
            with suppress(SourceError):
                pipelines = list_pipelines()
            for pipeline in pipelines[:most]:
                with suppress(SourceError):
                    yield self._read_passed_jobs(pipeline)

    def _read_branch_pipelines(self) -> Sequence[wire.Pipeline]:
        project = f"/projects/{self._subject.project_id}"
        mr_path = f"{project}/merge_requests/{self._subject.mr_iid}"
        mr = self._client.one(mr_path, wire.MergeRequest, "the merge request")
        query = {"ref": mr.target_branch, "status": "success"}
        what = f"the pipelines of {mr.target_branch}"
        path = f"{project}/pipelines"
        return self._client.page(path, wire.Pipeline, what, 1, _LISTED, query).items

    def _read_merge_request_pipelines(self) -> Sequence[wire.Pipeline]:
        """The merge request's pipelines before the session's own, passed ones first."""
        subject = self._subject
        path = f"/projects/{subject.project_id}/merge_requests/{subject.mr_iid}/pipelines"
        what = "the merge request's pipelines"
        listed = self._client.page(path, wire.Pipeline, what, 1, _LISTED).items
        earlier = [each for each in listed if each.id < subject.pipeline_id]
        return sorted(earlier, key=lambda each: (each.status != "success", -each.id))

    def _read_passed_jobs(self, pipeline: wire.Pipeline) -> dict[str, PassedJob]:
        project = pipeline.project_id or self._subject.project_id
        if project not in (self._subject.project_id, self._subject.pipeline_project_id):
            return {}
        path, what = f"/projects/{project}/pipelines/{pipeline.id}/jobs", "passed jobs"
        query = {"scope[]": "success"}
        found = self._client.many(path, wire.Job, what, query, _JOB_PAGES).items
        return {
            job.name: PassedJob(project, pipeline, job) for job in sorted(found, key=_get_job_id)
        }


def _get_job_id(job: wire.Job) -> int:
    return job.id
