"""Rows of `models.providers`: servers of the operator's own, each by its wire, key and headers."""

import json
import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes import HandClock
from tests.simulators.openai import ChatSim
from tests.unit.models.answers import ASK, Listed, Step, fails
from tests.wire.conversations import conversations
from worker.errors import ConfigError, ModelError
from worker.lab.script import Say, Scripted
from worker.models import table
from worker.models.base import OperatorRow, Provider
from worker.models.client import HttpModel
from worker.models.kinds import ANYWHERE, APIS
from worker.models.text_tools import TextToolsModel
from worker.safety.redact import Redactor
from worker.settings import Settings, load
from worker.settings.models import ProviderSettings
from worker.wiring import compare_provider, list_chosen_providers
from worker.wiring.providers import build_helper_model, build_models, open_model

KEY = "sk-very-secret-0123456789"
SERVED = "http://llm:8000/v1"
MODELS = {
    "anthropic": "claude-sonnet-5-5",
    "gemini": "gemini-3.8-flash",
    "openai-chat": "qwen3",
    "openai-responses": "gpt-6.2-sol",
}


def ask(spec: str, url: str, row: OperatorRow, *steps: Step) -> tuple[httpx.Request, ModelError]:
    """What a model of this row sends, and how it takes the answer."""
    transport = Listed(steps or (fails(404),))
    made = table.build_model(
        spec, url, KEY, clock=HandClock(), transport=transport, max_attempts=1, row=row
    )
    with pytest.raises(ModelError) as raised:
        made.reply(ASK)
    return transport.requests[0], raised.value


def settings(folder: Path, models: str, **variables: str) -> Settings:
    file = folder / "sandpiper.yaml"
    file.write_text(f"models: {models}\n", encoding="utf-8")
    return load(str(file), variables)


# -------------------------------------------------------------------------------------- the law


def row_of(provider: Provider) -> OperatorRow:
    project, location = ("p", "eu") if provider.scheme == "vertex" else ("", "")
    return OperatorRow(
        api=provider.api,
        auth=provider.scheme,
        key_env="MY_KEY" if provider.key_env else "",
        project=project,
        location=location,
        region="eu-west-1" if provider.takes_region else "",
    )


STATIC = sorted(name for name, each in table.PROVIDERS.items() if each.scheme != "vertex")


@pytest.mark.parametrize("name", STATIC)
def test_a_row_under_any_name_asks_as_the_built_in_provider_of_its_kind(name: str) -> None:
    built_in = table.PROVIDERS[name]
    model = f"global.anthropic.{MODELS['anthropic']}" if "bedrock" in name else MODELS[built_in.api]
    place = row_of(built_in)
    known = OperatorRow(region=place.region, key_env=place.key_env)
    url = built_in.base_url or "http://llm:8000"
    (one, _), (two, _) = (
        ask(f"{who}/{model}", url, row) for who, row in ((name, known), ("x", place))
    )

    assert (str(two.url), two.method) == (str(one.url), one.method)
    assert {**two.headers, "content-length": ""} == {**one.headers, "content-length": ""}
    bodies = [json.loads(each.content) for each in (one, two)]
    bodies[0].pop("prompt_cache_key", None)  # OpenAI's own servers route by it
    assert bodies[0] == bodies[1]


@pytest.mark.parametrize("name", sorted(table.PROVIDERS))
def test_what_else_the_product_asks_of_a_provider_is_in_its_row(name: str) -> None:
    built_in = table.PROVIDERS[name]
    other = table.make_provider("x", row_of(built_in))

    for field in ("keeps_cache_without_tools", "is_any_server", "takes_region", "takes_version"):
        assert getattr(other, field) == getattr(built_in, field)
    assert (other.listing, other.locate is None) == (built_in.listing, built_in.locate is None)


def test_settings_offer_the_wires_and_ways_that_the_table_has() -> None:
    fields = ProviderSettings.model_json_schema()["properties"]

    assert set(fields["api"]["enum"]) == {"", *APIS}
    assert set(fields["auth"]["enum"]) == {
        "",
        *ANYWHERE,
        *(way for api in APIS.values() for way in api),
    }


