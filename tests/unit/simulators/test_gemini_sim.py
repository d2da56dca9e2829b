"""The simulator of generateContent with our client and with the official one, over real HTTP."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import httpx
import pytest
from google import genai
from google.genai import errors, types
from google.oauth2.credentials import Credentials

from tests.fakes import HandClock
from tests.simulators.gemini import GeminiSim, ImplicitCache
from worker.core.conversation.messages import (
    Assistant,
    Message,
    ToolResult,
    ToolSpec,
    User,
    WireForm,
)
from worker.core.conversation.prompts import write_continuation
from worker.core.ports import Reply, Request
from worker.demo.script import Call, Say, Scripted, Step, Think
from worker.errors import ModelError
from worker.models import table
from worker.models.http.client import HttpModel

LOOK = ToolSpec("look", "Look.", {"type": "object", "properties": {"n": {"type": "integer"}}})
KEY = "AIza-test-0123456789"
REPLY = write_continuation("Why?", files="", seconds=0.0, changes=())
Started = Callable[..., tuple[GeminiSim, HttpModel]]


@pytest.fixture
def start() -> Iterator[Started]:
    """Starts a simulator of a script with a model that asks it."""
    opened: list[tuple[GeminiSim, HttpModel]] = []

    def _start(*turns: Sequence[Step], **options: Any) -> tuple[GeminiSim, HttpModel]:
        name = options.pop("model", "gemini/gemini-4-argon")
        sim = GeminiSim(Scripted(*turns), **options)
        sim.__enter__()
        model = table.build_model(name, sim.url, KEY, clock=HandClock())
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
        request = Request("S" * 4000, (LOOK,), tuple(self.messages), notice)
        reply = self.model.reply(replace(request, **changes))
        if reply.text or reply.calls:
            wire = WireForm(self.model.name, reply.wire)
            self.messages.append(Assistant(reply.text, reply.calls, wire))
        saw = '{"saw": %s}'
        self.messages += [ToolResult(c.id, c.name, saw % c.arguments) for c in reply.calls]
        return reply


TWO = Call([("look", {"n": 1}), ("look", {"n": 2})])


def test_signatures_of_another_route_are_refused_and_the_client_recovers(start: Started) -> None:
    sim, model = start([TWO, Say("done")])
    session = Conversation(model)
    session.ask()
    calling = session.messages[1]
    assert isinstance(calling, Assistant)
    assert calling.wire is not None
    content = calling.wire.content.replace('"thoughtSignature": "A', '"thoughtSignature": "B')
    session.messages[1] = replace(calling, wire=replace(calling.wire, content=content))

    assert session.ask().text == "done"
    assert ["Corrupted thought signature" in said for said in sim.unexpected_requests] == [True]


def test_a_part_of_another_request_is_refused(start: Started) -> None:
    sim, _ = start([Say("a long answer")])
    sim.split_next()
    first = _post(sim, _body())
    token = first.json()["candidates"][0]["continuationToken"]

    assert _post(sim, _body() | {"continuationToken": "x"}).status_code == 400
    assert _post(sim, _body("other") | {"continuationToken": token}).status_code == 400
    assert _post(sim, _body() | {"continuationToken": token}).status_code == 200


def test_a_wrong_key_is_refused(start: Started) -> None:
    sim, model = start([Say("x")], key="another")
    with pytest.raises(ModelError, match="set GEMINI_API_KEY"):
        Conversation(model).ask()

    assert "API key not valid" in sim.unexpected_requests[0]


def test_a_changed_system_text_or_tool_set_is_noticed(start: Started) -> None:
    sim, model = start([TWO, TWO, Say("x")])
    session = Conversation(model)
    session.ask()
    session.ask(system="other")
    session.ask(system="other", tools=())

    assert sim.unexpected_requests == [
        "systemInstruction changed within the conversation",
        "tools changed within the conversation",
    ]


def test_a_script_without_an_answer_is_an_error(start: Started) -> None:
    sim, model = start([TWO])
    session = Conversation(model)
    session.ask()
    with pytest.raises(ModelError, match="turn 0 has no step 2"):
        session.ask()

    assert len(sim.unexpected_requests) == 1


def _body(text: str = "x") -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": [{"text": text}]}]}


def _post(sim: GeminiSim, body: Any, **options: Any) -> httpx.Response:
    path = options.pop("path", "/v1beta/models/gemini-4-argon:generateContent")
    headers = options.pop("headers", {"x-goog-api-key": "k"})
    with httpx.Client(trust_env=False) as client:
        return client.post(sim.url + path, json=body, headers=headers)


VERTEX = "/v1/projects/p/locations/global/publishers/google/models/gemini-4-argon:generateContent"


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"path": "/v1beta/models/gemini-4-argon:generateContent?key=k"}, 400),
        ({"headers": {}}, 403),
        ({"path": VERTEX, "headers": {"authorization": "Basic k"}}, 401),
        ({"headers": {"x-goog-api-key": "k", "content-type": "text/plain"}}, 400),
        ({"body": {"contents": [7]}}, 400),
        ({"body": _body() | {"tools": [{}]}}, 400),
    ],
)
def test_what_the_api_does_not_know_is_an_error_body_and_recorded(
    start: Started, options: dict[str, Any], status: int
) -> None:
    sim, _ = start([Say("x")])
    answer = _post(sim, options.pop("body", _body()), **options)
    found = answer.json()

    assert answer.status_code == status
    assert (found[0] if isinstance(found, list) else found)["error"]["code"] == status
    assert len(sim.unexpected_requests) == 1


# --------------------------------------------------------------------------- the official client

DECLARED = types.FunctionDeclaration(
    name="look", description="Look.", parameters_json_schema=dict(LOOK.parameters)
)
CONFIG = types.GenerateContentConfig(
    system_instruction="S",
    tools=[types.Tool(function_declarations=[DECLARED])],
    max_output_tokens=1000,
    automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
)


@pytest.fixture(params=["v1", "v1beta", "vertex"])
def official(request: pytest.FixtureRequest) -> Callable[[GeminiSim], genai.Client]:
    """Makes the official client of a simulator."""

    def client(sim: GeminiSim) -> genai.Client:
        if request.param != "vertex":
            options = types.HttpOptions(base_url=sim.url, api_version=request.param)
            return genai.Client(api_key=KEY, http_options=options)
        return genai.Client(
            vertexai=True,
            project="my-project",
            location="global",
            credentials=Credentials("ya29.test"),  # type: ignore[no-untyped-call]
            http_options=types.HttpOptions(base_url=sim.url),
        )

    return client


def _content(found: types.GenerateContentResponse) -> types.Content:
    assert found.candidates
    assert found.candidates[0].content
    return found.candidates[0].content


def test_the_official_client_runs_a_whole_session(
    start: Started, official: Callable[[GeminiSim], genai.Client]
) -> None:
    sim, _ = start(
        [Think(Call([("look", {"n": 1}), ("look", {"n": 2})], "hm")), Think(Say("done"))],
        cache=ImplicitCache(minimum=10),
    )
    client = official(sim)
    contents: list[types.Content] = [types.Content(role="user", parts=[types.Part(text="event")])]
    first = client.models.generate_content(
        model="gemini-4-argon", contents=list(contents), config=CONFIG
    )
    results = [
        types.Part(
            function_response=types.FunctionResponse(
                id=call.id, name=call.name, response={"output": "x"}
            )
        )
        for call in first.function_calls or ()
    ]
    contents += [_content(first), types.Content(role="user", parts=results)]
    second = client.models.generate_content(
        model="gemini-4-argon", contents=list(contents), config=CONFIG
    )
    client.close()

    assert [call.args for call in first.function_calls or ()] == [{"n": 1}, {"n": 2}]
    assert second.text == "done"
    assert second.usage_metadata
    assert second.usage_metadata.cached_content_token_count
    assert second.usage_metadata.thoughts_token_count == 32
    assert sim.unexpected_requests == []


def test_the_official_client_puts_an_answer_in_two_parts_together(start: Started) -> None:
    sim, _ = start([Say("a long answer")])
    sim.split_next()
    options = types.HttpOptions(base_url=sim.url, api_version="v1beta")
    client = genai.Client(api_key=KEY, http_options=options)
    found = client.models.generate_content(model="gemini-4-argon", contents="event")
    client.close()

    assert found.text == "a long answer"
    assert len(sim.requests) == 2


@pytest.mark.parametrize("status", [429, 503])
def test_the_official_client_reads_the_errors(start: Started, status: int) -> None:
    sim, _ = start([Say("x")])
    sim.fail_next(status)
    options = types.HttpOptions(base_url=sim.url, api_version="v1beta")
    client = genai.Client(api_key=KEY, http_options=options)
    with pytest.raises(errors.APIError) as caught:
        client.models.generate_content(model="gemini-4-argon", contents="event")
    client.close()

    assert caught.value.code == status
    assert caught.value.status in {"RESOURCE_EXHAUSTED", "UNAVAILABLE"}
