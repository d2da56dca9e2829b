"""The endpoints that sources read evidence from, beyond the merge request and its jobs."""

import io
import json
import re
import tarfile
import zipfile
from collections.abc import Sequence
from difflib import unified_diff
from typing import Any

from worker.lab.gitlab import views
from worker.lab.gitlab.protocol import (
    PAGING,
    Answer,
    Call,
    Refused,
    Route,
    make_page,
    refuse_not_found,
    refuse_strange,
)
from worker.lab.gitlab.state import Access, Project, Status

Json = dict[str, Any]


def list_pipelines(call: Call) -> Answer:
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


def list_trigger_jobs(call: Call) -> Answer:
    """List the trigger jobs of a pipeline by the path that GitLab has had since 19.2."""
    if call.world.version < (19, 2):
        raise Refused(404, {"error": "404 Not Found"})
    return list_bridges(call)


def list_bridges(call: Call) -> Answer:
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


def get_test_report(call: Call) -> Answer:
    """Return the test report: the suites as they were set, and the sums of their counts."""
    suites = call.find_pipeline().test_suites
    kinds = ("total", "success", "failed", "skipped", "error")
    sums = {f"{kind}_count": sum(each.get(f"{kind}_count", 0) for each in suites) for kind in kinds}
    return Answer(200, {"total_time": 1.5, **sums, "test_suites": suites})


def get_archive(call: Call) -> Answer:
    """Return the zip of a job's artifacts."""
    return Answer(200, headers={"content-type": "application/zip"}, raw=_find_archive(call))


def get_artifact(call: Call) -> Answer:
    """Return one file of a job's artifacts."""
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


def list_tree(call: Call) -> Answer:
    """List the files and folders below a folder."""
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


def get_source_archive(call: Call) -> Answer:
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


def search_text(call: Call) -> Answer:
    """Search files for a text, with one hit for each line."""
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


def compare_commits(call: Call) -> Answer:
    """Compare two commits.

    Without `straight`, a last commit that is an ancestor of the first adds nothing.
    """
    owner = call.find_project(Access.REPORTER)
    first, last = call.get_value("from"), call.get_value("to")
    old, new = _find_tree(call, owner, first), _find_tree(call, owner, last)
    before, after = (_list_ancestors(owner, owner.find_commit(each)) for each in (first, last))
    if set(after) <= set(before) and call.get_value("straight") != "true":
        old = new
    diffs = [
        {"old_path": path, "new_path": path, "a_mode": "100644", "b_mode": "100644"}
        | {"new_file": path not in old, "deleted_file": path not in new, "renamed_file": False}
        | {"diff": _make_hunk(old.get(path, b""), new.get(path, b""))}
        for path in sorted({*old, *new})
        if old.get(path) != new.get(path)
    ]
    known = (owner.history, *(mr.commits for mr in owner.merge_requests.values()))
    fresh = [each for line in known for each in line if each.sha in {*after} - {*before}]
    commits = [views.show_commit(each) for each in fresh]
    return Answer(200, {"commits": commits, "diffs": diffs, "compare_timeout": False})


def _list_ancestors(owner: Project, sha: str) -> list[str]:
    """List the known ancestors of a commit, oldest first, and then the commit itself."""
    for mr in owner.merge_requests.values():
        own = [each.sha for each in mr.commits]
        if sha in own:
            return [*_list_past(owner, mr.base_sha), *own[: own.index(sha) + 1]]
    return _list_past(owner, sha)


def _list_past(owner: Project, sha: str) -> list[str]:
    past = [each.sha for each in owner.history]
    return past[: past.index(sha) + 1] if sha in past else [sha]


def _make_hunk(old: bytes, new: bytes) -> str:
    gone, came = (each.decode(errors="replace").splitlines(keepends=True) for each in (old, new))
    return "".join([*unified_diff(gone, came)][2:])


