"""A refusal for length is recognised on every wire, and believed: the conversation is folded to
what the server has said, and asked again."""

import json
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from tests.contexts import call, context
from tests.fakes import EchoToolbox, HandClock
from tests.simulators.anthropic import AnthropicSim
from tests.simulators.gemini import GeminiSim
from tests.simulators.model_api import ModelApi
from tests.simulators.openai import ChatSim, ResponsesSim
from tests.wire.codecs import CODECS
from tests.wire.length_refusals import LENGTH, OTHER, Refused
from tests.wire.simulators import WIRES
from worker.conversation.context import Context, Outcome, Status
from worker.conversation.fold_plan import estimate_size
from worker.conversation.limits import Limits, TurnUsage
from worker.conversation.messages import Assistant, Message, ToolResult, ToolSpec, User
from worker.lab.script import Answer, Asked, Say
from worker.models.base import Cause, Refusal
from worker.models.refusal_words import StatedSize
from worker.turns.loop import LoopParts, run_loop

LIMIT, COUNT, ANSWER = 131_072, 140_123, 2048
FINDING = "## Cause\nThe needle."
LOOK = ToolSpec("look", "Look.", {"type": "object", "properties": {}})

Form = Callable[[str, str], Any]


def anthropic(words: str, code: str) -> Any:
    kind = code or "invalid_request_error"
    return {"type": "error", "error": {"type": kind, "message": words}, "request_id": "req_1"}


def google(words: str, code: str) -> Any:
    return {"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}


def openai(words: str, code: str) -> Any:
    kind = "invalid_request_error"
    return {"error": {"message": words, "type": kind, "param": None, "code": code or None}}


def flat(words: str, code: str) -> Any:
    return {"object": "error", "message": words, "type": code, "param": None, "code": 400}


def behind_openrouter(words: str, code: str) -> Any:
    raw = {"provider_name": "DeepInfra", "raw": json.dumps({"error": words})}
    return {"error": {"message": "Provider returned error", "code": 400, "metadata": raw}}


def only_text(words: str, code: str) -> Any:
    return {"error": words}


def fastapi(words: str, code: str) -> Any:
    return {"detail": [{"loc": ["body"], "msg": words, "type": code or "value_error"}]}


FORMS: dict[str, tuple[Form, ...]] = {
    "anthropic": (anthropic, google),
    "gemini": (google,),
    "openai": (openai, flat),
    "openai-compatible": (openai, flat, behind_openrouter, only_text, fastapi),
}
"""The codecs, and how their servers and what stands before these write an error."""


def classify(wire: str, status: int, body: Any) -> Refusal:
    codec, _ = CODECS[wire]()
    return codec.classify(status, json.dumps(body).encode())


EACH = pytest.mark.parametrize("refused", LENGTH, ids=[each.source for each in LENGTH])


@EACH
@pytest.mark.parametrize("wire", FORMS)
def test_a_refusal_for_length_is_recognised_in_each_servers_words(
    wire: str, refused: Refused
) -> None:
    words = refused.say(LIMIT, COUNT, ANSWER)
    for form in FORMS[wire]:
        found = classify(wire, refused.status, form(words, refused.code))
        assert (found.cause, found.transient) == (refused.cause, False), form


@EACH
def test_the_numbers_of_a_refusal_are_read(refused: Refused) -> None:
    words = refused.say(LIMIT, COUNT, ANSWER)
    if refused.cause is Cause.TOO_LARGE:
        return
    assert StatedSize.read(words) == refused.expect(LIMIT, COUNT, ANSWER)


@pytest.mark.parametrize("wire", FORMS)
@pytest.mark.parametrize(("source", "status", "words", "code"), OTHER)
def test_what_speaks_of_tokens_and_is_no_refusal_for_length_is_left_alone(
    source: str, status: int, words: str, code: str, wire: str
) -> None:
    length = {Cause.OVERFLOW, Cause.RATE_TOO_LOW, Cause.TOO_LARGE}
    for form in FORMS[wire]:
        found = classify(wire, status, form(words, code))
        assert found.cause not in length, form
        assert found.transient is (status in (429, 500))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("This model's maximum context length is 131,072 tokens.", StatedSize(131_072)),
        ("the model is loaded with context length of only 4096 tokens", StatedSize(4096)),
        ("prompt is too long: 3 tokens > 2 maximum", StatedSize()),
        ("prompt is too long: 3 tokens > 200000 maximum", StatedSize(200_000)),
        ("maximum context length is 99999999999999 tokens", StatedSize()),
        ("", StatedSize()),
        ("maximum context length is " * 100_000, StatedSize()),
    ],
)
def test_a_number_that_makes_no_sense_is_not_believed(words: str, expected: StatedSize) -> None:
    assert StatedSize.read(words) == expected


