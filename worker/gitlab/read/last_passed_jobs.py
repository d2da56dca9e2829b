"""Finds the last passed run of a job: on the branch that a session's pipeline is compared with, and
in the merge request's own earlier pipelines."""

import threading
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

from worker.conversation.context import Subject
from worker.errors import SourceError
from worker.gitlab.read import wire
from worker.gitlab.read.api import ReadClient

BRANCH_PIPELINES = 2
"""Passed pipelines of the target branch whose jobs are listed, and the most newer ones that did not
pass: the job itself may have passed there."""

_MR_PIPELINES = 2
"""Earlier pipelines of the merge request whose jobs are listed."""

_LISTED = 20
_JOB_PAGES = 5


@dataclass(frozen=True, slots=True)
class PassedJob:
    """A job that passed, with its project and pipeline."""

    project: int
    pipeline: wire.Pipeline
    job: wire.Job


Trail = tuple[str, ...]
"""The trigger jobs that led to a job, by name; () for a job of the pipeline itself."""


class LastPassedJobs:
    """Finds passed jobs by name; each list is read once. Safe to share between threads."""

    def __init__(self, client: ReadClient, subject: Subject) -> None:
        self._client = client
        self._subject = subject
        self._lock = threading.Lock()
        self._lists: dict[str, Sequence[wire.Pipeline]] = {}
        self._jobs: dict[tuple[int, Trail], dict[str, PassedJob]] = {}
        self._started: dict[int, dict[str, wire.Pipeline]] = {}
        """What each pipeline has started, by the names of the trigger jobs."""

    def find(
        self, name: str, deadline: float, trail: Trail = (), project: int = 0, before: int = 0
    ) -> PassedJob | None:
        """Return the newest passed run of the job `name` at the end of `trail`, or None.

        Unless `before` is 0, a run in a pipeline older than the one with that id is preferred. Past
        the deadline (monotonic) nothing is requested; a later call reads the lists that this one
        did not. `project` may be read too, besides the session's own.
        """
        allowed = {self._subject.project_id, self._subject.pipeline_project_id, project}
        with self._lock:
            self._client = self._client.with_deadline(deadline)
            later: PassedJob | None = None
            for pipeline in self._find_pipelines(deadline):
                where = pipeline.id, trail
                if where not in self._jobs and time.monotonic() <= deadline:
                    self._jobs[where] = {}  # none if they cannot be read
                    with suppress(SourceError):
                        self._jobs[where] = self._read_passed_jobs(pipeline, trail, allowed)
                found = self._jobs.get(where, {}).get(name)
                if found and (not before or pipeline.id < before):
                    return found
                later = later or found
        return later

    def _find_pipelines(self, deadline: float) -> list[wire.Pipeline]:
        """Return the pipelines, the newest first. A list that cannot be read before the deadline is
        left to a later call."""
        for name, read_list, most in (
            ("target branch", self._read_branch_pipelines, 2 * BRANCH_PIPELINES),
            ("merge request", self._read_merge_request_pipelines, _MR_PIPELINES),
        ):
            if name not in self._lists and time.monotonic() <= deadline:
                with suppress(SourceError):
                    self._lists[name] = read_list()[:most]
        found = (pipeline for pipelines in self._lists.values() for pipeline in pipelines)
        return sorted(found, key=lambda each: -each.id)

    def _read_branch_pipelines(self) -> Sequence[wire.Pipeline]:
        subject, branch = self._subject, self._subject.branch
        project = f"/projects/{subject.project_id}"
        if not branch:
            path = f"{project}/merge_requests/{subject.mr_iid}"
            branch = self._client.one(path, wire.MergeRequest, "the merge request").target_branch
        where = project, branch, f"the pipelines of {branch}", _LISTED
        listed = self._client.list_branch_pipelines(*where).items
        if subject.branch:  # what came later may be mended
            listed = tuple(each for each in listed if each.id < subject.pipeline_id)
        passed = [each for each in listed if each.status == "success"]
        if not passed:
            query = {"status": "success"}
            passed = [*self._client.list_branch_pipelines(*where, query).items]
        newest = passed[0].id if passed else 0
        newer = [each for each in listed if each.status != "success" and each.id > newest]
        return *newer[:BRANCH_PIPELINES], *passed[:BRANCH_PIPELINES]

    def _read_merge_request_pipelines(self) -> Sequence[wire.Pipeline]:
        """Return the merge request's pipelines before the session's own, passed ones first."""
        if (subject := self._subject).branch:
            return ()
        path = f"/projects/{subject.project_id}/merge_requests/{subject.mr_iid}/pipelines"
        what = "the merge request's pipelines"
        listed = self._client.page(path, wire.Pipeline, what, 1, _LISTED).items
        earlier = [each for each in listed if each.id < subject.pipeline_id]
        return sorted(earlier, key=lambda each: (each.status != "success", -each.id))

    def _read_passed_jobs(
        self, pipeline: wire.Pipeline, trail: Trail, allowed: Collection[int]
    ) -> dict[str, PassedJob]:
        project = pipeline.project_id or self._subject.project_id
        if project not in allowed:
            return {}
        if trail:
            if pipeline.id not in self._started:
                path = f"/projects/{project}/pipelines/{pipeline.id}"
                bridges = self._client.list_trigger_jobs(path, "the trigger jobs").items
                self._started[pipeline.id] = {
                    each.name: each.downstream_pipeline
                    for each in bridges
                    if each.downstream_pipeline
                }
            below = self._started[pipeline.id].get(trail[0])
            return self._read_passed_jobs(below, trail[1:], allowed) if below else {}
        path, what = f"/projects/{project}/pipelines/{pipeline.id}/jobs", "passed jobs"
        query = {"scope[]": "success"}
        found = self._client.many(path, wire.Job, what, query, _JOB_PAGES).items
        return {
            job.name: PassedJob(project, pipeline, job)
            for job in sorted(found, key=lambda job: job.id)
        }