@pytest.mark.parametrize("name", ["my-vllm", "openai-compatible"])
def test_calls_as_text_go_by_the_wire(name: str) -> None:
    row = {} if name == "openai-compatible" else {"api": "openai-chat"}
    chosen = Settings.model_validate(
        {
            "models": {
                "default": f"{name}/qwen3",
                "providers": {name: {"base_url": SERVED, **row}},
                "catalogue": {"qwen3": {"text_tools": True}},
            }
        }
    )
    (made,) = build_models(chosen)
    with open_model(made, chosen) as model:
        assert isinstance(model, TextToolsModel)
        assert model._always


# ------------------------------------------------------------------------------- side by side


TWO = """
  default: one/llama
  fallback: [two/llama]
  helper: two/small
  tiers: {smart: {model: one/qwen3}}
  providers:
    one: {api: openai-chat, base_url: %s, key_env: ONE_KEY, headers: {X-Team: $TEAM}}
    two: {api: openai-chat, base_url: %s, key_env: TWO_KEY, max_tokens_field: max_tokens}
"""


def test_two_servers_of_one_wire_are_asked_each_with_its_own_key_in_every_role(
    tmp_path: Path,
) -> None:
    with ExitStack() as opened:
        sims = [
            opened.enter_context(ChatSim(Scripted([Say(who)]), key=f"the-key-of-{who}"))
            for who in ("one", "two")
        ]
        chosen = settings(
            *(tmp_path, TWO % (sims[0].url, sims[1].url)),
            ONE_KEY="the-key-of-one",
            TWO_KEY="the-key-of-two",
            TEAM="the-team-of-llamas",
        )
        helper = build_helper_model(chosen)
        assert helper is not None
        models = [*build_models(chosen), helper]
        answers = {model.name: model.reply(ASK).text for model in models}
        lists = [compare_provider(chosen, who) for who in list_chosen_providers(chosen)]
        for model in models:
            model.close()

    assert answers == {
        "one/llama": "one",
        "two/llama": "two",
        "one/qwen3": "one",
        "two/small": "two",
    }
    assert [sim.unexpected_requests for sim in sims] == [[], []]
    assert [each.provider for each in lists] == ["one", "two"]


def test_a_key_is_never_sent_to_a_server_whose_own_one_is_not_set(tmp_path: Path) -> None:
    """Nor is what the built-in provider would have sent."""
    chosen = settings(
        tmp_path,
        "{default: openai-compatible/x, providers: {openai-compatible: {base_url: 'http://h/v1', "
        "key_env: MY_KEY}}}",
        OPENAI_API_KEY=KEY,
    )

    assert chosen.models.get_provider("openai-compatible").key == ""
    with pytest.raises(ConfigError, match="openai-compatible: no API key: set MY_KEY"):
        build_models(chosen)


@pytest.mark.parametrize("way", ["bedrock", "vertex", "none"])
def test_a_built_in_key_is_not_sent_where_it_is_no_key(way: str) -> None:
    made = table.make_provider(
        "anthropic", OperatorRow(auth=way, region="" if way != "bedrock" else "x")
    )

    assert made.key_env == ""


def test_a_key_may_lie_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n", encoding="utf-8")
    chosen = settings(
        tmp_path,
        "{default: x/y, providers: {x: {api: anthropic, key_env: MY_KEY}}}",
        MY_KEY_FILE=str(tmp_path / "key"),
    )

    assert chosen.models.get_provider("x").key == KEY
    assert KEY in chosen.list_secrets()


# --------------------------------------------------------------------------------- what is refused


