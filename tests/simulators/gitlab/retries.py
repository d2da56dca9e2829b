"""Running jobs again, and what GitLab refuses to run again.

See https://docs.gitlab.com/api/jobs/#retry-a-job.
"""

from typing import Protocol

from worker.lab.gitlab import views
from worker.lab.gitlab.protocol import Answer, Call, Refused, Route
from worker.lab.gitlab.state import Access, Job, User
from worker.lab.gitlab.world import World

NOT_RETRYABLE = "403 Forbidden - Job is not retryable"


def start_retry(world: World, job: Job, user: User) -> Job:
    """Run a job again, as `user`: its pipeline runs anew, and the jobs of later stages that were
    skipped wait again. Manual jobs are run at once, too. Raises ValueError where GitLab refuses."""
    pipeline = job.pipeline
    is_train = pipeline.ref.endswith("/train")
    if is_train or job.is_retried or job.status not in {"success", "failed", "canceled"}:
        raise ValueError(NOT_RETRYABLE)
    stages = list(dict.fromkeys(each.stage for each in pipeline.jobs))
    again = world.add_job(
        pipeline, job.name, stage=job.stage, status="pending", trace=None,
        allow_failure=job.allow_failure,
    )  # fmt: skip
    again.manual, again.environment, again.tags = job.manual, job.environment, job.tags
    again.started_at = again.duration = None
    again.started_by = user
    later = stages[stages.index(job.stage) + 1 :]
    for each in pipeline.jobs:
        if each.stage in later and each.status == "skipped":
            each.status = "created"
    pipeline.status, pipeline.updated_at = "running", again.created_at
    return again


class Holder(Protocol):
    """The simulator, which keeps what was run again."""

    retried: list[Job]


class Endpoints:
    """The endpoints of one simulator."""

    def __init__(self, sim: Holder) -> None:
        self._sim = sim

    def list_routes(self) -> tuple[Route, ...]:
        """List the routes."""
        return (Route("POST", "projects/:id/jobs/:job/retry", self.retry),)

    def retry(self, call: Call) -> Answer:
        """Run a job again; a protected branch's jobs only for those who may push to it."""
        job, project = call.find_job(), call.find_project()
        need = max(
            Access.DEVELOPER, project.protected_branches.get(job.pipeline.ref, Access.DEVELOPER)
        )
        if call.world.get_access(project, call.user) < need:
            raise Refused(403, {"message": "403 Forbidden"})
        try:
            again = start_retry(call.world, job, call.user)
        except ValueError as error:
            raise Refused(403, {"message": str(error)}) from error
        self._sim.retried.append(again)
        return Answer(201, views.show_job(again))
