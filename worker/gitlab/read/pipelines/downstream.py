"""The pipelines that a pipeline has started: children, and those of other projects."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from worker.errors import SourceError
from worker.gitlab.read.api import wire
from worker.gitlab.read.api.lists import list_trigger_jobs
from worker.gitlab.read.base import present
from worker.gitlab.read.pipelines.last_passed_jobs import Trail
from worker.gitlab.read.session_reader import Reader
from worker.gitlab.read.survey.matrix import parse_dimensions

MAX_DEPTH = 4
MAX_PIPELINES = 25

PASSED = 20
"""The most passed jobs that are listed of a downstream pipeline."""

_QUERY = {"scope[]": "failed"}


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
            found = list_trigger_jobs(
                self._reader.client, path, f"the trigger jobs of pipeline {number}"
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
        return self._describe_child(entry, child, (*trail, bridge.name))

    def _describe_child(
        self, entry: dict[str, Any], child: wire.Pipeline, trail: Trail
    ) -> list[dict[str, Any]]:
        reader = self._reader
        project = child.project_id or reader.subject.pipeline_project_id
        try:
            if not reader.may_read(project):
                return [entry | {"not_read": f"project {project} is not one this session may read"}]
            path = f"/projects/{project}/pipelines/{child.id}"
            failed = self._list_failed_jobs(path, child.id, project, trail)
        except SourceError as error:
            self._seen.add(child.id)
            return [entry | {"not_read": str(error)}]
        allowed = bool(entry.get("allow_failure"))
        passed = self._list_passed_jobs(path, child.id, project, trail) if failed else []
        below = self.list_below(path, child.id, trail, allowed=allowed)
        return [entry | present(failed_jobs=failed, passed_jobs=passed), *below]

    def _list_passed_jobs(
        self, path: str, number: int, project: int, trail: Trail
    ) -> list[dict[str, Any]]:
        """Return the newest passed jobs of a pipeline; none if they cannot be read."""
        what, query = f"the passed jobs of pipeline {number}", {"scope[]": "success"}
        with suppress(SourceError):
            found = self._reader.client.page(f"{path}/jobs", wire.Job, what, 1, PASSED, query)
            self._allow_jobs(found.items, project, trail)
            return [{"id": job.id, "name": job.name} for job in reversed(found.items)]
        return []

    def _list_failed_jobs(
        self, path: str, number: int, project: int, trail: Trail
    ) -> list[dict[str, Any]]:
        found = self._reader.client.many(
            f"{path}/jobs", wire.Job, f"the failed jobs of pipeline {number}", _QUERY
        )
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
