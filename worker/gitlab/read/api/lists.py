"""Lists of GitLab's that are not what their name says, or have another name in another version."""

from collections.abc import Mapping

from worker.gitlab.read.api import wire
from worker.gitlab.read.api.client import Listing, NotFound, ReadClient

_MOST_PAGES = 3


def list_trigger_jobs(client: ReadClient, pipeline: str, what: str) -> Listing[wire.Bridge]:
    """Return the trigger jobs of the pipeline at the path `pipeline`. Raises SourceError.

    From 19.2 on they are at `trigger_jobs`, before at `bridges`, which is to go: the one that has
    answered last is asked first.
    """
    first, second = client.trigger_job_names
    try:
        return client.many(f"{pipeline}/{first}", wire.Bridge, what)
    except NotFound:
        found = client.many(f"{pipeline}/{second}", wire.Bridge, what)
    client.trigger_job_names[:] = second, first
    return found


def list_branch_pipelines(
    client: ReadClient,
    project: str,
    branch: str,
    what: str,
    most: int,
    query: Mapping[str, str] | None = None,
) -> Listing[wire.Pipeline]:
    """Return a branch's newest pipelines, at most `most`. Raises SourceError.

    GitLab also lists those of the merge requests whose source branch it is, which are not the
    branch's: they run by other rules, and on other commits. Where there are very many of them,
    fewer are returned.
    """
    path, asked = f"{project}/pipelines", {**(query or {}), "ref": branch}
    found: list[wire.Pipeline] = []
    for number in range(1, _MOST_PAGES + 1):
        page = client.page(path, wire.Pipeline, what, number, most, asked)
        found += [each for each in page.items if not wire.OF_MR.match(each.ref)]
        if len(found) >= most or not page.more:
            break
    return Listing(tuple(found[:most]), page.more or len(found) > most)
