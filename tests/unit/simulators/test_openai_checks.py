"""What the simulators refuse, and that they refuse nothing else."""

import copy
from typing import Any

import pytest

from tests.simulators.openai.cache import PrefixCache
from tests.simulators.openai.chat_checks import Server
from tests.simulators.openai.protocol import Refused, parse
from tests.simulators.openai.responses_checks import check_body
from tests.simulators.openai.sealed import seal
from tests.unit.simulators.changes import Change, drop, put

Body = dict[str, Any]
SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}}


def chat() -> Body:
    function = {"name": "look", "description": "", "parameters": SCHEMA}
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    return {
        "model": "qwen3",
        "max_tokens": 100,
        "tools": [{"type": "function", "function": function}],
        "tool_choice": "none",
        "messages": [
            {"role": "system", "content": "S"},
            {"role": "user", "content": "event"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": "{}"},
            {"role": "user", "content": "notice"},
        ],
    }


def own() -> Body:
    body = chat() | {"model": "gpt-5.5", "max_completion_tokens": 100, "reasoning_effort": "none"}
    body["messages"][2]["content"] = None
    del body["max_tokens"]
    return body


def responses() -> Body:
    tool = {"type": "function", "name": "look", "parameters": SCHEMA, "strict": False}
    part = {"type": "output_text", "text": "so", "annotations": []}
    call = {"type": "function_call", "id": "fc_r1", "call_id": "a", "name": "look"}
    sealed = seal("gpt-6-sol", "rs_r1")
    return {
        "model": "gpt-6-sol",
        "max_output_tokens": 100,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "instructions": "S",
        "tools": [tool],
        "tool_choice": "none",
        "reasoning": {"effort": "low"},
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "event"}]},
            {"type": "reasoning", "id": "rs_r1", "summary": [], "encrypted_content": sealed},
            {"type": "message", "role": "assistant", "id": "msg_r1", "content": [part]},
            {**call, "arguments": "{}", "status": "completed"},
            {"type": "function_call_output", "call_id": "a", "output": "{}"},
            {"role": "user", "content": "notice"},
        ],
    }


def repeat(said: str, at: int) -> Change:
    """A change: a message or item is there twice."""
    return lambda body: body[said].insert(at, copy.deepcopy(body[said][at]))


def test_the_valid_bodies_are_taken() -> None:
    Server().check(chat())
    Server(own=True).check(own())
    check_body(responses())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (put("novelty", to=1), "Unknown parameter: 'novelty'."),
        (put("max_tokens", to=0), "max_tokens is too large"),
        (put("tools", to=[]), "Invalid 'tools': empty array."),
        (drop("tools"), "'tool_choice' is only allowed when 'tools' are specified"),
        (
            put("tool_choice", to="any"),
            "Invalid value: 'any'. Supported values are: 'auto', 'none'",
        ),
        (put("tools", 0, "function", "name", to="a.b"), "does not match pattern"),
        (put("tools", 0, "function", "parameters", to={}), "schema must be a JSON Schema"),
        (put("messages", 1, "role", to="developer"), "Invalid value: 'developer'."),
        (put("messages", 1, "content", to=" "), "non-empty string"),
        (put("messages", 2, "content", to=None), "expected a string, got null"),
        (put("messages", 2, "reasoning_content", to="x"), "messages[2].reasoning_content"),
        (put("messages", 2, "tool_calls", 0, "id", to="x" * 41), "maximum length 40"),
        (
            put("messages", 2, "tool_calls", 0, "function", "arguments", to="{"),
            "Expecting property",
        ),
        (put("messages", 3, "tool_call_id", to="b"), "must be a response to a preceeding message"),
        (drop("messages", 2), "must be a response to a preceeding message"),
        (drop("messages", 3), "did not have response messages: a"),
        (repeat("messages", 3), "must be a response to a preceeding message"),
        (repeat("messages", 4), "must alternate user/assistant"),
        (repeat("messages", 0), "System message must be at the beginning"),
        (drop("messages", 1), "must alternate user/assistant"),
    ],
)
def test_a_compatible_server_refuses(change: Change, says: str) -> None:
    body = chat()
    change(body)
    with pytest.raises(Refused) as caught:
        Server().check(body)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (put("max_tokens", to=1), "Use 'max_completion_tokens' instead"),
        (put("model", to="qwen3"), "The model `qwen3` does not exist"),
        (drop("reasoning_effort"), "use /v1/responses or set reasoning_effort to 'none'"),
        (put("reasoning_effort", to="low"), "use /v1/responses or set reasoning_effort to 'none'"),
        (put("model", to="gpt-6.2-sol"), "'reasoning_effort' does not support 'none'"),
        (put("model", to="gpt-6-astra"), "'reasoning_effort' does not support 'none'"),
        (put("messages", 2, to={"role": "assistant", "content": None}), "got null"),
    ],
)
def test_openai_s_own_chat_refuses(change: Change, says: str) -> None:
    body = own()
    change(body)
    with pytest.raises(Refused) as caught:
        Server(own=True).check(body)
    assert says in str(caught.value)


