"""The providers that speak OpenAI's wires: addresses, keys, dialects, uncounted tokens, prices."""

import json
from typing import Any

import httpx
import pytest

from tests.fakes import HandClock
from tests.unit.models.answers import Listed, Step, fails
from tests.unit.models.openai_answers import completion, response, said
from worker.conversation.messages import (
    Assistant,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    User,
    WireForm,
)
from worker.conversation.model import Request, StopReason
from worker.errors import ConfigError, ModelError
from worker.models import table
from worker.models.built_in_models import BUILT_IN
from worker.models.client import HttpModel

KEY = "sk-very-secret-0123456789"
LOCAL = "http://llm:8000/v1"
LOOK = ToolSpec("look", "Look.", {"type": "object", "properties": {}})
ASK = Request(system="S", tools=(LOOK,), messages=(User("event"),))
CHAT, RESPONSE = fails(200, completion(content="done")), fails(200, response(said("done")))


def model(
    spec: str, *steps: Step, url: str = "", key: str = KEY, **options: Any
) -> tuple[HttpModel, Listed]:
    transport = Listed(steps or [RESPONSE if spec.startswith("openai/") else CHAT])
    clock = HandClock()
    made = table.build_model(
        spec, url, key, clock=clock, transport=transport, jitter=lambda: 0.0, **options
    )
    return made, transport


def sent(transport: Listed, number: int = -1) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(transport.requests[number].content)
    return body


@pytest.mark.parametrize(
    ("spec", "url", "expected"),
    [
        ("openai/gpt-6.2-sol", "", "https://api.openai.com/v1/responses"),
        ("openai/gpt-6.2-sol", "https://proxy.example/v1/", "https://proxy.example/v1/responses"),
        ("openai-responses/gpt-oss", LOCAL, "http://llm:8000/v1/responses"),
        ("openai-compatible/org/qwen3", LOCAL, "http://llm:8000/v1/chat/completions"),
    ],
)
def test_each_provider_has_its_address_and_sends_the_key_as_a_bearer(
    spec: str, url: str, expected: str
) -> None:
    answer = CHAT if "compatible" in spec else RESPONSE
    made, transport = model(spec, answer, url=url)

    assert made.reply(ASK).text == "done"
    assert str(transport.requests[0].url) == expected
    assert transport.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert sent(transport)["model"] == spec.partition("/")[2]


@pytest.mark.parametrize("provider", ["openai-compatible", "openai-responses"])
def test_a_server_of_one_s_own_needs_a_base_url_but_no_key(provider: str) -> None:
    answer = CHAT if provider == "openai-compatible" else RESPONSE
    made, transport = model(f"{provider}/qwen3", answer, url=LOCAL, key="")
    made.reply(ASK)

    assert "authorization" not in transport.requests[0].headers
    with pytest.raises(ConfigError, match=rf"{provider}.base_url .*OPENAI_BASE_URL"):
        model(f"{provider}/qwen3")


def test_openai_s_own_needs_a_key() -> None:
    with pytest.raises(ConfigError, match="openai: no API key: set OPENAI_API_KEY"):
        model("openai/gpt-6.2-sol", key="")


@pytest.mark.parametrize(
    ("name", "url", "options", "fields"),
    [
        ("qwen3", LOCAL, {}, {"max_tokens": 16_000}),
        (
            "gpt-5.5",
            "https://api.openai.com/v1",
            {},
            {"max_completion_tokens": 21_000, "reasoning_effort": "none"},
        ),
        ("gpt-6.2-sol", "https://api.openai.com/v1", {}, {"max_completion_tokens": 21_000}),
        ("gpt-5.5", LOCAL, {}, {"max_tokens": 21_000, "reasoning_effort": "none"}),
        (
            "qwen3",
            LOCAL,
            {"dialect": {"limit": "max_completion_tokens"}},
            {"max_completion_tokens": 16_000},
        ),
        (
            "gpt-6.2-sol",
            "https://api.openai.com/v1",
            {"dialect": {"call_id": "[a-z]{9}"}},
            {"max_completion_tokens": 21_000},
        ),
        (
            "qwen3",
            LOCAL,
            {"catalogue": BUILT_IN.extend({"qwen3": {"window": 8000, "effort": "low"}})},
            {"max_tokens": 2000, "reasoning_effort": "low"},
        ),
    ],
)
def test_the_limit_and_the_effort_go_by_endpoint_and_model(
    name: str, url: str, options: dict[str, Any], fields: dict[str, Any]
) -> None:
    made, transport = model(f"openai-compatible/{name}", url=url, **options)
    made.reply(ASK)
    body = sent(transport)

    assert {each: body[each] for each in body if "max" in each or "effort" in each} == fields


def test_without_tools_nothing_is_said_about_effort() -> None:
    made, transport = model("openai-compatible/gpt-5.5", url=LOCAL)
    made.reply(Request(system="", tools=(), messages=(User("event"),)))

    assert "reasoning_effort" not in sent(transport)


def test_a_chosen_effort_is_asked_of_responses_too() -> None:
    known = BUILT_IN.extend({"openai/gpt-6.2-sol": {"effort": "high"}})
    made, transport = model("openai/gpt-6.2-sol", catalogue=known)
    made.reply(ASK)

    assert sent(transport)["reasoning"] == {"effort": "high"}


