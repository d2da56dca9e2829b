"""Both simulators and the real client, over real HTTP."""

from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from tests.fakes import HandClock
from tests.simulators.openai import ResponsesSim
from tests.unit.simulators.conversation import KEY, Conversation, Started, starting
from worker.conversation.messages import Assistant
from worker.lab.script import Call, Say, Scripted, Think
from worker.models import table


@pytest.fixture(params=["chat", "responses"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def start(kind: str) -> Iterator[Started]:
    with starting(kind) as found:
        yield found


def test_a_short_prompt_is_not_cached(start: Started) -> None:
    _, model = start([Call([("look", {})]), Say("done")])
    session = Conversation(model)
    session.ask(system="S")

    assert session.ask(system="S").usage.cache_read == 0


@pytest.mark.parametrize(
    ("method", "path", "content", "status"),
    [
        ("POST", "/more", b"{}", 404),
        ("POST", "", b'{"model":"gpt-6-sol","input":7,"messages":7}', 400),
        ("POST", "", b'{"model":"gpt-6-sol"}', 400),
    ],
)
def test_what_the_api_does_not_know_is_an_error_body_and_recorded(
    start: Started, kind: str, method: str, path: str, content: bytes, status: int
) -> None:
    sim, _ = start([Say("x")])
    place = "/chat/completions" if kind == "chat" else "/responses"
    with httpx.Client(trust_env=False) as client:
        answer = client.request(
            method,
            sim.url + place + path,
            content=content,
            headers={"content-type": "application/json"},
        )

    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert answer.headers["x-request-id"].startswith("req_")
    assert len(sim.unexpected_requests) == 1


def test_reasoning_of_another_model_is_withheld_and_said_to_be() -> None:
    with ResponsesSim(Scripted([Think(Call([("look", {})])), Say("done")])) as sim:
        one = table.build_model("openai/gpt-6-sol", sim.url, KEY, clock=HandClock())
        session = Conversation(one)
        session.ask()
        one.close()
        body = sim.requests[-1] | {"model": "gpt-6.2-sol"}
        answer = session.messages[1]
        assert isinstance(answer, Assistant)
        assert answer.wire is not None
        two = table.build_model("openai/gpt-6.2-sol", sim.url, KEY, clock=HandClock())
        session.model = two
        session.messages[1] = replace(answer, wire=replace(answer.wire, origin=two.name))
        session.ask()
        two.close()

    assert body["model"] == sim.requests[-1]["model"]
    assert [each["reason"] for each in sim.answers[-1]["input_transformations"]] == [
        "model_mismatch"
    ]
