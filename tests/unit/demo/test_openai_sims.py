"""Both simulators and the real client, over real HTTP."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.fakes import HandClock
from worker.core.messages import Assistant, Message, ToolResult, ToolSpec, User, WireForm
from worker.core.ports import Reply, Request, StopReason
from worker.demo.openai import ChatSim, ResponsesSim
from worker.demo.script import (
    Asked,
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
        model = table.build(spec, sim.url, KEY, clock=HandClock(), jitter=lambda: 0.0)
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
    assert session.ask("hurry").text == 'saw {"n":2}'
    session.messages.append(User("why?"))
    assert session.ask().text == "you asked why?"

    assert sim.unexpected == []
    assert len(sim.requests) == len(sim.raw) == len(sim.answers) == 3


def test_the_script_sees_the_notice_and_whether_a_result_is_an_error(start: Started) -> None:
    seen: list[Asked] = []

    def conclude(asked: Asked) -> Say:
        seen.append(asked)
        return Say("x")

    _, model = start([Call([("look", {})]), conclude])
    session = Conversation(model)
    call = session.ask().calls[0]
    session.messages[-1] = ToolResult(call.id, "look", "saw {}", True)
    session.ask("hurry", tools_allowed=False)

    assert (seen[0].notice, seen[0].tools_allowed) == ("hurry", False)
    assert (seen[0].results[0].is_error, seen[0].results[0].content) == (True, "saw {}")


def test_a_notice_with_the_first_request_is_no_other_conversation(start: Started) -> None:
    sim, model = start([Call([("look", {})]), Say("x")])
    session = Conversation(model)
    session.ask("hurry")

    assert session.ask().text == "x"
    assert sim.unexpected == []


def test_the_prefix_is_read_from_the_cache_once_it_is_long_enough(
    start: Started, kind: str
) -> None:
    _, model = start([Call([("look", {})]), Call([("look", {})]), Say("done")])
    session = Conversation(model)
    usages = [session.ask().usage for _ in range(3)]

    assert usages[0].cache_read == 0
    assert usages[1].cache_read >= 1024
    assert all(usage.cache_read % 128 == 0 for usage in usages)
    assert (usages[0].cache_write > 0) == (kind == "responses")
    assert all(usage.output > 0 for usage in usages)


def test_a_short_prompt_is_not_cached(start: Started) -> None:
    _, model = start([Call([("look", {})]), Say("done")])
    session = Conversation(model)
    session.ask(system="S")

    assert session.ask(system="S").usage.cache_read == 0


def test_thinking_is_counted_and_does_no_harm(start: Started, kind: str) -> None:
    sim, model = start(
        [Think(Call([("look", {})]), "hm"), Think(Say("done"), "so")], [Say("again")]
    )
    session = Conversation(model)
    assert session.ask().usage.reasoning > 0
    assert session.ask().text == "done"
    session.messages.append(User("sure?"))
    assert session.ask().text == "again"

    assert sim.unexpected == []
    assert (b'encrypted_content":' in sim.raw[-1]) == (kind == "responses")


def test_with_tools_off_the_model_concludes(start: Started) -> None:
    sim, model = start([Call([("look", {})]), Call([("look", {})]), Say("done")])
    session = Conversation(model)
    session.ask()

    assert session.ask("last one", tools_allowed=False).text == "done"
    assert sim.requests[-1]["tool_choice"] == "none"


@pytest.mark.parametrize(
    ("step", "stop", "text"),
    [
        (Empty(), StopReason.END, ""),
        (Truncated("half", [("look", {})]), StopReason.TRUNCATED, "half"),
        (Truncated("", [("look", {})]), StopReason.TRUNCATED, ""),
        (Think(Truncated("half")), StopReason.TRUNCATED, "half"),
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
    assert reply.detail == ("too risky" if stop is StopReason.REFUSED else "")


def test_faults_are_overcome_by_the_client_and_cost_the_script_nothing(start: Started) -> None:
    sim, model = start([Say("done")])
    sim.fail_next(503, times=2)
    sim.fail_next(429, headers={"retry-after": "3"})
    sim.fail_next(200, b"<html>")
    sim.cut_next()

    assert Conversation(model).ask().text == "done"
    assert (len(sim.requests), len(sim.answers), sim.unexpected) == (6, 1, [])
    assert len(set(sim.raw)) == 1


@pytest.mark.parametrize("status", [400, 401, 404])
def test_a_planted_error_body_is_one_of_the_api(start: Started, status: int) -> None:
    sim, model = start([Say("x")])
    sim.fail_next(status)

    with pytest.raises(ModelError, match=str(status)):
        Conversation(model).ask()
    assert sim.unexpected == []


def test_a_wrong_key_is_refused(start: Started) -> None:
    sim, model = start([Say("x")], key="another")

    with pytest.raises(ModelError, match="set OPENAI_API_KEY"):
        Conversation(model).ask()
    assert "Incorrect API key provided" in sim.unexpected[0]


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

    assert len(sim.unexpected) == 2
    assert sim.unexpected[1] == "tools changed within the conversation"


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


def test_sessions_side_by_side_each_follow_their_own_script(kind: str) -> None:
    make, spec = KINDS[kind]

    def choose(first: str) -> Scripted:
        return Scripted([Call([("look", {})]), Empty(), Say(f"about {first}")])

    def run(name: str, url: str) -> str:
        model = table.build(spec, url, KEY, clock=HandClock())
        session = Conversation(model, name)
        session.ask()
        session.ask()
        text = session.ask("again").text
        model.close()
        return text

    names = [f"event {n}" for n in range(8)]
    with make(by_conversation(choose)) as sim, ThreadPoolExecutor(4) as pool:
        texts = list(pool.map(lambda name: run(name, sim.url), names))

    assert texts == [f"about {name}" for name in names]
    assert sim.unexpected == []


@pytest.mark.parametrize(
    ("method", "path", "content", "status"),
    [
        ("GET", "", b"", 404),
        ("POST", "/more", b"{}", 404),
        ("POST", "", b"{", 400),
        ("POST", "", b"[]", 400),
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
    assert len(sim.unexpected) == 1


def test_reasoning_of_another_model_is_withheld_and_said_to_be() -> None:
    with ResponsesSim(Scripted([Think(Call([("look", {})])), Say("done")])) as sim:
        one = table.build("openai/gpt-6-sol", sim.url, KEY, clock=HandClock())
        session = Conversation(one)
        session.ask()
        one.close()
        body = sim.requests[-1] | {"model": "gpt-6.2-sol"}
        answer = session.messages[1]
        assert isinstance(answer, Assistant)
        assert answer.wire is not None
        two = table.build("openai/gpt-6.2-sol", sim.url, KEY, clock=HandClock())
        session.model = two
        session.messages[1] = replace(answer, wire=replace(answer.wire, origin=two.name))
        session.ask()
        two.close()

    assert body["model"] == sim.requests[-1]["model"]
    assert [each["reason"] for each in sim.answers[-1]["input_transformations"]] == [
        "model_mismatch"
    ]
