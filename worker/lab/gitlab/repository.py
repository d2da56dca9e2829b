"""The endpoints of a project's repository: files, branches, commits and what lies between them.

See https://docs.gitlab.com/api/commits/, …/branches/ and …/repositories/.
"""

import io
import re
import tarfile
from collections.abc import Mapping
from datetime import datetime
from difflib import unified_diff
from typing import Any

from worker.lab.gitlab import views
from worker.lab.gitlab.history import (
    Graph,
    find_merge_base,
    find_tip,
    find_tree,
    list_ancestors,
    list_commits,
    make_graph,
)
from worker.lab.gitlab.protocol import (
    PAGING,
    Answer,
    Call,
    Refused,
    Routes,
    get_moment,
    make_page,
    refuse_not_found,
    refuse_strange,
)
from worker.lab.gitlab.state import Access, Commit, Project

Json = dict[str, Any]

ROUTES = Routes()

_REPOSITORY = "projects/:id/repository"
_COMMIT = f"{_REPOSITORY}/commits/:sha"


def get_tree(owner: Project, name: str) -> dict[str, bytes]:
    """Return the files of the commit that `name` stands for; 404 if they are not known."""
    sha = owner.find_commit(name)
    return owner.commits[sha] if sha in owner.commits else refuse_not_found("Tree")


@ROUTES.add("GET", f"{_REPOSITORY}/tree", PAGING | {"ref", "path", "recursive"})
def _list_tree(call: Call) -> Answer:
    owner = call.find_project(Access.REPORTER)
    files = get_tree(owner, call.get_value("ref", owner.default_branch))
    top = call.get_value("path").strip("/")
    inside = [path for path in files if not top or path.startswith(f"{top}/")]
    if not inside:
        refuse_not_found("Tree")
    folders = {path[: at.start()] for path in inside for at in re.finditer("/", path)}
    entries = [(each, "tree") for each in folders if len(each) > len(top)]
    entries += [(each, "blob") for each in inside]
    if call.get_value("recursive", "false") not in {"true", "1"}:
        depth = top.count("/") + bool(top)
        entries = [each for each in entries if each[0].count("/") == depth]
    return make_page(call, [{"type": kind, "path": path} for path, kind in sorted(entries)])


