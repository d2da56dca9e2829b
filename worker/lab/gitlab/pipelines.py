"""The endpoints of pipelines and their jobs.

See https://docs.gitlab.com/api/pipelines/ and https://docs.gitlab.com/api/jobs/.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from worker.lab.gitlab import views
from worker.lab.gitlab.history import find_tip
from worker.lab.gitlab.protocol import (
    PAGING,
    Answer,
    Call,
    Refused,
    Routes,
    get_moment,
    make_page,
    refuse_strange,
)
from worker.lab.gitlab.state import ENDED, Access, Pipeline, Project

ROUTES = Routes()

_STATUSES = (
    "created waiting_for_resource preparing waiting_for_callback pending running success failed "
    "canceling canceled skipped manual scheduled"
)
_SOURCES = (
    "push web trigger schedule api external pipeline chat webide merge_request_event "
    "external_pull_request_event parent_pipeline ondemand_dast_scan ondemand_dast_validation "
    "security_orchestration_policy container_registry_push duo_workflow"
)
_SCOPES: dict[str, Callable[[Pipeline], bool]] = {
    "": lambda _: True,
    "running": lambda each: each.status == "running",
    "pending": lambda each: each.status == "pending",
    "finished": lambda each: each.status in ENDED - {"skipped"},
}
_ORDERS: dict[str, Callable[[Pipeline], Any]] = {
    "id": lambda each: each.id,
    "status": lambda each: (each.status, each.id),
    "ref": lambda each: (each.ref, each.id),
    "updated_at": lambda each: (each.touched_at, each.id),
    "user_id": lambda each: (each.user.id, each.id),
}
_TIMES = ("updated_after", "updated_before", "created_after", "created_before")
_CHOICES = {
    "status": frozenset(_STATUSES.split()),
    "source": frozenset(_SOURCES.split()),
    "scope": frozenset({"branches", *_SCOPES}),
    "order_by": frozenset(_ORDERS),
    "sort": frozenset({"asc", "desc"}),
}
_LISTED = PAGING | {"ref", "sha", "username", *_TIMES, *_CHOICES}


@ROUTES.add("GET", "projects/:id/pipelines", _LISTED)
def _list_pipelines(call: Call) -> Answer:
    """List the pipelines of a project, newest first by default; children only by their source."""
    owner = call.find_project(Access.REPORTER)
    for name, known in _CHOICES.items():
        if call.get_value(name) and call.get_value(name) not in known:
            refuse_strange(400, f"{name} does not have a valid value")
    wanted = _make_filter(call, owner)
    found = [each for each in call.world.pipelines.values() if each.project is owner]
    found = [each for each in found if wanted(each)]
    if call.get_value("scope") == "branches":
        newest = {each.ref: each.id for each in sorted(found, key=_ORDERS["id"])}
        found = [each for each in found if each.ref in owner.refs and newest[each.ref] == each.id]
    found.sort(
        key=_ORDERS[call.get_value("order_by", "id")], reverse=call.get_value("sort") != "asc"
    )
    return make_page(call, [views.show_pipeline(each) for each in found])


def _make_filter(call: Call, owner: Project) -> Callable[[Pipeline], bool]:
    """Make the check of the query's filters."""
    sha, status, source = (call.get_value(name) for name in ("sha", "status", "source"))
    refs, user = _list_refs(owner, call.get_value("ref"), source), call.get_value("username")
    scope = _SCOPES.get(call.get_value("scope"), _SCOPES[""])
    moments = {name: get_moment(call, name) for name in _TIMES}

    def is_within(each: Pipeline) -> bool:
        for name, moment in moments.items():
            told = each.touched_at if name.startswith("updated") else each.created_at
            seen = datetime.fromisoformat(told) if moment else None
            if moment and seen and (seen < moment if name.endswith("after") else seen > moment):
                return False
        return True

    def is_wanted(each: Pipeline) -> bool:
        is_asked = (source == "parent_pipeline") == (each.source == "parent_pipeline")
        fields = {(sha, each.sha), (status, each.status), (source, each.source)}
        fields.add((user, each.user.username))
        is_alike = all(wish in ("", has) for wish, has in fields)
        return is_asked and is_alike and (not refs or each.ref in refs) and scope(each) and (
            is_within(each)
        )  # fmt: skip

    return is_wanted


def _list_refs(owner: Project, ref: str, source: str) -> set[str]:
    """List the refs that are meant by one. As in GitLab, a branch's list has the pipelines of the
    merge requests from it as well, unless another source is asked for."""
    if not ref or source not in ("", "merge_request_event"):
        return {ref} - {""}
    return {ref} | {
        f"refs/merge-requests/{mr.iid}/{kind}"
        for mr in owner.merge_requests.values()
        if mr.source_branch == ref
        for kind in ("head", "merge", "train")
    }


@ROUTES.add("GET", "projects/:id/pipelines/latest", {"ref"})
def _get_latest(call: Call) -> Answer:
    """Return the newest pipeline of a branch's newest commit; as in GitLab, 403 if it has none."""
    owner = call.find_project(Access.REPORTER)
    ref = call.get_value("ref", owner.default_branch)
    sha = find_tip(owner, ref)
    runs = [each for each in call.world.pipelines.values() if each.project is owner]
    runs = [each for each in runs if (each.ref, each.sha) == (ref, sha)]
    if not runs:
        raise Refused(403, {"message": "403 Forbidden"})
    return Answer(200, views.show_pipeline_page(max(runs, key=_ORDERS["id"])))


@ROUTES.add("GET", "projects/:id/pipelines/:pipeline")
def _get_pipeline(call: Call) -> Answer:
    return Answer(200, views.show_pipeline_page(call.find_pipeline()))


@ROUTES.add("GET", "projects/:id/pipelines/:pipeline/jobs", PAGING | {"scope[]", "include_retried"})
def _list_pipeline_jobs(call: Call) -> Answer:
    """List the jobs, newest first; retried ones only on request."""
    jobs = sorted(call.find_pipeline().jobs, key=lambda job: -job.id)
    if call.get_value("include_retried", "false") not in {"true", "1"}:
        jobs = [job for job in jobs if not job.is_retried]
    scopes = call.query.get("scope[]", [])
    if set(scopes) - _CHOICES["status"]:
        refuse_strange(400, "scope does not have a valid value")
    return make_page(
        call, [views.show_job(job) for job in jobs if not scopes or job.status in scopes]
    )