def answer(asked: Asked) -> Answer:
    """A script that has finished its look: whatever it is asked, it answers."""
    return Say(FINDING)


def long_session(model: str, *, filler: str, size: int = 6000, looks: int = 12) -> Context:
    """A session with the results of many looks, each of so many characters."""
    messages: list[Message] = [User("event")]
    for number in range(looks):
        made = call(f"call-{number:05}")
        result = f"{number} " + filler * (size // len(filler))
        messages += [Assistant("", (made,)), ToolResult(made.id, "look", result)]
    spent = TurnUsage(started_at=1000.0)
    return context(*messages, turn_usage=spent, model=model, tools=(LOOK,))


def run(wire: str, sim: ModelApi, start: Context) -> Context:
    clock = HandClock()
    with closing(WIRES[wire].model(sim)) as model:
        parts = LoopParts(model, EchoToolbox(), clock, lambda _: None, lambda _: None)
        return run_loop(start, Limits(), parts)


MAIN: dict[str, tuple[Callable[..., Any], Form]] = {
    "anthropic": (AnthropicSim, anthropic),
    "gemini": (GeminiSim, google),
    "openai": (ResponsesSim, openai),
    "openai-compatible": (ChatSim, openai),
}


@EACH
@pytest.mark.parametrize("wire", MAIN)
def test_the_conversation_is_folded_and_asked_again(wire: str, refused: Refused) -> None:
    start = long_session(WIRES[wire].spec, filler="abcdefg ")
    count = estimate_size(start)
    words = refused.say(count - 100, count, 1000)
    never = refused.cause is Cause.RATE_TOO_LOW and "{limit}" not in refused.text
    simulator, form = MAIN[wire]
    with simulator(answer) as sim:
        # Where the answer counts as well, a shorter one is asked for first.
        times = 2 if StatedSize.read(words).counts_answer else 1
        sim.fail_next(refused.status, form(words, refused.code), times=times)
        ended = run(wire, sim, start)

    assert ended.outcome
    if never:
        assert ended.outcome.status is Status.FAILED
        assert "waiting is no help" in ended.outcome.reason
        assert len(sim.raw) == 1
        return
    assert (ended.outcome.status, ended.outcome.text) == (Status.DONE, FINDING)
    assert ended.folds
    assert len(sim.raw) == times + 1
    assert len(sim.raw[-1]) < 0.9 * len(sim.raw[0])
    assert ended.turn_usage.window < count


@pytest.mark.parametrize("wire", MAIN)
@pytest.mark.parametrize("filler", [" ", "abcdefg ", "7"], ids=["underestimated", "even", "over"])
@pytest.mark.parametrize("looks", [1, 3, 30])
def test_a_server_that_counts_for_itself_is_believed_whatever_we_estimate(
    wire: str, filler: str, looks: int
) -> None:
    """The simulator counts a token for four characters. Blanks weigh a fifth of that with us, so
    that the refused request would fit easily by our estimate."""
    start = long_session(WIRES[wire].spec, filler=filler, size=90_000 // looks, looks=looks)
    window = 20_000
    with MAIN[wire][0](answer, window=window) as sim:
        ended = run(wire, sim, start)

    if filler == " ":
        assert estimate_size(start) < window / 2
    assert ended.outcome == Outcome(Status.DONE, FINDING), ended.outcome
    assert 1 <= len(sim.unexpected_requests) <= 3
    assert all("tokens" in each or "token count" in each for each in sim.unexpected_requests)
