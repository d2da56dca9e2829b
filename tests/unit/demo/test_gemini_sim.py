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
from worker.core.messages import Assistant, Message, ToolResult, ToolSpec, User, WireForm
from worker.core.ports import Reply, Request, StopReason
from worker.core.prompts import continuation
from worker.demo.gemini import GeminiSim, ImplicitCache
from worker.demo.gemini.reading import read
from worker.demo.script import Call, Empty, Refuse, Result, Say, Scripted, Step, Think, Truncated
from worker.errors import ContextOverflow, ModelError
from worker.models import table
from worker.models.client import HttpModel

LOOK = ToolSpec("look", "Look.", {"type": "object", "properties": {"n": {"type": "integer"}}})
KEY = "AIza-test-0123456789"
REPLY = continuation("Why?", files=True, seconds=0.0, changes=())
Started = Callable[..., tuple[GeminiSim, HttpModel]]


@pytest.fixture
def start() -> Iterator[Started]:
    """Starts a simulator of a script with a model that asks it."""
    opened: list[tuple[GeminiSim, HttpModel]] = []

    def _start(*turns: Sequence[Step], **options: Any) -> tuple[GeminiSim, HttpModel]:
        name = options.pop("model", "gemini/gemini-4-argon")
        sim = GeminiSim(Scripted(*turns), **options)
        sim.__enter__()
        model = table.build(name, sim.url, KEY, clock=HandClock())
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


@pytest.mark.parametrize("name", ["gemini/gemini-4-argon", "gemini/gemini-2.5-flash"])
def test_a_session_runs_through_its_script_and_a_reply(start: Started, name: str) -> None:
    sim, model = start(
        [TWO, Think(Call([("look", {"n": 3})], "hm")), lambda a: Think(Say(a.results[1].content))],
        [lambda asked: Say(f"you asked {asked.human}")],
        model=name,
    )
    session = Conversation(model)
    assert [call.arguments for call in session.ask().calls] == ['{"n":1}', '{"n":2}']
    assert session.ask().text == "hm"
    assert session.ask().text == '{"saw": {"n": 2}}'
    session.messages.append(User("why?"))
    assert session.ask().text == "you asked why?"

    assert sim.unexpected == []
    assert len(sim.requests) == len(sim.raw) == len(sim.answers) == 4


def test_a_session_of_another_provider_goes_on_with_dummies(start: Started) -> None:
    sim, model = start([TWO, TWO, Say("done")])
    session = Conversation(model)
    session.ask()
    session.messages = [
        replace(message, wire=None) if isinstance(message, Assistant) else message
        for message in session.messages
    ]
    session.ask()

    assert session.ask().text == "done"
    assert sim.unexpected == []
    assert b"context_engineering" in sim.raw[-1]


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
    assert ["Corrupted thought signature" in said for said in sim.unexpected] == [True]


def test_the_implicit_cache_shows_in_the_usage(start: Started) -> None:
    _, model = start([TWO, TWO, Say("done")], cache=ImplicitCache(minimum=100))
    session = Conversation(model)
    usages = [session.ask().usage for _ in range(3)]

    assert usages[0].cache_read == 0
    assert usages[1].cache_read == usages[0].input
    assert usages[2].cache_read == usages[1].input
    assert all(usage.output > 0 for usage in usages)


def test_thinking_is_billed_as_output(start: Started) -> None:
    _, model = start([Think(Say("done"))])
    usage = Conversation(model).ask().usage

    assert usage.reasoning == 32
    assert usage.output > 32


def test_with_tools_off_the_model_concludes(start: Started) -> None:
    sim, model = start([TWO, TWO, Say("done")])
    session = Conversation(model)
    session.ask()

    assert session.ask("last one", tools_allowed=False).text == "done"
    assert sim.requests[-1]["toolConfig"] == {"functionCallingConfig": {"mode": "NONE"}}


