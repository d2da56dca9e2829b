"""The simulator of generateContent with our client and with the official one, over real HTTP."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from google import genai
from google.genai import errors, types
from google.oauth2.credentials import Credentials

from tests.simulators.gemini import GeminiSim, ImplicitCache
from tests.unit.simulators.conversation import LOOK, Conversation, Started, starting
from worker.conversation.messages import Assistant
from worker.lab.script import Call, Say, Think

KEY = "AIza-test-0123456789"


@pytest.fixture
def start() -> Iterator[Started]:
    with starting("gemini") as found:
        yield found


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
