"""The simulator and the real client, over real HTTP."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.fakes import HandClock
from worker.core.breakpoints import place
from worker.core.messages import (
    Assistant,
    Message,
    ToolResult,
    ToolSpec,
    User,
    WireForm,
    groups,
)
from worker.core.ports import Reply, Request, StopReason
from worker.demo.anthropic import AnthropicSim
from worker.demo.script import (
    Call,
    Empty,
    Refuse,
    Say,
    Scripted,
    Step,
    Think,
    Truncated,
    by_conversation,
)
from worker.errors import ContextOverflow, ModelError
from worker.models import table
from worker.models.client import HttpModel

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
        model = table.build("anthropic/claude-sonnet-5-5", sim.url, KEY, clock=HandClock())
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
        spot = place(len(groups(self.messages)), self.previous, ephemeral=bool(notice))
        request = Request("S" * 4000, (LOOK,), tuple(self.messages), notice, marks=spot.marks)
        reply = self.model.reply(replace(request, **changes))
        self.previous = spot.last
        if reply.text or reply.calls:
            self.messages.append(
                Assistant(reply.text, reply.calls, WireForm(self.model.name, reply.wire))
            )
        self.messages += [ToolResult(c.id, c.name, f"saw {c.arguments}") for c in reply.calls]
        return reply


def test_a_session_runs_through_its_script_and_a_reply(start: Started) -> None:
    sim, model = start(
        [
            Call([("look", {"n": 1}), ("look", {"n": 2})]),
            lambda asked: Say(asked.results[1].content),
        ],
        [lambda asked: Say(f"you asked {asked.human}")],
    )
    session = Conversation(model)
    assert [call.arguments for call in session.ask().calls] == ['{"n":1}', '{"n":2}']
    assert session.ask().text == 'saw {"n":2}'
    session.messages.append(User("why?"))
    assert session.ask().text == "you asked why?"

    assert sim.unexpected == []
    assert len(sim.requests) == len(sim.raw) == len(sim.answers) == 3


def test_the_cache_is_read_and_written_as_the_marks_slide(start: Started) -> None:
    _, model = start([Call([("look", {})]), Call([("look", {})]), Say("done")])
    session = Conversation(model)
    usages = [session.ask().usage for _ in range(3)]

    assert usages[0].cache_read == 0
    assert usages[1].cache_read == usages[0].input
    assert usages[2].cache_read == usages[1].input
    assert [usage.uncached for usage in usages] == [0, 0, 0]
    assert all(usage.output > 0 for usage in usages)


def test_thinking_comes_back_signed_and_is_taken_again(start: Started) -> None:
    sim, model = start([Think(Call([("look", {})])), Think(Say("done"), "so"), Say("again")])
    session = Conversation(model)
    assert session.ask().thought
    assert session.ask().usage.reasoning == 1
    session.messages.append(User("sure?"))
    session.ask()

    assert sim.unexpected == []
    assert b'"signature"' in sim.raw[-1]


def test_thinking_under_a_notice_that_is_gone_is_refused_and_the_client_recovers(
    start: Started,
) -> None:
    sim, model = start([Think(Call([("look", {})])), Think(Call([("look", {})])), Say("done")])
    session = Conversation(model)
    session.ask()
    session.ask("hurry")
    assert session.ask().text == "done"

    assert [b"signature" in raw for raw in sim.raw] == [False, True, True, False]
    assert "bound to a different conversation" in sim.unexpected[0]


def test_thinking_under_a_notice_that_is_kept_is_taken(start: Started) -> None:
    sim, model = start([Think(Call([("look", {})])), Think(Call([("look", {})])), Say("done")])
    session = Conversation(model)
    session.ask()
    session.ask("hurry")
    answer, result = session.messages[-2:]
    session.messages[-2:] = [User("hurry"), answer, result]
    session.ask()

    assert sim.unexpected == []


def test_with_tools_off_the_model_concludes(start: Started) -> None:
    sim, model = start([Call([("look", {})]), Call([("look", {})]), Say("done")])
    session = Conversation(model)
    session.ask()

    assert session.ask("last one", tools_allowed=False).text == "done"
    assert sim.requests[-1]["tool_choice"] == {"type": "none"}


@pytest.mark.parametrize(
    ("step", "stop", "text"),
    [
        (Empty(), StopReason.END, ""),
        (Truncated("half", [("look", {})]), StopReason.TRUNCATED, "half"),
        (Refuse("too risky"), StopReason.REFUSED, ""),
        (Say("whole"), StopReason.END, "whole"),
    ],
)
def test_every_kind_of_answer_is_read_as_what_it_is(
    start: Started, step: Step, stop: StopReason, text: str
) -> None:
    _, model = start([step, Say("never")])
    reply = Conversation(model).ask()

    assert (reply.stop, reply.text, reply.calls) == (stop, text, ())


def test_faults_are_overcome_by_the_client_and_cost_the_script_nothing(start: Started) -> None:
    sim, model = start([Say("done")])
    sim.fail_next(529, times=2)
    sim.fail_next(429, headers={"retry-after": "3"})
    sim.fail_next(200, b"<html>")
    sim.cut_next()

    assert Conversation(model).ask().text == "done"
    assert (len(sim.requests), len(sim.answers), sim.unexpected) == (6, 1, [])
    assert len(set(sim.raw)) == 1


def test_a_wrong_key_is_refused(start: Started) -> None:
    sim, model = start([Say("x")], key="another")

    with pytest.raises(ModelError, match="set ANTHROPIC_API_KEY"):
        Conversation(model).ask()
    assert sim.unexpected == ["POST /v1/messages: invalid x-api-key"]


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

    assert sim.unexpected == [
        "system changed within the conversation",
        "tools changed within the conversation",
    ]


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([], "turn 0 has no step 2"),
        ([lambda asked: Say(asked.last("run").content)], "the request has no result of run"),
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
    assert len(sim.unexpected) == 1


def test_sessions_side_by_side_each_follow_their_own_script() -> None:
    def choose(first: str) -> Scripted:
        return Scripted([Call([("look", {})]), Empty(), Say(f"about {first}")])

    def run(name: str, url: str) -> str:
        model = table.build("anthropic/claude-sonnet-5-5", url, KEY, clock=HandClock())
        session = Conversation(model, name)
        session.ask()
        session.ask()
        text = session.ask("again").text
        model.close()
        return text

    names = [f"event {n}" for n in range(8)]
    with AnthropicSim(by_conversation(choose)) as sim, ThreadPoolExecutor(4) as pool:
        texts = list(pool.map(lambda name: run(name, sim.url), names))

    assert texts == [f"about {name}" for name in names]
    assert sim.unexpected == []


@pytest.mark.parametrize(
    ("method", "path", "content", "status"),
    [
        ("GET", "/v1/messages", b"", 404),
        ("POST", "/v1/models", b"{}", 404),
        ("POST", "/v1/messages", b"{", 400),
        ("POST", "/v1/messages", b'{"model":"gpt","max_tokens":1,"messages":7}', 400),
        ("POST", "/v1/messages", b'{"model":"x","max_tokens":1,"messages":[7]}', 400),
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
    assert len(sim.unexpected) == 1
