"""Our bodies by the official SDKs' parameter types, the simulators' answers by their clients.

The SDKs take a second to import, so they are imported by the tests that need them.
"""

import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from tests.simulators.anthropic import AnthropicSim
from tests.simulators.gemini import GeminiSim
from tests.simulators.openai import ChatSim, ResponsesSim
from tests.wire.codecs import CODECS
from tests.wire.conversations import LOOK, asks, conversations
from worker.conversation.messages import User
from worker.lab.script import Call, Empty, Refuse, Say, Scripted, Step, Think, Truncated

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parent / "golden"
KEY = "sk-test-0123456789"
SDKS = {
    "anthropic": "anthropic",
    "openai": "responses",
    "openai-responses": "responses",
    "openai-compatible": "chat",
    "openai-chat": "chat",
    "openai-azure": "responses",
    "azure-chat": "chat",
}
"""Which parameter type is for which codec."""


@cache
def parameters(kind: str) -> TypeAdapter[Any]:
    if kind == "anthropic":
        from anthropic.types.message_create_params import MessageCreateParamsNonStreaming

        return TypeAdapter(MessageCreateParamsNonStreaming)
    if kind == "responses":
        from openai.types.responses import response_create_params

        return TypeAdapter(response_create_params.ResponseCreateParamsNonStreaming)
    from openai.types.chat import completion_create_params

    return TypeAdapter(completion_create_params.CompletionCreateParamsNonStreaming)


def validated(kind: str, body: Any) -> Any:
    """The body as the type has it: what the type does not know is not in it."""
    return plain(parameters(kind).validate_python(body))


def plain(value: Any) -> Any:
    """`value` with every lazy list read to its end, which validates it."""
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, str) or not isinstance(value, Iterable):
        return value
    return [plain(inner) for inner in value]


@pytest.mark.parametrize("codec", SDKS)
@pytest.mark.parametrize("case", list(conversations("")))
def test_every_golden_body_is_one_the_sdk_could_send(codec: str, case: str) -> None:
    body = json.loads((GOLDEN / codec / f"{case}.json").read_text(encoding="utf-8"))

    assert validated(SDKS[codec], body) == body


LEVELS = [
    *((name, "anthropic") for name in ("anthropic-adaptive", "anthropic-asked", "anthropic-none")),
    *((name, "anthropic") for name in ("anthropic-asked-none", "anthropic-budget")),
    *((name, "responses") for name in ("openai", "openai-none", "openai-responses")),
    *((name, "chat") for name in ("openai-compatible", "openai-gateway", "openai-chat")),
]


@pytest.mark.parametrize(("case", "kind"), LEVELS)
def test_every_body_with_a_level_is_one_the_sdk_could_send(case: str, kind: str) -> None:
    path = GOLDEN.with_name("golden_levels") / f"{case}.json"
    body = json.loads(path.read_text(encoding="utf-8"))

    assert validated(kind, body) == body


@pytest.mark.parametrize("kind", ["anthropic", "responses", "chat"])
def test_a_body_with_a_planted_error_is_not(kind: str) -> None:
    codec = next(name for name, found in SDKS.items() if found == kind)
    body = json.loads((GOLDEN / codec / "parallel_calls.json").read_text(encoding="utf-8"))
    said = "input" if kind == "responses" else "messages"

    planted = {**body, "novelty": 1}
    assert validated(kind, planted) != planted
    for message in ({"content": "no role"}, {"role": "nobody", "content": "x"}, {"role": "tool"}):
        with pytest.raises(ValidationError):
            validated(kind, {**body, said: [*body[said], message]})


# ------------------------------------------------------------------------------ what comes back


STEPS: list[Step] = [
    Call([("look", {"at": "a"}), ("look", {})], "I look."),
    Think(Call([("look", {"at": "b"})]), "hm"),
    Truncated("half", [("look", {"at": "a"})]),
    Refuse("too risky"),
    Empty(),
    Say("It is a flake."),
]


