"""What servers want of a request that they have refused, by their own words: one table."""

import json
from typing import Any

import pytest

from tests.linear import takes_linear_time
from tests.unit.models.answers import fails
from tests.unit.models.test_openai_models import ASK, CHAT, LOCAL, RESPONSE, model, sent
from worker.conversation.messages import User
from worker.conversation.model import Request
from worker.errors import ModelError
from worker.models.base import Cause, WantedChange
from worker.models.built_in_models import BUILT_IN
from worker.models.error_bodies import classify_openai
from worker.models.refusal_words import find_wanted_change

SERVER = "models.providers.{who}."
MODEL = "models.catalogue.{model}."
LIMIT = f"set {SERVER}max_tokens_field to max_completion_tokens"
OTHER_LIMIT = f"set {SERVER}max_tokens_field to max_tokens"
EFFORT = f"take the reasoning level of {{model}} out of models.tiers or {MODEL}effort"


def no(field: str, advice: str) -> WantedChange:
    return WantedChange(advice, refused_field=field)


def most(tokens: int) -> WantedChange:
    return WantedChange(f"set {MODEL}max_output to {tokens}", most_tokens=tokens)


SAID: list[tuple[str, WantedChange]] = [
    # openai-python, litellm issue 13381
    ("Unsupported parameter: 'max_tokens' is not supported with this model. Use "
     "'max_completion_tokens' instead.", no("max_tokens", LIMIT)),
    # litellm issue 10910
    ("litellm.UnsupportedParamsError: mistral does not support parameters: "
     "{'max_completion_tokens': 4096}, for model=x.", no("max_completion_tokens", OTHER_LIMIT)),
    # litellm issue 10108
    ("litellm.UnsupportedParamsError: openai does not support parameters: ['reasoning_effort'], "
     "for model=o4-mini. To drop these, set `litellm.drop_params=True`",
     no("reasoning_effort", EFFORT)),
    # void issue 128, of a vLLM of 2024
    ("[{'type': 'extra_forbidden', 'loc': ('body', 'max_completion_tokens'), 'msg': 'Extra inputs "
     "are not permitted', 'input': 8192}]", no("max_completion_tokens", OTHER_LIMIT)),
    # FastAPI's list, as `classify` writes it
    ("body.max_completion_tokens: Extra inputs are not permitted",
     no("max_completion_tokens", OTHER_LIMIT)),
    # Azure, before API version 2024-09-01-preview
    ("Unrecognized request argument supplied: max_completion_tokens",
     no("max_completion_tokens", OTHER_LIMIT)),
    ("Unknown parameter: 'reasoning_effort'.", no("reasoning_effort", EFFORT)),
    ("Unsupported parameter: 'reasoning.effort' is not supported with this model.",
     no("reasoning", EFFORT)),
    ("`reasoning_effort` is not supported with this model", no("reasoning_effort", EFFORT)),
    ("Encrypted content is not supported with this model.", no("include", "")),
    # OpenAI, Groq, DeepSeek, DashScope, Anthropic behind a gateway, Responses
    ("max_tokens is too large: 21000. This model supports at most 16384 completion tokens, whereas "
     "you provided 21000.", most(16_384)),
    ("`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is "
     "less than the `context_window` for this model", most(8192)),
    ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", most(8192)),
    ("<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 8192]",
     most(8192)),
    ("max_tokens: 21000 > 4096, which is the maximum allowed number of output tokens for x",
     most(4096)),
    ("Invalid 'max_output_tokens': integer above maximum value. Expected a value <= 4096, but got "
     "21000 instead.", most(4096)),
    # DeepSeek's documentation, thinking mode
    ("The reasoning_content in the thinking mode must be passed back to the API.",
     WantedChange(f"set {SERVER}send_reasoning to reasoning_content",
            dialect={"reasoning": "reasoning_content"})),
    # Mistral, client-js issue 69
    ("Tool call id was call_0123 but must be a-z, A-Z, 0-9, with a length of 9.",
     WantedChange(f"set {SERVER}call_id to '[a-zA-Z0-9]{{{{9}}}}'",
            dialect={"call_id": "[a-zA-Z0-9]{9}"})),
]  # fmt: skip


@pytest.mark.parametrize(("says", "wanted"), SAID)
def test_what_a_server_wants_is_read_in_its_own_words(says: str, wanted: WantedChange) -> None:
    assert find_wanted_change(says) == wanted
    found = classify_openai(400, json.dumps({"error": {"message": says}}).encode())
    assert (found.cause, found.change) == (Cause.UNWANTED, wanted)


