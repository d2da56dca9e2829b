"""`HttpModel` over Gemini: what is asked again, what is not, and what it costs."""

import json
from dataclasses import replace

import httpx
import pytest

from tests.fakes import HandClock
from tests.unit.models.answers import ASK, Listed, Step, fails
from tests.unit.models.answers import model as any_model
from tests.unit.models.gemini_bodies import answer, call, delay, error, quota, text
from worker.conversation.messages import Assistant, ToolCall, ToolResult, User, WireForm
from worker.conversation.model import StopReason
from worker.errors import ModelError
from worker.models.client import MAX_CONTINUATIONS, HttpModel
from worker.models.gemini import DUMMY_SIGNATURE

KEY = "AIza-very-secret-0123456789"
SPEC = "gemini/gemini-4-argon"
GOOD = fails(200, answer(text("done")))
MILLION = {"promptTokenCount": 1_000_000, "candidatesTokenCount": 1_000_000}
SIGNED = '[{"functionCall":{"id":"a","name":"look","args":{}},"thoughtSignature":"c2ln"}]'
REPLAY = replace(
    ASK,
    messages=(
        User("e"),
        Assistant("", (ToolCall("a", "look", "{}"),), WireForm(SPEC, SIGNED)),
        ToolResult("a", "look", "{}"),
    ),
)


def model(*steps: Step, clock: HandClock | None = None) -> tuple[HttpModel, Listed]:
    return any_model(*steps, clock=clock, spec=SPEC, key=KEY)


def broken(reason: str) -> Step:
    return fails(200, answer(reason=reason))


def test_the_request_goes_where_the_wire_says_with_the_key_in_one_header_only() -> None:
    asked, transport = model(GOOD)
    asked.reply(ASK)
    request = transport.requests[0]

    assert str(request.url) == (
        "https://generativelanguage.googleapis.com/v1beta/models/gemini-4-argon:generateContent"
    )
    assert [name for name, value in request.headers.items() if KEY in value] == ["x-goog-api-key"]


@pytest.mark.parametrize(
    ("failure", "waits"),
    [
        (fails(429, error(429, "x", "RESOURCE_EXHAUSTED", delay("37s"))), [37.0]),
        (fails(429, error(429, "x", "X", delay("37s")), retry_after="2"), [2.0]),
        (fails(503, error(503, "overloaded", "UNAVAILABLE")), [0.5]),
        (fails(500, error(500, "x", "INTERNAL")), [0.5]),
        (fails(408), [0.5]),
        (fails(504, b"<html>"), [0.5]),
        (fails(200, b"{}"), [0.5]),
        (fails(200, b'{"candidates":[]}'), [0.5]),
        (httpx.ReadTimeout("silence"), [0.5]),
    ],
)
def test_a_transient_failure_is_tried_again(failure: Step, waits: list[float]) -> None:
    clock = HandClock()
    asked, transport = model(failure, GOOD, clock=clock)

    assert asked.reply(ASK).text == "done"
    assert clock.slept == pytest.approx(waits)
    assert len(transport.requests) == 2


@pytest.mark.parametrize(
    ("failure", "says"),
    [
        (fails(400, error(400, "API key not valid")), "was refused (400): set GEMINI_API_KEY"),
        (fails(429, error(429, "x", "X", quota("PerDay"))), "gemini: the quota is used up (429)"),
        (fails(403), "the key may not use gemini-4-argon"),
        (fails(404), "check the model's name and GEMINI_BASE_URL"),
        (fails(400, error(400, "Invalid value at x")), "the API says: Invalid value at x"),
    ],
)
def test_a_final_answer_is_not_tried_again(failure: Step, says: str) -> None:
    asked, transport = model(failure, GOOD)
    with pytest.raises(ModelError) as caught:
        asked.reply(ASK)

    assert says in str(caught.value)
    assert not caught.value.transient
    assert len(transport.requests) == 1


