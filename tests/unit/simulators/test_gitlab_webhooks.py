"""The simulated GitLab's test deliveries of webhooks: what they leave, and how they are limited."""

from collections.abc import Iterator

import httpx
import pytest

from tests.simulators.gitlab import Access, GitLabSim, Scene

URL = "https://sandpiper.example/webhooks/gitlab"


@pytest.fixture
def sim() -> Iterator[GitLabSim]:
    with GitLabSim() as made:
        yield made


def ask(sim: GitLabSim, scene: Scene, verb: str, path: str) -> httpx.Response:
    sim.add_member(scene.project, scene.bot, Access.MAINTAINER)
    url = f"{sim.url}/api/v4/projects/{scene.project.id}/hooks{path}"
    return httpx.request(verb, url, headers={"PRIVATE-TOKEN": scene.write_token}, trust_env=False)


def test_a_test_is_delivered_noted_and_limited(sim: GitLabSim, scene: Scene) -> None:
    sim.webhooks.post = lambda url, event: (401, "")
    hook = sim.webhooks.add(scene.project, URL, token="x")
    asked = [ask(sim, scene, "POST", f"/{hook.id}/test/push_events") for _ in range(6)]
    assert [answer.status_code for answer in asked] == [201] * 5 + [429]
    events = ask(sim, scene, "GET", f"/{hook.id}/events").json()
    assert [each["id"] for each in events] == [5, 4, 3, 2, 1]
    assert {each["response_status"] for each in events} == {"401"}
    assert ask(sim, scene, "POST", f"/{hook.id}/test/no_events").status_code == 400


def test_a_receiver_that_is_not_there_fails_the_test(sim: GitLabSim, scene: Scene) -> None:
    sim.webhooks.post = lambda url, event: (0, "Failed to open TCP connection")
    hook = sim.webhooks.add(scene.project, URL)
    answer = ask(sim, scene, "POST", f"/{hook.id}/test/push_events")
    assert (answer.status_code, "TCP" in answer.text) == (422, True)
