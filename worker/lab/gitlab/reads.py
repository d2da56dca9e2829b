"""The endpoints that read users, projects, merge requests, pipelines, jobs and files."""

from datetime import datetime

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
from worker.lab.gitlab.state import Access, MergeRequest

ROUTES = Routes()

_STATUSES = (
    "created waiting_for_resource preparing pending running success failed canceling canceled "
    "skipped manual scheduled"
)
_MR = "projects/:id/merge_requests"
_ONE = f"{_MR}/:iid"


@ROUTES.add("GET", "user")
def _get_user(call: Call) -> Answer:
    return Answer(200, views.show_account(call.user))


@ROUTES.add("GET", "users/:user")
def _get_account(call: Call) -> Answer:
    """Return a user; everybody may see `bot`."""
    user = call.world.users.get(call.get_number("user"))
    if user is None:
        refuse_not_found("User")
    return Answer(200, views.show_account(user))


@ROUTES.add("GET", "projects/:id")
def _get_project(call: Call) -> Answer:
    return Answer(200, views.show_project(call.find_project()))


@ROUTES.add("GET", "projects/:id/members/all/:user")
def _get_member(call: Call) -> Answer:
    project, number = call.find_project(), call.get_number("user")
    if number not in project.members:
        raise Refused(404, {"message": "404 Not found"})
    return Answer(200, views.show_member(call.world.users[number], project.members[number]))


@ROUTES.add("GET", _MR, PAGING | {"source_branch", "state", "updated_after", "order_by", "sort"})
def _list_merge_requests(call: Call) -> Answer:
    """List the merge requests into a project, newest first by default."""
    mrs = list(call.find_project(Access.REPORTER).merge_requests.values())
    state = call.get_value("state", "all")
    if state not in {"opened", "closed", "locked", "merged", "all"}:
        refuse_strange(400, "state does not have a valid value")
    if state != "all":
        mrs = [mr for mr in mrs if mr.state == state]
    if branch := call.get_value("source_branch"):
        mrs = [mr for mr in mrs if mr.source_branch == branch]
    if after := call.get_value("updated_after"):
        try:
            moment = datetime.fromisoformat(after)
        except ValueError:
            refuse_strange(400, "updated_after is invalid")
        mrs = [mr for mr in mrs if datetime.fromisoformat(mr.updated_at or mr.created_at) >= moment]
    field, order = call.get_value("order_by", "created_at"), call.get_value("sort", "desc")
    if field not in {"created_at", "updated_at"} or order not in {"asc", "desc"}:
        refuse_strange(400, "order_by or sort does not have a valid value")

    def key(mr: MergeRequest) -> tuple[str, int]:
        return (mr.updated_at or mr.created_at if field == "updated_at" else mr.created_at, mr.id)

    mrs.sort(key=key, reverse=order == "desc")
    return make_page(call, [views.show_merge_request(mr) for mr in mrs])


@ROUTES.add("GET", _ONE)
def _get_merge_request(call: Call) -> Answer:
    return Answer(200, views.show_merge_request_page(call.find_merge_request()))


@ROUTES.add("GET", f"{_ONE}/diffs", PAGING)
def _list_diffs(call: Call) -> Answer:
    return make_page(call, [views.show_diff(each) for each in call.find_merge_request().diffs])


@ROUTES.add("GET", f"{_ONE}/commits", PAGING)
def _list_commits(call: Call) -> Answer:
    return make_page(
        call, [views.show_commit(each) for each in reversed(call.find_merge_request().commits)]
    )


@ROUTES.add("GET", f"{_ONE}/pipelines", PAGING)
def _list_mr_pipelines(call: Call) -> Answer:
    """List the pipelines of a merge request, newest first, without child pipelines."""
    listed = call.find_merge_request().pipelines
    pipelines = [views.show_pipeline(each) for each in listed if each.source != "parent_pipeline"]
    return make_page(call, pipelines)


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
    if set(scopes) - set(_STATUSES.split()):
        refuse_strange(400, "scope does not have a valid value")
    return make_page(
        call, [views.show_job(job) for job in jobs if not scopes or job.status in scopes]
    )


@ROUTES.add("GET", "projects/:id/jobs/:job")
def _get_job(call: Call) -> Answer:
    return Answer(200, views.show_job(call.find_job()))


@ROUTES.add("GET", "projects/:id/jobs/:job/trace")
def _get_trace(call: Call) -> Answer:
    """Return a job's log as text; empty if there is none (yet)."""
    job = call.find_job()
    if job.erased:
        refuse_not_found("")
    return Answer(200, headers={"content-type": "text/plain"}, raw=job.trace or b"")


@ROUTES.add("GET", "projects/:id/repository/files/:path/raw", {"ref"})
def _get_raw_file(call: Call) -> Answer:
    owner, path = call.find_project(Access.REPORTER), call.params["path"]
    if ".." in path.split("/") or path.startswith("/"):
        refuse_strange(400, "file_path should be a valid file path")
    name = call.get_value("ref", owner.default_branch)
    sha = owner.find_commit(name)
    if sha not in owner.commits:
        refuse_not_found("Commit")
    if path not in owner.commits[sha]:
        refuse_not_found("File")
    return Answer(
        200,
        headers={"content-type": "text/plain", "x-gitlab-ref": name},
        raw=owner.commits[sha][path],
    )


@ROUTES.add("GET", "projects/:id/runners", PAGING | {"tag_list"})
def _list_runners(call: Call) -> Answer:
    """List the runners of a project that have all the tags; GitLab tells them to maintainers."""
    wanted = set(filter(None, call.get_value("tag_list").split(",")))
    runners = call.find_project(Access.MAINTAINER).runners.items()
    return make_page(call, [
        {"id": number, "description": name.rstrip("?"), "active": True}
        | {"status": "offline" if name.endswith("?") else "online"}
        for number, (name, tags) in enumerate(runners, 1)
        if wanted <= set(tags)
    ])  # fmt: skip
