"""The endpoints that read: what every source and the desk ask for."""

import re
from datetime import datetime

from worker.demo.gitlab import views
from worker.demo.gitlab.protocol import (
    PAGING,
    Answer,
    Call,
    Refused,
    Route,
    not_found,
    paged,
    strange,
)
from worker.demo.gitlab.state import Access, Job, MergeRequest

_STATUSES = (
    "created waiting_for_resource preparing pending running success failed canceling canceled "
    "skipped manual scheduled"
)
JOB_STATUSES = frozenset(_STATUSES.split())
MR_STATES = frozenset({"opened", "closed", "locked", "merged", "all"})


def user(call: Call) -> Answer:
    """Whose token it is."""
    return Answer(200, views.me(call.user))


def own_token(call: Call) -> Answer:
    """The token itself."""
    return Answer(200, views.token(call.token))


def project(call: Call) -> Answer:
    """A project."""
    return Answer(200, views.project(call.project()))


def member(call: Call) -> Answer:
    """A member, inherited ones included."""
    found, number = call.project(), call.number("user")
    if number not in found.members:
        raise Refused(404, {"message": "404 Not found"})
    return Answer(200, views.member(call.world.users[number], found.members[number]))


def merge_requests(call: Call) -> Answer:
    """The merge requests into a project, newest first."""
    found = list(call.project(Access.REPORTER).merge_requests.values())
    state = call.one("state", "all")
    if state not in MR_STATES:
        strange(400, "state does not have a valid value")
    if state != "all":
        found = [mr for mr in found if mr.state == state]
    if branch := call.one("source_branch"):
        found = [mr for mr in found if mr.source_branch == branch]
    return paged(call, [views.merge_request(mr) for mr in _ordered(call, _touched(call, found))])


def _touched(call: Call, found: list[MergeRequest]) -> list[MergeRequest]:
    if not (after := call.one("updated_after")):
        return found
    try:
        moment = datetime.fromisoformat(after)
    except ValueError:
        strange(400, "updated_after is invalid")
    return [mr for mr in found if datetime.fromisoformat(mr.updated_at or mr.created_at) >= moment]


def _ordered(call: Call, found: list[MergeRequest]) -> list[MergeRequest]:
    field, order = call.one("order_by", "created_at"), call.one("sort", "desc")
    if field not in {"created_at", "updated_at"} or order not in {"asc", "desc"}:
        strange(400, "order_by or sort does not have a valid value")

    def key(mr: MergeRequest) -> tuple[str, int]:
        return (mr.updated_at or mr.created_at if field == "updated_at" else mr.created_at, mr.id)

    return sorted(found, key=key, reverse=order == "desc")


def merge_request(call: Call) -> Answer:
    """One merge request."""
    return Answer(200, views.merge_request_page(call.merge_request()))


def diffs(call: Call) -> Answer:
    """The diff, file by file."""
    return paged(call, [views.diff(each) for each in call.merge_request().diffs])


def commits(call: Call) -> Answer:
    """The commits, newest first."""
    return paged(call, [views.commit(each) for each in reversed(call.merge_request().commits)])


def mr_pipelines(call: Call) -> Answer:
    """The pipelines of a merge request, newest first."""
    listed = call.merge_request().pipelines
    found = [views.pipeline(each) for each in listed if each.source != "parent_pipeline"]
    return paged(call, found)


def pipeline(call: Call) -> Answer:
    """One pipeline."""
    return Answer(200, views.pipeline_page(call.pipeline()))


def pipeline_jobs(call: Call) -> Answer:
    """The jobs, newest first; retried ones only on request."""
    jobs = sorted(call.pipeline().jobs, key=lambda job: -job.id)
    if call.one("include_retried", "false") not in {"true", "1"}:
        jobs = [job for job in jobs if not job.retried]
    scopes = call.query.get("scope[]", [])
    if set(scopes) - JOB_STATUSES:
        strange(400, "scope does not have a valid value")
    return paged(call, [views.job(job) for job in jobs if not scopes or job.status in scopes])


def job(call: Call) -> Answer:
    """One job."""
    return Answer(200, views.job(_job(call)))


def trace(call: Call) -> Answer:
    """A job's log: text, and empty where GitLab has none (yet)."""
    found = _job(call)
    if found.erased:
        not_found("")
    return Answer(200, headers={"content-type": "text/plain"}, raw=found.trace or b"")


def _job(call: Call) -> Job:
    owner = call.project(Access.REPORTER)
    found = call.world.jobs.get(call.number("job"))
    if found is None or found.pipeline.project is not owner:
        not_found("")
    return found


def raw_file(call: Call) -> Answer:
    """A file's bytes at a branch or commit."""
    owner, path = call.project(Access.REPORTER), call.params["path"]
    if ".." in path.split("/") or path.startswith("/"):
        strange(400, "file_path should be a valid file path")
    name = call.one("ref", owner.default_branch)
    sha = owner.refs.get(re.sub(r"^refs/heads/", "", name), name)
    if sha not in owner.commits:
        not_found("Commit")
    if path not in owner.commits[sha]:
        not_found("File")
    return Answer(
        200,
        headers={"content-type": "text/plain", "x-gitlab-ref": name},
        raw=owner.commits[sha][path],
    )


_MR = "projects/:id/merge_requests"
_ONE = f"{_MR}/:iid"

ROUTES: tuple[Route, ...] = (
    Route("GET", "user", user),
    Route("GET", "personal_access_tokens/self", own_token),
    Route("GET", "projects/:id", project),
    Route("GET", "projects/:id/members/all/:user", member),
    Route(
        "GET",
        _MR,
        merge_requests,
        PAGING | {"source_branch", "state", "updated_after", "order_by", "sort"},
    ),
    Route("GET", _ONE, merge_request),
    Route("GET", f"{_ONE}/diffs", diffs, PAGING),
    Route("GET", f"{_ONE}/commits", commits, PAGING),
    Route("GET", f"{_ONE}/pipelines", mr_pipelines, PAGING),
    Route("GET", "projects/:id/pipelines/:pipeline", pipeline),
    Route(
        "GET",
        "projects/:id/pipelines/:pipeline/jobs",
        pipeline_jobs,
        PAGING | {"scope[]", "include_retried"},
    ),
    Route("GET", "projects/:id/jobs/:job", job),
    Route("GET", "projects/:id/jobs/:job/trace", trace),
    Route("GET", "projects/:id/repository/files/:path/raw", raw_file, frozenset({"ref"})),
)
