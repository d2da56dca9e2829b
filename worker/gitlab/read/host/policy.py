"""Decides which merge requests are left alone, by the operator's settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from worker.gitlab.read.api import wire
from worker.gitlab.read.api.client import NotFound, ReadClient
from worker.gitlab.read.host.members import read_access_level

_DIFF_PAGES = 10


@dataclass(frozen=True, slots=True)
class Policy:
    """Which merge requests are not looked at unless a human asks.

    Labels are compared without regard to case. `skip_paths` are globs of file paths (`*` also
    matches slashes): a merge request that changes only such files is left alone. `fork_min_access`
    is the lowest access level in the target project at which an author counts as a member,
    `tier_min_access` the lowest at which somebody may choose a tier that costs more.
    """

    skip_labels: tuple[str, ...] = ()
    skip_drafts: bool = False
    skip_paths: tuple[str, ...] = ()
    bot_merge_requests: bool = False
    fork_min_access: int = 30
    tier_min_access: int = 40


DEFAULT = Policy()


def is_bot(client: ReadClient, user_id: int) -> bool:
    """Whether GitLab says that the account is a bot, whatever its name. Raises SourceError."""
    try:
        return client.one(f"/users/{user_id}", wire.Account, f"user {user_id}").bot
    except NotFound:
        return False


def is_fork(mr: wire.MergeRequest) -> bool:
    """Whether its source branch is in another project, or in a deleted one."""
    return mr.source_project_id != mr.target_project_id


def is_members(client: ReadClient, mr: wire.MergeRequest, policy: Policy) -> bool:
    """Whether its author is a member of the target project. Raises SourceError."""
    author = mr.author.id if mr.author else 0
    level = read_access_level(client, mr.target_project_id, author) if author else 0
    return level >= policy.fork_min_access


def explain_unwanted(client: ReadClient, mr: wire.MergeRequest, policy: Policy, ran_in: int) -> str:
    """Return the reason to leave a merge request alone, or "". Raises SourceError.

    `ran_in` is the project its pipeline ran in: for a fork, only a member can start a pipeline in
    the target project.
    """
    name = f"merge request !{mr.iid}"
    in_fork = is_fork(mr) and ran_in != mr.target_project_id
    if in_fork and not is_members(client, mr, policy):
        return (
            f"{name} comes from a fork of somebody below gitlab.fork_min_access; a member may ask "
            "for a look: /sandpiper analyze"
        )
    if policy.skip_drafts and mr.draft:
        return f"{name} is a draft (gitlab.skip_drafts)"
    unwelcome = {label.casefold() for label in policy.skip_labels}
    if label := next((each for each in mr.labels if each.casefold() in unwelcome), None):
        return f"{name} has the label {label} (gitlab.skip_labels)"
    if not policy.bot_merge_requests and mr.author and is_bot(client, mr.author.id):
        return f"{name} is by a bot (gitlab.bot_merge_requests)"
    if policy.skip_paths and _touches_only(client, mr, policy.skip_paths):
        return f"{name} changes only files that are left alone (gitlab.skip_paths)"
    return ""


def _touches_only(client: ReadClient, mr: wire.MergeRequest, globs: Sequence[str]) -> bool:
    path = f"/projects/{mr.target_project_id}/merge_requests/{mr.iid}/diffs"
    listed = client.many(path, wire.DiffFile, f"the diff of !{mr.iid}", pages=_DIFF_PAGES)
    paths = {path for each in listed.items for path in (each.old_path, each.new_path)}
    covered = all(any(fnmatchcase(path, glob) for glob in globs) for path in paths)
    return bool(paths) and covered and not listed.more
