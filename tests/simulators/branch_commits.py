"""Commits, landings and merge requests of a simulated project, with GitLab's own texts.

Each change adds a line to the files it touches, so that changes can be merged, picked and reverted.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff

from tests.simulators.gitlab.trains import make_forward, merge_files, merge_trees
from worker.lab.gitlab.history import find_tree
from worker.lab.gitlab.state import Commit, DiffFile, MergeRequest, Project, User
from worker.lab.gitlab.world import World

Tree = Mapping[str, bytes]
CONFIG = ".gitlab-ci.yml"


@dataclass(frozen=True, slots=True)
class Change:
    """What a commit is to do: by whom, when, to which files; or whose landing it takes back or
    takes over. `texts` are whole files."""

    name: str
    author: User
    at: str
    files: Sequence[str] = ()
    reverts: str = ""
    picks: str = ""
    texts: Tree | None = None


def apply_change(owner: Project, tree: Tree, change: Change) -> dict[str, bytes]:
    """Return `tree` with the change: no other files than `files` are touched, if they are named."""
    made = dict(tree)
    for sha in filter(None, (change.reverts, change.picks)):
        for path, (gone, came) in list_changed(owner, sha).items():
            if change.files and path not in change.files:
                continue
            old, new = (came, gone) if sha == change.reverts else (gone, came)
            lines = made.get(path, b"").splitlines(keepends=True)
            kept = [line for line in lines if line not in old and line not in new]
            made[path] = b"".join([*kept, *new])
    for path in change.files:
        if made.get(path) == tree.get(path):
            made[path] = made.get(path, b"") + f"# changed by {change.name}\n".encode()
    return made | dict(change.texts or {})


def list_changed(owner: Project, sha: str) -> dict[str, tuple[list[bytes], list[bytes]]]:
    """Return the lines that a commit takes away and those that it adds, by their files."""
    before, after = find_tree(owner, owner.records[sha].parents[0]) or {}, owner.commits[sha]
    changed: dict[str, tuple[list[bytes], list[bytes]]] = {}
    for path in {*before, *after} - {CONFIG}:
        old, new = (each.get(path, b"").splitlines(keepends=True) for each in (before, after))
        if old != new:
            gone = [line for line in old if line not in new]
            changed[path] = gone, [line for line in new if line not in old]
    return changed


def add_commit(
    owner: Project,
    tree: Tree,
    parents: Sequence[str],
    change: Change,
    title: str,
    message: str = "",
) -> Commit:
    """Add a commit with these files to no branch."""
    told = f"{owner.path}\n{parents}\n{title}\n{change.name}\n{change.at}"
    sha = hashlib.sha1(told.encode()).hexdigest()
    full = f"{title}\n\n{message}".strip() + "\n"
    owner.commits[sha] = dict(tree)
    owner.records[sha] = Commit(sha, title, change.author, change.at, full, tuple(parents))
    return owner.records[sha]


def describe(owner: Project, change: Change) -> tuple[str, str]:
    """Return the title and the rest of the message of a change's commit, as GitLab makes them."""
    if change.reverts:
        found = owner.records[change.reverts]
        merged = [
            mr for mr in owner.merge_requests.values() if mr.merge_commit_sha == change.reverts
        ]
        what = f"merge request !{merged[0].iid}" if merged else f"commit {change.reverts}"
        return f'Revert "{found.title}"', f"This reverts {what}"
    if change.picks:
        found = owner.records[change.picks]
        body = found.message.removeprefix(found.title).strip()
        return found.title, f"{body}\n\n(cherry picked from commit {change.picks})".strip()
    first = next(iter(change.files), "notes")
    return f"Work on {first.rpartition('/')[2]} for {change.name}", ""


# -------------------------------------------------------------------------------- merge requests


def open_request(
    world: World,
    owner: Project,
    iid: int,
    change: Change,
    *,
    base: str,
    target: str = "main",
    branch: str = "",
    source: Project | None = None,
    stacked_on: MergeRequest | None = None,
) -> MergeRequest:
    """Open a merge request with one commit on `base`, or on the commits of another."""
    origin, below = source or owner, base
    parents: tuple[str, ...] = (base,)
    if stacked_on:
        below = stacked_on.sha
        parents = (below,) if stacked_on.base_sha == base else (below, base)
    title, message = describe(owner, change)
    tree = apply_change(owner, find_tree(owner, below) or {}, change)
    commit = add_commit(origin, tree, parents, change, title, message)
    named = f"revert-{change.reverts[:8]}" if change.reverts else f"{change.author.username}-{iid}"
    mr = MergeRequest(
        id=world.make_id("mr"),
        iid=iid,
        project=owner,
        source_project=origin,
        author=change.author,
        title=title,
        source_branch=branch or named,
        target_branch=target,
        sha=commit.sha,
        base_sha=base,
        created_at=change.at,
        updated_at=change.at,
        description=message,
        commits=[*(stacked_on.commits if stacked_on else ()), commit],
    )
    owner.merge_requests[iid] = mr
    _keep_head(mr, change.at)
    return mr


