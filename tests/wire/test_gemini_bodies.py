"""What the golden bodies cannot say in one look: laws over requests of generateContent."""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from google.genai import types

from tests.simulators.gemini import checks, signatures
from tests.wire.codecs import CODECS
from tests.wire.conversations import (
    EVENT,
    FOREIGN,
    NOTICE,
    TOOLS,
    asks,
    calls,
    conversations,
    found,
    own_thinking,
    sliding,
)
from worker.conversation.messages import Assistant, ToolCall, ToolResult, ToolSpec, User, WireForm
from worker.conversation.model import Request
from worker.models.base import Codec
from worker.models.gemini import DUMMY_SIGNATURE, NO_ID

ORIGIN = "gemini/gemini-3.8-flash"
GEMINIS = ("gemini", "gemini-vertex")
CASES = [(codec, case) for codec in GEMINIS for case in conversations("")]


def codec(name: str = "gemini") -> Codec:
    return CODECS[name]()[0]


def encoded(request: Request, *, bare: bool = False, name: str = "gemini") -> dict[str, Any]:
    body: dict[str, Any] = json.loads(codec(name).encode(request, bare=bare))
    return body


def parts(request: Request, at: int = 1, **options: Any) -> list[dict[str, Any]]:
    """The parts of one content of the body."""
    made: list[dict[str, Any]] = encoded(request, **options)["contents"][at]["parts"]
    return made


def case_body(name: str, case: str) -> dict[str, Any]:
    made, origin = CODECS[name]()
    body: dict[str, Any] = json.loads(made.encode(conversations(origin)[case]))
    return body


@pytest.mark.parametrize(("name", "case"), CASES)
def test_the_body_is_one_of_the_official_client_s_own_types(name: str, case: str) -> None:
    body = case_body(name, case)
    names = ("systemInstruction", "tools", "toolConfig")
    system, tools, config = (body.pop(name, None) for name in names)
    for content in body.pop("contents"):
        types.Content.model_validate(content)
    for tool in tools or ():
        types.Tool.model_validate(tool)
    types.Content.model_validate(system)
    types.ToolConfig.model_validate(config or {})
    types.GenerationConfig.model_validate(body.pop("generationConfig"))

    assert body == {}


@pytest.mark.parametrize(("name", "case"), CASES)
def test_the_strict_simulator_takes_every_body(name: str, case: str) -> None:
    body = case_body(name, case)
    model = CODECS[name]()[1].partition("/")[2]
    checks.check_body(checks.parse(json.dumps(body).encode()), model, vertex="vertex" in name)
    if case != "thinking_verbatim":  # signed by nobody
        signatures.check(body["contents"], model, "")


def test_a_session_s_requests_share_their_prefix_byte_for_byte() -> None:
    bodies = [codec().encode(request) for request in sliding().values()]
    notice = json.dumps({"text": NOTICE}, separators=(",", ":")).encode()
    for earlier, later in pairwise(bodies):
        assert later.startswith(earlier.removesuffix(b"]}]}").removesuffix(b"," + notice))


def test_an_answer_goes_back_byte_for_byte() -> None:
    answer = own_thinking(ORIGIN)
    body = codec().encode(asks(EVENT, answer, found("toolu_1")))

    assert answer.wire is not None
    for part in answer.wire.content.strip("[] ").split(",\n "):
        assert part.encode() in body


@pytest.mark.parametrize(
    ("content", "sent"),
    [
        ('[{"text":"a"},{"text":"","thoughtSignature":"c2ln"}]', 2),
        ('[{"text":"a"},{"text":""}]', 1),
        ('[{"text":"a"},{}]', 1),
    ],
)
def test_an_empty_text_is_kept_only_with_a_signature(content: str, sent: int) -> None:
    answer = Assistant("a", (), WireForm(ORIGIN, content))

    assert parts(asks(EVENT, answer, User("and?"))) == json.loads(content)[:sent]


REBUILT = [
    {"text": "Looking."},
    {
        "functionCall": {"id": "a", "name": "look", "args": {"at": "a"}},
        "thoughtSignature": DUMMY_SIGNATURE,
    },
]


