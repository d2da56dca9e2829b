"""What the door tells of the requests that came to it, and its /metrics."""

import pytest
from starlette.applications import Starlette

from tests.accepting import one_by_one
from tests.unit.webhook.cases import PROJECTS, headers, payload
from tests.unit.webhook.test_http import SECRET, TOKEN, send
from worker.conversation.triggers import Trigger
from worker.errors import QueueError
from worker.webhook.http import METRICS_TYPE, build_app

Counted = list[tuple[str, str]]
FAILED = "pipeline__merge_request_failed"


def door(counted: Counted, *, down: bool = False, page: bool = True) -> Starlette:
    def enqueue(trigger: Trigger) -> None:
        if down:
            raise QueueError("down", transient=True)

    return build_app(
        *(SECRET, one_by_one(enqueue), PROJECTS, lambda: 0.0, lambda: None),
        record_outcome=lambda kind, outcome: counted.append((kind, outcome)),
        render_metrics=(lambda: b"sandpiper_x 1\n") if page else None,
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (FAILED, ("pipeline", "accepted")),
        ("pipeline__running", ("pipeline", "ignored")),
        ("confidential_note__reply_in_thread", ("note", "accepted")),
        ("emoji__award", ("emoji", "accepted")),
        ("system__push", ("system", "ignored")),
        ("push__branch", ("other", "ignored")),
    ],
)
def test_each_request_is_told_with_its_kind_and_outcome(
    name: str, expected: tuple[str, str]
) -> None:
    counted: Counted = []
    send(door(counted), headers=TOKEN | headers(name), content=payload(name))
    assert counted == [expected]


def test_what_is_refused_and_what_cannot_be_queued_are_told_apart() -> None:
    counted: Counted = []
    stranger = {"x-gitlab-token": "wrong"} | headers(FAILED)
    send(door(counted), headers=stranger, content=payload(FAILED))
    send(door(counted, down=True), headers=TOKEN | headers(FAILED), content=payload(FAILED))
    assert counted == [("pipeline", "rejected"), ("pipeline", "unavailable")]


def test_a_stranger_cannot_make_up_a_kind() -> None:
    counted: Counted = []
    for number in range(3):
        send(door(counted), headers={"x-gitlab-event": f"made up {number}"}, content=b"{}")
    assert set(counted) == {("other", "rejected")}


def test_metrics_are_a_page_or_are_not_there() -> None:
    answer = send(door([]), "GET", "/metrics")
    assert (answer.status_code, answer.text) == (200, "sandpiper_x 1\n")
    assert answer.headers["content-type"] == METRICS_TYPE
    assert send(door([], page=False), "GET", "/metrics").status_code == 404