def update_request(mr: MergeRequest, change: Change) -> None:
    """Push one more commit to the merge request's branch."""
    tree = apply_change(mr.project, find_tree(mr.project, mr.sha) or {}, change)
    title, message = describe(mr.project, change)
    mr.commits.append(add_commit(mr.source_project, tree, (mr.sha,), change, title, message))
    _keep_head(mr, change.at)


def rebase_request(mr: MergeRequest, onto: str, at: str) -> None:
    """Let the merge request's commits stand on another commit of the target."""
    below, made = onto, list[Commit]()
    for old in mr.commits:
        before = find_tree(mr.project, old.parents[0]) or {}
        mine = find_tree(mr.project, old.sha) or {}
        under = find_tree(mr.project, onto) if below == onto else mr.source_project.commits[below]
        tree = merge_trees(before, mine, under or {})
        change = Change(f"{old.title} on {onto}", old.author, at)
        body = old.message.removeprefix(old.title).strip()
        made.append(add_commit(mr.source_project, tree, (below,), change, old.title, body))
        below = made[-1].sha
    mr.commits[:], mr.base_sha = made, onto
    _keep_head(mr, at)


def _keep_head(mr: MergeRequest, at: str) -> None:
    """Let the branch, the head and the diff follow the newest of the commits."""
    mr.sha = mr.commits[-1].sha
    mr.source_project.refs[mr.source_branch] = mr.sha
    mr.updated_at = at
    old = find_tree(mr.project, mr.base_sha) or {}
    new = find_tree(mr.project, mr.sha) or {}
    mr.diffs[:] = make_diffs(old, new)


def make_diffs(old: Tree, new: Tree) -> list[DiffFile]:
    """Make the files of a diff."""
    return [
        DiffFile(
            path,
            "".join([*_diff_lines(old.get(path, b""), new.get(path, b""))][2:]),
            new_file=path not in old,
            deleted_file=path not in new,
        )
        for path in sorted({*old, *new})
        if old.get(path) != new.get(path)
    ]


def _diff_lines(old: bytes, new: bytes) -> Iterable[str]:
    return unified_diff(old.decode().splitlines(True), new.decode().splitlines(True))


# -------------------------------------------------------------------------------- landings


def land_push(owner: Project, branch: str, change: Change) -> str:
    """Push a commit to a branch, which is made from the default branch if it is new; returns it."""
    tip = owner.refs.get(branch) or owner.refs[owner.default_branch]
    title, message = describe(owner, change)
    tree = apply_change(owner, owner.commits[tip], change)
    owner.refs[branch] = add_commit(owner, tree, (tip,), change, title, message).sha
    return owner.refs[branch]


def land_request(
    mr: MergeRequest, change: Change, *, squash: bool = False, forward: bool = False
) -> str:
    """Merge a merge request to its target: as a merge commit, as a single one that is squashed, or
    by moving the branch forward to what its train has made; returns it."""
    owner, target = mr.project, mr.target_branch
    tip = owner.refs.get(target) or owner.refs[owner.default_branch]
    if forward and not squash:
        mr.merged_commit_sha = owner.refs[target] = make_forward(mr, tip, change.at)
        mr.state, mr.merged_at, mr.updated_at = "merged", change.at, change.at
        return mr.merged_commit_sha
    tree = {**merge_files(mr, owner.commits[tip]), **(change.texts or {})}
    if squash:
        commit = add_commit(owner, tree, (tip,), change, mr.title)
        mr.squash, mr.squash_commit_sha = True, commit.sha
    else:
        title = f"Merge branch '{mr.source_branch}' into '{target}'"
        message = f"{mr.title}\n\nSee merge request {owner.path}!{mr.iid}"
        commit = add_commit(owner, tree, (tip, mr.sha), change, title, message)
        mr.merge_commit_sha = commit.sha
    owner.refs[target] = commit.sha
    mr.state, mr.merged_at, mr.updated_at = "merged", change.at, change.at
    return commit.sha


def land_car(mr: MergeRequest, sha: str, at: str) -> str:
    """Merge a merge request by moving its target to the commit that its merge train has run on."""
    mr.merge_commit_sha = mr.project.refs[mr.target_branch] = sha
    mr.state, mr.merged_at, mr.updated_at = "merged", at, at
    return sha
