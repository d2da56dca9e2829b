"""The simulated GitLab's webhooks: who may see them, what is never shown, how tests are limited."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.simulators.gitlab import Access, GitLabSim, Scene, make_failing_merge_request

URL = "https://sandpiper.example/webhooks/gitlab"


@pytest.fixture(scope="module")
def sim() -> Iterator[GitLabSim]:
    with GitLabSim() as made:
        yield made


@pytest.fixture
def scene(sim: GitLabSim) -> Scene:
    made = make_failing_merge_request(sim)
    sim.add_member(made.project, made.bot, Access.MAINTAINER)
    sim.unexpected_requests = []
    return made


def ask(sim: GitLabSim, scene: Scene, verb: str, path: str, **fields: Any) -> httpx.Response:
    return httpx.request(
        verb,
        f"{sim.url}/api/v4/projects/{scene.project.id}/hooks{path}",
        headers={"PRIVATE-TOKEN": scene.write_token},
        json=fields or None,
        trust_env=False,
    )


def test_a_webhook_is_made_changed_and_shown_without_its_secret(
    sim: GitLabSim, scene: Scene
) -> None:
    made = ask(sim, scene, "POST", "", url=URL, token="s3cret", pipeline_events=True)
    assert made.status_code == 201
    assert made.json()["push_events"] is True
    assert (made.json()["token_present"], "s3cret" in made.text) == (True, False)
    changed = ask(sim, scene, "PUT", f"/{made.json()['id']}", url=URL, note_events=True).json()
    assert (changed["pipeline_events"], changed["note_events"]) == (True, True)
    assert changed["token_present"] is True
    moved = ask(sim, scene, "PUT", f"/{made.json()['id']}", url=URL + "/2").json()
    assert moved["token_present"] is False
    assert ask(sim, scene, "GET", "").json() == [moved]


@pytest.mark.parametrize(
    ("verb", "path", "fields", "status"),
    [
        ("POST", "", {"url": "sandpiper.example"}, 422),
        ("POST", "", {"url": URL, "secret": "x"}, 400),
        ("PUT", "/999999", {"url": URL}, 404),
        ("POST", "/999999/test/push_events", {}, 404),
    ],
)
def test_what_gitlab_refuses_is_refused(
    sim: GitLabSim, scene: Scene, verb: str, path: str, fields: dict[str, Any], status: int
) -> None:
    assert ask(sim, scene, verb, path, **fields).status_code == status


def test_only_a_maintainer_sees_them(sim: GitLabSim, scene: Scene) -> None:
    sim.add_member(scene.project, scene.bot, Access.DEVELOPER)
    assert ask(sim, scene, "GET", "").status_code == 403


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
