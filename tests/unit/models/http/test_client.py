"""Retries, deadlines and error texts of `HttpModel`, on a hand-moved clock."""

import logging
import traceback
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import httpx
import pytest

from tests.fakes import HandClock
from tests.unit.models.answers import ASK, KEY, Step, error, fails, good, message, model, text
from worker.conversation.messages import Assistant, User, WireForm
from worker.errors import ConfigError, ContextOverflow, ModelError
from worker.models import client
from worker.models.table import PROVIDERS, build_model

OVERLOADED = error("overloaded_error", "Overloaded")
SPENT = error("rate_limit_error", "monthly limit", "enforced_spend_limit_reached")
CONTRACT = error("rate_limit_error", "contract limit", "contract_spend_limit_reached")
RAMP = error("rate_limit_error", "growth limit", "ramp_limit_exceeded")
INVALID = error("invalid_request_error", "messages: nonsense")


@pytest.mark.parametrize(
    ("failure", "waits"),
    [
        (fails(429), [0.5]),
        (fails(429, retry_after="7"), [7.0]),
        (fails(429, retry_after="0"), [0.0]),
        (fails(429, retry_after="1.5"), [1.5]),
        (fails(429, retry_after="7", retry_after_ms="250"), [0.25]),
        (fails(429, retry_after="soon"), [0.5]),
        (fails(429, retry_after="-3"), [0.5]),
        (fails(429, retry_after="nan"), [0.5]),
        (fails(429, retry_after="Thu, 01 Jan 1970 00:16:52 GMT"), [12.0]),
        (fails(429, retry_after="Thu, 01 Jan 1970 00:16:52 -0000"), [12.0]),
        # By the server's clock, which is 16 minutes behind, and one that is three years ahead.
        (
            fails(
                429,
                retry_after="Thu, 01 Jan 1970 00:00:52 GMT",
                date="Thu, 01 Jan 1970 00:00:40 GMT",
            ),
            [12.0],
        ),
        (
            fails(
                429,
                retry_after="Mon, 01 Jan 1973 00:00:09 GMT",
                date="Mon, 01 Jan 1973 00:00:02 GMT",
            ),
            [7.0],
        ),
        (fails(429, retry_after="Thursday, 01-Jan-70 00:16:52 GMT"), [12.0]),
        (fails(429, retry_after="Thu Jan  1 00:16:52 1970"), [12.0]),
        (fails(429, retry_after="Thu, 01 Jan 1970 00:16:52 GMT", date="yesterday"), [12.0]),
        # A moment that has passed, and one that never comes, ask for no wait of their own.
        (fails(429, retry_after="Thu, 01 Jan 1970 00:00:01 GMT"), [0.5]),
        (fails(503, retry_after="Mon, 01 Jan 1900 00:00:00 GMT"), [0.5]),
        (fails(503, retry_after="Thu, 99 Foo 1970 00:00:01 GMT"), [0.5]),
        (fails(429, retry_after="Thu, 01 Jan 99999999999 00:16:52 GMT"), [0.5]),
        (fails(429, RAMP, retry_after="3"), [3.0]),
        (fails(408), [0.5]),
        (fails(409), [0.5]),
        (fails(500), [0.5]),
        (fails(502, b"<html>bad gateway</html>"), [0.5]),
        (fails(503), [0.5]),
        (fails(504), [0.5]),
        (fails(529, OVERLOADED, retry_after="2"), [2.0]),
        (fails(400, INVALID, x_should_retry="true"), [0.5]),
        (fails(200, b"<html>"), [0.5]),
        (fails(200, b""), [0.5]),
        (fails(200, b'{"type":"error"}'), [0.5]),
        (httpx.ConnectError("refused"), [0.5]),
        (httpx.ReadTimeout("silence"), [0.5]),
        (httpx.RemoteProtocolError("cut"), [0.5]),
    ],
)
def test_a_transient_failure_is_tried_again_after_the_wait_it_asks_for(
    failure: Step, waits: list[float]
) -> None:
    clock = HandClock()
    asked, transport = model(failure, good(), clock=clock)

    assert asked.reply(ASK).text == "done"
    assert clock.slept == pytest.approx(waits)
    assert transport.requests[0].content == transport.requests[1].content


