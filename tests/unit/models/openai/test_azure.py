"""Azure OpenAI: its two surfaces, its key's header, deployments, and what it says of them."""

import json
from contextlib import closing
from typing import Any

import pytest

from tests.fakes import HandClock
from tests.simulators.openai import AzureChatSim, AzureResponsesSim
from tests.unit.models.answers import ASK, fails, good, model
from worker.conversation.model import Request
from worker.errors import ContextOverflow, ModelError
from worker.lab.script import Say, Script
from worker.models import table
from worker.models.base import OperatorRow
from worker.models.built_in_models import BUILT_IN

KEY = "azure-key-0123456789"
MINE = "https://mine.openai.azure.com"
NAMES = {"our-gpt": "gpt-5.5", "gpt-6.2-sol": "gpt-6.2-sol"}


def script() -> Script:
    return lambda asked: Say("done")


def row(api: str, version: str = "") -> OperatorRow:
    return OperatorRow(api=api, auth="azure", key_env="MY_KEY", api_version=version)


@pytest.mark.parametrize("ending", ["", "/", "/openai", "/openai/v1", "/openai/v1/"])
@pytest.mark.parametrize("version", ["", "preview", "2024-10-21", "2025-04-01-preview"])
@pytest.mark.parametrize("api", ["openai-chat", "openai-responses"])
def test_both_surfaces_take_every_wire_by_its_deployment(
    api: str, version: str, ending: str
) -> None:
    start = AzureChatSim if api == "openai-chat" else AzureResponsesSim
    known = BUILT_IN.extend({"our-gpt": {"like": "gpt-5.5"}})
    with start(script(), NAMES, key=KEY) as sim:
        made = table.build_model(
            *("mine/our-gpt", sim.url + ending, KEY),
            clock=HandClock(),
            catalogue=known,
            row=row(api, version),
        )
        with closing(made):
            reply = made.reply(ASK)

    assert (reply.text, sim.unexpected_requests) == ("done", [])
    assert sim.requests[0]["model"] == "our-gpt"
    assert reply.cost_usd is not None
    assert reply.cost_usd > 0


@pytest.mark.parametrize(
    ("spec", "options", "url"),
    [
        ("openai-azure/our-gpt", OperatorRow(), "/openai/v1/responses"),
        (
            "openai-azure/our-gpt",
            OperatorRow(api_version="2025-04-01-preview"),
            "/openai/responses?api-version=2025-04-01-preview",
        ),
        ("x/our-gpt", row("openai-chat"), "/openai/v1/chat/completions"),
        (
            "x/a b/ü".replace(" ", ""),
            row("openai-chat", "2024-10-21"),
            "/openai/deployments/ab%2F%C3%BC/chat/completions?api-version=2024-10-21",
        ),
        ("x/claude-opus-5-5", row("anthropic"), "/v1/messages"),
    ],
)
def test_each_surface_has_its_address(spec: str, options: OperatorRow, url: str) -> None:
    asked, transport = model(fails(400), spec=spec, base_url=MINE, key=KEY, row=options)
    with pytest.raises(ModelError):
        asked.reply(ASK)
    sent = transport.requests[0]

    assert str(sent.url) == MINE + url
    name = "x-api-key" if options.api == "anthropic" else "api-key"
    assert sent.headers[name] == KEY
    assert "authorization" not in sent.headers


def test_claude_in_foundry_is_the_messages_api_under_its_path() -> None:
    base = "https://mine.services.ai.azure.com/anthropic"
    asked, transport = model(
        good(), spec="foundry/claude-opus-5-5", base_url=base, key=KEY, row=row("anthropic")
    )

    assert asked.reply(ASK).text == "done"
    assert str(transport.requests[0].url) == f"{base}/v1/messages"
    assert json.loads(transport.requests[0].content)["model"] == "claude-opus-5-5"


def test_a_deployment_that_is_not_there_is_named() -> None:
    with AzureChatSim(script(), NAMES, key=KEY) as sim:
        for version in ("", "2024-10-21"):
            made = table.build_model(
                *("mine/other", sim.url, KEY), clock=HandClock(), row=row("openai-chat", version)
            )
            with closing(made), pytest.raises(ModelError, match="other is not deployed at") as told:
                made.reply(ASK)
            assert "a model's name is that of its deployment" in str(told.value)


def test_a_key_that_is_refused_is_named_by_its_variable() -> None:
    with AzureResponsesSim(script(), NAMES, key=KEY) as sim:
        made = table.build_model(
            *("mine/gpt-6.2-sol", sim.url, "another-key-0123456789"),
            clock=HandClock(),
            row=row("openai-responses"),
        )
        with closing(made), pytest.raises(ModelError, match=r"refused \(401.*: set MY_KEY"):
            made.reply(ASK)


def refuse(status: int, error: dict[str, Any], **headers: str) -> ModelError:
    asked, _ = model(
        fails(status, json.dumps({"error": error}).encode(), **headers),
        spec="mine/our-gpt",
        base_url=MINE,
        key=KEY,
        row=row("openai-chat"),
        max_attempts=1,
    )
    with pytest.raises(ModelError) as raised:
        asked.reply(ASK)
    return raised.value


def test_a_filtered_prompt_is_refused_for_good_and_says_why() -> None:
    told = refuse(
        400,
        {
            "message": "The response was filtered due to the prompt triggering Azure OpenAI's "
            "content management policy.",
            "param": "prompt",
            "code": "content_filter",
            "status": 400,
            "innererror": {"code": "ResponsibleAIPolicyViolation"},
        },
    )

    assert not told.transient
    assert "content management policy" in str(told)


RATE = {
    "code": "429",
    "message": "Requests to the ChatCompletions_Create Operation under Azure OpenAI API version "
    "2024-10-21 have exceeded token rate limit of your current OpenAI S0 pricing tier. Please retry"
    " after 20 seconds.",
}


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry_after_ms": "1500"}, 1.5),
        ({"retry_after": "7"}, 7.0),
        ({"x_rate_limit_reset_tokens": "55"}, 55.0),
        ({}, 20.0),
    ],
)
def test_a_rate_limit_is_waited_for_as_long_as_it_says(
    headers: dict[str, str], wait: float
) -> None:
    told = refuse(429, RATE, **headers)

    assert (told.transient, told.retry_after) == (True, wait)


def test_a_conversation_of_too_many_messages_is_folded() -> None:
    told = refuse(
        400, {"message": "'$.messages' is too long. Maximum length is 2048, but got 2050 items"}
    )

    assert isinstance(told, ContextOverflow)


def test_an_answer_that_says_what_was_filtered_is_read() -> None:
    with AzureChatSim(script(), NAMES, key=KEY) as sim:
        made = table.build_model(
            *("mine/our-gpt", sim.url, KEY), clock=HandClock(), row=row("openai-chat")
        )
        with closing(made):
            assert made.reply(Request("", (), ASK.messages)).text == "done"

    assert "prompt_filter_results" in sim.answers[0]
