"""Notes on the simulated GitLab: threads, quick actions, reactions, and the hooks they fire."""

import json
from collections.abc import Iterator

import httpx
import pytest

from tests.simulators.gitlab import GitLabSim, Scene
from worker.lab.gitlab import state
from worker.lab.gitlab.views import Event


@pytest.fixture
def api(sim: GitLabSim, scene: Scene) -> Iterator[httpx.Client]:
    """The bot's client; its base is the merge request."""
    base = f"{sim.url}/api/v4/projects/{scene.project.id}/merge_requests/{scene.mr.iid}/"
    headers = {"PRIVATE-TOKEN": scene.write_token}
    with httpx.Client(base_url=base, headers=headers, trust_env=False) as client:
        yield client


def test_an_edit_changes_the_note_and_only_the_author_or_a_maintainer_may(
    sim: GitLabSim, scene: Scene, api: httpx.Client
) -> None:
    number = api.post("notes", json={"body": "one"}).json()["id"]
    assert api.put(f"notes/{number}", json={"body": "two"}).json()["body"] == "two"
    theirs = sim.comment(scene.mr, scene.developer, "mine")
    assert theirs is not None
    assert api.put(f"notes/{theirs.id}", json={"body": "yours"}).status_code == 403
    assert theirs.body == "mine"


@pytest.mark.parametrize(
    ("body", "error"),
    [("", "can't be blank"), ("  \n", "can't be blank"), ("x" * 1_000_001, "is too long")],
)
def test_a_note_that_gitlab_would_not_keep_is_a_400(
    scene: Scene, api: httpx.Client, body: str, error: str
) -> None:
    response = api.post("notes", json={"body": body})
    assert response.status_code == 400
    assert error in response.json()["message"]
    assert scene.mr.list_notes() == []


def test_a_note_of_nothing_but_quick_actions_is_run_and_not_made(
    sim: GitLabSim, scene: Scene, api: httpx.Client
) -> None:
    response = api.post("notes", json={"body": "/close\n/assign @mara"})
    assert response.status_code == 202
    assert "id" not in response.json()
    ran = [(each.command, each.arguments, each.username) for each in sim.quick_actions]
    assert ran == [("close", "", scene.bot.username), ("assign", "@mara", scene.bot.username)]
    sim.quick_actions.clear()
    assert scene.mr.list_notes() == []


def test_an_edit_to_nothing_but_quick_actions_deletes_the_note(
    sim: GitLabSim, scene: Scene, api: httpx.Client
) -> None:
    number = api.post("notes", json={"body": "one"}).json()["id"]
    api.put(f"notes/{number}", json={"body": "/merge"})
    assert [each.command for each in sim.quick_actions] == ["merge"]
    sim.quick_actions.clear()
    assert scene.mr.list_notes() == []
    assert scene.mr.discussions == {}


COMMANDS = [
    ("text\n/close\nmore", ["close"], "text\nmore"),
    ("/CLOSE", ["close"], ""),
    ("/close now\r\n/merge", ["close", "merge"], ""),
    ("text\u2028/close", ["close"], "text"),
    ("a\n\n/label ~bug ~x\n", ["label"], "a\n\n"),
    ("```\n/close\n```", [], "```\n/close\n```"),
    ("```\n```\n/close", ["close"], "```\n```"),
    ("<details>\n\n/close\n\n</details>", ["close"], "<details>\n\n\n</details>"),
]


@pytest.mark.parametrize(("body", "found", "left"), COMMANDS)
def test_quick_actions_are_found_where_gitlab_finds_them(
    body: str, found: list[str], left: str
) -> None:
    text, ran = state.extract_commands(body)
    assert [command for command, _ in ran] == found
    assert text == left


def test_every_note_made_or_changed_fires_its_hook_also_the_bots_own(
    sim: GitLabSim, scene: Scene, api: httpx.Client
) -> None:
    fired: list[Event] = []
    sim.note_listeners.append(lambda *note: fired.append(sim.make_note_event(*note)))
    number = api.post("notes", json={"body": "one"}).json()["id"]
    api.put(f"notes/{number}", json={"body": "two"})
    api.put(f"notes/{number}", json={"body": "two"})
    sim.comment(scene.mr, scene.developer, "three", internal=True)
    payloads = [json.loads(body) for _, body in fired]
    assert [
        (headers["X-Gitlab-Event"], said["object_attributes"]["action"], said["user"]["id"])
        for (headers, _), said in zip(fired, payloads, strict=True)
    ] == [
        ("Note Hook", "create", scene.bot.id),
        ("Note Hook", "update", scene.bot.id),
        ("Confidential Note Hook", "create", scene.developer.id),
    ]
    assert [said["object_attributes"]["note"] for said in payloads] == ["one", "two", "three"]