@pytest.mark.parametrize(
    ("failure", "says"),
    [
        (
            fails(400, INVALID),
            "anthropic: the request was refused (400); the API says: messages: n",
        ),
        (fails(401), "anthropic: the API key was refused (401): set ANTHROPIC_API_KEY"),
        (fails(402), "billing problem"),
        (fails(403), "the key may not use claude-sonnet-5-5"),
        (fails(404), "claude-sonnet-5-5 is not served at https://api.anthropic.com (404): check"),
        (fails(413), "more bytes than the API takes"),
        (fails(429, SPENT), "the spend limit is reached (429)"),
        (fails(429, CONTRACT, x_should_retry="true"), "the spend limit is reached (429)"),
        (fails(429, x_should_retry="false"), "too many requests (429)"),
        (fails(500, x_should_retry="false"), "(500)"),
        (fails(302, location="https://elsewhere.example"), "(302)"),
        (fails(401, request_id="req_123"), "(401, req_123)"),
        (fails(401, request_id="<script>"), "(401)"),
    ],
)
def test_a_final_answer_is_not_tried_again(failure: Step, says: str) -> None:
    asked, transport = model(failure, good())

    with pytest.raises(ModelError) as caught:
        asked.reply(ASK)

    assert says in str(caught.value)
    assert not caught.value.transient
    assert len(transport.requests) == 1


@pytest.mark.parametrize(
    "words",
    [
        "prompt is too long: 1000001 tokens > 1000000 maximum",
        "input length and `max_tokens` exceed context limit: 1 + 2 > 2, decrease input length",
    ],
)
def test_an_overflow_is_told_apart(words: str) -> None:
    asked, transport = model(fails(400, error("invalid_request_error", words)))

    with pytest.raises(ContextOverflow):
        asked.reply(ASK)
    assert len(transport.requests) == 1


def test_the_waits_grow_to_a_cap_and_the_last_error_is_transient() -> None:
    clock = HandClock()
    asked, transport = model(fails(529, OVERLOADED), clock=clock)

    with pytest.raises(ModelError, match="overloaded or failing") as caught:
        asked.reply(ASK)

    assert caught.value.transient
    assert clock.slept == [0.5, 1.0, 2.0, 4.0, 8.0]
    assert len(transport.requests) == client.MAX_ATTEMPTS


def test_jitter_shortens_a_wait_by_a_quarter_at_most() -> None:
    clock = HandClock()
    asked = build_model(
        "anthropic/claude-sonnet-5-5",
        "",
        KEY,
        clock=clock,
        transport=model(fails(500), good())[1],
        jitter=lambda: 1.0,
    )
    asked.reply(ASK)

    assert clock.slept == [0.375]


@pytest.mark.parametrize(
    ("wait", "least"),
    [
        ("121", 121.0),
        ("Thu, 01 Jan 1970 00:18:41 GMT", 121.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 1e11),
        ("9" * 40, 1e11),
    ],
    ids=["seconds", "a date", "the end of time", "no number of this world"],
)
def test_a_wait_longer_than_our_patience_ends_the_call(wait: str, least: float) -> None:
    clock = HandClock()
    asked, transport = model(fails(429, retry_after=wait), good(), clock=clock)

    with pytest.raises(ModelError) as caught:
        asked.reply(ASK)

    assert caught.value.transient
    assert (caught.value.retry_after or 0.0) >= least
    assert (clock.slept, len(transport.requests)) == ([], 1)


def test_no_wait_goes_past_the_deadline() -> None:
    clock = HandClock(time=1000.0)
    asked, transport = model(fails(500), clock=clock)

    with pytest.raises(ModelError):
        asked.reply(replace(ASK, deadline=1003.0))

    assert clock.slept == [0.5, 1.0]
    assert len(transport.requests) == 3