BAD: list[tuple[str, str]] = [
    (
        "{x: {base_url: 'http://h'}}",
        r"unknown provider 'x'; known: .*anthropic, .*providers\.x\.api: anth",
    ),
    ("{x: {api: openai}}", r"models\.providers\.x\.api: expected .* did you mean openai-chat"),
    ("{x: {api: openai-chat, auth: magic}}", r"models\.providers\.x\.auth: expected nothing, key"),
    (
        "{x: {api: gemini, auth: azure}}",
        r"x\.auth: 'azure' is not offered with api 'gemini'; known: key",
    ),
    ("{x: {api: openai-chat, auth: bedrock}}", r"x\.auth: 'bedrock' is not offered"),
    (
        "{x: {api: openai-chat, region: eu-west-1, base_url: 'http://h'}}",
        r"x\.region: not with api",
    ),
    (
        "{x: {api: openai-chat, api_version: '2024-10-21', base_url: 'http://h'}}",
        r"x\.api_version: not with api openai-chat and auth key",
    ),
    (
        "{x: {api: openai-chat, auth: azure, api_version: newest}}",
        r"x\.api_version: expected a date",
    ),
    (
        "{x: {api: anthropic, auth: bedrock}}",
        r"models\.providers\.x\.region .*AWS_REGION.*: it is not set",
    ),
    ("{x: {api: anthropic, auth: bedrock, region: ../x}}", r"x\.region .*: found '\.\./x'"),
    ("{x: {api: openai-chat}}", r"models\.providers\.x\.base_url: it is not set: state where"),
    ("{x: {api: openai-chat, base_url: h}}", r"models\.providers\.x\.base_url: expected http"),
    ("{x: {api: openai-chat, base_url: 'http://h', call_id: '('}}", r"x\.call_id: expected a reg"),
    ("{x: {api: openai-chat, base_url: 'http://h', project: p}}", r"x\.project: not with api"),
    ("{x: {api: anthropic, auth: bedrock, region: a, location: b}}", r"x\.location: not with api"),
    (
        "{x: {api: anthropic, auth: none, key_env: MY_KEY}}",
        r"x\.key_env: not with api .* auth none",
    ),
    ("{x: 3}", r"models\.providers\.x: expected keys below it, .*; found 3"),
    ("{x: {api: anthropic, key_env: MY_KEY}}", r"x: no API key: set MY_KEY"),
    ("{x: {api: anthropic, key_env: 'a b'}}", r"x\.key_env: expected the name of a variable"),
    ("{x: {api: anthropic, key: secret}}", r"x\.key: does not belong in the file: name a variable"),
    (
        "{x: {api: anthropic, key_env: GITLAB_WRITE_TOKEN}}",
        r"x\.key_env: \$GITLAB_WRITE_TOKEN is",
    ),
    (
        "{x: {api: anthropic, headers: {a: $GITLAB_TOKEN}}}",
        r"headers\.a: \$GITLAB_TOKEN is a secret",
    ),
    ("{x: {api: anthropic, headers: {a: $NOWHERE}}}", r"x\.headers\.a: the variable NOWHERE is no"),
    ("{x: {api: anthropic, headers: {a: '$a b'}}}", r"x\.headers\.a: what begins with `\$` has"),
    (
        "{x: {api: anthropic, headers: {X-Api-Key: a}}}",
        r"headers\.X-Api-Key: `auth` sets it: state auth: none",
    ),
    (
        "{x: {api: openai-chat, headers: {authorization: a}}}",
        r"headers\.authorization: `auth` sets it",
    ),
    ("{x: {api: anthropic, headers: {Host: a}}}", r"headers\.Host: a request needs its own"),
    ("{x: {api: anthropic, headers: {'a b': c}}}", r"x\.headers\.a b: expected a header's name"),
    ("{x: {api: anthropic, headers: {A: b, a: c}}}", r"x\.headers: expected each header once"),
    ("{a/b: {api: anthropic}}", r"models\.providers\.a/b"),
    ("{openai: {headers: {Authorization: a}}}", r"openai\.headers\.Authorization: `auth` sets it"),
    ("{anthropic: {auth: bedrock}}", r"anthropic\.region .*: it is not set"),
]