@pytest.mark.parametrize(
    ("step", "stop", "text"),
    [
        (Empty(), StopReason.END, ""),
        (Truncated("half", [("look", {})]), StopReason.TRUNCATED, "half"),
        (Refuse("too risky"), StopReason.BLOCKED, ""),
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
    sim.fail_next(503, times=2)
    sim.fail_next(429, [{"error": {"code": 429, "message": "x", "status": "X"}}])
    sim.fail_next(200, b"<html>")
    sim.cut_next()

    assert Conversation(model).ask().text == "done"
    assert (len(sim.requests), len(sim.answers), sim.unexpected) == (6, 1, [])
    assert len(set(sim.raw)) == 1


def test_a_malformed_call_is_asked_for_again(start: Started) -> None:
    sim, model = start([Say("done")])
    sim.finish_next("MALFORMED_FUNCTION_CALL", times=2)

    assert Conversation(model).ask().text == "done"
    assert len(sim.requests) == 3


@pytest.mark.parametrize(
    "step", [Say("a long answer"), TWO, Think(Say("so")), Call(TWO.calls, "x")]
)
def test_an_answer_in_two_parts_is_put_together_and_taken_back(start: Started, step: Step) -> None:
    sim, model = start([step], [Say("done")])
    whole = Conversation(model).ask()
    sim.split_next()
    session = Conversation(model)
    split = session.ask()

    assert (split.text, len(split.calls)) == (whole.text, len(whole.calls))
    session.messages.append(User(REPLY))
    assert session.ask().text == "done"
    assert sim.unexpected == []


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

    assert "API key not valid" in sim.unexpected[0]


def test_a_prompt_longer_than_the_window_overflows(start: Started) -> None:
    _, model = start([Say("x")], window=500)
    with pytest.raises(ContextOverflow):
        Conversation(model).ask()


def test_a_changed_system_text_or_tool_set_is_noticed(start: Started) -> None:
    sim, model = start([TWO, TWO, Say("x")])
    session = Conversation(model)
    session.ask()
    session.ask(system="other")
    session.ask(system="other", tools=())

    assert sim.unexpected == [
        "systemInstruction changed within the conversation",
        "tools changed within the conversation",
    ]


def test_a_script_without_an_answer_is_an_error(start: Started) -> None:
    sim, model = start([TWO])
    session = Conversation(model)
    session.ask()
    with pytest.raises(ModelError, match="turn 0 has no step 2"):
        session.ask()

    assert len(sim.unexpected) == 1


def _call() -> dict[str, Any]:
    return {"functionCall": {"name": "look"}}


def _result(**response: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": "look", "response": response}}


def _text(words: str) -> dict[str, Any]:
    return {"text": words}


@pytest.mark.parametrize(
    ("contents", "turn", "answers", "human", "notice"),
    [
        ([[_text("event")]], 0, 0, "event", ""),
        ([[_text("event"), _text("hurry")]], 0, 0, "event", "hurry"),
        ([[_text("event")], [_call()], [_result()]], 0, 1, "event", ""),
        ([[_text("event")], [_call()], [_result(), _text("hurry")]], 0, 1, "event", "hurry"),
        ([[_text("event")], [_text("so")], [_text("why?")]], 1, 0, "why?", ""),
        ([[_text("event")], [_call()], [_result(), _text(REPLY)]], 1, 0, REPLY, REPLY),
    ],
)
def test_a_request_is_read_for_its_turn_and_place(
    contents: list[Any], turn: int, answers: int, human: str, notice: str
) -> None:
    roles = ("user", "model")
    body = {"contents": [{"role": roles[n % 2], "parts": c} for n, c in enumerate(contents)]}
    found = read(body)

    assert (found.first, found.turn, found.answers) == ("event", turn, answers)
    assert (found.human, found.notice, found.tools_allowed) == (human, notice, True)


@pytest.mark.parametrize(
    ("response", "content", "failed"),
    [
        ({"output": "x"}, "x", False),
        ({"output": {"a": "é"}}, '{"a": "é"}', False),
        ({"error": "no"}, '{"error": "no"}', True),
        ({"a": 1}, '{"a": 1}', False),
    ],
)
def test_a_result_is_read_as_the_tool_s_own_text(
    response: dict[str, Any], content: str, failed: bool
) -> None:
    contents = [
        {"role": "user", "parts": [_text("event")]},
        {"role": "model", "parts": [_call()]},
        {"role": "user", "parts": [_result(**response)]},
    ]

    assert read({"contents": contents}).results == (Result("look", content, failed),)


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
        ({"path": "/v1beta/models/gemini-4-argon:countTokens"}, 404),
        ({"path": "/v1beta/models/gpt-6:generateContent"}, 404),
        ({"path": "/v1beta/models/gemini-4-argon:generateContent?key=k"}, 400),
        ({"headers": {}}, 403),
        ({"path": VERTEX}, 401),
        ({"path": VERTEX, "headers": {"authorization": "Basic k"}}, 401),
        ({"headers": {"x-goog-api-key": "k", "content-type": "text/plain"}}, 400),
        ({"body": {"contents": 7}}, 400),
        ({"body": {"contents": [7]}}, 400),
        ({"body": {"contents": [{"role": "user", "parts": [7]}]}}, 400),
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
    assert len(sim.unexpected) == 1


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
    assert sim.unexpected == []


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (Empty(), types.FinishReason.STOP),
        (Truncated("half", [("look", {})]), types.FinishReason.MAX_TOKENS),
        (Refuse("too risky"), types.FinishReason.SAFETY),
    ],
)
def test_the_official_types_parse_every_kind_of_answer(
    start: Started, step: Step, reason: types.FinishReason
) -> None:
    sim, _ = start([step])
    found = types.GenerateContentResponse.model_validate(_post(sim, _body()).json())

    assert found.candidates
    assert found.candidates[0].finish_reason is reason


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
