"""The endpoints that sources read evidence from, beyond the merge request and its jobs."""

import io
import json
import re
import tarfile
import zipfile
from difflib import unified_diff
from typing import Any

from worker.lab.gitlab import views
from worker.lab.gitlab.protocol import (
    PAGING,
    Answer,
    Call,
    Refused,
    Routes,
    make_page,
    refuse_not_found,
    refuse_strange,
)
from worker.lab.gitlab.state import Access, Project

Json = dict[str, Any]

ROUTES = Routes()

_PIPELINE = "projects/:id/pipelines/:pipeline"
_JOB = "projects/:id/jobs/:job"
_REPOSITORY = "projects/:id/repository"


@ROUTES.add("GET", "projects/:id/pipelines", PAGING | {"ref", "sha", "status"})
def _list_pipelines(call: Call) -> Answer:
    """List the pipelines of a project, newest first, without child pipelines."""
    owner = call.find_project(Access.REPORTER)
    ref, sha, status = (call.get_value(field) for field in ("ref", "sha", "status"))
    # As in GitLab, a branch's list has the pipelines of the merge requests from it as well.
    refs = {"", ref, *(
        f"refs/merge-requests/{mr.iid}/{kind}"
        for mr in owner.merge_requests.values() if mr.source_branch == ref
        for kind in ("head", "merge", "train")
    )}  # fmt: skip
    pipelines = [
        each
        for each in sorted(call.world.pipelines.values(), key=lambda each: -each.id)
        if each.project is owner and (not ref or each.ref in refs)
        if each.source != "parent_pipeline"
        if sha in ("", each.sha) and status in ("", each.status)
    ]
    return make_page(call, [views.show_pipeline(each) for each in pipelines])


@ROUTES.add("GET", f"{_PIPELINE}/trigger_jobs", PAGING)
def _list_trigger_jobs(call: Call) -> Answer:
    """List the trigger jobs of a pipeline by the path that GitLab has had since 19.2."""
    if call.world.version < (19, 2):
        raise Refused(404, {"error": "404 Not Found"})
    return _list_bridges(call)


@ROUTES.add("GET", f"{_PIPELINE}/bridges", PAGING)
def _list_bridges(call: Call) -> Answer:
    """List the trigger jobs of a pipeline; all who see it also see the downstream pipelines."""
    bridges = [
        {
            "id": bridge.id,
            "name": bridge.name,
            "stage": "deploy",
            "status": bridge.status,
            "allow_failure": bridge.allow_failure,
            "downstream_pipeline": views.show_pipeline(bridge.downstream)
            if bridge.downstream
            else None,
        }
        for bridge in call.find_pipeline().bridges
    ]
    return make_page(call, bridges)


@ROUTES.add("GET", f"{_PIPELINE}/test_report")
def _get_test_report(call: Call) -> Answer:
    """Return the test report: the suites as they were set, and the sums of their counts."""
    suites = call.find_pipeline().test_suites
    kinds = ("total", "success", "failed", "skipped", "error")
    sums = {f"{kind}_count": sum(each.get(f"{kind}_count", 0) for each in suites) for kind in kinds}
    return Answer(200, {"total_time": 1.5, **sums, "test_suites": suites})


@ROUTES.add("GET", f"{_JOB}/artifacts")
def _get_archive(call: Call) -> Answer:
    return Answer(200, headers={"content-type": "application/zip"}, raw=_find_archive(call))


@ROUTES.add("GET", f"{_JOB}/artifacts/*path")
def _get_artifact(call: Call) -> Answer:
    with zipfile.ZipFile(io.BytesIO(_find_archive(call))) as archive:
        if call.params["path"] not in archive.namelist():
            refuse_not_found("")
        return Answer(
            200,
            headers={"content-type": "application/octet-stream"},
            raw=archive.read(call.params["path"]),
        )


def _find_archive(call: Call) -> bytes:
    archive = call.find_job().archive
    return refuse_not_found("") if archive is None else archive


def _find_tree(call: Call, owner: Project, name: str) -> dict[str, bytes]:
    sha = owner.find_commit(name)
    if sha not in owner.commits:
        refuse_not_found("Tree")
    return owner.commits[sha]