@pytest.mark.parametrize(("rows", "says"), BAD)
def test_a_row_that_cannot_work_is_refused_with_its_place(
    rows: str, says: str, tmp_path: Path
) -> None:
    name = rows[1:].partition(":")[0]
    models = f"{{default: {name}/some-model, providers: {rows}}}"
    with pytest.raises(ConfigError, match=says):
        build_models(settings(tmp_path, models, ANTHROPIC_API_KEY=KEY, OPENAI_API_KEY=KEY))


def test_a_date_of_azure_needs_no_quotes(tmp_path: Path) -> None:
    rows = "{x: {api: openai-chat, auth: azure, base_url: 'http://h', api_version: 2024-10-21}}"
    chosen = settings(tmp_path, f"{{default: x/y, providers: {rows}}}")

    assert chosen.models.get_provider("x").api_version == "2024-10-21"


def test_the_clouds_variables_hold_for_rows_of_any_name(tmp_path: Path) -> None:
    rows = (
        "{x: {api: anthropic, auth: bedrock}, y: {api: gemini, auth: vertex, location: eu}, "
        "z: {api: anthropic}}"
    )
    places = {"GOOGLE_CLOUD_PROJECT": "ours", "GOOGLE_CLOUD_LOCATION": "us"}
    chosen = settings(
        tmp_path, f"{{default: x/y, providers: {rows}}}", AWS_REGION="eu-west-1", **places
    )
    made = [chosen.models.get_provider(name) for name in "xyz"]

    assert [each.region for each in made] == ["eu-west-1", "", ""]
    assert [(each.project, each.location) for each in made] == [("", ""), ("ours", "eu"), ("", "")]


def test_a_receiver_needs_neither_the_keys_nor_the_headers_of_models(tmp_path: Path) -> None:
    rows = "{x: {api: anthropic, key_env: MY_KEY, headers: {a: $MY_HEADER}}}"
    chosen = settings(tmp_path, f"{{default: x/claude, providers: {rows}}}")

    assert chosen.models.get_provider("x").key == ""


# ----------------------------------------------------------------------------------------- headers


def test_headers_go_along_and_may_be_those_of_the_wire() -> None:
    row = OperatorRow(
        api="anthropic", headers={"X-Gateway": "abc", "Anthropic-Version": "2026-10-21"}
    )
    sent, _ = ask("x/claude-sonnet-5-5", "", row)

    assert sent.headers["x-gateway"] == "abc"
    assert sent.headers.get_list("anthropic-version") == ["2026-10-21"]
    assert "x-api-key" not in sent.headers


def test_without_a_way_to_authenticate_the_operator_s_own_header_does_it() -> None:
    row = OperatorRow(api="openai-chat", auth="none", headers={"Authorization": "Basic dTpw"})
    sent, _ = ask("x/qwen3", SERVED, row)

    assert sent.headers.get_list("authorization") == ["Basic dTpw"]


@pytest.mark.parametrize("api", sorted(APIS))
def test_every_wire_can_be_asked_with_a_bearer_token(api: str) -> None:
    sent, _ = ask(f"x/{MODELS[api]}", SERVED, OperatorRow(api=api, auth="bearer", key_env="MY_KEY"))

    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert {"x-api-key", "x-goog-api-key", "api-key"}.isdisjoint(sent.headers)


SECRET = "gateway-secret-0123456789"
ECHOES: list[Callable[[str], bytes]] = [
    lambda text: text.encode(),
    lambda text: json.dumps({"error": {"message": f"bad header {text}", "code": text}}).encode(),
    lambda text: json.dumps({"detail": [{"loc": ["header"], "msg": text}]}).encode(),
    lambda text: json.dumps({"message": f"The request's {text} is odd"}).encode(),
]


