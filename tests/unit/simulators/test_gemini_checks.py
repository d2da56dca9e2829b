"""What the simulator of generateContent refuses, and that it refuses nothing else."""

import copy
from typing import Any

import pytest

from tests.simulators.gemini import ImplicitCache, signatures
from tests.simulators.gemini.cache import Counted
from tests.simulators.gemini.checks import check_body, parse
from tests.simulators.gemini.protocol import Refused
from tests.unit.simulators.changes import Change, drop, put

Body = dict[str, Any]
MODEL = "gemini-4-argon"
OLD = "gemini-2.5-flash"
CALLS, RESULTS = ("contents", 1, "parts"), ("contents", 2, "parts")
TOOL = ("tools", 0, "functionDeclarations", 0)
CONFIG = ("toolConfig", "functionCallingConfig")
THINKING = ("generationConfig", "thinkingConfig")
SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}}
DUMMY = "context_engineering_is_the_way_to_go"


def valid() -> Body:
    first: Body = {"functionCall": {"id": "a", "name": "look", "args": {"at": "x"}}}
    first["thoughtSignature"] = signatures.sign(first, MODEL, "")
    second = {"functionCall": {"id": "b", "name": "run", "args": {}}}
    result = {"id": "a", "name": "look", "response": {"output": "x"}}
    other = {"id": "b", "name": "run", "response": {"error": "x"}}
    return {
        "systemInstruction": {"parts": [{"text": "S"}]},
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "look",
                        "description": "",
                        "parametersJsonSchema": copy.deepcopy(SCHEMA),
                    },
                    {"name": "run", "description": ""},
                ]
            }
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "NONE"}},
        "generationConfig": {"maxOutputTokens": 100, "thinkingConfig": {"thinkingLevel": "low"}},
        "contents": [
            {"role": "user", "parts": [{"text": "event"}]},
            {"role": "model", "parts": [{"text": "so"}, first, second]},
            {
                "role": "user",
                "parts": [
                    {"functionResponse": result},
                    {"functionResponse": other},
                    {"text": "notice"},
                ],
            },
        ],
    }


def check(body: Body, model: str = MODEL, *, vertex: bool = False) -> None:
    check_body(body, model, vertex=vertex)
    signatures.check(body["contents"], model, "")


def swap(*path: Any, with_next: int) -> Change:
    def change(body: Body) -> None:
        place: Any = body
        for step in path:
            place = place[step]
        place[with_next], place[with_next + 1] = place[with_next + 1], place[with_next]

    return change


def test_a_valid_body_is_taken() -> None:
    check(valid())
    check(valid() | {"labels": {"a": "b"}}, vertex=True)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (put("max_tokens", to=1), 'Unknown name "max_tokens": Cannot find field.'),
        (put("contents", to=[]), "contents is not specified"),
        (drop("contents", 0), "alternate between user and model"),
        (drop("contents", 2), "ends with a user role or a function response"),
        (put("contents", 0, "parts", to=[]), "parts must not be empty"),
        (put(*CALLS, 0, "text", to=""), "empty text parameter"),
        (put(*CALLS, 1, "functionCall", "name", to="a b"), "Invalid function name"),
        (put(*RESULTS, to=[{"text": "x"}]), "number of function response parts is equal"),
        (swap(*RESULTS, with_next=1), "before other parts"),
        (swap(*RESULTS, with_next=0), "look does not answer|run does not answer look"),
        (put(*RESULTS, 0, "functionResponse", "id", to="c"), "id c matches no function call"),
        (drop(*RESULTS, 0, "functionResponse", "id"), "id None matches no function call"),
        (put(*RESULTS, 2, "thoughtSignature", to=DUMMY), "only valid in contents of the model"),
        (put(*CALLS, 3, to={"functionResponse": {"name": "look", "response": {}}}), "of the user"),
        (put(*TOOL, "name", to="run"), "Duplicate function declaration"),
        (put(*TOOL, "parameters", to=SCHEMA), "mutually exclusive"),
        (put(*TOOL, "parametersJsonSchema", to={"type": "object"}), "should be non-empty"),
        (
            put(*TOOL, "parametersJsonSchema", "properties", to={"a-b": {}}),
            "Invalid property name 'a-b'",
        ),
        (drop("tools"), "set without function_declarations"),
        (put(*CONFIG, "allowedFunctionNames", to=["look"]), "only when the mode is ANY"),
        (put("generationConfig", "maxOutputTokens", to=70_000), "supported range"),
        (put(*THINKING, "thinkingBudget", to=1), "only one of thinking budget and thinking level"),
        (put(*THINKING, "thinkingLevel", to="minimal"), "not supported for this model"),
        (drop(*CALLS, 1, "thoughtSignature"), "Function call is missing a thought_signature in"),
        (put(*CALLS, 1, "thoughtSignature", to="#"), "Base64 decoding failed"),
        (put(*CALLS, 1, "thoughtSignature", to="c2ln"), "Corrupted thought signature"),
        (put(*CALLS, 1, "functionCall", "args", to={"at": "y"}), "Invalid thought signature"),
        (put(*CALLS, 2, "thoughtSignature", to=DUMMY), "Invalid thought signature"),
    ],
)
def test_a_broken_rule_is_refused(change: Change, says: str) -> None:
    body = valid()
    change(body)
    with pytest.raises(Refused, match=says) as caught:
        check(body)

    error = caught.value.body()["error"]
    assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")


