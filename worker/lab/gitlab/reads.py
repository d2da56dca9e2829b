"""The endpoints that read users, projects, merge requests, pipelines, jobs and files."""

from datetime import datetime

from worker.lab.gitlab import views
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
from worker.lab.gitlab.state import Access, MergeRequest

ROUTES = Routes()

_MR = "projects/:id/merge_requests"
_ONE = f"{_MR}/:iid"


@ROUTES.add("GET", "user")
def _get_user(call: Call) -> Answer:
    return Answer(200, views.show_user(call.user) | {"bot": call.user.bot})


@ROUTES.add("GET", "users/:user")
def _get_account(call: Call) -> Answer:
    """Return a user; everybody may see `bot`."""
    user = call.world.users.get(call.get_number("user"))
    if user is None:
        refuse_not_found("User")
    return Answer(200, views.show_user(user) | {"bot": user.bot})


@ROUTES.add("GET", "projects/:id")
def _get_project(call: Call) -> Answer:
    return Answer(200, views.show_project(call.find_project()))


@ROUTES.add("GET", "projects/:id/members/all/:user")
def _get_member(call: Call) -> Answer:
    project, number = call.find_project(), call.get_number("user")
    if number not in project.members:
        raise Refused(404, {"message": "404 Not found"})
    level = {"access_level": project.members[number]}
    return Answer(200, views.show_user(call.world.users[number]) | level)


_LISTED = PAGING | {
    *("source_branch", "target_branch", "state", "iids[]", "order_by", "sort"),
    *("updated_after", "updated_before", "created_after", "created_before"),
}


@ROUTES.add("GET", _MR, _LISTED)
def _list_merge_requests(call: Call) -> Answer:
    """List the merge requests into a project, newest first by default."""
    mrs = list(call.find_project(Access.REPORTER).merge_requests.values())
    state = call.get_value("state", "all")
    if state not in {"opened", "closed", "locked", "merged", "all"}:
        refuse_strange(400, "state does not have a valid value")
    if state != "all":
        mrs = [mr for mr in mrs if mr.state == state]
    for name in ("source_branch", "target_branch"):
        if branch := call.get_value(name):
            mrs = [mr for mr in mrs if getattr(mr, name) == branch]
    if iids := call.query.get("iids[]"):
        mrs = [mr for mr in mrs if str(mr.iid) in iids]
    mrs = _keep_within(call, mrs)
    field, order = call.get_value("order_by", "created_at"), call.get_value("sort", "desc")
    if field not in {"created_at", "updated_at"} or order not in {"asc", "desc"}:
        refuse_strange(400, "order_by or sort does not have a valid value")

    def key(mr: MergeRequest) -> tuple[str, int]:
        return (mr.updated_at or mr.created_at if field == "updated_at" else mr.created_at, mr.id)

    mrs.sort(key=key, reverse=order == "desc")
    return make_page(call, [views.show_merge_request(mr) for mr in mrs])


def _keep_within(call: Call, mrs: list[MergeRequest]) -> list[MergeRequest]:
    """Keep those that were made or changed within the query's times."""
    for field in ("created", "updated"):
        after, before = (get_moment(call, f"{field}_{end}") for end in ("after", "before"))
        for mr in tuple(mrs):
            told = mr.updated_at if field == "updated" and mr.updated_at else mr.created_at
            moment = datetime.fromisoformat(told)
            if (after and moment < after) or (before and moment > before):
                mrs.remove(mr)
    return mrs


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
