"""Each project's webhook has a secret of its own: one that leaks is that project's alone."""

import base64
import hashlib
import hmac
from collections.abc import AsyncIterator, Callable, Sequence

import httpx
import pytest

from tests.accepting import one_by_one, queue_nothing
from tests.unit.webhook.cases import CASES, NOT_READ, PROJECTS, headers, payload
from tests.unit.webhook.test_http import send
from worker.conversation.triggers import Trigger
from worker.errors import ConfigError
from worker.settings.gitlab import derive_secret, make_address
from worker.webhook.http import PATH, build_app

PLAIN = "a-key-of-thirty-two-characters-00"
SIGNING = "whsec_" + base64.b64encode(bytes(range(32))).decode()
OLD = "the-key-before-it-32-characters-0"
SHARED = "what-all-projects-share"
OURS, OTHER, FORK, UNLISTED = 233, 4711, 977, 501
NOW = 1_795_000_000.0
FAILED, PUSH = "pipeline__merge_request_failed", "push__branch"
READ = [name for name, told in CASES.items() if NOT_READ not in str(told)[:60]]
READ = [name for name in READ if not str(CASES[name]).startswith("of system hooks")]


class Door:
    """A receiver with these keys, and what it has queued."""

    def __init__(self, keys: Sequence[str] = (PLAIN,), shared: str = "") -> None:
        self.queue: list[Trigger] = []
        self.app = build_app(
            *(shared, one_by_one(self.queue.append), PROJECTS, lambda: NOW, lambda: None), keys=keys
        )

    def take(self, name: str, secret: str, address: str = "") -> httpx.Response:
        body = payload(name)
        sent = headers(name) | make_proof(secret, body)
        return send(self.app, path=address or make_address(PATH, OURS), headers=sent, content=body)


def make_proof(secret: str, body: bytes) -> dict[str, str]:
    """Make the headers by which GitLab proves a secret."""
    if not secret.startswith("whsec_"):
        return {"x-gitlab-token": secret}
    key, stamp = base64.b64decode(secret.removeprefix("whsec_")), str(int(NOW))
    mac = hmac.new(key, f"m1.{stamp}.".encode() + body, hashlib.sha256).digest()
    signature = f"v1,{base64.b64encode(mac).decode()}"
    return {"webhook-id": "m1", "webhook-timestamp": stamp, "webhook-signature": signature}


@pytest.mark.parametrize("key", [PLAIN, SIGNING])
def test_a_projects_secret_is_taken_for_its_events(key: str) -> None:
    door = Door([key])
    assert door.take(FAILED, derive_secret(key, OURS)).status_code == 202
    assert door.take("note__reply_in_thread", derive_secret(key, OURS)).status_code == 202
    assert door.take("emoji__award", derive_secret(key, OURS)).status_code == 202
    assert door.take(PUSH, derive_secret(key, OURS)).status_code == 200
    forked = door.take("pipeline__fork_failed", derive_secret(key, FORK), make_address(PATH, FORK))
    assert forked.status_code == 202
    assert len(door.queue) == 4


@pytest.mark.attack("door")
@pytest.mark.parametrize("key", [PLAIN, SIGNING])
def test_whoever_has_one_projects_secret_sends_no_event_of_another(
    key: str, record_property: Callable[[str, object], None]
) -> None:
    door, tried = Door([key], shared=SHARED), 0
    leaked, theirs = derive_secret(key, OTHER), make_address(PATH, OTHER)
    for name in READ:
        for address in (theirs, make_address(PATH, OURS), PATH, f"{theirs}&project={OURS}"):
            assert door.take(name, leaked, address).status_code == 401, (name, address)
            tried += 1
    # Its own project in the event, and a merge request of ours.
    leaked, theirs = derive_secret(key, UNLISTED), make_address(PATH, UNLISTED)
    assert door.take("note__hook_of_another_project", leaked, theirs).status_code == 401
    assert door.queue == []
    record_property("tried", tried)


@pytest.mark.attack("door")
@pytest.mark.parametrize("key", [PLAIN, SIGNING])
@pytest.mark.parametrize("shared", ["", SHARED])
def test_neither_the_key_nor_what_all_share_opens_a_projects_address(key: str, shared: str) -> None:
    door = Door([key], shared)
    addresses = [make_address(PATH, OURS), f"{PATH}?project=", f"{PATH}?project=0", PATH]
    addresses += [f"{PATH}?project=-1", f"{PATH}?project={'9' * 30}", f"{PATH}?project=٣"]
    for address in addresses:
        given = [key, "", derive_secret(key, 1)] + ([] if address == PATH else [SHARED])
        for secret in given:
            assert door.take(FAILED, secret, address).status_code == 401, (address, secret)
    assert door.queue == []


def test_the_shared_secret_is_taken_beside_the_key_where_no_project_is_named() -> None:
    assert Door(shared=SHARED).take(FAILED, SHARED, PATH).status_code == 202
    refused = Door().take(FAILED, SHARED, PATH)
    assert refused.status_code == 401
    assert "?project=ID" in refused.json()["error"]


def test_without_a_key_an_address_that_names_a_project_takes_the_shared_secret() -> None:
    assert Door([], SHARED).take(FAILED, SHARED).status_code == 202


@pytest.mark.parametrize("new", [PLAIN, SIGNING])
@pytest.mark.parametrize("old", [OLD, "whsec_" + base64.b64encode(b"o" * 32).decode()])
def test_while_two_keys_stand_secrets_of_both_are_taken(new: str, old: str) -> None:
    door = Door([new, old])
    for key in (new, old):
        assert door.take(FAILED, derive_secret(key, OURS)).status_code == 202
        assert door.take(FAILED, derive_secret(key, OTHER)).status_code == 401
    assert Door([new]).take(FAILED, derive_secret(old, OURS)).status_code == 401


def test_a_wrong_secret_of_a_project_is_refused_before_the_body_is_read() -> None:
    read: list[bytes] = []

    async def body() -> AsyncIterator[bytes]:
        read.append(b"{")
        yield b"{"

    door = Door()
    answer = send(
        door.app,
        path=make_address(PATH, OURS),
        headers={"x-gitlab-token": derive_secret(PLAIN, OTHER)},
        content=body(),
    )
    assert answer.status_code == 401
    assert read == []


def test_secrets_of_projects_have_nothing_in_common_and_stay_the_same() -> None:
    for key in (PLAIN, SIGNING, OLD):
        made = [derive_secret(key, number) for number in range(1, 200)]
        assert len(set(made)) == len(made)
        assert made == [derive_secret(key, number) for number in range(1, 200)]
        assert all(key.removeprefix("whsec_") not in each for each in made)
    assert len(base64.b64decode(derive_secret(SIGNING, 1).removeprefix("whsec_"))) == 32


def test_a_door_with_neither_key_nor_secret_is_not_built() -> None:
    with pytest.raises(ConfigError, match="GITLAB_WEBHOOK_KEY"):
        build_app("", queue_nothing, (), lambda: 0.0, lambda: None)