def lint_configuration(call: Call) -> Answer:
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
            where, kind, path = _find_readable(call, each["project"]), "file", each["file"]
            inside = where.commits[where.refs[where.default_branch]]
        entry = {"type": kind, "location": path, "context_project": owner.path}
        includes.append(entry | {"extra": {"project": where.path} if kind == "file" else {}})
        if path not in inside:
            raise Refused(400, {"message": f"`{path}` of {where.path} does not exist"})
        _merge(call, where, inside[path], inside, parts, includes)
    parts.append(config.decode())


def _find_readable(call: Call, path: str) -> Project:
    project = call.world.find_project(path)
    if project is None or not (project.public or call.world.get_access(project, call.user)):
        raise Refused(400, {"message": f"Project `{path}` not found or access denied!"})
    return project


def get_commit(call: Call) -> Answer:
    """Return a commit by its hash, or the newest one of a branch."""
    owner, name = call.find_project(Access.REPORTER), call.params["sha"]
    sha = owner.find_commit(name)
    if sha not in owner.commits:
        refuse_not_found("Commit")
    return Answer(200, {"id": sha, "short_id": sha[:8]})


def list_commits(call: Call) -> Answer:
    """List the commits of the default branch, newest first: all, or those up to a given one."""
    owner = call.find_project(Access.REPORTER)
    name = call.get_value("ref_name", owner.default_branch)
    shas = [each.sha for each in owner.history]
    if name not in (owner.default_branch, *shas):
        refuse_not_found("Commit")
    end = shas.index(name) + 1 if name in shas else len(shas)
    return make_page(call, [views.show_commit(each) for each in reversed(owner.history[:end])])


def list_statuses(call: Call) -> Answer:
    """List the statuses that external systems reported on a commit."""
    owner = call.find_project(Access.REPORTER)
    if call.params["sha"] not in owner.commits:
        refuse_not_found("Commit")
    return make_page(call, _show_statuses(owner.statuses.get(call.params["sha"], [])))


def _show_statuses(statuses: Sequence[Status]) -> list[Json]:
    return [
        {"id": number, "name": each.name, "status": each.state, "ref": "main", "sha": ""}
        | {"description": each.description, "target_url": each.target_url, "pipeline_id": None}
        | {"allow_failure": each.allow_failure, "created_at": each.created_at}
        for number, each in enumerate(statuses, 1)
    ]


_PIPELINE = "projects/:id/pipelines/:pipeline"
_JOB = "projects/:id/jobs/:job"
_REPOSITORY = "projects/:id/repository"

ROUTES: tuple[Route, ...] = (
    Route("GET", "projects/:id/pipelines", list_pipelines, PAGING | {"ref", "sha", "status"}),
    Route("GET", f"{_PIPELINE}/bridges", list_bridges, PAGING),
    Route("GET", f"{_PIPELINE}/trigger_jobs", list_trigger_jobs, PAGING),
    Route("GET", f"{_PIPELINE}/test_report", get_test_report),
    Route("GET", f"{_JOB}/artifacts", get_archive),
    Route("GET", f"{_JOB}/artifacts/*path", get_artifact),
    Route("GET", f"{_REPOSITORY}/tree", list_tree, PAGING | {"ref", "path", "recursive"}),
    Route("GET", f"{_REPOSITORY}/archive.tar.gz", get_source_archive, frozenset({"sha", "path"})),
    Route("GET", f"{_REPOSITORY}/compare", compare_commits, frozenset({"from", "to", "straight"})),
    Route("GET", f"{_REPOSITORY}/commits", list_commits, PAGING | {"ref_name"}),
    Route("GET", f"{_REPOSITORY}/commits/:sha", get_commit),
    Route("GET", f"{_REPOSITORY}/commits/:sha/statuses", list_statuses, PAGING),
    Route("GET", "projects/:id/search", search_text, PAGING | {"scope", "search", "ref"}),
    Route("GET", "projects/:id/ci/lint", lint_configuration, frozenset({"content_ref"})),
)