def body_of(codec: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(CODECS[codec]()[0].encode(asks(User("event"), tools=[LOOK])))
    return found


def models(found: Any) -> Iterator[BaseModel]:
    """`found` and every model in it."""
    if isinstance(found, BaseModel):
        yield found
        found = [getattr(found, name) for name in type(found).model_fields]
    if isinstance(found, list):
        for inner in found:
            yield from models(inner)


def extras(found: BaseModel) -> set[str]:
    """The fields that the SDK does not know."""
    return {name for model in models(found) for name in model.model_extra or ()}


@pytest.mark.parametrize("step", STEPS)
def test_the_anthropic_client_reads_its_simulator(step: Step) -> None:
    from anthropic import Anthropic
    from anthropic.types import Message

    with AnthropicSim(Scripted([step]), key=KEY) as sim:
        with Anthropic(api_key=KEY, base_url=sim.url, max_retries=0) as client:
            answer = client.messages.create(**body_of("anthropic"))
        assert (sim.unexpected_requests, len(sim.answers)) == ([], 1)
        whole = Message.model_validate(sim.answers[0])

    assert answer == whole
    assert extras(whole) == set()


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("codec", ["openai-chat", "openai-compatible"])
def test_the_openai_client_reads_the_chat_simulator(step: Step, codec: str) -> None:
    from openai import OpenAI
    from openai.types.chat import ChatCompletion

    with ChatSim(Scripted([step]), own=codec == "openai-chat", key=KEY) as sim:
        with OpenAI(api_key=KEY, base_url=sim.url, max_retries=0) as client:
            answer = client.chat.completions.create(**body_of(codec))
        assert (sim.unexpected_requests, len(sim.answers)) == ([], 1)
        whole = ChatCompletion.model_validate(sim.answers[0])

    assert answer == whole
    assert extras(whole) <= {"reasoning_content"}


@pytest.mark.parametrize("step", STEPS)
def test_the_openai_client_reads_the_responses_simulator(step: Step) -> None:
    from openai import OpenAI
    from openai.types.responses import Response

    with ResponsesSim(Scripted([step]), key=KEY) as sim:
        with OpenAI(api_key=KEY, base_url=sim.url, max_retries=0) as client:
            answer = client.responses.create(**body_of("openai"))
        assert (sim.unexpected_requests, len(sim.answers)) == ([], 1)
        whole = Response.model_validate(sim.answers[0])

    assert answer == whole
    assert extras(whole) == set()


def test_the_clients_read_the_simulators_lists_of_models() -> None:
    from anthropic import Anthropic
    from google import genai
    from openai import OpenAI

    with AnthropicSim(Scripted([]), key=KEY) as sim:
        sim.max_listed = 3
        with Anthropic(api_key=KEY, base_url=sim.url, max_retries=0) as client:
            claude = list(client.models.list())
        assert (sim.unexpected_requests, sim.lists) == ([], 2)
    with ChatSim(Scripted([]), key=KEY) as chat:
        with OpenAI(api_key=KEY, base_url=chat.url, max_retries=0) as asking:
            listed = list(asking.models.list())
        assert chat.unexpected_requests == []
    with GeminiSim(Scripted([]), key=KEY) as google:
        google.max_listed = 3
        options = genai.types.HttpOptions(base_url=google.url, api_version="v1beta")
        with genai.Client(api_key=KEY, http_options=options) as reading:
            found = list(reading.models.list())
        assert (google.unexpected_requests, google.lists) == ([], 2)

    assert [model.id for model in claude] == [each["id"] for each in sim.model_list]
    assert (claude[0].max_input_tokens, claude[0].max_tokens) == (1_000_000, 128_000)
    assert [model.id for model in listed] == [each["id"] for each in chat.model_list]
    assert [model.name for model in found] == [each["name"] for each in google.model_list]
    assert (found[0].input_token_limit, found[0].output_token_limit) == (1_048_576, 65_536)


def test_the_clients_know_the_simulators_errors() -> None:
    import anthropic
    import openai

    with (
        ChatSim(Scripted([Say("x")]), window=5) as sim,
        openai.OpenAI(api_key=KEY, base_url=sim.url, max_retries=0) as client,
        pytest.raises(openai.BadRequestError) as overflow,
    ):
        client.chat.completions.create(**body_of("openai-compatible"))
    with (
        ResponsesSim(Scripted([Say("x")]), key="another") as responses,
        openai.OpenAI(api_key=KEY, base_url=responses.url, max_retries=0) as client,
        pytest.raises(openai.AuthenticationError) as wrong_key,
    ):
        client.responses.create(**body_of("openai"))
    with (
        AnthropicSim(Scripted([Say("x")]), window=5) as messages,
        anthropic.Anthropic(api_key=KEY, base_url=messages.url, max_retries=0) as asking,
        pytest.raises(anthropic.BadRequestError, match="prompt is too long"),
    ):
        asking.messages.create(**body_of("anthropic"))

    assert overflow.value.code == "context_length_exceeded"
    assert wrong_key.value.code == "invalid_api_key"
