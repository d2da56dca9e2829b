"""The simulated GitLab answers as GitLab does, and refuses what no client should ask."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.simulators.gitlab import Access, GitLabSim, Scene


@pytest.fixture
def sim() -> Iterator[GitLabSim]:
    with GitLabSim() as running:
        yield running


def ask(sim: GitLabSim, token: str, path: str, method: str = "GET", **rest: Any) -> httpx.Response:
    headers = {"PRIVATE-TOKEN": token} if token else {}
    with httpx.Client(base_url=f"{sim.url}/api/v4/", trust_env=False, headers=headers) as client:
        return client.request(method, path, **rest)


@pytest.mark.parametrize("token", ["", "glpat-unknown"])
def test_without_a_known_token_everything_is_401(sim: GitLabSim, scene: Scene, token: str) -> None:
    response = ask(sim, token, "user")
    assert (response.status_code, response.json()) == (401, {"message": "401 Unauthorized"})
    assert sim.requests[-1].token == ("?" if token else "")


def test_a_read_token_cannot_write(sim: GitLabSim, scene: Scene) -> None:
    place = f"projects/{scene.project.id}/merge_requests/1/notes"
    response = ask(sim, scene.read_token, place, "POST", json={"body": "x"})
    assert response.status_code == 403
    assert response.json()["error"] == "insufficient_scope"
    assert scene.mr.list_notes() == []


@pytest.mark.parametrize(
    ("level", "status"), [(None, 404), (Access.GUEST, 403), (Access.REPORTER, 200)]
)
def test_what_a_private_project_shows_depends_on_the_access_level(
    sim: GitLabSim, scene: Scene, level: Access | None, status: int
) -> None:
    user = sim.add_user("eve")
    if level:
        sim.add_member(scene.project, user, level)
    token = sim.add_token("eve", user, "read_api")
    path = f"projects/{scene.project.id}/jobs/{scene.job.id}/trace"
    assert ask(sim, token, path).status_code == status
    scene.project.public = True
    assert ask(sim, token, path).content == scene.job.trace


STRANGE = [
    ("GET", "projects/501/snippets", {}, 404),
    ("GET", "projects/501?simple=true", {}, 400),
    ("GET", "projects/501/merge_requests?page=0", {}, 400),
    ("GET", "projects/501/merge_requests?per_page=101", {}, 400),
    ("GET", "projects/501/repository/files/..%2Fx/raw", {}, 400),
    ("POST", "projects/501/merge_requests/1/notes", {"json": {}}, 400),
    ("POST", "projects/501/merge_requests/1/notes", {"json": {"body": "x", "when": 1}}, 400),
    ("POST", "projects/501/merge_requests/1/notes", {"data": {"body": "x"}}, 400),
]


@pytest.mark.parametrize(("method", "path", "rest", "status"), STRANGE)
def test_what_gitlab_would_pass_over_is_refused_and_recorded(
    sim: GitLabSim, scene: Scene, method: str, path: str, rest: dict[str, Any], status: int
) -> None:
    assert ask(sim, scene.write_token, path, method, **rest).status_code == status
    assert len(sim.unexpected_requests) == 1
    assert sim.unexpected_requests[0].startswith(f"{method} /api/v4/")


def test_a_path_outside_the_api_is_recorded_too(sim: GitLabSim) -> None:
    assert httpx.get(f"{sim.url}/team/service.git").status_code == 404
    assert len(sim.unexpected_requests) == 1