def test_a_server_that_wants_reasoning_back_refuses_calls_without_it() -> None:
    server, body = Server(reasoning="reasoning_content"), chat()
    with pytest.raises(Refused, match="must be passed back to the API"):
        server.check(body)
    body["messages"][2]["reasoning_content"] = "hm"
    server.check(body)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (put("novelty", to=1), "Unknown parameter: 'novelty'."),
        (put("model", to="qwen3"), "'qwen3' does not exist"),
        (drop("store"), "not stored are simulated"),
        (put("prompt_cache_key", to="x" * 65), "string too long"),
        (put("tools", 0, to={"type": "function", "function": {}}), "'tools[0].function'"),
        (drop("tools", 0, "strict"), "'additionalProperties' is required to be supplied"),
        (put("tools", 0, "parameters", to={}), "schema must be a JSON Schema"),
        (drop("tools"), "'tool_choice' is only allowed when 'tools' are specified"),
        (put("input", 0, "content", 0, "type", to="text"), "Supported values are: 'input_text'"),
        (put("input", 2, "content", 0, "type", to="input_text"), "'output_text', 'refusal'"),
        (put("input", 3, "id", to="call_1"), "Expected an ID that begins with 'fc'."),
        (put("input", 3, "call_id", to="x" * 65), "maximum length 64"),
        (drop("input", 4), "No tool output found for function call a."),
        (drop("input", 3), "No tool call found for function call output with call_id a."),
        (repeat("input", 4), "No tool call found for function call output with call_id a."),
        (repeat("input", 3), "Duplicate function call with call_id a."),
        (drop("input", 1), "'msg_r1' of type 'message' was provided without its required"),
        (drop("input", slice(2, 5)), "'rs_r1' of type 'reasoning' was provided without its"),
        (drop("input", 1, "encrypted_content"), "Items are not persisted when `store` is set"),
        (put("input", 1, "encrypted_content", to="gAAAAx"), "could not be verified"),
        (put("input", 1, "id", to="rs_other"), "could not be verified"),
    ],
)
def test_the_responses_api_refuses(change: Change, says: str) -> None:
    body = responses()
    change(body)
    with pytest.raises(Refused) as caught:
        check_body(body)
    assert says in str(caught.value)


@pytest.mark.parametrize("raw", [b"[]", b'{"a":NaN}', b'{"a":"\\ud800"}'])
def test_what_is_not_a_json_object_is_refused(raw: bytes) -> None:
    with pytest.raises(Refused):
        parse(raw)


def test_the_cache_goes_by_route_prefix_length_and_time() -> None:
    now = [0.0]
    cache = PrefixCache(now=lambda: now[0])
    long, other = "x" * 128 * 4 * 10, "y" * 600

    assert cache.count("m", [long]).read == 0
    assert cache.count("m", [long, other]).read == 1280
    assert cache.count("m", [other, long]).read == 0
    assert cache.count("another", [long]).read == 0
    assert cache.count("m", [long[:4000], other]).read == 0
    now[0] = 1801.0
    assert cache.count("m", [long]).read == 0