def test_no_attempt_starts_past_the_deadline() -> None:
    asked, transport = model(good(), clock=HandClock(time=1000.0))

    with pytest.raises(ModelError, match="no time is left"):
        asked.reply(replace(ASK, deadline=1000.0))
    assert transport.requests == []


@pytest.mark.parametrize(
    ("deadline", "timeouts"),
    [
        (None, {"connect": 5.0, "pool": 5.0, "read": 600.0, "write": 60.0}),
        (1030.0, {"connect": 5.0, "pool": 5.0, "read": 30.0, "write": 30.0}),
        (1002.0, {"connect": 2.0, "pool": 2.0, "read": 2.0, "write": 2.0}),
        (9999.0, {"connect": 5.0, "pool": 5.0, "read": 600.0, "write": 60.0}),
    ],
)
def test_every_timeout_ends_at_the_deadline(
    deadline: float | None, timeouts: dict[str, float]
) -> None:
    asked, transport = model(good(), clock=HandClock(time=1000.0))
    asked.reply(replace(ASK, deadline=deadline))

    assert transport.requests[0].extensions["timeout"] == timeouts


def test_an_answer_that_trickles_in_past_the_deadline_is_given_up() -> None:
    clock = HandClock(time=1000.0)

    def trickle() -> Iterator[bytes]:
        for _ in count():
            clock.sleep(10.0)
            yield b" "

    asked, _ = model(lambda request: httpx.Response(200, content=trickle()), clock=clock)

    with pytest.raises(ModelError, match="not complete in time"):
        asked.reply(replace(ASK, deadline=1025.0))
    assert clock.time == 1030.0


def test_an_endless_answer_is_cut_off_and_not_asked_for_again() -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield b" " * 2**20

    asked, transport = model(lambda request: httpx.Response(200, content=endless()))

    with pytest.raises(ModelError, match="larger than 32 MB") as caught:
        asked.reply(ASK)
    assert not caught.value.transient
    assert len(transport.requests) == 1


def test_thinking_that_is_bound_elsewhere_is_left_out_of_a_second_request() -> None:
    bound = error(
        "invalid_request_error",
        "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a "
        "different conversation.",
    )
    content = '[{"type":"thinking","thinking":"","signature":"x"},{"type":"text","text":"so"}]'
    wire = WireForm("anthropic/claude-sonnet-5-5", content)
    asked, transport = model(fails(400, bound), good())
    answer = asked.reply(replace(ASK, messages=(User("e"), Assistant("so", (), wire), User("?"))))

    assert (answer.text, answer.bare) == ("done", True)
    assert [b"signature" in request.content for request in transport.requests] == [True, False]


def test_a_binding_error_that_stays_is_final() -> None:
    asked, transport = model(fails(400, error("invalid_request_error", "Invalid `signature` in")))

    with pytest.raises(ModelError, match="an earlier answer was refused"):
        asked.reply(ASK)
    assert len(transport.requests) == 2


def test_the_request_goes_where_the_wire_says_with_the_key_in_one_header_only() -> None:
    asked, transport = model(good())
    asked.reply(ASK)
    request = transport.requests[0]

    assert (request.method, str(request.url)) == ("POST", "https://api.anthropic.com/v1/messages")
    assert request.headers["x-api-key"] == KEY
    assert request.headers["anthropic-version"] == "2023-06-01"
    assert request.headers["content-type"] == "application/json"
    assert [name for name, value in request.headers.items() if KEY in value] == ["x-api-key"]
    assert KEY not in str(request.url)


@pytest.mark.parametrize("root", ["http://llm:8000", "http://llm:8000/", "http://llm:8000/v1"])
def test_a_base_url_is_taken_with_and_without_its_version(root: str) -> None:
    asked, transport = model(good(), base_url=root)
    asked.reply(ASK)

    assert str(transport.requests[0].url) == "http://llm:8000/v1/messages"


def _quoting(status: int, **headers: str) -> Step:
    return fails(status, error("api_error", f"bad header x-api-key: {KEY}\n  rejected"), **headers)


