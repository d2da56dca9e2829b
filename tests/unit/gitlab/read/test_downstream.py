import pytest

from tests.simulators.gitlab import Access, Bridge, GitLabSim, Pipeline, Project, Scene
from tests.unit.conftest import fetch, told
from worker.errors import SourceError
from worker.gitlab.read import pipeline_jobs
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.session_reader import Reader


def started(sim: GitLabSim, scene: Scene, by: Pipeline, name: str, where: Project) -> Pipeline:
    """A pipeline with one failed and one allowed job, started by a trigger job of `by`."""
    child = sim.run_pipeline(scene.mr, kind="child", project=where)
    sim.add_job(child, f"{name}-job", status="failed", trace=f"{name} broke\n".encode())
    sim.add_job(child, "fine")
    by.bridges.append(Bridge(len(by.bridges) + 1, name, "failed", child))
    return child


def test_failed_jobs_of_children_are_found_at_every_depth(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    child = started(sim, scene, scene.pipeline, "deploy", scene.project)
    grandchild = started(sim, scene, child, "smoke", scene.project)
    document = fetch(reader, "gitlab_list_pipeline_jobs")
    below = told(document)["downstream"]
    assert [(each["started_by"], each["pipeline"], each["of_pipeline"]) for each in below] == [
        ("deploy", child.id, scene.pipeline.id),
        ("smoke", grandchild.id, child.id),
    ]
    assert [[job["name"] for job in each["failed_jobs"]] for each in below] == [
        ["deploy-job"],
        ["smoke-job"],
    ]
    assert document.gaps == ""
    job = below[1]["failed_jobs"][0]["id"]
    assert fetch(reader, "gitlab_get_job_log", job_id=job).data == b"smoke broke\n"
    assert reader.logs.read_log(job).lines[0] == "smoke broke"


def test_another_project_is_only_read_if_the_operator_lists_it(
    sim: GitLabSim, scene: Scene, client: ReadClient, reader: Reader
) -> None:
    other = sim.add_project("Shared/Deploy", public=True)
    sim.add_member(other, scene.bot, Access.REPORTER)
    pipeline = started(sim, scene, scene.pipeline, "deploy", other)
    job = pipeline.jobs[0].id
    (told_of,) = told(fetch(reader, "gitlab_list_pipeline_jobs"))["downstream"]
    assert told_of["not_read"] == f"project {other.id} is not one this session may read"
    with pytest.raises(SourceError, match="not found"):
        fetch(reader, "gitlab_get_job_log", job_id=job)
    with pytest.raises(SourceError, match="not found"):
        fetch(reader, "gitlab_list_pipeline_jobs", pipeline_id=pipeline.id)

    allowed = Reader.open(client, reader.subject, bytes, also=["shared/*"])
    (told_of,) = told(fetch(allowed, "gitlab_list_pipeline_jobs"))["downstream"]
    assert told_of["failed_jobs"][0]["id"] == job
    assert fetch(allowed, "gitlab_get_job_log", job_id=job).data == b"deploy broke\n"
    assert allowed.logs.link_line(job, 1).startswith(f"{other.web_url}/-/jobs/{job}")


def test_a_downstream_project_the_token_may_not_see_is_said(
    sim: GitLabSim, scene: Scene, client: ReadClient, reader: Reader
) -> None:
    other = sim.add_project("shared/deploy")
    started(sim, scene, scene.pipeline, "deploy", other)
    allowed = Reader.open(client, reader.subject, bytes, also=["shared/*"])
    (told_of,) = told(fetch(allowed, "gitlab_list_pipeline_jobs"))["downstream"]
    assert f"project {other.id}: not found, or the read token may not" in told_of["not_read"]


def test_a_trigger_job_that_started_nothing_is_shown_if_it_failed(
    scene: Scene, reader: Reader
) -> None:
    scene.pipeline.bridges += [Bridge(1, "deploy", "failed"), Bridge(2, "later", "manual")]
    (only,) = told(fetch(reader, "gitlab_list_pipeline_jobs"))["downstream"]
    assert (only["started_by"], only["status"]) == ("deploy", "failed")


def test_pipelines_that_start_each_other_are_read_once(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    child = started(sim, scene, scene.pipeline, "deploy", scene.project)
    child.bridges.append(Bridge(1, "again", "failed", scene.pipeline))
    assert len(told(fetch(reader, "gitlab_list_pipeline_jobs"))["downstream"]) == 1


def test_the_descent_ends_at_a_depth_and_a_number(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    parent = scene.pipeline
    for level in range(pipeline_jobs.MAX_DEPTH + 2):
        parent = started(sim, scene, parent, f"level-{level}", scene.project)
    document = fetch(reader, "gitlab_list_pipeline_jobs")
    assert len(told(document)["downstream"]) == pipeline_jobs.MAX_DEPTH + 1
    assert document.gaps.endswith("too many or too deep")
    scene.pipeline.bridges.clear()
    for number in range(pipeline_jobs.MAX_PIPELINES + 5):
        started(sim, scene, scene.pipeline, f"wide-{number}", scene.project)
    again = Reader.open(reader.client, reader.subject, bytes)
    document = fetch(again, "gitlab_list_pipeline_jobs")
    read = [each for each in told(document)["downstream"] if "failed_jobs" in each]
    assert len(read) == pipeline_jobs.MAX_PIPELINES
    assert document.gaps.count("too many") == 5


def test_jobs_are_shown_though_their_trigger_jobs_cannot_be_read(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    sim.fail_next("GET", "/trigger_jobs", 403)
    document = fetch(reader, "gitlab_list_pipeline_jobs")
    assert told(document)["jobs"][0]["name"] == "unit-tests"
    assert document.gaps.startswith(f"the trigger jobs of pipeline {scene.pipeline.id}: ")


def test_every_attempt_of_a_job_is_numbered(sim: GitLabSim, scene: Scene, reader: Reader) -> None:
    sim.add_job(scene.pipeline, "unit: [3.12]", status="failed")
    sim.add_job(scene.pipeline, "unit: [3.12]", status="success")
    jobs = told(fetch(reader, "gitlab_list_pipeline_jobs"))["jobs"]
    shown = [(job["name"], job.get("attempt"), job.get("matrix")) for job in jobs]
    assert shown == [
        ("unit-tests", None, None),
        ("unit: [3.12]", "1 of 2", ["3.12"]),
        ("build", None, None),
        ("unit: [3.12]", "2 of 2", ["3.12"]),
    ]
