"""Both simulators and the real client, over real HTTP."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.fakes import HandClock
from tests.simulators.openai import ChatSim, ResponsesSim
from worker.core.conversation.messages import (
    Assistant,
    Message,
    ToolResult,
    ToolSpec,
    User,
    WireForm,
)
from worker.core.ports import Reply, Request
from worker.demo.script import (
    Call,
    Say,
    Scripted,
    Step,
    Think,
)
from worker.errors import ModelError
from worker.models import table
from worker.models.http.client import HttpModel

LOOK = ToolSpec("look", "Look.", {"type": "object", "properties": {}})
KEY = "sk-test-0123456789"
Sim = ChatSim | ResponsesSim
Started = Callable[..., tuple[Any, HttpModel]]
KINDS: dict[str, tuple[type[Any], str]] = {
    "chat": (ChatSim, "openai-compatible/qwen3"),
    "responses": (ResponsesSim, "openai/gpt-6-sol"),
}


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def start(kind: str) -> Iterator[Started]:
    """Starts a simulator of a script with a model that asks it."""
    opened: list[tuple[Any, HttpModel]] = []

    def _start(*turns: Sequence[Step], **options: Any) -> tuple[Any, HttpModel]:
        make, spec = KINDS[kind]
        sim = make(Scripted(*turns), **options)
        sim.__enter__()
        model = table.build_model(spec, sim.url, KEY, clock=HandClock(), jitter=lambda: 0.0)
        opened.append((sim, model))
        return sim, model

    yield _start
    for sim, model in opened:
        model.close()
        sim.__exit__(None, None, None)


class Conversation:
    """A session as the loop would keep it."""

    def __init__(self, model: HttpModel, event: str = "event") -> None:
        self.model = model
        self.messages: list[Message] = [User(event)]

    def ask(self, notice: str = "", **changes: Any) -> Reply:
        """One request; the answer and results for its calls are kept."""
        request = Request("S" * 6000, (LOOK,), tuple(self.messages), notice)
        reply = self.model.reply(replace(request, **changes))
        if reply.text or reply.calls:
            wire = WireForm(self.model.name, reply.wire)
            self.messages.append(Assistant(reply.text, reply.calls, wire))
        self.messages += [ToolResult(c.id, c.name, f"saw {c.arguments}") for c in reply.calls]
        return reply


def test_a_short_prompt_is_not_cached(start: Started) -> None:
    _, model = start([Call([("look", {})]), Say("done")])
    session = Conversation(model)
    session.ask(system="S")

    assert session.ask(system="S").usage.cache_read == 0


def test_a_wrong_key_is_refused(start: Started) -> None:
    sim, model = start([Say("x")], key="another")

    with pytest.raises(ModelError, match="set OPENAI_API_KEY"):
        Conversation(model).ask()
    assert "Incorrect API key provided" in sim.unexpected_requests[0]


def test_a_changed_system_text_or_tool_set_is_noticed(start: Started) -> None:
    sim, model = start([Call([("look", {})]), Call([("look", {})]), Say("x")])
    session = Conversation(model)
    session.ask()
    session.ask(system="other")
    session.ask(system="other", tools=())

    assert len(sim.unexpected_requests) == 2
    assert sim.unexpected_requests[1] == "tools changed within the conversation"


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([], "turn 0 has no step 2"),
    ],
)
def test_a_script_without_an_answer_is_an_error(
    start: Started, steps: list[Step], says: str
) -> None:
    sim, model = start([Call([("look", {})]), *steps])
    session = Conversation(model)
    session.ask()

    with pytest.raises(ModelError, match=says):
        session.ask()
    assert len(sim.unexpected_requests) == 1


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