def wired(call: str, signature: str = ',"thoughtSignature":"c2ln"') -> str:
    return f'[{{"functionCall":{call}{signature}}}]'


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        "not JSON",
        "[1]",
        '[{"text":"no call"}]',
        '[{"functionCall":"a","thoughtSignature":"c2ln"}]',
        wired('{"id":"other","name":"look","args":{}}'),
        wired('{"id":"a","name":"other","args":{}}'),
        wired('{"name":"look","args":{}}'),
        wired('{"id":"a","name":"look","args":{}}', ""),
        wired('{"id":"a","name":"look","args":{"x":"\ud800"}}'),
        wired('{"id":"a","name":"look"}') + wired('{"id":"b","name":"look"}'),
        "[" * 100_000,
    ],
)
def test_a_wire_form_that_does_not_fit_its_message_is_rebuilt(content: str) -> None:
    answer = replace(calls("a", text="Looking."), wire=WireForm(ORIGIN, content))

    assert parts(asks(EVENT, answer, found("a"))) == REBUILT


@pytest.mark.parametrize(
    "origin", ["gemini/gemini-4-argon", "gemini-vertex/gemini-3.8-flash", "anthropic/claude"]
)
def test_a_wire_form_of_another_origin_is_never_sent(origin: str) -> None:
    body = codec().encode(asks(EVENT, own_thinking(origin), found("toolu_1")))

    assert b"c2lnbmVk" not in body
    assert b'"thoughtSignature":"%s"' % DUMMY_SIGNATURE.encode() in body


def test_a_bare_request_has_the_dummy_in_the_place_of_every_signature() -> None:
    request = asks(EVENT, own_thinking(ORIGIN), found("toolu_1"))
    sent = parts(request, bare=True)

    assert [part.get("thoughtSignature") for part in sent] == [None, DUMMY_SIGNATURE]


def test_the_dummy_stands_on_the_first_call_of_each_step_only() -> None:
    steps = (EVENT, calls("a", "b"), found("a"), found("b"), calls("c"), found("c"))
    contents = encoded(asks(*steps))["contents"]
    signed = [["thoughtSignature" in part for part in contents[at]["parts"]] for at in (1, 3)]

    assert signed == [[True, False], [True]]


def test_models_before_gemini_3_get_no_dummy_and_may_have_unsigned_calls() -> None:
    origin = "gemini-vertex/gemini-2.5-flash"
    plain = '[{"functionCall":{"name":"look","args":{"at":1}}}]'
    own = Assistant("", (ToolCall(f"{NO_ID}x_0", "look", '{"at":1}'),), WireForm(origin, plain))
    foreign = replace(calls("b"), wire=FOREIGN)
    request = asks(EVENT, own, found(f"{NO_ID}x_0"), foreign, found("b"))
    contents = encoded(request, name="gemini-vertex")["contents"]

    assert contents[1]["parts"] == json.loads(plain)
    assert "id" not in contents[2]["parts"][0]["functionResponse"]
    assert contents[3]["parts"] == [
        {"functionCall": {"id": "b", "name": "look", "args": {"at": "b"}}}
    ]


def test_an_id_we_made_up_is_never_sent() -> None:
    made = f"{NO_ID}0123_0"
    body = codec().encode(asks(EVENT, calls(made, text="Looking."), found(made)))

    assert b'"id"' not in body


def test_a_notice_after_an_answer_is_a_content_of_its_own() -> None:
    contents = encoded(asks(EVENT, Assistant("done"), notice=NOTICE))["contents"]

    assert contents[-1] == {"role": "user", "parts": [{"text": NOTICE}]}


def test_results_come_before_text_whatever_their_order() -> None:
    sent = parts(asks(EVENT, calls("a"), User("wait"), found("a")), at=2)

    assert [list(part) for part in sent] == [["functionResponse"], ["text"]]


