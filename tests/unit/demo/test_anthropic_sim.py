"""The simulator and the real client, over real HTTP."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.fakes import HandClock
from worker.core.conversation.cache_marks import place_marks
from worker.core.conversation.messages import (
    Assistant,
    Message,
    ToolResult,
    ToolSpec,
    User,
    WireForm,
    group_messages,
)
from worker.core.ports import Reply, Request
from worker.demo.anthropic import AnthropicSim
from worker.demo.script import (
    Call,
    Say,
    Scripted,
    Step,
    Think,
)
from worker.errors import ContextOverflow, ModelError
from worker.models import table
from worker.models.http.client import HttpModel

LOOK = ToolSpec("look", "Look.", {"type": "object", "properties": {}})
KEY = "sk-test-0123456789"
Started = Callable[..., tuple[AnthropicSim, HttpModel]]


@pytest.fixture
def start() -> Iterator[Started]:
    """Starts a simulator of a script with a model that asks it."""
    opened: list[tuple[AnthropicSim, HttpModel]] = []

    def _start(*turns: Sequence[Step], **options: Any) -> tuple[AnthropicSim, HttpModel]:
        sim = AnthropicSim(Scripted(*turns), **options)
        sim.__enter__()
        model = table.build_model("anthropic/claude-sonnet-5-5", sim.url, KEY, clock=HandClock())
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
        self.previous: int | None = None

    def ask(self, notice: str = "", **changes: Any) -> Reply:
        """One request; the answer and results for its calls are kept."""
        spot = place_marks(
            len(group_messages(self.messages)), self.previous, ephemeral=bool(notice)
        )
        request = Request("S" * 4000, (LOOK,), tuple(self.messages), notice, marks=spot.marks)
        reply = self.model.reply(replace(request, **changes))
        self.previous = spot.last
        if reply.text or reply.calls:
            self.messages.append(
                Assistant(reply.text, reply.calls, WireForm(self.model.name, reply.wire))
            )
        self.messages += [ToolResult(c.id, c.name, f"saw {c.arguments}") for c in reply.calls]
        return reply


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


def test_a_wrong_key_is_refused(start: Started) -> None:
    sim, model = start([Say("x")], key="another")

    with pytest.raises(ModelError, match="set ANTHROPIC_API_KEY"):
        Conversation(model).ask()
    assert sim.unexpected_requests == ["POST /v1/messages: invalid x-api-key"]


def test_a_prompt_longer_than_the_window_overflows(start: Started) -> None:
    _, model = start([Say("x")], window=500)

    with pytest.raises(ContextOverflow):
        Conversation(model).ask()


def test_a_changed_system_text_or_tool_set_is_noticed(start: Started) -> None:
    sim, model = start([Call([("look", {})]), Call([("look", {})]), Say("x")])
    session = Conversation(model)
    session.ask()
    session.ask(system="other")
    session.ask(system="other", tools=())

    assert sim.unexpected_requests == [
        "system changed within the conversation",
        "tools changed within the conversation",
    ]


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