@pytest.mark.attack("redaction")
@pytest.mark.parametrize("api", sorted(APIS))
def test_a_header_and_a_key_are_in_no_error_log_repr_or_setting(
    api: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, record_property: Any
) -> None:
    chosen = settings(
        tmp_path,
        f"{{default: x/{MODELS[api]}, providers: {{x: {{api: {api}, base_url: 'http://h/v1', "
        f"key_env: MY_KEY, headers: {{X-Gateway: $MY_HEADER, X-Plain: '{SECRET}-2'}}}}}}}}",
        MY_KEY=KEY,
        MY_HEADER=SECRET,
    )
    row, stated = None, chosen.models.get_provider("x")
    row = OperatorRow(api=api, key_env=stated.key_env, headers=stated.headers)
    shown = [repr(chosen), repr(row), repr(table.make_provider("x", row))]
    caplog.set_level(logging.DEBUG)
    for status in (400, 401, 403, 404, 413, 429, 500):
        for echo in ECHOES:
            answer = echo(f"{KEY} {SECRET} {SECRET}-2")
            shown.append(str(ask(f"x/{MODELS[api]}", "http://h/v1", row, fails(status, answer))[1]))
    shown.append(caplog.text)
    record_property("tried", len(shown))

    assert not [text for text in shown if KEY in text or SECRET in text]
    assert {KEY, SECRET, f"{SECRET}-2"} <= set(chosen.list_secrets())
    assert SECRET not in Redactor(chosen.list_secrets()).redact_text(f"it said {SECRET}!")


@pytest.mark.attack("redaction")
@pytest.mark.parametrize(
    "headers",
    [
        '{X-A: "gateway-secret\\u00e9"}',
        "{X-A: ' gateway-secret'}",
        '{X-A: "gateway-secret\\r\\nhost: other"}',
        "{X-A: [gateway-secret]}",
        "gateway-secret",
        "{X-A: gateway-secret, x-a: gateway-secret}",
        "{'X A': gateway-secret}",
    ],
)
def test_a_header_that_is_refused_is_not_shown(headers: str, tmp_path: Path) -> None:
    rows = f"{{x: {{api: anthropic, headers: {headers}}}}}"
    with pytest.raises(ConfigError, match=r"models\.providers\.x\.headers") as raised:
        settings(tmp_path, f"{{default: x/y, providers: {rows}}}")

    assert "gateway-secret" not in str(raised.value)


def test_a_refusal_of_a_row_names_its_fields() -> None:
    _, unknown = ask("x/qwen3", SERVED, OperatorRow(api="openai-chat"), fails(404))
    _, keyless = ask("x/qwen3", SERVED, OperatorRow(api="openai-chat"), fails(401))
    _, keyed = ask("x/qwen3", SERVED, OperatorRow(api="openai-chat", key_env="MY"), fails(401))

    assert "check the model's name and models.providers.x.base_url" in str(unknown)
    assert (
        "none was sent (401): name the variable that holds it in models.providers.x.key_env"
        in str(keyless)
    )
    assert "the API key was refused (401): set MY" in str(keyed)


def test_a_row_of_a_built_in_name_overrides_what_it_states_and_no_more() -> None:
    headers = {"X-Team": "a"}
    made = table.make_provider("openai", OperatorRow(headers=headers))

    assert replace(made, headers={}) == table.PROVIDERS["openai"]
    assert made.headers == {"x-team": "a"}


def test_a_built_in_provider_can_be_asked_by_another_wire_of_its_server() -> None:
    sent, _ = ask("openai/gpt-5.5", "", OperatorRow(api="openai-chat"))
    body = json.loads(sent.content)

    assert str(sent.url) == "https://api.openai.com/v1/chat/completions"
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert "max_completion_tokens" in body
    with pytest.raises(ConfigError, match=r"models\.providers\.anthropic\.base_url"):
        ask("anthropic/claude-opus-5", "", OperatorRow(auth="azure"))


def test_a_built_in_provider_s_body_is_not_another_one_with_a_row(tmp_path: Path) -> None:
    case = conversations("openai/gpt-6.2-sol")["plain"]
    bodies = []
    for row in (OperatorRow(), OperatorRow(key_env="MY", headers={"a": "b"})):
        made = table.build_model("openai/gpt-6.2-sol", "", KEY, clock=HandClock(), row=row)
        assert isinstance(made, HttpModel)
        bodies.append(made._codec.encode(case))
        made.close()

    assert bodies[0] == bodies[1]