@pytest.mark.parametrize(
    "failure",
    [
        _quoting(400),
        _quoting(401),
        _quoting(429, retry_after="999"),
        _quoting(500, x_should_retry="false"),
        fails(502, KEY.encode(), x_should_retry="false"),
        httpx.LocalProtocolError(f"Illegal header value {KEY}"),
        httpx.ConnectError(f"proxy said {KEY}"),
        fails(200, f'{{"type":"{KEY}"}}'.encode()),
        fails(200, message(text("x"), stop=KEY)),
        fails(200, message(stop="refusal", stop_details={"explanation": KEY})),
    ],
)
def test_the_key_is_in_no_error_and_no_log(failure: Step, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    asked, _ = model(failure, max_attempts=2)
    try:
        told = asked.reply(ASK).detail
    except ModelError as caught:
        told = f"{caught}{caught!r}"

    assert told
    assert KEY not in told
    assert KEY not in caplog.text
    assert "\n" not in told


def test_the_key_is_in_no_repr() -> None:
    asked, _ = model(good())

    assert KEY not in repr(asked) + repr(vars(asked)) + repr(PROVIDERS["anthropic"].auth(KEY))


def test_a_long_reason_is_cut() -> None:
    asked, _ = model(fails(400, error("invalid_request_error", "x" * 10_000)))

    with pytest.raises(ModelError) as caught:
        asked.reply(ASK)
    assert len(str(caught.value)) < 450


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"spec": "claude-sonnet-5-5"}, "expected provider/model"),
        ({"spec": "anthropic/"}, "expected provider/model"),
        ({"spec": "/claude"}, "expected provider/model"),
        ({"spec": "anthropic/claude sonnet"}, "expected provider/model"),
        ({"spec": "nobody/claude"}, "unknown provider 'nobody'; known: "),
        ({"key": " "}, "anthropic: no API key: set ANTHROPIC_API_KEY"),
        ({"key": "sk-secret\nx"}, "characters no API key has"),
        ({"key": "sk-sécret"}, "characters no API key has"),
        ({"base_url": "api.anthropic.com"}, "expected http(s)://host"),
        ({"base_url": "ftp://secret.example"}, "expected http(s)://host"),
        ({"base_url": "http://"}, "expected http(s)://host"),
        ({"base_url": "http://host:secret"}, "expected http(s)://host"),
        ({"base_url": "https://me:secret@host"}, "without user"),
        ({"base_url": "https://host/?key=secret"}, "without user"),
    ],
)
def test_a_wrong_configuration_is_refused_at_once_without_showing_secrets(
    options: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        model(good(), **options)

    assert says in str(caught.value)
    assert "secret" not in "".join(traceback.format_exception(caught.value)).partition("Error:")[2]


def test_a_key_is_taken_without_the_newline_of_its_file() -> None:
    asked, transport = model(good(), key=f"{KEY}\n")
    asked.reply(ASK)

    assert transport.requests[0].headers["x-api-key"] == KEY


@pytest.mark.parametrize(
    ("spec", "tokens", "binds"),
    [
        ("anthropic/claude-sonnet-5-5", 979_000, True),
        ("anthropic/claude-haiku-4-5-20251001", 179_000, False),
        ("anthropic/claude-unheard-of", 112_000, False),
    ],
)
def test_a_model_knows_its_name_window_and_binding(spec: str, tokens: int, binds: bool) -> None:
    asked, _ = model(good(), spec=spec)

    assert (asked.name, asked.context_tokens, asked.binds_thinking) == (spec, tokens, binds)


def test_a_closed_model_answers_no_more() -> None:
    asked, _ = model(good())
    asked.close()

    with pytest.raises(RuntimeError):
        asked.reply(ASK)


def test_no_answer_sets_a_cookie_for_a_later_request() -> None:
    answer = message(text("done"))
    asked, transport = model(fails(200, answer, set_cookie="seen=1; Path=/"), good())

    asked.reply(ASK)
    asked.reply(ASK)

    assert [each.headers.get("cookie") for each in transport.requests] == [None, None]