@pytest.mark.parametrize(
    ("reason", "requests"),
    [
        ("MALFORMED_FUNCTION_CALL", 3),
        ("UNEXPECTED_TOOL_CALL", 3),
        ("OTHER", 2),
        ("RECITATION", 2),
        ("TOO_MANY_TOOL_CALLS", 1),
        ("SAFETY", 1),
    ],
)
def test_a_broken_answer_is_asked_for_again_as_often_as_it_is_worth(
    reason: str, requests: int
) -> None:
    asked, transport = model(broken(reason))
    reply = asked.reply(ASK)

    assert len(transport.requests) == requests
    assert reply.stop in {StopReason.MALFORMED, StopReason.BLOCKED}
    assert len({request.content for request in transport.requests}) == 1


def test_a_broken_answer_is_paid_for_but_does_not_fill_the_context() -> None:
    bad = fails(200, answer(reason="MALFORMED_FUNCTION_CALL", usage=MILLION))
    good = fails(200, answer(text("done"), usage=MILLION))
    reply = model(bad, good)[0].reply(ASK)

    assert reply.text == "done"
    assert reply.usage.input == 1_000_000
    assert reply.cost_usd == pytest.approx(2 * (2 + 10))


def test_an_answer_in_parts_is_asked_for_with_the_same_request() -> None:
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 10, "thoughtsTokenCount": 1}
    asked, transport = model(
        fails(200, answer(text("so "), reason="CONTINUATION", continuationToken="t1", usage=usage)),
        fails(
            200, answer(text("far "), reason="CONTINUATION", continuationToken="t²", usage=usage)
        ),
        fails(200, answer(text("so good"), call(), usage=usage)),
    )
    reply = asked.reply(ASK)
    bodies = [json.loads(request.content) for request in transport.requests]

    assert (reply.text, reply.stop) == ("so far so good", StopReason.TOOL_CALLS)
    assert (reply.usage.input, reply.usage.output) == (100, 33)
    assert [body.pop("continuationToken", None) for body in bodies] == [None, "t1", "t²"]
    first, second = (request.content for request in transport.requests[:2])
    assert second == first[:-1] + b',"continuationToken":"t1"}'
    assert bodies[0] == bodies[1] == bodies[2]


def test_an_answer_without_end_is_given_up() -> None:
    endless = fails(200, answer(text("x"), reason="CONTINUATION", continuationToken="t"))
    asked, transport = model(endless)
    with pytest.raises(ModelError, match="more than 17 parts in one answer") as caught:
        asked.reply(ASK)

    assert not caught.value.transient
    assert len(transport.requests) == MAX_CONTINUATIONS + 1


def test_a_part_that_fails_is_tried_again_alone() -> None:
    first = fails(200, answer(text("so "), reason="CONTINUATION", continuationToken="t1"))
    asked, transport = model(first, fails(503), GOOD)

    assert asked.reply(ASK).text == "so done"
    assert [b"continuationToken" in made.content for made in transport.requests] == [0, 1, 1]


@pytest.mark.parametrize(
    "refusal",
    [
        fails(400, error(400, "Invalid thought signature.")),
        fails(400, error(400, "Function call is missing a thought_signature in functionCall")),
        broken("MISSING_THOUGHT_SIGNATURE"),
    ],
)
def test_a_refused_signature_is_replaced_by_the_dummy_in_a_second_request(refusal: Step) -> None:
    asked, transport = model(refusal, GOOD)

    assert asked.reply(REPLAY).text == "done"
    assert [b"c2ln" in made.content for made in transport.requests] == [True, False]
    assert DUMMY_SIGNATURE.encode() in transport.requests[1].content


def test_a_signature_that_stays_refused_is_final() -> None:
    asked, transport = model(broken("MISSING_THOUGHT_SIGNATURE"))
    with pytest.raises(ModelError, match="MISSING_THOUGHT_SIGNATURE"):
        asked.reply(REPLAY)

    assert len(transport.requests) == 2


def test_a_blocked_prompt_is_an_answer_not_an_error() -> None:
    reply = model(fails(200, b'{"promptFeedback":{"blockReason":"SAFETY"}}'))[0].reply(ASK)

    assert (reply.stop, reply.detail) == (StopReason.BLOCKED, "SAFETY")
