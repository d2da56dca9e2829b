"""Finds failed pipelines of open merge requests, in case their webhooks were lost."""

import fnmatch
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from urllib.parse import quote

from worker.conversation.triggers import PipelineFailed
from worker.errors import SourceError
from worker.gitlab.read import wire
from worker.gitlab.read.api import ReadClient
from worker.verdict.facts import parse_time

PAUSE = 0.1
"""Seconds between two merge requests: a sweep is not urgent, and GitLab has a rate limit."""

_PROJECT_PAGES = 10
_MR_PAGES = 3
_MOST_UNREAD = 3
"""Unreadable merge requests of a project that are skipped before the project is given up."""

_WILD = re.compile(r"[*?\[]")


def find_failed_pipelines(
    client: ReadClient, globs: Sequence[str], since: float, sleep: Callable[[float], None]
) -> Iterator[PipelineFailed | str]:
    """See `GitLabReader.find_failed_pipelines`.

    `globs` are in lower case; without any, all projects of which the bot is a member are searched.
    """
    for project in _list_projects(client, globs):
        if isinstance(project, str):
            yield project
            continue
        try:
            yield from _find_in_project(client, project, since, sleep)
        except SourceError as error:
            yield str(error)


def _list_projects(client: ReadClient, globs: Sequence[str]) -> Iterator[wire.Project | str]:
    for path in globs:
        if not _WILD.search(path):
            yield _read_named_project(client, path)
    if not globs or any(_WILD.search(glob) for glob in globs):
        try:
            yield from _list_member_projects(client, globs)
        except SourceError as error:
            yield str(error)


def _read_named_project(client: ReadClient, path: str) -> wire.Project | str:
    try:
        where = f"/projects/{quote(path, safe='')}"
        project = client.one(where, wire.Project, f"the project {path}")
    except SourceError as error:
        return str(error)
    present = project.path_with_namespace
    renamed = f"the project {path} is {present} now: correct gitlab.projects"
    return project if present.lower() == path.lower() else renamed


def _list_member_projects(client: ReadClient, globs: Sequence[str]) -> Iterator[wire.Project | str]:
    """Yield the projects where the bot is a member and that a wildcard names; all without globs."""
    query = {"membership": "true", "archived": "false", "order_by": "id", "sort": "asc"}
    listed = client.many("/projects", wire.Project, "the projects", query, _PROJECT_PAGES)
    wild = [glob for glob in globs if _WILD.search(glob)]
    plain = set(globs) - set(wild)
    for project in listed.items:
        path = project.path_with_namespace.lower()
        named = not globs or any(fnmatch.fnmatchcase(path, glob) for glob in wild)
        if named and path not in plain:
            yield project
    if listed.more:
        yield f"only the first {len(listed.items)} projects were looked at: name fewer"


def _find_in_project(
    client: ReadClient, project: wire.Project, since: float, sleep: Callable[[float], None]
) -> Iterator[PipelineFailed | str]:
    path = f"/projects/{project.id}/merge_requests"
    query = {
        "state": "opened",
        "updated_after": datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "order_by": "updated_at",
        "sort": "desc",
    }
    what = f"the merge requests of {project.path_with_namespace}"
    listed = client.many(path, wire.MergeRequest, what, query, _MR_PAGES)
    unread = 0
    for each in listed.items:
        sleep(PAUSE)
        try:
            found = _find_failed_head(client, f"{path}/{each.iid}", each.iid, project)
        except SourceError as error:
            unread += 1
            if unread > _MOST_UNREAD:
                raise
            yield str(error)
            continue
        if found:
            yield found
    if listed.more:
        yield f"{what}: only the newest {len(listed.items)} were looked at"


def _find_failed_head(
    client: ReadClient, path: str, iid: int, project: wire.Project
) -> PipelineFailed | None:
    """Find the newest pipeline of the merge request, if it has failed. Raises SourceError."""
    mr = client.one(path, wire.MergeRequest, f"merge request !{iid}")
    head = mr.head_pipeline
    if head is None or head.status != "failed":
        return None
    return PipelineFailed(
        project_id=head.project_id or mr.source_project_id or project.id,
        pipeline_id=head.id,
        sha=head.sha,
        ref=mr.source_branch,
        mr_iid=mr.iid,
        mr_project_id=project.id,
        finished_at=int(parse_time(head.finished_at or "") or 0),
    )
