"""Lists that GitLab's versions call differently, or that hold more than their name says."""

import pytest

from tests.simulators.gitlab import Bridge, GitLabSim, Scene
from tests.unit.conftest import fetch, told
from worker.gitlab.read.api import NotFound, ReadClient
from worker.gitlab.read.session_reader import Reader


def path(scene: Scene) -> str:
    return f"/projects/{scene.project.id}/pipelines/{scene.pipeline.id}"


def asked(sim: GitLabSim) -> list[str]:
    """Which lists of trigger jobs were asked for, and what GitLab answered."""
    found = [(each.path.rpartition("/")[2], each.status) for each in sim.requests]
    return [f"{name} {status}" for name, status in found if name in ("trigger_jobs", "bridges")]


def test_the_list_of_19_2_is_asked_for_first(sim: GitLabSim, scene: Scene, reader: Reader) -> None:
    scene.pipeline.bridges.append(Bridge(1, "deploy", "failed"))
    (found,) = reader.client.list_trigger_jobs(path(scene), "x").items
    assert found.name == "deploy"
    assert asked(sim) == ["trigger_jobs 200"]


def test_an_older_gitlab_is_asked_once_for_what_it_has_not(
    sim: GitLabSim, scene: Scene, client: ReadClient
) -> None:
    sim.version = (19, 1)
    scene.pipeline.bridges.append(Bridge(1, "deploy", "failed"))
    for each in (client, client.with_deadline(float("inf"))):
        assert [job.name for job in each.list_trigger_jobs(path(scene), "x").items] == ["deploy"]
    assert asked(sim) == ["trigger_jobs 404", "bridges 200", "bridges 200"]


def test_a_gitlab_that_drops_the_old_list_is_asked_for_the_new_one(
    sim: GitLabSim, scene: Scene, client: ReadClient
) -> None:
    sim.version = (19, 1)
    client.list_trigger_jobs(path(scene), "x")
    sim.version = (20, 0)
    sim.fail_next("GET", "/bridges", 404, times=5)
    client.list_trigger_jobs(path(scene), "x")
    client.list_trigger_jobs(path(scene), "x")
    assert asked(sim)[2:] == ["bridges 404", "trigger_jobs 200", "trigger_jobs 200"]


def test_a_pipeline_that_is_gone_is_not_taken_for_an_old_gitlab(
    sim: GitLabSim, scene: Scene, client: ReadClient
) -> None:
    with pytest.raises(NotFound):
        client.list_trigger_jobs(f"/projects/{scene.project.id}/pipelines/7", "x")
    client.list_trigger_jobs(path(scene), "x")
    assert asked(sim) == ["trigger_jobs 404", "bridges 404", "trigger_jobs 200"]


def release(sim: GitLabSim, scene: Scene, count: int) -> None:
    """Pipelines of a merge request from the default branch to a release branch, all failed."""
    mr = sim.open_merge_request(
        scene.project, scene.developer, title="Release", branch="main", target_branch="release"
    )
    for _ in range(count):
        sim.run_pipeline(mr)


def test_a_branchs_pipelines_are_not_those_of_a_merge_request_from_it(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    own = sim.run_pipeline(scene.mr, status="success", kind="branch", project=scene.project)
    own.ref = "main"
    release(sim, scene, 1)
    found = told(fetch(reader, "gitlab_list_branch_pipelines"))["pipelines"]
    assert [each["id"] for each in found] == [own.id]


def test_many_of_a_merge_request_do_not_hide_the_branchs_own(
    sim: GitLabSim, scene: Scene, client: ReadClient
) -> None:
    own = sim.run_pipeline(scene.mr, kind="branch", project=scene.project)
    own.ref = "main"
    release(sim, scene, 7)
    project = f"/projects/{scene.project.id}"
    found = client.list_branch_pipelines(project, "main", "x", 5)
    assert [each.id for each in found.items] == [own.id]
