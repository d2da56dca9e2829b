"""The endpoints that sources read evidence from, beyond the merge request and its jobs."""

import io
import json
import zipfile
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
from worker.lab.gitlab.repository import get_tree
from worker.lab.gitlab.state import Access, Project

Json = dict[str, Any]

ROUTES = Routes()

_PIPELINE = "projects/:id/pipelines/:pipeline"
_JOB = "projects/:id/jobs/:job"


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


@ROUTES.add("GET", "projects/:id/search", PAGING | {"scope", "search", "ref"})
def _search_text(call: Call) -> Answer:
    owner = call.find_project(Access.REPORTER)
    if call.get_value("scope") != "blobs":
        refuse_strange(400, "scope does not have a valid value")
    files = get_tree(owner, call.get_value("ref", owner.default_branch))
    wanted = call.get_value("search")
    hits = [
        {"path": path, "startline": number, "data": f"{line}\n"}
        for path, content in sorted(files.items())
        for number, line in enumerate(content.decode(errors="replace").split("\n"), 1)
        if wanted in line
    ]
    return make_page(call, hits)


@ROUTES.add("GET", "projects/:id/ci/lint", {"content_ref"})
def _lint_configuration(call: Call) -> Answer:
    """Return the CI configuration at a commit, merged with its includes, and its errors.

    As in GitLab, files of other projects are included with the rights of the requesting user.
    """
    owner = call.find_project(Access.REPORTER)
    files = get_tree(owner, call.get_value("content_ref", owner.default_branch))
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
