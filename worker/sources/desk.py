"""What the job itself reads of GitLab: whose pipeline, which thread, who may ask."""

import fnmatch
import logging
import re
from collections.abc import Sequence
from urllib.parse import quote

from worker.core.context import Subject
from worker.core.ports import ThreadNote
from worker.core.triggers import PipelineFailed
from worker.sources import wire
from worker.sources.client import NotFound, ReadClient
from worker.sources.delta import since

log = logging.getLogger("sandpiper.desk")

# Merged-results pipelines and merge trains run on a commit that GitLab makes (wire-gitlab 3).
_SYNTHETIC = re.compile(r"refs/merge-requests/\d+/(merge|train)$")
_PIPELINE_PAGES = 2


class GitLabDesk:
    """The Desk over GitLab.

    `projects` are globs of allowed project paths (`*` also crosses slashes; none allows all);
    `min_access` is the access level (30 is Developer) from which a member may command.
    """

    def __init__(
        self, client: ReadClient, gitlab_url: str, projects: Sequence[str], min_access: int
    ) -> None:
        self._client = client
        self._url = gitlab_url.rstrip("/")
        self._globs = tuple(glob.lower() for glob in projects)
        self._min_access = min_access

    def subject(self, trigger: PipelineFailed) -> Subject | str:
        """The merge request of a failed pipeline that still matters, or the reason why not."""
        pipeline = self._pipeline(trigger.project_id, trigger.pipeline_id)
        if pipeline.status != "failed":
            return f"pipeline {pipeline.id} is {pipeline.status} by now"
        if pipeline.source == "parent_pipeline":
            return f"pipeline {pipeline.id} is a child pipeline: its parent is looked at instead"
        mr = self._merge_request(trigger)
        if mr is None:
            return f"no open merge request for branch {trigger.ref} at {trigger.sha}"
        project = self._project(str(mr.target_project_id))
        return (
            self._not_allowed(project)
            or _settled(mr)
            or _outdated(mr, pipeline)
            or self._bound(project, mr, pipeline, trigger.project_id)
        )

    def find(self, project: str, mr_iid: int, pipeline_id: int | None) -> Subject | str:
        """The merge request `mr_iid` of the project at path `project`, for a human who asks.

        Its newest failed pipeline unless one is named; how old it is does not matter.
        """
        found = self._project(quote(project, safe=""), f"the project {project}")
        if reason := self._not_allowed(found):
            return reason
        path = f"/projects/{found.id}/merge_requests/{mr_iid}"
        name = f"{found.path_with_namespace}!{mr_iid}"
        mr = self._client.one(path, wire.MergeRequest, f"merge request {name}")
        listed = self._client.many(
            f"{path}/pipelines", wire.Pipeline, f"the pipelines of {name}", pages=_PIPELINE_PAGES
        )
        pipeline = _chosen(listed.items, pipeline_id, name)
        if isinstance(pipeline, str):
            return pipeline
        return self._bound(found, mr, pipeline, pipeline.project_id or found.id)

    def thread(self, project_id: int, mr_iid: int, discussion_id: str) -> Sequence[ThreadNote]:
        """The notes of a thread, oldest first."""
        path = f"/projects/{project_id}/merge_requests/{mr_iid}/discussions/"
        thread = self._client.one(
            path + quote(discussion_id, safe=""), wire.Discussion, f"discussion {discussion_id}"
        )
        return [
            ThreadNote(note.id, note.author.id, note.body, note.system, note.internal)
            for note in thread.notes
        ]

    def may_command(self, project_id: int, user_id: int) -> bool:
        """Whether the user is an active member at or above `min_access`."""
        path = f"/projects/{project_id}/members/all/{user_id}"
        try:
            member = self._client.one(path, wire.Member, f"member {user_id}")
        except NotFound:
            return False
        return member.state == "active" and member.access_level >= self._min_access

    def since(self, subject: Subject) -> Sequence[str]:
        """What has changed since `subject` was looked at, one line each. Raises nothing."""
        return since(self._client, subject)

    def _pipeline(self, project_id: int, pipeline_id: int) -> wire.Pipeline:
        path = f"/projects/{project_id}/pipelines/{pipeline_id}"
        what = f"pipeline {pipeline_id} of project {project_id}"
        return self._client.one(path, wire.Pipeline, what)

    def _project(self, id_or_path: str, what: str = "") -> wire.Project:
        path = f"/projects/{id_or_path}"
        return self._client.one(path, wire.Project, what or f"project {id_or_path}")

    def _merge_request(self, trigger: PipelineFailed) -> wire.MergeRequest | None:
        project, iid = trigger.mr_project_id or trigger.project_id, trigger.mr_iid
        if not iid:
            found = self._by_branch(trigger)
            if found is None:
                return None
            project, iid = found.target_project_id, found.iid
        path = f"/projects/{project}/merge_requests/{iid}"
        return self._client.one(path, wire.MergeRequest, f"merge request !{iid}")

    def _by_branch(self, trigger: PipelineFailed) -> wire.MergeRequest | None:
        """The open merge request of a branch pipeline; a fork's may go to the parent project."""
        projects = [trigger.project_id]
        if parent := self._project(str(trigger.project_id)).forked_from_project:
            projects.append(parent.id)
        found = [mr for project in projects for mr in self._open(project, trigger)]
        if len(found) > 1:
            names = ", ".join(f"!{mr.iid} to {mr.target_branch}" for mr in found)
            log.info("pipeline %d: the oldest of %s is taken", trigger.pipeline_id, names)
        return found[0] if found else None

    def _open(self, project: int, trigger: PipelineFailed) -> list[wire.MergeRequest]:
        query = {"source_branch": trigger.ref, "state": "opened"}
        path = f"/projects/{project}/merge_requests"
        listed = self._client.many(path, wire.MergeRequest, "open merge requests", query)
        found = [
            mr
            for mr in listed.items
            if mr.sha == trigger.sha and mr.source_project_id == trigger.project_id
        ]
        return sorted(found, key=lambda mr: mr.iid)

    def _not_allowed(self, project: wire.Project) -> str:
        path = project.path_with_namespace
        if not self._globs or any(fnmatch.fnmatchcase(path.lower(), glob) for glob in self._globs):
            return ""
        return f"project {path} is not among gitlab.projects"

    def _bound(
        self, project: wire.Project, mr: wire.MergeRequest, pipeline: wire.Pipeline, ran_in: int
    ) -> Subject:
        return Subject(
            gitlab_url=self._url,
            project_id=project.id,
            project=project.path_with_namespace,
            mr_iid=mr.iid,
            pipeline_project_id=ran_in,
            pipeline_id=pipeline.id,
            sha=pipeline.sha,
            web_url=mr.web_url,
        )


