"""What the simulator refuses, and that it refuses nothing else."""

import copy
from typing import Any

import pytest

from tests.unit.simulators.changes import Change, drop, put
from worker.lab.anthropic import protocol
from worker.lab.anthropic.checks import check_body, check_headers, parse_body
from worker.lab.anthropic.protocol import Refused

Body = dict[str, Any]
MARK = {"type": "ephemeral"}
HEADERS = {
    "x-api-key": "k",
    "anthropic-version": "2023-06-01",
    "content-type": "application/json",
}


def valid() -> Body:
    use = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "{}", "is_error": True}
    thinking = {"type": "thinking", "thinking": "", "signature": "s"}
    return {
        "model": "claude-sonnet-5-5",
        "max_tokens": 100,
        "system": [{"type": "text", "text": "S", "cache_control": MARK}],
        "tools": [{"name": "look", "description": "", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "none"},
        "messages": [
            {"role": "user", "content": "event"},
            {"role": "assistant", "content": [thinking, use]},
            {"role": "user", "content": [result, {"type": "text", "text": "notice"}]},
        ],
    }


def swap_results(body: Body) -> None:
    body["messages"][2]["content"].reverse()


def five_marks(body: Body) -> None:
    block = {"type": "text", "text": "x", "cache_control": MARK}
    body["messages"][2]["content"] += [dict(block) for _ in range(4)]


def twice(*path: Any) -> Change:
    """A change: the first element of the list at `path` stands there twice."""

    def change(body: Body) -> None:
        place: Any = body
        for step in path:
            place = place[step]
        place.insert(0, copy.deepcopy(place[0]))

    return change


USER, MODEL, TAIL = (("messages", n) for n in range(3))
THINKING, USE, RESULT = ((*MODEL, "content", 0), (*MODEL, "content", 1), (*TAIL, "content", 0))


def test_a_valid_body_and_valid_headers_are_taken() -> None:
    check_body(valid())
    check_headers(HEADERS, "")
    check_headers(HEADERS, "k")
    bearer = {name: value for name, value in HEADERS.items() if name != "x-api-key"}
    check_headers({**bearer, "authorization": "Bearer k"}, "k")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (put("temperature", to=1.0), "temperature: Extra inputs are not permitted"),
        (put("max_tokens", to=0), "max_tokens: 0 is not"),
        (put("max_tokens", to=30_000), "only plain answers"),
        (drop("messages", 0), 'first message must use the "user" role'),
        (drop("messages", 2), "must end with a user message"),
        (put(*USER, "role", to="system"), "role 'system' is not supported"),
        (put(*USER, "content", to=[]), "non-empty content"),
        (put(*TAIL, "content", 1, "text", to=""), "text content blocks must be non-empty"),
        (put(*TAIL, "content", to=[{"type": "text", "text": "x"}]), "without `tool_result` blocks"),
        (swap_results, "`tool_use` ids were found without `tool_result` blocks"),
        (twice(*TAIL, "content"), "each tool_use must have a single result"),
        (drop("messages", 1), "unexpected `tool_use_id` found in `tool_result` blocks: a"),
        (put(*USE, "id", to="a b"), "messages.1.content.1.tool_use.id: String should match"),
        (put(*THINKING, "cache_control", to=MARK), "thinking.cache_control: Extra inputs"),
        (drop(*USE), "cannot be `thinking`"),
        (put(*RESULT, "cache_control", to={"type": "persistent"}), "not a valid cache control"),
        (five_marks, "A maximum of 4 blocks with cache_control may be provided. Found 5."),
        (put("tool_choice", to={"type": "any"}), "not supported for this model"),
        (drop("tools"), "may only be specified while providing tools"),
        (put("tools", 0, "input_schema", to={}), "input_schema.type: Input should be 'object'"),
        (put("tools", 0, "input_schema", "anyOf", to=[]), "not supported at the root"),
        (twice("tools"), "Tool names must be unique"),
    ],
)
def test_a_broken_rule_is_refused_in_the_words_of_the_api(change: Change, says: str) -> None:
    body = valid()
    change(body)

    with pytest.raises(Refused) as caught:
        check_body(body)
    assert says in str(caught.value)
    assert caught.value.body("req_1") == {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": str(caught.value)},
        "request_id": "req_1",
    }


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"x-api-key": "wrong"}, 401),
        ({"authorization": "Bearer k"}, 401),
        ({"anthropic-version": "2019-01-01"}, 400),
        ({"content-type": "text/plain"}, 400),
    ],
)
def test_wrong_headers_are_refused(headers: dict[str, str], status: int) -> None:
    with pytest.raises(Refused) as caught:
        check_headers({**HEADERS, **headers}, "k")
    assert caught.value.status == status


@pytest.mark.parametrize("raw", [b"[]", b'{"a":NaN}', b'{"a":"\\ud800"}'])
def test_a_body_that_is_no_strict_json_object_is_refused(raw: bytes) -> None:
    with pytest.raises(Refused):
        parse_body(raw)


def signed() -> Body:
    """The valid body with thinking that was signed under its own prefix."""
    body = valid()
    body["messages"][1]["content"][0]["signature"] = protocol.sign_thinking(
        {**body, "messages": body["messages"][:1]}
    )
    return body


@pytest.mark.parametrize(
    "change",
    [
        put(*USER, "content", to="another event"),
        put(
            *USER, "content", to=[{"type": "text", "text": "event"}, {"type": "text", "text": "n"}]
        ),
        put("system", 0, "text", to="T"),
        put("tools", 0, "description", to="other"),
        put(*THINKING, "signature", to="sig_" + "0" * 40),
        put(*THINKING, "signature", to="tampered"),
    ],
)
def test_an_edit_before_signed_thinking_is_refused(change: Change) -> None:
    body = signed()
    change(body)

    with pytest.raises(Refused, match=r"messages\.1\.content\.0: Invalid `signature`"):
        protocol.check_thinking(body)