@ROUTES.add("GET", f"{_REPOSITORY}/archive.tar.gz", {"sha", "path"})
def _get_source_archive(call: Call) -> Answer:
    """Return the source as a tar.gz with one top folder."""
    owner = call.find_project(Access.REPORTER)
    name = call.get_value("sha", owner.default_branch)
    files = get_tree(owner, name)
    folder = call.get_value("path").strip("/")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for path, content in sorted(files.items()):
            if not folder or path.startswith(f"{folder}/"):
                info = tarfile.TarInfo(f"{owner.path.rpartition('/')[2]}-{name}/{path}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return Answer(200, headers={"content-type": "application/octet-stream"}, raw=packed.getvalue())


def _show_diffs(old: Mapping[str, bytes], new: Mapping[str, bytes]) -> list[Json]:
    diffs: list[Json] = []
    for path in sorted(each for each in {*old, *new} if old.get(each) != new.get(each)):
        gone, came = (
            files.get(path, b"").decode(errors="replace").splitlines(keepends=True)
            for files in (old, new)
        )
        diffs.append(
            {"old_path": path, "new_path": path, "a_mode": "100644", "b_mode": "100644"}
            | {"new_file": path not in old, "deleted_file": path not in new, "renamed_file": False}
            | {"diff": "".join([*unified_diff(gone, came)][2:])}
        )
    return diffs


@ROUTES.add("GET", f"{_REPOSITORY}/compare", {"from", "to", "straight"})
def _compare_commits(call: Call) -> Answer:
    """Compare two commits; without `straight`, the last one with where it left the first's line.

    The commits are those that the last one has and the first has not, the oldest first.
    """
    owner = call.find_project(Access.REPORTER)
    graph = make_graph(owner)
    first, last = (find_tip(owner, call.get_value(field)) for field in ("from", "to"))
    old, new = find_tree(owner, first), find_tree(owner, last)
    if old is None or new is None:
        refuse_not_found("Ref")
    base = find_merge_base(graph, (first, last))
    if call.get_value("straight") != "true":
        from_base = find_tree(owner, base)
        old = old if from_base is None else from_base
    known = set(list_ancestors(graph, first))
    fresh = [graph[each] for each in list_ancestors(graph, last) if each in graph]
    commits = [views.show_commit(each) for each in reversed(fresh) if each.sha not in known]
    return Answer(200, {
        "commit": commits[-1] if commits else None,
        "commits": commits,
        "diffs": _show_diffs(old, new),
        "compare_timeout": False,
        "compare_same_ref": first == last,
    })  # fmt: skip


@ROUTES.add("GET", f"{_REPOSITORY}/merge_base", {"refs[]"})
def _get_merge_base(call: Call) -> Answer:
    owner = call.find_project(Access.REPORTER)
    graph, names = make_graph(owner), call.query.get("refs[]", [])
    if len(names) < 2:
        refuse_strange(400, "Provide at least 2 refs")
    tips = [find_tip(owner, name) for name in names]
    unknown = [name for name, tip in zip(names, tips, strict=True) if tip not in graph]
    if unknown:
        noun = "refs" if len(unknown) > 1 else "ref"
        raise Refused(400, {"message": f"Could not find {noun}: {', '.join(unknown)}"})
    base = find_merge_base(graph, tips)
    if base not in graph:
        refuse_not_found("Merge Base")
    return Answer(200, views.show_commit(graph[base]))


def _find_commit(call: Call) -> tuple[Project, Graph, str]:
    """Find the commit of the path: by its hash, or the newest one of a branch."""
    owner = call.find_project(Access.REPORTER)
    graph, sha = make_graph(owner), find_tip(owner, call.params["sha"])
    if sha not in owner.commits and sha not in graph:
        refuse_not_found("Commit")
    return owner, graph, sha


@ROUTES.add("GET", _COMMIT, {"stats"})
def _get_commit(call: Call) -> Answer:
    """Return a commit by its hash, or the newest one of a branch."""
    owner, graph, sha = _find_commit(call)
    if sha not in graph:
        return Answer(200, {"id": sha, "short_id": sha[:8]})
    runs = [each for each in call.world.pipelines.values() if each.project is owner]
    last = max((each for each in runs if each.sha == sha), key=lambda each: each.id, default=None)
    more = {"project_id": owner.id, "last_pipeline": views.show_pipeline(last) if last else None}
    return Answer(200, views.show_commit(graph[sha]) | more)


@ROUTES.add("GET", f"{_COMMIT}/diff", PAGING | {"unidiff"})
def _list_commit_diff(call: Call) -> Answer:
    """List what a commit changes against its first parent."""
    owner, graph, sha = _find_commit(call)
    parents = graph[sha].parents if sha in graph else ()
    before = find_tree(owner, parents[0]) if parents else None
    return make_page(call, _show_diffs(before or {}, find_tree(owner, sha) or {}))


@ROUTES.add("GET", f"{_COMMIT}/merge_requests", PAGING | {"state"})
def _list_commit_merge_requests(call: Call) -> Answer:
    """List the merge requests that contain the commit, or that it has merged, newest first."""
    owner, _, sha = _find_commit(call)
    state = call.get_value("state", "all")
    if state not in {"opened", "closed", "locked", "merged", "all"}:
        refuse_strange(400, "state does not have a valid value")
    found = [
        mr
        for _, mr in sorted(owner.merge_requests.items(), reverse=True)
        if sha in {mr.merge_commit_sha, mr.squash_commit_sha, mr.merged_commit_sha}
        or sha in {each.sha for each in mr.commits}
        if state in {"all", mr.state}
    ]
    return make_page(call, [views.show_merge_request(mr) for mr in found])


_LISTED = frozenset({"ref_name", "first_parent", "since", "until", "path"})


@ROUTES.add("GET", f"{_REPOSITORY}/commits", PAGING | _LISTED)
def _list_commits(call: Call) -> Answer:
    """List the commits of a branch, up to a commit, or of a range A..B, newest first."""
    owner = call.find_project(Access.REPORTER)
    graph, name = make_graph(owner), call.get_value("ref_name", owner.default_branch)
    first_parent = call.get_value("first_parent", "false") in {"true", "1"}
    found = list_commits(owner, graph, name, first_parent=first_parent)
    if found is None:
        refuse_not_found("Commit")
    since, until = get_moment(call, "since"), get_moment(call, "until")
    path = call.get_value("path")
    return make_page(call, [
        views.show_commit(each)
        for each in found
        if since is None or datetime.fromisoformat(each.created_at) >= since
        if until is None or datetime.fromisoformat(each.created_at) <= until
        if not path or path in _list_changed_paths(owner, each)
    ])  # fmt: skip


def _list_changed_paths(owner: Project, commit: Commit) -> set[str]:
    """List the paths, and their folders, in which the commit differs from its first parent."""
    before = find_tree(owner, commit.parents[0]) if commit.parents else None
    old, new = before or {}, find_tree(owner, commit.sha) or {}
    changed = {each for each in {*old, *new} if old.get(each) != new.get(each)}
    return changed | {each[: at.start()] for each in changed for at in re.finditer("/", each)}


@ROUTES.add("GET", f"{_COMMIT}/statuses", PAGING)
def _list_statuses(call: Call) -> Answer:
    owner = call.find_project(Access.REPORTER)
    if call.params["sha"] not in owner.commits:
        refuse_not_found("Commit")
    return make_page(call, [
        {"id": number, "name": each.name, "status": each.state, "ref": "main", "sha": ""}
        | {"description": each.description, "target_url": each.target_url, "pipeline_id": None}
        | {"allow_failure": each.allow_failure, "created_at": each.created_at}
        for number, each in enumerate(owner.statuses.get(call.params["sha"], []), 1)
    ])  # fmt: skip


@ROUTES.add("GET", f"{_REPOSITORY}/branches/:branch")
def _get_branch(call: Call) -> Answer:
    """Return a branch as the asking user sees it; 404 for one that is deleted."""
    owner, name = call.find_project(Access.REPORTER), call.params["branch"]
    if name not in owner.refs:
        refuse_not_found("Branch")
    tip, need = find_tip(owner, name), owner.protected_branches.get(name, Access.DEVELOPER)
    commit = make_graph(owner).get(tip)
    return Answer(200, {
        "name": name,
        "default": name == owner.default_branch,
        "protected": name in owner.protected_branches,
        "can_push": call.world.get_access(owner, call.user) >= need and not owner.archived,
        "web_url": f"{owner.web_url}/-/tree/{name}",
        "commit": views.show_commit(commit) if commit else {"id": tip, "short_id": tip[:8]},
    })  # fmt: skip