def test_every_step_of_the_current_turn_must_be_signed() -> None:
    body = valid()
    step = {"role": "model", "parts": [{"functionCall": {"id": "c", "name": "run"}}]}
    result = {"functionResponse": {"id": "c", "name": "run", "response": {}}}
    body["contents"] += [step, {"role": "user", "parts": [result]}]

    with pytest.raises(Refused, match=r"`default_api:run` , position 4\."):
        check(body)


@pytest.mark.parametrize(("model", "route"), [("gemini-3.8-flash", ""), (MODEL, "projects/p")])
def test_a_signature_of_another_model_or_route_is_refused(model: str, route: str) -> None:
    with pytest.raises(Refused, match="Invalid thought signature"):
        signatures.check(valid()["contents"], model, route)


def test_models_before_gemini_3_need_neither_signatures_nor_ids() -> None:
    body = valid()
    for part in body["contents"][1]["parts"][1:]:
        part.pop("thoughtSignature", None)
        del part["functionCall"]["id"]
    del body["contents"][2]["parts"][0]["functionResponse"]["id"]
    del body["contents"][2]["parts"][1]["functionResponse"]["id"]
    body["generationConfig"] = {"thinkingConfig": {"thinkingBudget": 0}}
    check(body, OLD)

    body["contents"][2]["parts"][0]["functionResponse"]["id"] = "a"
    with pytest.raises(Refused, match="id a matches no function call"):
        check(body, OLD)


def test_thinking_levels_are_unknown_before_gemini_3() -> None:
    with pytest.raises(Refused, match="Thinking level is not supported"):
        check_body(valid(), OLD)


def test_vertex_gives_fewer_tokens_without_a_stream() -> None:
    body = valid()
    body["generationConfig"]["maxOutputTokens"] = 40_000
    check(body)
    with pytest.raises(Refused, match="supported range"):
        check(body, vertex=True)


@pytest.mark.parametrize("raw", [b"[]", b'{"a":NaN}', b'{"a":"\\ud800"}'])
def test_a_body_that_is_no_strict_json_object_is_refused(raw: bytes) -> None:
    with pytest.raises(Refused):
        parse(raw)


def prompt(*texts: str, system: str = "S" * 400) -> Body:
    contents = [{"role": "user", "parts": [{"text": text} for text in texts]}]
    return {"systemInstruction": {"parts": [{"text": system}]}, "contents": contents}


@pytest.mark.parametrize(
    "other", [prompt("x" * 400, system="T" * 400), prompt("x" * 400) | {"tools": [{}]}]
)
def test_another_beginning_shares_nothing(other: Body) -> None:
    cache = ImplicitCache(minimum=120)  # more than the system text alone
    cache.count(MODEL, prompt("x" * 400))

    assert cache.count(MODEL, other).cached == 0
    assert cache.count("gemini-3.8-flash", prompt("x" * 400)).cached == 0


def test_a_short_prefix_is_not_cached_and_an_old_one_is_gone() -> None:
    now = 0.0
    cache = ImplicitCache(minimum=4096, now=lambda: now)
    body = prompt("x")
    assert cache.count(MODEL, body) == cache.count(MODEL, body) == Counted(112, 0)

    cache = ImplicitCache(minimum=50, lifetime=300, now=lambda: now)
    total = cache.count(MODEL, body).prompt
    now = 299.0
    assert cache.count(MODEL, body).cached == total
    now = 600.0
    assert cache.count(MODEL, body).cached == 0
