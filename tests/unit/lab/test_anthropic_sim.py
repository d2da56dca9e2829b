"""The simulator and the real client, over real HTTP."""

from collections.abc import Iterator

import httpx
import pytest

from tests.unit.simulators.conversation import Conversation, Started, starting
from worker.errors import ContextOverflow
from worker.lab.script import Call, Say, Think


@pytest.fixture
def start() -> Iterator[Started]:
    with starting("anthropic") as found:
        yield found


def test_thinking_under_a_notice_that_is_gone_is_refused_and_the_client_recovers(
    start: Started,
) -> None:
    sim, model = start([Think(Call([("look", {})])), Think(Call([("look", {})])), Say("done")])
    session = Conversation(model)
    session.ask()
    session.ask("hurry")
    assert session.ask().text == "done"

    assert [b"signature" in raw for raw in sim.raw] == [False, True, True, False]
    assert "bound to a different conversation" in sim.unexpected_requests[0]


def test_a_prompt_longer_than_the_window_overflows(start: Started) -> None:
    _, model = start([Say("x")], window=500)

    with pytest.raises(ContextOverflow):
        Conversation(model).ask()


@pytest.mark.parametrize(
    ("method", "path", "content", "status"),
    [
        ("POST", "/v1/models", b"{}", 404),
        ("POST", "/v1/messages", b"{", 400),
        ("POST", "/v1/messages", b'{"model":"gpt","max_tokens":1,"messages":7}', 400),
        (
            "POST",
            "/v1/messages",
            b'{"model":"gpt","max_tokens":1,"messages":[{"role":"user","content":"x"}]}',
            404,
        ),
    ],
)
def test_what_the_api_does_not_know_is_an_error_body_and_recorded(
    start: Started, method: str, path: str, content: bytes, status: int
) -> None:
    sim, _ = start([Say("x")])
    headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    headers["content-type"] = "application/json"
    with httpx.Client(trust_env=False) as client:
        answer = client.request(method, sim.url + path, content=content, headers=headers)

    assert answer.status_code == status
    assert answer.json()["type"] == "error"
    assert len(sim.unexpected_requests) == 1
