"""Which projects are served, and their pipelines by number."""

import fnmatch
from collections.abc import Mapping, Sequence
from contextlib import suppress

from worker.gitlab.read import wire
from worker.gitlab.read.api import NotFound, ReadClient
from worker.gitlab.read.policy import Memberships


class ServedReads:
    """The part of GitLabReader that reads projects, if they are served. Raises SourceError.

    `projects` are as in GitLabReader.
    """

    def __init__(self, client: ReadClient, projects: Sequence[str]) -> None:
        self._client = client
        self._globs = tuple(glob.lower() for glob in projects)
        self._memberships = Memberships(client)

    def _read_pipeline(self, project_id: int, pipeline_id: int) -> wire.Pipeline | str:
        """Return the pipeline, or that it is gone."""
        path = f"/projects/{project_id}/pipelines/{pipeline_id}"
        what = f"pipeline {pipeline_id} of project {project_id}"
        try:
            return self._client.one(path, wire.Pipeline, what)
        except NotFound as error:
            return str(error)

    def _read_project(self, id_or_path: str, what: str = "") -> wire.Project:
        path = f"/projects/{id_or_path}"
        return self._client.one(path, wire.Project, what or f"project {id_or_path}")

    def _read_served(
        self, project_id: int, *, or_parent: bool = False
    ) -> Mapping[int, wire.Project] | str:
        """Return the project by its id if it is served, with `or_parent` also the one that it is a
        fork of; the reason if none is served."""
        try:
            found = [self._read_project(str(project_id))]
        except NotFound:
            if self._globs:
                raise
            return f"project {project_id}: the bot is no member there, and gitlab.projects is empty"
        parent = found[0].forked_from_project
        with suppress(NotFound):
            if or_parent and parent:
                found.append(self._read_project(str(parent.id)))
        refused = {}
        for project in found:
            reason = self._explain_unlisted(project)
            if not self._globs and (reason := self._memberships.explain_refusal(project.id)):
                reason = f"project {project.path_with_namespace}: {reason}"
            refused[project.id] = reason
        served = {project.id: project for project in found if not refused[project.id]}
        return served or refused[found[0].id]

    def _explain_unlisted(self, project: wire.Project) -> str:
        path = project.path_with_namespace
        if not self._globs or any(fnmatch.fnmatchcase(path.lower(), glob) for glob in self._globs):
            return ""
        return f"project {path} is not among gitlab.projects"