@pytest.mark.parametrize(
    ("spec", "field", "value"),
    [
        ("anthropic/claude-opus-5-5", "output_config", {"effort": "low"}),
        (
            "gemini/gemini-4-argon",
            "generationConfig",
            {"maxOutputTokens": 21_000, "thinkingConfig": {"thinkingLevel": "LOW"}},
        ),
        (
            "gemini/gemini-2.5-pro",
            "generationConfig",
            {"maxOutputTokens": 21_000, "thinkingConfig": {"thinkingBudget": 2048}},
        ),
    ],
)
def test_a_chosen_effort_is_asked_of_every_wire_that_has_it(
    spec: str, field: str, value: Any
) -> None:
    known = BUILT_IN.extend({spec.partition("/")[2]: {"effort": "low"}})
    made, transport = model(spec, fails(400), catalogue=known)
    with pytest.raises(ModelError):
        made.reply(ASK)

    assert sent(transport)[field] == value


def test_an_operator_s_window_and_price_are_used() -> None:
    known = BUILT_IN.extend(
        {"qwen3": {"window": 40_000, "max_output": 8000, "input": 1, "output": 2}}
    )
    usage = {"prompt_tokens": 1_000_000, "completion_tokens": 1_000_000}
    answer = fails(200, completion(content="done", usage=usage))
    made, _ = model("openai-compatible/qwen3", answer, url=LOCAL, catalogue=known)

    assert made.context_tokens == 32_000
    assert made.reply(ASK).cost_usd == pytest.approx(3)


def test_tokens_that_are_not_counted_are_estimated() -> None:
    made, transport = model("openai-compatible/qwen3", url=LOCAL)
    reply = made.reply(ASK)
    asked = len(transport.requests[0].content)

    assert reply.usage == Usage(uncached_input=asked // 4, output=len('{"content":"done"}') // 4)
    assert reply.cost_usd is None


def test_a_broken_answer_is_asked_for_once_more() -> None:
    made, transport = model(
        "openai-compatible/qwen3", fails(200, completion("brand_new")), CHAT, url=LOCAL
    )

    assert made.reply(ASK).stop is StopReason.END
    assert len(transport.requests) == 2


def history(origin: str, wire: str, arguments: str) -> Request:
    """A conversation with an answer that this very model sent."""
    answer = Assistant("", (ToolCall("a", "look", arguments),), WireForm(origin, wire))
    return Request("S", (LOOK,), (User("event"), answer, ToolResult("a", "look", "no", True)))


def test_call_arguments_that_the_server_cannot_parse_are_replaced_once_it_says_so() -> None:
    spec = "openai-compatible/qwen3"
    call = '{"id":"a","type":"function","function":{"name":"look","arguments":"{\\"at\\": "}}'
    says = b'{"error":{"message":"Expecting value: line 1 column 8 (char 7)","code":400}}'
    made, transport = model(spec, fails(400, says), CHAT, url=LOCAL)
    made.reply(history(spec, f'{{"tool_calls":[{call}]}}', '{"at": '))

    arguments = [
        sent(transport, number)["messages"][2]["tool_calls"][0]["function"]["arguments"]
        for number in (0, 1)
    ]
    assert arguments == ['{"at": ', "{}"]


def test_reasoning_that_cannot_be_decrypted_is_left_out_once_the_api_says_so() -> None:
    spec = "openai/gpt-6.2-sol"
    items = (
        '[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAAA"},'
        '{"type":"function_call","id":"fc_1","call_id":"a","name":"look","arguments":"{}"}]'
    )
    error = b'{"error":{"message":"could not be verified","code":"invalid_encrypted_content"}}'
    made, transport = model(spec, fails(400, error), RESPONSE)
    made.reply(history(spec, items, "{}"))

    kinds = [[item.get("type") for item in sent(transport, at)["input"]] for at in (0, 1)]
    assert kinds == [
        [None, "reasoning", "function_call", "function_call_output"],
        [None, "function_call", "function_call_output"],
    ]


@pytest.mark.parametrize(
    ("failure", "says"),
    [
        (fails(401), "openai-compatible: the API key was refused (401): set OPENAI_API_KEY"),
        (
            fails(400, b'{"detail":"nope"}', x_request_id="req_1"),
            "(400, req_1); the API says: nope",
        ),
        (
            fails(429, b'{"error":{"message":"pay","code":"insufficient_quota"}}'),
            "the spend limit is reached (429)",
        ),
        (fails(429, retry_after="121"), "too many requests (429)"),
        (fails(404, b'{"error":"model not found"}'), "qwen3 is not served at http://llm:8000"),
    ],
)
def test_a_final_answer_is_not_tried_again(failure: Step, says: str) -> None:
    made, transport = model("openai-compatible/qwen3", failure, CHAT, url=LOCAL)

    with pytest.raises(ModelError) as caught:
        made.reply(ASK)
    assert says in str(caught.value)
    assert len(transport.requests) == 1


def test_the_key_is_in_no_error_and_in_no_repr() -> None:
    echo = lambda request: httpx.Response(400, content=request.headers["authorization"])  # noqa: E731
    made, _ = model("openai-compatible/qwen3", echo, url=LOCAL)

    with pytest.raises(ModelError) as caught:
        made.reply(ASK)
    assert KEY not in str(caught.value)
    assert KEY not in repr(table.PROVIDERS["openai"].auth(KEY))