@ROUTES.add("GET", f"{_REPOSITORY}/tree", PAGING | {"ref", "path", "recursive"})
def _list_tree(call: Call) -> Answer:
    owner = call.find_project(Access.REPORTER)
    files = _find_tree(call, owner, call.get_value("ref", owner.default_branch))
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
    files = _find_tree(call, owner, name)
    folder = call.get_value("path").strip("/")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for path, content in sorted(files.items()):
            if not folder or path.startswith(f"{folder}/"):
                info = tarfile.TarInfo(f"{owner.path.rpartition('/')[2]}-{name}/{path}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return Answer(200, headers={"content-type": "application/octet-stream"}, raw=packed.getvalue())


@ROUTES.add("GET", "projects/:id/search", PAGING | {"scope", "search", "ref"})
def _search_text(call: Call) -> Answer:
    owner = call.find_project(Access.REPORTER)
    if call.get_value("scope") != "blobs":
        refuse_strange(400, "scope does not have a valid value")
    files = _find_tree(call, owner, call.get_value("ref", owner.default_branch))
    wanted = call.get_value("search")
    hits = [
        {"path": path, "startline": number, "data": f"{line}\n"}
        for path, content in sorted(files.items())
        for number, line in enumerate(content.decode(errors="replace").split("\n"), 1)
        if wanted in line
    ]
    return make_page(call, hits)


@ROUTES.add("GET", f"{_REPOSITORY}/compare", {"from", "to", "straight"})
def _compare_commits(call: Call) -> Answer:
    """Compare two commits.

    Without `straight`, a last commit that is an ancestor of the first adds nothing.
    """
    owner = call.find_project(Access.REPORTER)
    first, last = call.get_value("from"), call.get_value("to")
    old, new = _find_tree(call, owner, first), _find_tree(call, owner, last)
    before, after = (_list_ancestors(owner, owner.find_commit(each)) for each in (first, last))
    if set(after) <= set(before) and call.get_value("straight") != "true":
        old = new
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
    known = (owner.history, *(mr.commits for mr in owner.merge_requests.values()))
    fresh = [each for line in known for each in line if each.sha in {*after} - {*before}]
    commits = [views.show_commit(each) for each in fresh]
    return Answer(200, {"commits": commits, "diffs": diffs, "compare_timeout": False})


def _list_ancestors(owner: Project, sha: str) -> list[str]:
    """List the known ancestors of a commit, oldest first, and then the commit itself."""
    history, own = [each.sha for each in owner.history], list[str]()
    for mr in owner.merge_requests.values():
        shas = [each.sha for each in mr.commits]
        if sha in shas:
            own, sha = shas[: shas.index(sha) + 1], mr.base_sha
            break
    return [*(history[: history.index(sha) + 1] if sha in history else [sha]), *own]


@ROUTES.add("GET", "projects/:id/ci/lint", {"content_ref"})
def _lint_configuration(call: Call) -> Answer:
    """Return the CI configuration at a commit, merged with its includes, and its errors.

    As in GitLab, files of other projects are included with the rights of the requesting user.
    """
    owner = call.find_project(Access.REPORTER)
    files = _find_tree(call, owner, call.get_value("content_ref", owner.default_branch))
    config = files.get(".gitlab-ci.yml")
    errors = list(owner.ci_errors or ([] if config else ["Please provide content"]))
    parts: list[str] = []
    includes: list[Json] = []
    if config and not errors:
        try:
            _merge(call, owner, config, files, parts, includes)
        except Refused as error:
            errors, includes = [str(error)], []
    merged = None if errors else "---\n" + "".join(parts)
    result = {"valid": not errors, "errors": errors, "warnings": [], "includes": includes}
    return Answer(200, result | {"merged_yaml": merged})


def _merge(
    call: Call,
    owner: Project,
    config: bytes,
    files: dict[str, bytes],
    parts: list[str],
    includes: list[Json],
) -> None:
    """Add the texts of a file's includes to `parts`, then its own; list the includes in `includes`.

    Only a file in JSON, which is YAML too, can include others here.
    """
    parsed = json.loads(config) if config.startswith(b"{") else {}
    for each in parsed.get("include", []):
        where, kind, inside, path = owner, "local", files, each.get("local", "")
        if "project" in each:
            named = call.world.find_project(each["project"])
            if named is None or not (named.public or call.world.get_access(named, call.user)):
                message = f"Project `{each['project']}` not found or access denied!"
                raise Refused(400, {"message": message})
            where, kind, path = named, "file", each["file"]
            inside = where.commits[where.refs[where.default_branch]]
        entry = {"type": kind, "location": path, "context_project": owner.path}
        includes.append(entry | {"extra": {"project": where.path} if kind == "file" else {}})
        if path not in inside:
            raise Refused(400, {"message": f"`{path}` of {where.path} does not exist"})
        _merge(call, where, inside[path], inside, parts, includes)
    parts.append(config.decode())


@ROUTES.add("GET", f"{_REPOSITORY}/commits/:sha")
def _get_commit(call: Call) -> Answer:
    """Return a commit by its hash, or the newest one of a branch."""
    owner, name = call.find_project(Access.REPORTER), call.params["sha"]
    sha = owner.find_commit(name)
    if sha not in owner.commits:
        refuse_not_found("Commit")
    return Answer(200, {"id": sha, "short_id": sha[:8]})


@ROUTES.add("GET", f"{_REPOSITORY}/commits", PAGING | {"ref_name"})
def _list_commits(call: Call) -> Answer:
    """List the commits of the default branch, newest first: all, or those up to a given one."""
    owner = call.find_project(Access.REPORTER)
    name = call.get_value("ref_name", owner.default_branch)
    shas = [each.sha for each in owner.history]
    if name not in (owner.default_branch, *shas):
        refuse_not_found("Commit")
    end = shas.index(name) + 1 if name in shas else len(shas)
    return make_page(call, [views.show_commit(each) for each in reversed(owner.history[:end])])


@ROUTES.add("GET", f"{_REPOSITORY}/commits/:sha/statuses", PAGING)
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
