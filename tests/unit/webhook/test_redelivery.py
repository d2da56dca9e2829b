import json

import httpx
import pytest
from starlette.applications import Starlette

from tests.accepting import one_by_one
from tests.unit.webhook.cases import PROJECTS, headers, payload
from tests.unit.webhook.test_http import SECRET, TOKEN, send
from worker.core.triggers import Trigger
from worker.errors import QueueError
from worker.webhook.http import build_app
from worker.webhook.seen import RecentDeliveries, get_delivery_key

FAILED = "pipeline__merge_request_failed"


class Door:
    """A door with a clock of its own and a broker that can be down."""

    def __init__(self) -> None:
        self.now, self.down = 1000.0, False
        self.queue: list[Trigger] = []
        self.app: Starlette = build_app(
            SECRET, one_by_one(self._take), PROJECTS, lambda: self.now, lambda: None
        )

    def deliver(self, name: str = FAILED, **extra: str) -> httpx.Response:
        more = {key.replace("_", "-"): value for key, value in extra.items()}
        return send(self.app, headers=TOKEN | headers(name) | more, content=payload(name))

    def _take(self, trigger: Trigger) -> None:
        if self.down:
            raise QueueError("down", transient=True)
        self.queue.append(trigger)


@pytest.mark.parametrize("header", ["idempotency_key", "webhook_id"])
def test_a_delivery_sent_again_is_queued_once_and_answered_the_same(header: str) -> None:
    door = Door()
    answers = [door.deliver(**{header: "d-1"}) for _ in range(5)]
    assert {(each.status_code, each.text) for each in answers} == {(202, answers[0].text)}
    assert len(door.queue) == 1
    door.deliver(**{header: "d-2"})
    assert len(door.queue) == 2


def test_a_delivery_without_a_key_is_queued_each_time() -> None:
    door = Door()
    door.deliver()
    door.deliver(idempotency_key="")
    door.deliver(idempotency_key="x" * 201)
    door.deliver(idempotency_key="x" * 201)
    assert len(door.queue) == 4


def test_a_delivery_that_was_not_queued_is_not_remembered() -> None:
    door = Door()
    door.down = True
    assert door.deliver(idempotency_key="d-1").status_code == 503
    door.down = False
    assert door.deliver(idempotency_key="d-1").status_code == 202
    assert len(door.queue) == 1


def test_a_human_who_sends_an_event_again_later_gets_through() -> None:
    door = Door()
    door.deliver(idempotency_key="d-1")
    door.now += 61
    door.deliver(idempotency_key="d-1")
    assert len(door.queue) == 2


def test_a_key_alone_opens_nothing() -> None:
    door = Door()
    door.deliver(idempotency_key="d-1")
    wrong = {"x-gitlab-token": "wrong", "idempotency-key": "d-1"}
    answer = send(door.app, headers=wrong | headers(FAILED), content=payload(FAILED))
    assert answer.status_code == 401
    assert "trigger" not in json.loads(answer.text)


def test_what_is_ignored_is_ignored_again() -> None:
    door = Door()
    answers = {door.deliver("pipeline__running", idempotency_key="d").text for _ in range(2)}
    assert answers == {'{"ignored":"the pipeline is running, not failed"}'}


def test_the_oldest_are_forgotten_first() -> None:
    seen = RecentDeliveries(most=3)
    for number in range(4):
        seen.put(f"d-{number}", f"t-{number}", float(number))
    seen.put("", "nothing", 4.0)
    assert [seen.get(f"d-{number}", 4.0) for number in range(4)] == ["", "t-1", "t-2", "t-3"]
    assert seen.get("", 4.0) == ""


def test_the_signed_id_goes_before_the_unsigned_one() -> None:
    assert get_delivery_key({"idempotency-key": "a", "webhook-id": "b"}) == "b"
    assert get_delivery_key({"idempotency-key": "a"}) == "a"
    assert get_delivery_key({}) == ""
