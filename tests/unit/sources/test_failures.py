"""What is told of a failed pipeline without a model."""

from worker.demo.gitlab import Bridge, GitLabSim, Scene
from worker.sources.session_reader import Reader
from worker.sources.survey.failures import failed_jobs


def test_the_failed_jobs_of_child_pipelines_are_told_with_their_logs(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    child = sim.run_pipeline(scene.mr, kind="child", project=scene.project)
    sim.add_job(child, "smoke", status="failed", trace=b"smoke broke\n")
    sim.add_job(child, "allowed", status="failed", allow_failure=True, trace=b"no matter\n")
    scene.pipeline.bridges.append(Bridge(1, "deploy", "failed", child))
    own, below = failed_jobs(reader)
    assert (own.job_id, own.name) == (scene.job.id, scene.job.name)
    assert (below.name, below.excerpt) == ("smoke", "1: smoke broke")


def test_only_newest_attempts_are_told_and_five_jobs_at_most(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    sim.add_job(scene.pipeline, scene.job.name, trace=b"passed on retry\n")
    for number in range(7):
        sim.add_job(scene.pipeline, f"job-{number}", status="failed", trace=b"broke\n")
    assert [job.name for job in failed_jobs(reader)] == [f"job-{number}" for number in range(5)]


def test_a_log_that_cannot_be_read_is_said_in_its_place(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    scene.job.erased = True
    (job,) = failed_jobs(reader)
    assert "was erased" in job.excerpt
