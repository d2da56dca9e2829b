"""The endpoints that read users, projects, merge requests, pipelines, jobs and files."""

from datetime import datetime

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
from worker.lab.gitlab.state import Access, MergeRequest

_STATUSES = (
    "created waiting_for_resource preparing pending running success failed canceling canceled "
    "skipped manual scheduled"
)
JOB_STATUSES = frozenset(_STATUSES.split())
MR_STATES = frozenset({"opened", "closed", "locked", "merged", "all"})


def get_user(call: Call) -> Answer:
    """Return the user that the token belongs to."""
    return Answer(200, views.show_account(call.user))


def get_account(call: Call) -> Answer:
    """Return a user; everybody may see `bot`."""
    user = call.world.users.get(call.get_number("user"))
    if user is None:
        refuse_not_found("User")
    return Answer(200, views.show_account(user))


def get_project(call: Call) -> Answer:
    """Return a project."""
    return Answer(200, views.show_project(call.find_project()))


def get_member(call: Call) -> Answer:
    """Return a member, inherited or direct."""
    project, number = call.find_project(), call.get_number("user")
    if number not in project.members:
        raise Refused(404, {"message": "404 Not found"})
    return Answer(200, views.show_member(call.world.users[number], project.members[number]))


def list_merge_requests(call: Call) -> Answer:
    """List the merge requests into a project, newest first by default."""
    mrs = list(call.find_project(Access.REPORTER).merge_requests.values())
    state = call.get_value("state", "all")
    if state not in MR_STATES:
        refuse_strange(400, "state does not have a valid value")
    if state != "all":
        mrs = [mr for mr in mrs if mr.state == state]
    if branch := call.get_value("source_branch"):
        mrs = [mr for mr in mrs if mr.source_branch == branch]
    return make_page(
        call, [views.show_merge_request(mr) for mr in _sort(call, _filter_by_time(call, mrs))]
    )


def _filter_by_time(call: Call, mrs: list[MergeRequest]) -> list[MergeRequest]:
    if not (after := call.get_value("updated_after")):
        return mrs
    try:
        moment = datetime.fromisoformat(after)
    except ValueError:
        refuse_strange(400, "updated_after is invalid")
    return [mr for mr in mrs if datetime.fromisoformat(mr.updated_at or mr.created_at) >= moment]


def _sort(call: Call, mrs: list[MergeRequest]) -> list[MergeRequest]:
    field, order = call.get_value("order_by", "created_at"), call.get_value("sort", "desc")
    if field not in {"created_at", "updated_at"} or order not in {"asc", "desc"}:
        refuse_strange(400, "order_by or sort does not have a valid value")

    def key(mr: MergeRequest) -> tuple[str, int]:
        return (mr.updated_at or mr.created_at if field == "updated_at" else mr.created_at, mr.id)

    return sorted(mrs, key=key, reverse=order == "desc")


def get_merge_request(call: Call) -> Answer:
    """Return one merge request."""
    return Answer(200, views.show_merge_request_page(call.find_merge_request()))


def list_diffs(call: Call) -> Answer:
    """List the diff, file by file."""
    return make_page(call, [views.show_diff(each) for each in call.find_merge_request().diffs])


def list_commits(call: Call) -> Answer:
    """List the commits, newest first."""
    return make_page(
        call, [views.show_commit(each) for each in reversed(call.find_merge_request().commits)]
    )


def list_mr_pipelines(call: Call) -> Answer:
    """List the pipelines of a merge request, newest first, without child pipelines."""
    listed = call.find_merge_request().pipelines
    pipelines = [views.show_pipeline(each) for each in listed if each.source != "parent_pipeline"]
    return make_page(call, pipelines)


def get_pipeline(call: Call) -> Answer:
    """Return one pipeline."""
    return Answer(200, views.show_pipeline_page(call.find_pipeline()))


def list_pipeline_jobs(call: Call) -> Answer:
    """List the jobs, newest first; retried ones only on request."""
    jobs = sorted(call.find_pipeline().jobs, key=lambda job: -job.id)
    if call.get_value("include_retried", "false") not in {"true", "1"}:
        jobs = [job for job in jobs if not job.is_retried]
    scopes = call.query.get("scope[]", [])
    if set(scopes) - JOB_STATUSES:
        refuse_strange(400, "scope does not have a valid value")
    return make_page(
        call, [views.show_job(job) for job in jobs if not scopes or job.status in scopes]
    )


def get_job(call: Call) -> Answer:
    """Return one job."""
    return Answer(200, views.show_job(call.find_job()))


def get_trace(call: Call) -> Answer:
    """Return a job's log as text; empty if there is none (yet)."""
    job = call.find_job()
    if job.erased:
        refuse_not_found("")
    return Answer(200, headers={"content-type": "text/plain"}, raw=job.trace or b"")


def get_raw_file(call: Call) -> Answer:
    """Return a file's bytes at a branch or commit."""
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


def list_runners(call: Call) -> Answer:
    """List the runners of a project that have all the tags; GitLab tells them to maintainers."""
    wanted = set(filter(None, call.get_value("tag_list").split(",")))
    runners = call.find_project(Access.MAINTAINER).runners.items()
    return make_page(call, [
        {"id": number, "description": name.rstrip("?"), "active": True}
        | {"status": "offline" if name.endswith("?") else "online"}
        for number, (name, tags) in enumerate(runners, 1)
        if wanted <= set(tags)
    ])  # fmt: skip


_MR = "projects/:id/merge_requests"
_ONE = f"{_MR}/:iid"

ROUTES: tuple[Route, ...] = (
    Route("GET", "user", get_user),
    Route("GET", "users/:user", get_account),
    Route("GET", "projects/:id", get_project),
    Route("GET", "projects/:id/members/all/:user", get_member),
    Route("GET", "projects/:id/runners", list_runners, PAGING | {"tag_list"}),
    Route(
        "GET",
        _MR,
        list_merge_requests,
        PAGING | {"source_branch", "state", "updated_after", "order_by", "sort"},
    ),
    Route("GET", _ONE, get_merge_request),
    Route("GET", f"{_ONE}/diffs", list_diffs, PAGING),
    Route("GET", f"{_ONE}/commits", list_commits, PAGING),
    Route("GET", f"{_ONE}/pipelines", list_mr_pipelines, PAGING),
    Route("GET", "projects/:id/pipelines/:pipeline", get_pipeline),
    Route(
        "GET",
        "projects/:id/pipelines/:pipeline/jobs",
        list_pipeline_jobs,
        PAGING | {"scope[]", "include_retried"},
    ),
    Route("GET", "projects/:id/jobs/:job", get_job),
    Route("GET", "projects/:id/jobs/:job/trace", get_trace),
    Route("GET", "projects/:id/repository/files/:path/raw", get_raw_file, frozenset({"ref"})),
)
