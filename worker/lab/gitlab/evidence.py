"""The endpoints that sources read evidence from, beyond the merge request and its jobs."""

import io
import json
import zipfile
from collections.abc import Iterator
from datetime import datetime, timedelta
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
from worker.lab.gitlab.state import Access, Job, Pipeline, Project

Json = dict[str, Any]

ROUTES = Routes()

_PIPELINE = "projects/:id/pipelines/:pipeline"
_JOB = "projects/:id/jobs/:job"

REPORT_LIFE = timedelta(minutes=2)
"""For how long GitLab gives the same test report again."""

STATUSES = ("success", "failed", "skipped", "error")
EMPTY_CASE: Json = {
    "status": "success", "name": "(No name)", "classname": None, "file": None,
    "execution_time": 0.1, "system_output": None, "stack_trace": None, "recent_failures": None,
    "attachment_url": None,
}  # fmt: skip


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
    """Return the report of the newest attempts, as it was when somebody asked in the last two
    minutes, or the suites as they were set."""
    pipeline = call.find_pipeline()
    jobs = [job for job in _list_reporting(pipeline) if job.is_report_kept]
    if not jobs:
        return Answer(200, _sum_up(pipeline.test_suites))
    now = datetime.fromisoformat(call.world.advance_clock())
    if not pipeline.shown_report or now - pipeline.shown_report[0] >= REPORT_LIFE:
        pipeline.shown_report = now, _sum_up([_show_suite(*each) for each in _group(jobs)])
    return Answer(200, pipeline.shown_report[1])


@ROUTES.add("GET", f"{_PIPELINE}/test_report_summary")
def _get_test_report_summary(call: Call) -> Answer:
    """Return the counts of the newest attempts as they were stored when each job had ended; they
    stay when a report expires, and come later than the report."""
    pipeline = call.find_pipeline()
    jobs = [job for job in _list_reporting(pipeline) if job.is_summarised]
    suites = [(_show_suite(*each), [job.id for job in each[1]]) for each in _group(jobs)]
    for suite in pipeline.test_suites:
        suites.append((suite, [job.id for job in pipeline.jobs if job.suite == suite["name"]]))
    total = _sum_up([suite for suite, _ in suites])
    kinds = ("total", "success", "failed", "skipped", "error")
    counts = {kind: total[f"{kind}_count"] for kind in kinds}
    shown = [
        {key: value for key, value in suite.items() if key != "test_cases"} | {"build_ids": ids}
        for suite, ids in suites
    ]
    whole = {"time": 1.5, "count": counts.pop("total"), **counts, "suite_error": None}
    return Answer(200, {"total": whole, "test_suites": shown})


def _list_reporting(pipeline: Pipeline) -> list[Job]:
    """List the jobs whose reports count: the newest attempts, and none of a child pipeline."""
    return [job for job in pipeline.jobs if job.tests is not None and not job.is_retried]


def _group(jobs: list[Job]) -> Iterator[tuple[str, list[Job]]]:
    """Yield the suites with their jobs."""
    for name in dict.fromkeys(job.suite for job in jobs):
        yield name, [job for job in jobs if job.suite == name]


def _show_suite(name: str, jobs: list[Job]) -> Json:
    """Show the tests of some jobs as one suite: of one status, each test once; none at all if the
    report of a job could not be parsed."""
    error = next((job.report_error for job in jobs if job.report_error), None)
    cases = {
        (case["status"], case.get("classname"), case["name"]): case
        for job in jobs
        for case in job.tests or ()
        if not error
    }
    kinds = {kind: [key for key in cases if key[0] == kind] for kind in STATUSES}
    counts = {f"{kind}_count": len(found) for kind, found in kinds.items()}
    suite = {"name": name, "total_time": 1.5, "total_count": len(cases), **counts}
    return suite | {
        "suite_error": error,
        "test_cases": [EMPTY_CASE | each for each in cases.values()],
    }


def _sum_up(suites: list[Json]) -> Json:
    kinds = ("total", *STATUSES)
    sums = {f"{kind}_count": sum(each.get(f"{kind}_count", 0) for each in suites) for kind in kinds}
    return {"total_time": 1.5, **sums, "test_suites": suites}


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