@pytest.mark.parametrize(
    "says",
    [
        "",
        "max_tokens",
        "Invalid value: 'user'. Supported values are: 'system'.",
        "messages[2].content: Input should be a valid string",
        "Unknown parameter: 'messages[1].max_tokens_used'.",
        "Unknown parameter: 'tools[0].function.strict'.",
        "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16.",
        "max_tokens must be at least 1 and at most 2",
        "The model `max` does not exist.",
    ],
)
def test_what_is_about_something_else_changes_nothing(says: str) -> None:
    assert find_wanted_change(says) is None


@pytest.mark.parametrize(
    "part", ["max_tokens ", "[{'max_tokens'", "tool call id ", "reasoning ", "x", "unknown field "]
)
def test_a_long_message_is_read_in_linear_time(part: str) -> None:
    assert takes_linear_time(find_wanted_change, part, 2_000)


def says(text: str) -> bytes:
    return json.dumps({"error": {"message": text, "type": "invalid_request_error"}}).encode()


@pytest.mark.parametrize(
    ("url", "text", "before", "after", "setting"),
    [
        (LOCAL, SAID[0][0], {"max_tokens": 16_000}, {"max_completion_tokens": 16_000},
         "models.providers.openai-compatible.max_tokens_field to max_completion_tokens"),
        ("https://api.openai.com/v1", SAID[3][0], {"max_completion_tokens": 16_000},
         {"max_tokens": 16_000},
         "models.providers.openai-compatible.max_tokens_field to max_tokens"),
        (LOCAL, SAID[10][0].replace("16384", "4096"), {"max_tokens": 16_000},
         {"max_tokens": 4096}, "models.catalogue.qwen3.max_output to 4096"),
    ],
)  # fmt: skip
def test_a_server_that_refuses_a_field_is_asked_with_what_it_wants_from_then_on(
    url: str,
    text: str,
    before: dict[str, int],
    after: dict[str, int],
    setting: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    made, transport = model("openai-compatible/qwen3", fails(400, says(text)), CHAT, url=url)
    assert [made.reply(ASK).text for _ in range(2)] == ["done", "done"]
    limits = [
        {name: value for name, value in sent(transport, at).items() if "max" in name}
        for at in range(len(transport.requests))
    ]
    assert limits == [before, after, after]
    assert setting in caplog.text


def test_a_server_that_takes_neither_name_of_the_limit_gets_none() -> None:
    refusals = [fails(422, says(f"Unknown parameter: '{name}'.")) for name in ("max_tokens",
        "max_completion_tokens")]  # fmt: skip
    made, transport = model("openai-compatible/qwen3", *refusals, CHAT, url=LOCAL)
    assert made.reply(ASK).text == "done"
    assert not any("max" in name for name in sent(transport))


def test_a_level_that_is_refused_is_left_out() -> None:
    known = BUILT_IN.extend({"qwen3": {"effort": "low"}})
    refusal = fails(400, says(SAID[2][0]))
    made, transport = model("openai-compatible/qwen3", refusal, CHAT, url=LOCAL, catalogue=known)
    assert made.reply(ASK).text == "done"
    assert ["reasoning_effort" in sent(transport, at) for at in (0, 1)] == [True, False]


@pytest.mark.parametrize(
    ("text", "field"),
    [(SAID[7][0], "reasoning"), (SAID[9][0], "include"), (SAID[15][0], "max_output_tokens")],
)
def test_responses_are_asked_for_with_what_the_server_wants_too(text: str, field: str) -> None:
    known = BUILT_IN.extend({"gpt-oss": {"effort": "low"}})
    made, transport = model(
        "openai-responses/gpt-oss", fails(400, says(text)), RESPONSE, url=LOCAL, catalogue=known
    )
    made.reply(ASK)
    first, second = sent(transport, 0), sent(transport, 1)
    assert first[field] != second.get(field)
    assert {name: first[name] for name in first if name != field} == {
        name: second[name] for name in second if name != field
    }


def test_a_server_that_wants_reasoning_back_gets_it() -> None:
    made, transport = model(
        "openai-compatible/deepseek", fails(400, says(SAID[16][0])), CHAT, url=LOCAL
    )
    made.reply(ASK)
    assert made.reply(ASK).text == "done"
    assert len(transport.requests) == 3


@pytest.mark.parametrize("times", [2, 9])
def test_a_refusal_that_stays_ends_the_request_and_names_the_setting(times: int) -> None:
    refusals = [fails(400, says("Unknown parameter: 'stream'."))] * times
    made, transport = model("openai-compatible/qwen3", *refusals, url=LOCAL)
    with pytest.raises(ModelError, match="wants the request to be another"):
        made.reply(ASK)
    assert len(transport.requests) == 2


def test_what_the_operator_has_set_is_asked_first() -> None:
    dialect: Any = {"dialect": {"limit": "max_completion_tokens"}}
    made, transport = model("openai-compatible/qwen3", CHAT, url=LOCAL, **dialect)
    made.reply(Request("S", (), (User("event"),)))
    assert "max_completion_tokens" in sent(transport)
