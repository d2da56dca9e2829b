"""What `HttpModel` makes of a refusal for length: how much may be asked of this server, and how
long an answer leaves room for the question."""

import json
import logging
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.fakes import HandClock
from tests.unit.models.answers import ASK, Step, error, fails, good, model
from tests.unit.models.gemini_bodies import error as google_error
from tests.unit.models.gemini_bodies import quota
from worker.conversation.messages import User
from worker.errors import ContextOverflow, ModelError
from worker.models.client import MAX_ATTEMPTS

SPEC = "openai-compatible/qwen3"
SERVER: dict[str, Any] = {"spec": SPEC, "base_url": "http://llm:8000/v1"}


def refuses(status: int, words: str, code: str = "") -> Step:
    return fails(status, json.dumps({"error": {"message": words, "code": code}}).encode())


def answers() -> Step:
    message = {"role": "assistant", "content": "done"}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return fails(200, json.dumps({"choices": [choice]}).encode())


def list_limits(requests: list[httpx.Request]) -> list[int]:
    return [json.loads(each.content)["max_tokens"] for each in requests]


TPM = (
    "Request too large for model `m` on tokens per minute (TPM): Limit 8000, Requested {}, please "
    "reduce your message size and try again."
)
TOO_LARGE_ANSWER = (
    "'max_tokens' or 'max_completion_tokens' is too large: {0}. This model's maximum context "
    "length is 8192 tokens and your request has 40 input tokens ({0} > 8192 - 40)."
)


@pytest.mark.parametrize(
    ("step", "shorter"),
    [
        (refuses(413, TPM.format(16_500)), 2000),
        (refuses(429, TPM.format(16_500)), 2000),
        (refuses(400, TOO_LARGE_ANSWER.format(16_000)), 2048),
    ],
    ids=["Groq", "OpenAI", "vLLM"],
)
def test_an_answer_that_leaves_no_room_is_asked_for_shorter_from_then_on(
    step: Step, shorter: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    asked, transport = model(step, answers(), answers(), **SERVER)

    assert [asked.reply(ASK).text for _ in range(2)] == ["done", "done"]
    assert list_limits(transport.requests) == [16_000, shorter, shorter]
    assert f"models.catalogue.{SPEC}.max_output" in caplog.text


def test_what_is_too_long_with_a_short_answer_is_told_in_tokens_of_the_conversation() -> None:
    steps = (refuses(413, TPM.format(30_000)), refuses(413, TPM.format(16_000)))
    asked, transport = model(*steps, **SERVER)

    with pytest.raises(ContextOverflow, match="waiting is no help") as caught:
        asked.reply(ASK)

    assert (caught.value.limit, caught.value.count) == (6000, 14_000)
    assert caught.value.kind == "rate_too_low"
    assert len(transport.requests) == 2


def test_a_long_conversation_with_room_for_the_answer_is_not_asked_again() -> None:
    words = "input length and `max_tokens` exceed context limit: 199759 + 21000 > 200000"
    asked, transport = model(fails(400, error("invalid_request_error", words)))

    with pytest.raises(ContextOverflow) as caught:
        asked.reply(ASK)

    assert (caught.value.limit, caught.value.count) == (179_000, 199_759)
    assert len(transport.requests) == 1


def test_a_server_that_takes_no_answer_at_all_is_asked_a_few_times() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        asked = json.loads(request.content)["max_tokens"]
        words = TOO_LARGE_ANSWER.replace("8192", str(max(600, asked))).format(asked)
        return httpx.Response(400, json={"error": {"message": words}})

    asked, transport = model(refuse, **SERVER)
    with pytest.raises(ContextOverflow):
        asked.reply(ASK)
    assert len(transport.requests) < 10


BUCKET = (
    "This request would exceed your organization's rate limit of 30,000 input tokens per minute "
    "(org: 1, model: m). Please reduce the prompt length, or try again later."
)
ANTHROPIC = fails(429, error("rate_limit_error", BUCKET), retry_after="20")
_QUOTA = quota("GenerateContentInputTokensPerModelPerMinute-FreeTier")
_QUOTA["violations"][0]["quotaValue"] = "30000"
GEMINI = fails(429, google_error(429, "Quota exceeded", "RESOURCE_EXHAUSTED", _QUOTA))
LONG = replace(ASK, messages=(User("word " * 40_000),))


@pytest.mark.parametrize(
    ("step", "spec"),
    [(ANTHROPIC, "anthropic/claude-sonnet-5-5"), (GEMINI, "gemini/gemini-3.8-flash")],
    ids=["anthropic", "gemini"],
)
def test_a_request_above_the_rate_is_waited_for_and_then_told_as_too_long(
    step: Step, spec: str
) -> None:
    asked, transport = model(step, clock=HandClock(), spec=spec)

    with pytest.raises(ContextOverflow) as caught:
        asked.reply(LONG)
    assert (caught.value.limit, caught.value.transient) == (30_000, False)
    assert len(transport.requests) == MAX_ATTEMPTS

    with pytest.raises(ModelError) as short:
        asked.reply(ASK)
    assert not isinstance(short.value, ContextOverflow)
    assert short.value.transient


def test_a_request_above_the_rate_is_answered_where_a_wait_helps() -> None:
    clock = HandClock()
    asked, _ = model(ANTHROPIC, ANTHROPIC, good(), clock=clock)

    assert asked.reply(LONG).text == "done"
    assert clock.slept == [20.0, 20.0]


@pytest.mark.parametrize("again", ["true", "false"])
def test_no_header_makes_a_refusal_for_length_one_to_try_again(again: str) -> None:
    for status, words in ((413, "Request Entity Too Large"), (413, TPM.format(9000))):
        body = json.dumps({"error": {"message": words}}).encode()
        asked, transport = model(fails(status, body, x_should_retry=again), **SERVER)
        with pytest.raises(ContextOverflow):
            asked.reply(replace(ASK, max_output=100))
        assert len(transport.requests) == 1
