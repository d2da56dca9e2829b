"""What GitLab tells of a job besides REST's jobs: its deployment, and whether it is a manual one.

See https://docs.gitlab.com/api/deployments/ and https://docs.gitlab.com/api/graphql/.
"""

from datetime import datetime

from worker.lab.gitlab import views
from worker.lab.gitlab.protocol import (
    GRAPH,
    PAGING,
    Answer,
    Call,
    Refused,
    Route,
    Routes,
    get_moment,
    make_page,
    refuse_strange,
)
from worker.lab.gitlab.state import Access

ROUTES = Routes()

_LISTED = PAGING | {"order_by", "sort", "updated_after"}


@ROUTES.add("GET", "projects/:id/deployments", _LISTED)
def _list_deployments(call: Call) -> Answer:
    """List the deployments of a project: each is made by a job with an environment."""
    owner, after = call.find_project(Access.REPORTER), get_moment(call, "updated_after")
    if after and call.get_value("order_by") != "updated_at":
        refuse_strange(400, "`updated_at` filter and `updated_at` sorting must be paired")
    jobs = [
        job
        for job in sorted(call.world.jobs.values(), key=lambda job: -job.id)
        if job.pipeline.project is owner and job.environment
        if after is None
        or datetime.fromisoformat(views.get_job_end(job) or job.created_at) >= after
    ]
    return make_page(call, [
        {"id": job.id, "iid": number, "status": job.status, "deployable": views.show_job(job)}
        | {"environment": {"id": 1, "name": job.environment}}
        for number, job in enumerate(jobs, 1)
    ])  # fmt: skip


def _answer_graph(call: Call) -> Answer:
    """Answer the one query that is asked: the manual jobs of a pipeline."""
    if not {"api", "read_api"} & set(call.token.scopes):
        raise Refused(403, {"errors": [{"message": "insufficient_scope"}]})
    query, variables = str(call.fields.get("query")), call.fields.get("variables") or {}
    if "mutation" in query or 'whenExecuted: ["manual"]' not in query:
        refuse_strange(400, f"simulator: no such query: {query}")
    if set(variables) != {"path", "pipeline"}:
        refuse_strange(400, f"simulator: odd variables {variables!r}")
    project = call.world.find_project(str(variables["path"]))
    number = str(variables["pipeline"]).removeprefix("gid://gitlab/Ci::Pipeline/")
    run = call.world.pipelines.get(int(number)) if number.isdigit() else None
    if project is None or not (call.world.get_access(project, call.user) or project.public):
        return Answer(200, {"data": {"project": None}})
    if run is None or run.project is not project:
        return Answer(200, {"data": {"project": {"pipeline": None}}})
    nodes = [{"id": f"gid://gitlab/Ci::Build/{job.id}"} for job in run.jobs if job.manual]
    nodes += [{"id": f"gid://gitlab/Ci::Bridge/{each.id}"} for each in run.bridges if each.manual]
    return Answer(200, {"data": {"project": {"pipeline": {"jobs": {"nodes": nodes[:100]}}}}})


ROUTES.append(Route("POST", GRAPH, _answer_graph, fields={"query", "variables"}, any_scope=True))
