"""Finds the pipelines of watched branches that have ended, in case their webhooks were lost.

One request for each watched branch of a project, and one more for globs of branches, which find
those among the project's newest pipelines.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from worker.errors import SourceError
from worker.gitlab.ports import EndedRun
from worker.gitlab.read import wire
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.policy import PAUSE, list_projects
from worker.incidents.watched import is_of_branch, is_watched
from worker.settings.runs import DEFAULT_BRANCH
from worker.verdict.facts import parse_time

ENDED = ("failed", "success", "manual")
"""Statuses of a pipeline whose jobs have ended, but for those that somebody has to play."""

MOST_BRANCHES = 20
"""The most branches of a project that are looked at."""

_RUNS, _NEWEST = 20, 100
"""How many pipelines of a branch are looked at, and of a project for branches by globs."""

_WILD = re.compile(r"[*?\[]")


def find_ended_runs(
    client: ReadClient,
    globs: Sequence[str],
    watched: Sequence[str],
    since: float,
    sleep: Callable[[float], None],
) -> Iterator[Sequence[EndedRun] | str]:
    """Find the pipelines of watched branches: see `GitLabReader.find_ended_runs`."""
    for project in list_projects(client, globs) if watched else ():
        if isinstance(project, str):
            yield project
            continue
        try:
            branches = _list_branches(client, project, watched)
        except SourceError as error:
            yield str(error)
            continue
        for branch in branches[:MOST_BRANCHES]:
            sleep(PAUSE)
            try:
                if found := _list_ended(client, project, branch, since):
                    yield found
            except SourceError as error:
                yield str(error)
        if len(branches) > MOST_BRANCHES:
            yield (
                f"only {MOST_BRANCHES} of {len(branches)} watched branches of "
                f"{project.path_with_namespace} were looked at"
            )


def _list_branches(
    client: ReadClient, project: wire.Project, watched: Sequence[str]
) -> Sequence[str]:
    """List the names of a project's watched branches. Raises SourceError."""
    names = [project.default_branch or "" if each == DEFAULT_BRANCH else each for each in watched]
    found = dict.fromkeys(name for name in names if name and not _WILD.search(name))
    if any(_WILD.search(each) for each in watched):
        what = f"the newest pipelines of {project.path_with_namespace}"
        path = f"/projects/{project.id}/pipelines"
        for each in client.page(path, wire.Pipeline, what, 1, _NEWEST).items:
            is_own = is_of_branch(each.source) and not wire.OF_MR.match(each.ref)
            if is_own and is_watched(each.ref, project.default_branch or "", watched):
                found[each.ref] = None
    return tuple(found)


def _list_ended(
    client: ReadClient, project: wire.Project, branch: str, since: float
) -> Sequence[EndedRun]:
    """List the branch's pipelines that have ended and were touched since. Raises SourceError."""
    what = f"the pipelines of {project.path_with_namespace}"
    listed = client.list_branch_pipelines(f"/projects/{project.id}", branch, what, _RUNS)
    return tuple(
        EndedRun(
            project_id=project.id,
            branch=branch,
            pipeline_id=each.id,
            sha=each.sha,
            has_passed=each.status == "success",
            updated_at=each.updated_at or "",
        )
        for each in listed.items
        if each.status in ENDED and is_of_branch(each.source) and not each.tag
        if (parse_time(each.updated_at or each.created_at or "") or since) >= since
    )