def _settled(mr: wire.MergeRequest) -> str:
    return "" if mr.state == "opened" else f"merge request !{mr.iid} is {mr.state}"


def _outdated(mr: wire.MergeRequest, pipeline: wire.Pipeline) -> str:
    head = mr.head_pipeline
    if head is not None and head.id > pipeline.id:
        return f"pipeline {pipeline.id} is superseded by pipeline {head.id}"
    if _SYNTHETIC.match(pipeline.ref):
        is_head = head is not None and head.id == pipeline.id
        return "" if is_head else f"pipeline {pipeline.id} is not the head of !{mr.iid}"
    if mr.sha != pipeline.sha:
        return f"merge request !{mr.iid} has moved on from {pipeline.sha} to {mr.sha}"
    return ""


def _chosen(
    pipelines: Sequence[wire.Pipeline], pipeline_id: int | None, name: str
) -> wire.Pipeline | str:
    if pipeline_id is None:
        failed = [each for each in pipelines if each.status == "failed"]
        return max(failed, key=lambda each: each.id) if failed else f"{name} has no failed pipeline"
    named = next((each for each in pipelines if each.id == pipeline_id), None)
    if named is None:
        return f"pipeline {pipeline_id} is not one of the pipelines of {name}"
    if named.status != "failed":
        return f"pipeline {pipeline_id} of {name} is {named.status}, not failed"
    return named
