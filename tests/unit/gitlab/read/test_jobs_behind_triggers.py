"""Failed jobs of child pipelines, beside those that the target branch's pipelines have started."""

import pytest

from tests.simulators.gitlab import Access, Bridge, GitLabSim, Pipeline, Project, Scene
from tests.unit.conftest import fetch, told
from tests.worlds import branch_pipeline
from worker.errors import SourceError
from worker.gitlab.read import job_runs
from worker.gitlab.read.session_reader import Reader
from worker.gitlab.read.survey.reader import read_survey
from worker.tools.source import GREEN


def start(
    sim: GitLabSim, scene: Scene, by: Pipeline, name: str, where: Project | None = None
) -> Pipeline:
    """A child pipeline behind the trigger job `name`."""
    child = branch_pipeline(sim, scene.mr, by.sha, by.ref)
    child.source, child.project = "parent_pipeline", where or by.project
    by.bridges.append(Bridge(len(by.bridges) + 1, name, "failed", child))
    return child


def add_main(sim: GitLabSim, scene: Scene) -> Pipeline:
    """A passed pipeline of the target branch, with a job `check` and a child without that job."""
    found = branch_pipeline(sim, scene.mr, scene.mr.base_sha)
    found.status = "success"
    sim.add_job(found, "check", trace=b"not this one\n")
    sim.add_job(start(sim, scene, found, "docs"), "pages", trace=b"nor this one\n")
    return found


def test_a_childs_job_comes_with_the_log_of_its_passed_run_behind_the_same_trigger_jobs(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    main = add_main(sim, scene)
    sim.add_job(start(sim, scene, main, "other"), "check", trace=b"of another child\n")
    above = start(sim, scene, main, "clients")
    passed = sim.add_job(start(sim, scene, above, "python"), "check", trace=b"fine\n")
    scene.pipeline.jobs.clear()
    child = start(sim, scene, start(sim, scene, scene.pipeline, "clients"), "python")
    failed = sim.add_job(child, "check", status="failed", trace=b"FAILED tests/a.py::b - no\n")
    web = sim.add_job(child, "web")
    survey = read_survey(reader)
    (job,) = survey.jobs
    assert (job.job_id, job.green) == (failed.id, passed.id)
    (green,) = (
        each
        for each in reader.logs.read_log(failed.id).make_document().side_files()
        if each.suffix == GREEN
    )
    assert b"".join(green.chunks()) == b"fine\n"
    assert survey.others == (f"Passed below: job {web.id} (web)",)


def test_a_childs_job_has_no_passed_run_where_its_trigger_job_has_started_none(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    add_main(sim, scene)
    scene.pipeline.jobs.clear()
    child = start(sim, scene, scene.pipeline, "clients")
    sim.add_job(child, "check", status="failed", trace=b"FAILED tests/a.py::b - no\n")
    (job,) = read_survey(reader).jobs
    assert job.green == 0


@pytest.mark.parametrize("name", ["python", "clients > python"])
def test_the_runs_of_a_childs_job_are_found_on_the_target_branch(
    sim: GitLabSim, scene: Scene, reader: Reader, name: str
) -> None:
    sim.add_job(start(sim, scene, scene.pipeline, "clients"), "python", status="failed")
    fetch(reader, "gitlab_list_pipeline_jobs")
    mains = [add_main(sim, scene) for _ in range(2)]
    children = [start(sim, scene, main, "clients") for main in mains]
    jobs = [sim.add_job(child, "python", trace=b"fine\n") for child in children]
    found = fetch(reader, "gitlab_list_job_runs", job_name=name)
    runs = [(run["job_id"], run["pipeline"]) for run in told(found)["runs"]]
    assert runs == [(job.id, job.pipeline.id) for job in reversed(jobs)]
    run = told(found)["runs"][0]
    assert (run["started_by"], run["of_pipeline"], found.gaps) == ("clients", mains[1].id, "")
    first, last = fetch(reader, "gitlab_get_last_green_log", job_name=name).data.splitlines()
    assert first == b"fine"
    assert last.startswith(f"[this is the log of job {jobs[1].id}, passed on main ".encode())
    log = fetch(reader, "gitlab_get_job_log", job_id=jobs[0].id)
    assert log.data == b"fine\n"
    (asked,) = {each.path for each in sim.requests if f"/{children[0].id}/jobs" in each.path}
    assert asked  # of the older pipeline, only the child behind that trigger job was read
    assert not any(
        f"/{mains[0].bridges[0].downstream.id}/jobs" in each.path  # type: ignore[union-attr]
        for each in sim.requests
    )


def test_where_no_child_has_the_job_their_jobs_are_named_too(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    add_main(sim, scene)
    found = fetch(reader, "gitlab_list_job_runs", job_name="pythn")
    assert found.gaps == (
        "runs: no job 'pythn' in 1 pipelines of main, which have: check, docs > pages"
    )


def test_only_so_many_children_are_searched_and_that_is_said(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    for _ in range(job_runs.PIPELINES):
        main = add_main(sim, scene)
        start(sim, scene, main, "more")
    found = fetch(reader, "gitlab_list_job_runs", job_name="python")
    assert found.gaps.startswith(
        f"what main has started besides {job_runs.STARTED} pipelines; runs: no job 'python' in "
    )
    assert len(sim.requests) < 2 * job_runs.PIPELINES + job_runs.STARTED + 5
    with pytest.raises(SourceError, match="not known: what main has started besides"):
        fetch(reader, "gitlab_get_last_green_log", job_name="python")


def test_children_in_a_project_that_may_not_be_read_are_not_searched(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    other = sim.add_project("shared/clients")
    sim.add_member(other, scene.bot, Access.REPORTER)
    child = start(sim, scene, add_main(sim, scene), "clients", other)
    sim.add_job(child, "python", trace=b"fine\n")
    found = fetch(reader, "gitlab_list_job_runs", job_name="python")
    assert told(found)["runs"] == []
    assert not any(f"/projects/{other.id}/" in each.path for each in sim.requests)


def test_trigger_jobs_that_cannot_be_read_are_said_and_hide_no_older_run(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    mains = [add_main(sim, scene) for _ in range(2)]
    sim.add_job(start(sim, scene, mains[0], "clients"), "python")
    sim.fail_next("GET", rf".*/pipelines/{mains[1].id}/trigger_jobs.*", 403)
    found = fetch(reader, "gitlab_list_job_runs", job_name="python")
    assert len(told(found)["runs"]) == 1
    assert found.gaps.startswith(f"what pipeline {mains[1].id} has started: ")
