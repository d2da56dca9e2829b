"""What the simulator refuses, and that it refuses nothing else."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from worker.demo.anthropic import binding
from worker.demo.anthropic.checks import check_body, check_headers, parse
from worker.demo.anthropic.protocol import Refused

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


def put(*path: Any, to: Any) -> Callable[[Body], None]:
    """A change: the value at `path` becomes `to`."""

    def change(body: Body) -> None:
        place: Any = body
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = to

    return change


def drop(*path: Any) -> Callable[[Body], None]:
    """A change: the value at `path` goes."""

    def change(body: Body) -> None:
        place: Any = body
        for step in path[:-1]:
            place = place[step]
        del place[path[-1]]

    return change


def swap_results(body: Body) -> None:
    body["messages"][2]["content"].reverse()


def five_marks(body: Body) -> None:
    block = {"type": "text", "text": "x", "cache_control": MARK}
    body["messages"][2]["content"] += [dict(block) for _ in range(4)]


def twice(*path: Any) -> Callable[[Body], None]:
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
        (drop("max_tokens"), "max_tokens: Field required"),
        (put("max_tokens", to=0), "max_tokens: 0 is not"),
        (put("max_tokens", to="100"), "max_tokens: 100 is not"),
        (put("max_tokens", to=30_000), "only plain answers"),
        (put("stream", to=True), "only plain answers"),
        (put("system", to=""), "system: text content blocks must be non-empty"),
        (put("system", 0, "id", to=1), "system.0.id: Extra inputs"),
        (put("messages", to=[]), "at least one message"),
        (drop("messages", 0), 'first message must use the "user" role'),
        (drop("messages", 2), "must end with a user message"),
        (put(*USER, "role", to="system"), "role 'system' is not supported"),
        (put(*USER, "name", to="x"), "messages.0.name: Extra inputs"),
        (put(*USER, "content", to=""), "non-empty content"),
        (put(*USER, "content", to=[]), "non-empty content"),
        (put(*TAIL, "content", 1, "text", to=""), "text content blocks must be non-empty"),
        (put(*TAIL, "content", 1, "text", to=7), "Input should be a valid str"),
        (put(*TAIL, "content", 1, "type", to="image"), "Input tag 'image' is not expected"),
        (put(*TAIL, "content", to=[{"type": "text", "text": "x"}]), "without `tool_result` blocks"),
        (swap_results, "`tool_use` ids were found without `tool_result` blocks"),
        (put(*RESULT, "tool_use_id", to="b"), "ids were found without"),
        (twice(*TAIL, "content"), "each tool_use must have a single result"),
        (drop("messages", 1), "unexpected `tool_use_id` found in `tool_result` blocks: a"),
        (put(*RESULT, "tool_use_id", to="a:b"), "String should match pattern"),
        (put(*USE, "id", to="a b"), "messages.1.content.1.tool_use.id: String should match"),
        (put(*USE, "name", to="a.b"), "tool_use.name: String should match pattern"),
        (put(*USE, "input", to="{}"), "tool_use.input: Input should be a valid dict"),
        (drop(*USE, "input"), "tool_use.input: Field required"),
        (put(*THINKING, "cache_control", to=MARK), "thinking.cache_control: Extra inputs"),
        (drop(*THINKING, "signature"), "thinking.signature: Field required"),
        (drop(*USE), "cannot be `thinking`"),
        (put(*RESULT, "cache_control", to={"type": "persistent"}), "not a valid cache control"),
        (five_marks, "A maximum of 4 blocks with cache_control may be provided. Found 5."),
        (put("tool_choice", to={"type": "off"}), "Input tag 'off'"),
        (put("tool_choice", to={"type": "any"}), "not supported for this model"),
        (put("tool_choice", to={"type": "none", "name": "x"}), "tool_choice.name: Extra inputs"),
        (drop("tools"), "may only be specified while providing tools"),
        (put("tools", 0, "name", to="a.b"), "tools.0.custom.name: String should match"),
        (put("tools", 0, "input_schema", to={}), "input_schema.type: Input should be 'object'"),
        (put("tools", 0, "input_schema", "anyOf", to=[]), "not supported at the root"),
        (put("tools", 0, "strictly", to=True), "tools.0.custom.strictly: Extra inputs"),
        (twice("tools"), "Tool names must be unique"),
    ],
)
def test_a_broken_rule_is_refused_in_the_words_of_the_api(
    change: Callable[[Body], None], says: str
) -> None:
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
        ({"x-api-key": ""}, 401),
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


@pytest.mark.parametrize("name", ["x-api-key", "anthropic-version", "content-type"])
def test_no_header_may_be_missing(name: str) -> None:
    with pytest.raises(Refused):
        check_headers({key: value for key, value in HEADERS.items() if key != name}, "k")


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b"\xff", b'{"a":NaN}', b'{"a":"\\ud800"}'])
def test_a_body_that_is_no_strict_json_object_is_refused(raw: bytes) -> None:
    with pytest.raises(Refused):
        parse(raw)


def signed() -> Body:
    """The valid body with thinking that was signed under its own prefix."""
    body = valid()
    body["messages"][1]["content"][0]["signature"] = binding.sign(
        {**body, "messages": body["messages"][:1]}
    )
    return body


@pytest.mark.parametrize(
    "change",
    [
        put(*USER, "content", to=[{"type": "text", "text": "event", "cache_control": MARK}]),
        drop("tool_choice"),
        put("max_tokens", to=7),
        drop("system", 0, "cache_control"),
        drop(*THINKING),
    ],
)
def test_marks_limits_and_choices_are_no_edit_of_a_signed_prefix(
    change: Callable[[Body], None],
) -> None:
    body = signed()
    change(body)

    binding.check(body)


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
def test_an_edit_before_signed_thinking_is_refused(change: Callable[[Body], None]) -> None:
    body = signed()
    change(body)

    with pytest.raises(Refused, match=r"messages\.1\.content\.0: Invalid `signature`"):
        binding.check(body)


def test_an_older_model_does_not_bind_its_prefix() -> None:
    body = signed()
    body["model"] = "claude-sonnet-4-6"
    body["messages"][0]["content"] = "another event"

    binding.check(body)
