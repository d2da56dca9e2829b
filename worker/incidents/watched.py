"""Which branches are watched, and which pipelines say something of their branch. Pure."""

from collections.abc import Collection
from fnmatch import fnmatchcase

from worker.settings.runs import DEFAULT_BRANCH

_OF_NO_BRANCH = frozenset(
    {
        "container_registry_push",
        "duo_workflow",
        "external_pull_request_event",
        "merge_request_event",
        "ondemand_dast_scan",
        "ondemand_dast_validation",
        "parent_pipeline",
        "pipeline_execution_policy_schedule",
        "security_orchestration_policy",
        "webide",
    }
)
"""Sources of pipelines that are not their branch's: a merge request's, a child, and those that
GitLab itself does not count for a branch's status ("dangling").

See `Enums::Ci::Pipeline.ci_branch_sources` in GitLab's source.
"""


def is_watched(branch: str, default_branch: str, watched: Collection[str]) -> bool | None:
    """Whether a branch is among the watched ones: names, globs (`*` also matches slashes), or
    `default`. None if that takes the default branch, and `default_branch` is "". A merge request's
    ref is no branch."""
    if not branch or branch.startswith("refs/"):
        return False
    if any(each != DEFAULT_BRANCH and fnmatchcase(branch, each) for each in watched):
        return True
    if DEFAULT_BRANCH not in watched:
        return False
    return branch == default_branch if default_branch else None


def is_of_branch(source: str) -> bool:
    """Whether a pipeline from this source is its branch's own. One without a source is."""
    return source not in _OF_NO_BRANCH
