"""`gitlab_list_branch_pipelines`: the newest pipelines of the target branch or another one."""

from pydantic import Field

from worker.gitlab.read.api import wire
from worker.gitlab.read.api.client import Listing
from worker.gitlab.read.api.lists import list_branch_pipelines
from worker.gitlab.read.base import RawDocument, SourceDef
from worker.gitlab.read.merge_request.details import describe_pipeline
from worker.gitlab.read.session_reader import Reader
from worker.tools.arguments import Arguments

SHOWN = 30


class BranchPipelines(Arguments):
    """Of which branch."""

    branch: str = Field(
        default="",
        max_length=300,
        description="Default: the target branch.",
    )


def fetch(args: BranchPipelines, reader: Reader) -> RawDocument:
    """Return the newest pipelines as JSON, newest first."""
    branch = args.branch or reader.binding.target_branch()
    found = read_recent_pipelines(branch, SHOWN, reader)
    content = {"branch": branch, "pipelines": [describe_pipeline(each) for each in found.items]}
    missing = f"pipelines before the newest {SHOWN}" if found.more else ""
    if not found.items:
        missing = f"pipelines: branch {branch} has none, or the read token may not see them"
    return RawDocument(content, missing)


def read_recent_pipelines(branch: str, count: int, reader: Reader) -> Listing[wire.Pipeline]:
    """Read the newest pipelines of a branch of the merge request's project. Raises SourceError."""
    what = f"the pipelines of {branch}"
    return list_branch_pipelines(reader.client, reader.target_project, branch, what, count)


BRANCH_PIPELINES = SourceDef(
    name="gitlab_list_branch_pipelines",
    description="The newest pipelines of a branch: status and commit, newest first.",
    args=BranchPipelines,
    fetch=fetch,
)