def test_a_foreign_id_is_the_same_in_call_and_result_and_distinct_from_others() -> None:
    strange = ("a.b", "a:b", "x" * 90)
    body = encoded(asks(EVENT, calls(*strange), *map(found, strange)))
    called = [part["functionCall"]["id"] for part in body["contents"][1]["parts"]]
    answered = [part["functionResponse"]["id"] for part in body["contents"][2]["parts"]]

    assert called == answered
    assert len(set(called)) == 3
    assert all(len(call_id) <= 64 for call_id in called)


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("look", "look"),
        ("bad.name-2", "bad.name-2"),
        ("2nd", "_2nd"),
        ("a b/ü", "_a_b__"),
        ("", "_"),
        ("x" * 90, "_" + "x" * 63),
    ],
)
def test_a_foreign_name_is_the_same_in_call_and_result(name: str, sent: str) -> None:
    steps = (EVENT, Assistant("", (ToolCall("a", name, "{}"),)), ToolResult("a", name, "{}"))
    body = encoded(asks(*steps))

    assert body["contents"][1]["parts"][0]["functionCall"]["name"] == sent
    assert body["contents"][2]["parts"][0]["functionResponse"]["name"] == sent


def test_a_result_has_the_name_its_call_was_made_with() -> None:
    steps = (EVENT, Assistant("", (ToolCall("a", "lok", "{}"),)), ToolResult("a", "look", "{}"))

    assert parts(asks(*steps), at=2)[0]["functionResponse"]["name"] == "lok"


@pytest.mark.parametrize(
    ("content", "is_error", "response"),
    [
        ('{"a":1}', False, {"output": {"a": 1}}),
        ('{"error":"no"}', True, {"error": "no"}),
        ('{"error":"no","hint":"x"}', True, {"error": "no", "hint": "x"}),
        ('{"a":1}', True, {"error": {"a": 1}}),
        ('{"error":"as told"}', False, {"output": {"error": "as told"}}),
        ("plain", False, {"output": "plain"}),
        ("plain", True, {"error": "plain"}),
        ("[1]", False, {"output": "[1]"}),
        (" ", False, {"output": "(no output)"}),
        ('{"a":NaN}', False, {"output": '{"a":NaN}'}),
        ('{"a":1e999}', False, {"output": '{"a":1e999}'}),
        ('{"a":1e999}', True, {"error": '{"a":1e999}'}),
    ],
)
def test_a_result_is_an_object_that_says_how_the_call_went(
    content: str, is_error: bool, response: dict[str, Any]
) -> None:
    sent = parts(asks(EVENT, calls("a"), found("a", content, is_error=is_error)), at=2)

    assert sent[0]["functionResponse"]["response"] == response


@pytest.mark.parametrize("arguments", ["", "[1]", '{"a":1e999}', "{", "null"])
def test_arguments_that_are_no_object_become_an_empty_one(arguments: str) -> None:
    steps = (EVENT, Assistant("", (ToolCall("a", "look", arguments),)), found("a"))

    assert parts(asks(*steps))[0]["functionCall"]["args"] == {}


def test_a_function_without_arguments_has_no_schema() -> None:
    bare = ToolSpec("bare", "Bare.", {"type": "object"})
    declared = encoded(asks(EVENT, tools=(*TOOLS, bare)))["tools"][0]["functionDeclarations"]

    assert [tool.get("parametersJsonSchema") for tool in declared] == [
        dict(TOOLS[0].parameters),
        None,
        None,
    ]


def test_no_sampling_parameter_is_ever_sent() -> None:
    for request in conversations(ORIGIN).values():
        body = encoded(request)
        assert set(body) <= {
            *("systemInstruction", "tools", "generationConfig", "contents", "toolConfig")
        }
        most = request.max_output or 21_000
        assert body["generationConfig"] == {"maxOutputTokens": most}


def test_an_empty_system_text_is_left_out() -> None:
    assert "systemInstruction" not in encoded(asks(EVENT, system=""))


def test_an_empty_text_is_said_to_be_empty() -> None:
    body = encoded(asks(User(" "), Assistant(""), User("")))

    assert [content["parts"] for content in body["contents"]] == [[{"text": "(empty)"}]] * 3
