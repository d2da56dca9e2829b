import time

from tests.simulators.gitlab import GitLabSim, Pipeline, Scene
from tests.unit.conftest import subject_of
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.last_passed_jobs import LastPassedJobs


def add_green(sim: GitLabSim, scene: Scene) -> Pipeline:
    """A passed pipeline of the target branch with a job of the same name as the failed one."""
    green = sim.run_pipeline(scene.mr, status="success", kind="branch", project=scene.project)
    green.ref = "main"
    sim.add_job(green, scene.job.name, trace=b"all passed\n")
    return green


def test_a_list_that_one_call_had_no_time_for_is_read_by_the_next(
    sim: GitLabSim, scene: Scene, client: ReadClient
) -> None:
    green = add_green(sim, scene)
    passed = LastPassedJobs(client, subject_of(sim, scene.mr, scene.pipeline))
    now = time.monotonic()
    assert passed.find(scene.job.name, now - 1) is None
    assert sim.requests == []
    found = passed.find(scene.job.name, now + 60)
    assert found is not None
    assert found.pipeline.id == green.id
    count = len(sim.requests)
    assert passed.find(scene.job.name, now - 1) == found
    assert passed.find("another", now + 60) is None
    assert passed.find("another", now + 60) is None
    listed = [request.path for request in sim.requests[count:]]
    assert len(listed) == len(set(listed))


def test_a_pipeline_whose_jobs_cannot_be_read_hides_no_other(
    sim: GitLabSim, scene: Scene, client: ReadClient
) -> None:
    older, newer = add_green(sim, scene), add_green(sim, scene)
    sim.fail_next("GET", rf".*/pipelines/{newer.id}/jobs.*", 403)
    passed = LastPassedJobs(client, subject_of(sim, scene.mr, scene.pipeline))
    found = passed.find(scene.job.name, time.monotonic() + 60)
    assert found is not None
    assert found.pipeline.id == older.id


def test_a_job_may_have_passed_in_a_newer_pipeline_that_did_not(
    sim: GitLabSim, scene: Scene, client: ReadClient
) -> None:
    add_green(sim, scene)
    canceled = add_green(sim, scene)
    canceled.status = "canceled"
    passed = LastPassedJobs(client, subject_of(sim, scene.mr, scene.pipeline))
    found = passed.find(scene.job.name, time.monotonic() + 60)
    assert found is not None
    assert found.pipeline.id == canceled.id


def test_a_passed_pipeline_is_found_behind_many_that_failed(
    sim: GitLabSim, scene: Scene, client: ReadClient
) -> None:
    green = add_green(sim, scene)
    for _ in range(25):
        failed = add_green(sim, scene)
        failed.status = failed.jobs[0].status = "failed"
    passed = LastPassedJobs(client, subject_of(sim, scene.mr, scene.pipeline))
    found = passed.find(scene.job.name, time.monotonic() + 60)
    assert found is not None
    assert found.pipeline.id == green.id
    assert sum("/jobs" in request.path for request in sim.requests) <= 3
