"""`gitlab_list_commit_statuses`: what jobs and outside systems have reported on a commit."""

from collections.abc import Collection
from typing import Any

from pydantic import Field

from worker.gitlab.read.api import wire
from worker.gitlab.read.base import RawDocument, SourceDef, present
from worker.gitlab.read.session_reader import Reader
from worker.safety.untrusted import one_line
from worker.tools.arguments import Arguments

PAGES = 5


class Statuses(Arguments):
    """Of which commit."""

    sha: str = Field(
        default="",
        pattern=r"^([0-9a-f]{7,64})?$",
        description="Default: the pipeline's.",
    )


def fetch(args: Statuses, reader: Reader) -> RawDocument:
    """Return the statuses as JSON, failed ones first."""
    sha = args.sha or reader.subject.sha
    path = f"{reader.find_projects(sha)[0]}/repository/commits/{sha}/statuses"
    what = f"the statuses of commit {sha}"
    found = reader.client.many(path, wire.Status, what, pages=PAGES)
    ordered = sorted(found.items, key=lambda each: each.status != "failed")
    missing = f"statuses after the first {len(found.items)}" if found.more else ""
    return RawDocument({"sha": sha, "statuses": list(map(_describe_status, ordered))}, missing)


def find_failed_outside(
    reader: Reader, ids: Collection[int], names: Collection[str]
) -> tuple[list[wire.Status], str]:
    """Find the failed statuses of other systems on the pipeline's commit, and what is missing.

    GitLab lists jobs of all the commit's pipelines among the statuses: `ids` and `names` are those
    of the pipeline's own jobs, to leave them out. Raises SourceError.
    """
    subject = reader.subject
    path = f"{reader.pipeline_project}/repository/commits/{subject.sha}/statuses"
    found = reader.client.many(path, wire.Status, "the commit's statuses", pages=PAGES)
    failed = [
        each
        for each in found.items
        if each.status == "failed"
        and not each.allow_failure
        and each.pipeline_id in (None, subject.pipeline_id)
        and each.id not in ids
        and each.name not in names
        and "/-/jobs/" not in (each.target_url or "")
    ]
    return failed, f"commit statuses after the first {len(found.items)}" if found.more else ""


def _describe_status(status: wire.Status) -> dict[str, Any]:
    return present(
        name=status.name,
        status=status.status,
        description=one_line(status.description or "", 500),
        target_url=status.target_url,
        allow_failure=status.allow_failure,
        pipeline=status.pipeline_id,
        at=status.created_at,
    )


STATUSES = SourceDef(
    name="gitlab_list_commit_statuses",
    description=(
        "What jobs and outside systems (Konflux, Testing Farm, scanners) reported on a commit, "
        "failed ones first, with description and link."
    ),
    args=Statuses,
    fetch=fetch,
)
