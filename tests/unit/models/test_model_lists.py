"""The lists of models that providers give: parts, limits, hostile bodies, keys."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.fakes import HandClock
from tests.simulators.anthropic import AnthropicSim
from tests.simulators.anthropic.model_list import describe_model
from tests.simulators.gemini import GeminiSim
from tests.simulators.gemini.model_list import describe as describe_gemini
from tests.simulators.model_api import ModelApi
from tests.simulators.openai import ChatSim, ResponsesSim
from tests.simulators.openai.simulator import describe as describe_gpt
from tests.unit.models.answers import Listed, Step, fails
from worker.errors import ConfigError, ModelError
from worker.lab.script import Answer, Asked, Say
from worker.models import discovery
from worker.models.base import ListPart, ServedModel
from worker.models.built_in_models import BUILT_IN
from worker.models.discovery import MAX_PARTS, compare_models, format_entries
from worker.models.table import list_models

KEY = "sk-very-secret-0123456789"
LOCAL = "http://llm:8000/v1"


def say(asked: Asked) -> Answer:
    return Say("done")


SIMULATORS: dict[str, Callable[[], ModelApi]] = {
    "anthropic": lambda: AnthropicSim(say, key=KEY),
    "gemini": lambda: GeminiSim(say, key=KEY),
    "openai": lambda: ResponsesSim(say, key=KEY),
    "openai-compatible": lambda: ChatSim(say, key=KEY),
}
DESCRIBE: dict[str, Callable[[str], dict[str, Any]]] = {
    "anthropic": describe_model,
    "gemini": describe_gemini,
    "openai": describe_gpt,
    "openai-compatible": describe_gpt,
}


@contextmanager
def running(who: str) -> Iterator[ModelApi]:
    """A strict simulator, which in the end has refused nothing."""
    with SIMULATORS[who]() as sim:
        yield sim
    assert sim.unexpected_requests == []


def ask(who: str, url: str, key: str = KEY) -> ListPart:
    clock = HandClock()
    return list_models(who, url, key, clock=clock, deadline=clock.monotonic() + 10)


def fetch(who: str, *steps: Step, url: str = "") -> tuple[ListPart, Listed]:
    """The list over a transport that answers `steps`."""
    transport, clock = Listed(steps), HandClock()
    deadline = clock.monotonic() + 10
    return list_models(
        who, url, KEY, clock=clock, deadline=deadline, transport=transport
    ), transport


@pytest.mark.parametrize("who", SIMULATORS)
def test_every_model_is_listed_once_over_all_parts(who: str) -> None:
    with running(who) as sim:
        sim.model_list = [DESCRIBE[who](f"m-{number:03}") for number in range(25)]
        sim.max_listed = 10
        found = ask(who, sim.url)

    assert [model.id for model in found.models] == [f"m-{number:03}" for number in range(25)]
    assert sim.lists == (1 if who.startswith("openai") else 3)
    assert found.unusable_ids == 0


@pytest.mark.parametrize("who", SIMULATORS)
def test_an_empty_list_is_a_list(who: str) -> None:
    with running(who) as sim:
        sim.model_list = []

        assert ask(who, sim.url) == ListPart(())


def test_what_anthropic_states_is_read() -> None:
    disabled = {"thinking": {"types": {"disabled": {"supported": True}}}}
    able = describe_model("a")["capabilities"]
    with running("anthropic") as sim:
        sim.model_list = [
            describe_model("claude-a", 300_000, 32_000, ("low", "high")),
            describe_model("claude-b", capabilities={**able, **disabled}),
            describe_model("claude-c", capabilities=None, max_input_tokens=None),
            describe_model("claude-gone", lifecycle="retired"),
        ]
        a, b, c = ask("anthropic", sim.url).models

    assert a == ServedModel("claude-a", 300_000, 32_000, ("low", "high"))
    assert b.levels == ("none", "low", "medium", "high", "xhigh", "max")
    assert (c.window, c.levels) == (0, ())


def test_gemini_s_models_that_generate_nothing_are_left_out() -> None:
    with running("gemini") as sim:
        found = ask("gemini", sim.url)

    assert [model.id for model in found.models] == [
        "gemini-2.5-flash",
        "gemini-3.8-flash",
        "gemini-4-argon",
    ]
    assert found.models[0] == ServedModel("gemini-2.5-flash", 1_048_576, 65_536)


@pytest.mark.parametrize(
    ("fields", "window", "output"),
    [
        ({}, 0, 0),
        ({"max_model_len": 40_960}, 40_960, 0),
        ({"context_length": 65_536, "top_provider": {"max_completion_tokens": 8192}}, 65_536, 8192),
        ({"meta": {"n_ctx_train": 32_768}}, 32_768, 0),
        ({"meta": {"n_ctx_train": 32_768, "n_ctx": 4096}}, 4096, 0),
        ({"max_model_len": None, "context_length": "big", "context_window": 9}, 9, 0),
    ],
)
def test_compatible_servers_state_windows_in_fields_of_their_own(
    fields: dict[str, Any], window: int, output: int
) -> None:
    with running("openai-compatible") as sim:
        sim.model_list = [describe_gpt("org/qwen3:32b", **fields)]
        (model,) = ask("openai-compatible", sim.url).models

    assert (model.id, model.window, model.max_output) == ("org/qwen3:32b", window, output)


def test_the_key_is_in_a_header_and_nowhere_else() -> None:
    for who, header in (
        ("anthropic", "x-api-key"),
        ("gemini", "x-goog-api-key"),
        ("openai", "authorization"),
    ):
        _, transport = fetch(who, fails(200, b'{"data": [], "models": []}'))
        (request,) = transport.requests
        others = [value for name, value in request.headers.items() if name != header]
        assert KEY in request.headers[header]
        assert KEY not in f"{request.url} {others}"
        assert (request.method, request.content) == ("GET", b"")
        assert "content-type" not in request.headers


@pytest.mark.parametrize(
    ("who", "url", "expected"),
    [
        ("anthropic", "", "https://api.anthropic.com/v1/models?limit=1000"),
        ("anthropic", "http://proxy/v1/", "http://proxy/v1/models?limit=1000"),
        (
            "gemini",
            "",
            "https://generativelanguage.googleapis.com/v1beta/models?pageSize=1000",
        ),
        ("gemini", "http://proxy/v1", "http://proxy/v1/models?pageSize=1000"),
        ("openai", "", "https://api.openai.com/v1/models"),
        ("openai-compatible", LOCAL, "http://llm:8000/v1/models"),
    ],
)
def test_each_provider_has_its_address(who: str, url: str, expected: str) -> None:
    _, transport = fetch(who, fails(200, b'{"data": [], "models": []}'), url=url)

    assert str(transport.requests[0].url) == expected


HOSTILE = [
    b"",
    b"<html>",
    b"[]",
    b"null",
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"data": 7, "models": {}}',
    b'{"data": [NaN]}',
]


@pytest.mark.parametrize("who", SIMULATORS)
@pytest.mark.parametrize("body", HOSTILE, ids=lambda body: repr(body[:20]))
def test_a_hostile_body_is_a_plain_error(who: str, body: bytes) -> None:
    with running(who) as sim:
        sim.fail_list(200, body or b" ")
        with pytest.raises(ModelError, match="the list of models cannot be read") as raised:
            ask(who, sim.url)

    assert len(str(raised.value)) < 500


def test_ids_that_nobody_could_use_are_left_out_and_counted() -> None:
    odd = ["", " ", "a b", "a\nb", "\x1b[31m", "ü", "x" * 201, "-rf", '"', None, 7, ["a"], "{}"]
    good = [{"id": "good"}, {"id": "good"}, {"id": "/models/good.gguf"}]
    rows = [*({"id": each} for each in odd), "m", None, *good]
    page = discovery.parse_openai_list(json.dumps({"data": rows}).encode())

    assert page.models == (ServedModel("good"), ServedModel("/models/good.gguf"))
    assert page.unusable_ids == len(odd) + 2


@pytest.mark.parametrize("size", [True, -1, 0, 1.5, "9", None, 10**12, [], {}])
def test_a_size_that_is_none_counts_as_unstated(size: Any) -> None:
    rows = [{"id": "m", "max_input_tokens": size, "max_tokens": size, "capabilities": size}]
    page = discovery.parse_anthropic_list(json.dumps({"data": rows}).encode())

    assert page.models == (ServedModel("m"),)


def test_a_list_that_never_ends_is_given_up() -> None:
    body = json.dumps({"data": [{"id": "m"}], "has_more": True, "last_id": "m"}).encode()
    with pytest.raises(ModelError, match="the list of models does not end after 1 of them"):
        fetch("anthropic", fails(200, body))


def test_each_part_is_asked_for_with_the_cursor_of_the_one_before() -> None:
    parts = iter(range(1, MAX_PARTS))

    def answer(request: httpx.Request) -> httpx.Response:
        at = next(parts)
        more = {"nextPageToken": f"t&{at}"} if at < 3 else {}
        return httpx.Response(200, json={"models": [{"name": f"models/m{at}"}], **more})

    found, transport = fetch("gemini", answer)

    assert [model.id for model in found.models] == ["m1", "m2", "m3"]
    assert [request.url.params.get("pageToken") for request in transport.requests] == [
        None,
        "t&1",
        "t&2",
    ]


def test_a_list_of_many_megabytes_is_not_read_to_its_end() -> None:
    with pytest.raises(ModelError, match="the answer is larger than 8 MB"):
        fetch("openai", fails(200, b" " * (9 * 1024 * 1024)))


def test_a_silent_provider_is_not_waited_for() -> None:
    with pytest.raises(ModelError, match=r"no answer from https://api\.openai\.com: it did not"):
        fetch("openai", httpx.ReadTimeout("slow"))
    clock = HandClock()
    with pytest.raises(ModelError, match="no time is left"):
        list_models("openai", "", KEY, clock=clock, deadline=clock.monotonic())


@pytest.mark.parametrize("who", SIMULATORS)
def test_a_refusal_says_what_to_do_and_does_not_show_the_key(who: str) -> None:
    with SIMULATORS[who]() as sim, pytest.raises(ModelError, match="API key was refused") as raised:
        ask(who, sim.url, "sk-another-0123456789")

    assert "sk-another" not in str(raised.value)


def test_a_server_without_a_list_is_named() -> None:
    with pytest.raises(ModelError, match="the list of models is not served at http://llm:8000"):
        fetch("openai-compatible", fails(404, b"Not Found"), url=LOCAL)


def test_a_provider_without_a_list_and_an_unknown_one_are_refused() -> None:
    with pytest.raises(ConfigError, match="anthropic-vertex: this provider has no list"):
        ask("anthropic-vertex", "")
    with pytest.raises(ConfigError, match=r"unknown provider 'nobody'; known: .*anthropic, "):
        ask("nobody", "")


def test_what_is_served_is_told_apart_by_what_the_catalogue_says_of_it() -> None:
    served = [
        ServedModel(
            "claude-opus-5-5", 1_000_000, 128_000, ("low", "medium", "high", "xhigh", "max")
        ),
        ServedModel("claude-opus-5", 200_000),
        ServedModel("claude-sonnet-5", 1_000_000, 0, ("low", "high")),
        ServedModel("claude-haiku-4-5-20251001", 200_000, 64_000, ("low",)),
        ServedModel("claude-opus-5-5-fast", 500_000, 500_000),
        ServedModel("claude-novel-1"),
    ]
    found = compare_models("anthropic", served, 2, BUILT_IN, has_plain_names=True)

    assert [model.id for model in found.described_models] == [
        "claude-opus-5-5",
        "claude-haiku-4-5-20251001",
    ]
    assert [model.id for model in found.differing_models] == ["claude-opus-5", "claude-sonnet-5"]
    assert [model.id for model in found.missing_models] == [
        "claude-opus-5-5-fast",
        "claude-novel-1",
    ]
    assert (len(found.all_models), found.unusable_ids) == (6, 2)
    assert format_entries([found]).splitlines() == [
        "models:",
        "  catalogue:",
        '    "claude-opus-5": {window: 200000}',
        '    "claude-sonnet-5": {window: 1000000, levels: {low: {}, high: {}}}',
        '    "claude-opus-5-5-fast": {window: 500000}',
    ]


def test_a_dated_snapshot_and_its_undated_name_are_one_model() -> None:
    served = [ServedModel("claude-haiku-4-5-20251001"), ServedModel("gpt-5.5")]
    found = compare_models("anthropic", served, 0, BUILT_IN, has_plain_names=True)

    assert found.has_model("claude-haiku-4-5")
    assert found.has_model("claude-haiku-4-5-20251001")
    assert found.has_model("gpt-5.5-20260423")
    assert not found.has_model("claude-haiku-4")
    assert not found.has_model("gpt-5")
    assert not found.has_model("claude-haiku-4-5-20251002")
