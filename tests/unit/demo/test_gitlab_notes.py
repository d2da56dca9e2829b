"""Notes on the simulated GitLab: threads, quick actions, reactions, and the hooks they fire."""

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import httpx
import pytest

from tests.simulators.gitlab import GitLabSim, Receiver, Scene
from worker.demo.gitlab import commands


@pytest.fixture
def api(sim: GitLabSim, scene: Scene) -> Iterator[httpx.Client]:
    """The bot's client; its base is the merge request."""
    base = f"{sim.url}/api/v4/projects/{scene.project.id}/merge_requests/{scene.mr.iid}/"
    headers = {"PRIVATE-TOKEN": scene.write_token}
    with httpx.Client(base_url=base, headers=headers, trust_env=False) as client:
        yield client


def test_everything_in_an_internal_thread_is_internal(api: httpx.Client) -> None:
    note = api.post("notes", json={"body": "psst", "internal": True}).json()
    (thread,) = api.get("discussions").json()
    reply = api.post(f"discussions/{thread['id']}/notes", json={"body": "what?"}).json()
    assert note["internal"] is True
    assert reply["internal"] is True


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
    text, ran = commands.extract_commands(body)
    assert [command for command, _ in ran] == found
    assert text == left


def test_the_same_reaction_twice_is_an_error(api: httpx.Client) -> None:
    number = api.post("notes", json={"body": "one"}).json()["id"]
    first = api.post(f"notes/{number}/award_emoji", json={"name": "eyes"})
    assert first.status_code == 201
    assert api.post(f"notes/{number}/award_emoji", json={"name": "eyes"}).status_code == 404
    assert api.delete(f"notes/{number}/award_emoji/{first.json()['id']}").status_code == 204
    assert api.get(f"notes/{number}/award_emoji").json() == []


# ------------------------------------------------------------------------------------------ hooks


class Inbox(HTTPServer):
    """A receiver that keeps what it gets."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.got: list[tuple[dict[str, str], bytes]] = []


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert isinstance(self.server, Inbox)
        self.server.got.append((dict(self.headers), body))
        self.send_response(202)
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *args: Any) -> None:
        """Quiet."""


@pytest.fixture
def inbox(sim: GitLabSim) -> Iterator[Inbox]:
    with Inbox() as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        sim.receiver = Receiver(f"http://127.0.0.1:{server.server_port}/hook", "s3cret")
        yield server
        sim.receiver = None
        server.shutdown()
        thread.join(5)


def test_every_note_made_or_changed_fires_its_hook_also_the_bots_own(
    sim: GitLabSim, scene: Scene, api: httpx.Client, inbox: Inbox
) -> None:
    number = api.post("notes", json={"body": "one"}).json()["id"]
    api.put(f"notes/{number}", json={"body": "two"})
    api.put(f"notes/{number}", json={"body": "two"})
    sim.comment(scene.mr, scene.developer, "three", internal=True)
    sim.wait_for_deliveries()
    payloads = [json.loads(body) for _, body in inbox.got]
    facts = [
        (each["event_type"], each["object_attributes"]["action"], each["object_attributes"]["note"])
        for each in payloads
    ]
    assert facts == [
        ("note", "create", "one"),
        ("note", "update", "two"),
        ("confidential_note", "create", "three"),
    ]
    assert [headers["X-Gitlab-Event"] for headers, _ in inbox.got] == [
        "Note Hook", "Note Hook", "Confidential Note Hook",
    ]  # fmt: skip
    assert payloads[0]["object_attributes"]["author_id"] == scene.bot.id
    assert payloads[0]["merge_request"]["iid"] == scene.mr.iid


def test_a_hook_carries_the_secret_and_the_same_key_when_sent_again(
    sim: GitLabSim, scene: Scene, inbox: Inbox
) -> None:
    event = sim.make_pipeline_event(scene.pipeline)
    for _ in range(2):
        assert sim.deliver(event).status_code == 202
    first, second = (headers for headers, _ in inbox.got)
    assert first["X-Gitlab-Token"] == "s3cret"
    assert first["X-Gitlab-Event"] == "Pipeline Hook"
    assert first["X-Gitlab-Instance"] == sim.url
    assert first["Idempotency-Key"] == second["Idempotency-Key"]
    assert sim.make_pipeline_event(scene.pipeline)[0]["Idempotency-Key"] != first["Idempotency-Key"]


def test_a_signed_hook_can_be_verified(sim: GitLabSim, scene: Scene) -> None:
    key = bytes(range(32))
    secret = f"whsec_{base64.b64encode(key).decode()}"
    sim.receiver = Receiver("http://127.0.0.1:9/", signing_token=secret)
    headers, body = sim.make_pipeline_event(scene.pipeline)
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    mac = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{mac}"
    assert headers["webhook-id"] == headers["Idempotency-Key"]


def test_a_branch_pipelines_hook_names_no_merge_request(sim: GitLabSim, scene: Scene) -> None:
    pipeline = sim.run_pipeline(scene.mr, kind="branch")
    assert json.loads(sim.make_pipeline_event(pipeline)[1])["merge_request"] is None
