"""Every key by a variable of its name; and what is told of variables that are no key's."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from worker.errors import ConfigError
from worker.settings import Settings, load, reference
from worker.settings.environment import OVERRIDES, SECRETS
from worker.settings.loading import name_variable
from worker.settings.validation import Schema, find_schema, list_choices, make_schema

ENTRY = "my-vllm.2"
NAMES = {"tiers": "smart", "levels": "high"}
"""What an entry may be called, where that is not free."""
BASE = f"""
models:
  tiers: {{smart: {{model: anthropic/x}}}}
  providers: {{{ENTRY}: {{api: openai-chat, key_env: SANDPIPER_VLLM_KEY}}}}
  catalogue: {{{ENTRY}: {{levels: {{high: {{}}}}}}}}
  reply: smart
pages: {{sign_in: {{group: x, client_id: x}}}}
sources:
  konflux: {{projects: {{{ENTRY}: {{namespace: x}}}}}}
"""
STRINGS = {
    "broker": "redis://h:6379/1",
    "store": "s3://b/p",
    "memory": "3g",
    "disk": "4g",
    "model": "gemini/x",
    "default": "gemini/x",
    "helper": "gemini/x",
    "api_version": "preview",
    "key_env": "MY_KEY",
    "since": "2026-01-02",
    "namespace": "other",
    "repository": "repo",
    "call_id": "^[a-z: ]{3}$",
}
LISTS: dict[str, list[Any]] = {
    "fallback": ["gemini/x", "openai/y"],
    "upgrade": ["code"],
    "download_hosts": ["minio.example.com"],
    "tiers": [{"above": 5, "input": 1.5}],
}
MAPS: dict[str, dict[str, Any]] = {
    "tiers": {"smart": {"model": "gemini/x"}, "deep": {"model": "gemini/y", "reasoning": "low"}},
    "providers": {"new": {"api": "gemini", "base_url": "https://x"}},
    "catalogue": {"new/one": {"window": 5}},
    "levels": {"low": {"window": 7}},
    "projects": {"group/app": {"namespace": "n"}},
    "repositories": {"group/app": ["https://x/*"]},
    "headers": {"X-Team": "ci"},
}


def list_places() -> Iterator[tuple[str, ...]]:
    """The place of every key of the reference, and of `models.reply`, which may be a name alone;
    items of lists are written with their list."""
    yield from (row.place for row in reference.list_rows() if "[]" not in row.place)
    yield "models", "reply"


def name_entries(place: tuple[str, ...]) -> tuple[str, ...]:
    before = ("", *place)
    return tuple(
        NAMES.get(above, ENTRY) if step == "NAME" else step
        for above, step in zip(before, place, strict=False)
    )


def choose_value(place: tuple[str, ...], schema: Schema) -> Any:
    """A value that is allowed there, and not the default."""
    choice = list_choices(schema)[-1]
    words = [word for word in choice.get("enum", ()) if word not in ("", schema.get("default"))]
    if words:
        return words[-1]
    name, kind = place[-1], choice.get("type")
    if kind == "boolean":
        return not schema.get("default")
    if name == "heartbeat":
        return 9  # the lease is three times as long at least
    if kind in ("integer", "number"):
        return _choose_number(choice, schema.get("default"))
    if kind == "array":
        return LISTS.get(name, ["a", "b*"])
    if kind == "object":
        return MAPS[name]
    if place == ("models", "reply"):
        return "gemini/x"
    return STRINGS.get(name, "https://h.example/x" if "url" in name or name == "endpoint" else "xy")


def _choose_number(choice: Schema, default: Any) -> float:
    least = choice.get("minimum", choice.get("exclusiveMinimum", 0))
    most = choice.get("maximum", choice.get("exclusiveMaximum", least + 1000))
    if choice["type"] == "number" and most == 1:
        return 0.21 if default != 0.75 else 0.8
    return int((least + most) / 2) + (1 if int((least + most) / 2) == default else 0)


def write_text(value: Any) -> str:
    """The value of a variable, as a person would write it."""
    if isinstance(value, list | dict):
        return yaml.safe_dump(value, default_flow_style=True).strip()
    return str(value).lower() if isinstance(value, bool) else str(value)


def put(tree: dict[str, Any], place: tuple[str, ...], value: Any) -> None:
    for step in place[:-1]:
        inner = tree.setdefault(step, {})
        if isinstance(inner, str):  # models.reply: NAME
            inner = tree[step] = {"model": inner}
        tree = inner
    tree[place[-1]] = value


@pytest.mark.parametrize("place", sorted(set(list_places())), ids=".".join)
def test_a_key_is_set_by_its_variable_as_by_the_file(
    place: tuple[str, ...], tmp_path: Path
) -> None:
    schema = find_schema(make_schema(Settings), place)
    assert schema is not None
    value, whole = choose_value(place, schema), name_entries(place)
    tree = yaml.safe_load(BASE)
    by_file, by_variable = tmp_path / "file.yaml", tmp_path / "variable.yaml"
    by_variable.write_text(yaml.safe_dump(tree), encoding="utf-8")
    unset = load(str(by_variable), {})
    put(tree, whole, value)
    by_file.write_text(yaml.safe_dump(tree), encoding="utf-8")
    wanted = load(str(by_file), {})
    assert load(str(by_variable), {name_variable(whole): write_text(value)}) == wanted
    assert wanted != unset, "the value is the one that it had"


def test_the_names_of_keys_are_their_variables_and_never_two_keys_one() -> None:
    places = list(list_places())
    assert name_variable(("limits", "cost_usd")) == "SANDPIPER_LIMITS__COST_USD"
    assert len({name_variable(place) for place in places}) == len(set(places))
    assert not [place for place in places for step in place if "__" in step]
    own = {name: place for name, place in OVERRIDES.items() if name.startswith("SANDPIPER_")}
    clashes = {name_variable(place): place for place in places}
    assert {name for name in own if clashes.get(name, own[name]) != own[name]} == set()


FILE = """models:
  tiers: {smart: {model: anthropic/x}}
  providers:
    my-vllm: {api: openai-chat, base_url: "http://x/v1", key_env: SANDPIPER_VLLM_KEY}
    a-b: {api: openai-chat}
    a.b: {api: openai-chat}
"""
LISTED = "(`sandpiper settings` lists the keys)"
P = "SANDPIPER_MODELS__PROVIDERS"

REFUSED: list[tuple[dict[str, str], str]] = [
    (
        {"SANDPIPER_LIMITS__COST_USD": "much"},
        "$SANDPIPER_LIMITS__COST_USD: limits.cost_usd: expected a number of dollars above 0; found "
        "'much'",
    ),
    (
        {"SANDPIPER_LIMITS__COST_US": "1"},
        "$SANDPIPER_LIMITS__COST_US: unknown variable: did you mean SANDPIPER_LIMITS__COST_USD?",
    ),
    (
        {"SANDPIPER_LIMITS_COST_USD": "1"},
        "$SANDPIPER_LIMITS_COST_USD: unknown variable: did you mean SANDPIPER_LIMITS__COST_USD?",
    ),
    (
        {"SANDPIPER_COST_USD": "1"},
        "$SANDPIPER_COST_USD: unknown variable: did you mean SANDPIPER_LIMITS__COST_USD?",
    ),
    ({"SANDPIPER_STOER": "x"}, "$SANDPIPER_STOER: unknown variable: did you mean SANDPIPER_STORE?"),
    ({"SANDPIPER_FOO": "x"}, f"$SANDPIPER_FOO: unknown variable {LISTED}"),
    ({"SANDPIPER_PORT": "8080"}, f"$SANDPIPER_PORT: unknown variable {LISTED}"),
    (
        {"SANDPIPER_METRICS_PORT": "8080"},
        "$SANDPIPER_METRICS_PORT: unknown variable: did you mean SANDPIPER_METRICS__PORT?",
    ),
    ({"SANDPIPER_VLLM_KEYS": "hidden"}, f"$SANDPIPER_VLLM_KEYS: unknown variable {LISTED}"),
    (
        {"SANDPIPER_LIMITS": "{cost_usd: 1}"},
        "$SANDPIPER_LIMITS: this is a section: set one key of it, such as "
        "SANDPIPER_LIMITS__MAX_ITERATIONS",
    ),
    (
        {"SANDPIPER_GITLAB__READ_TOKEN": "hidden"},
        "$SANDPIPER_GITLAB__READ_TOKEN: this has a name of its own: set $GITLAB_READ_TOKEN",
    ),
    (
        {"SANDPIPER_GITLAB_TOKEN": "hidden"},
        "$SANDPIPER_GITLAB_TOKEN: unknown variable: did you mean GITLAB_TOKEN?",
    ),
    (
        {"SANDPIPER_S3_ENDPOINT": "x"},
        "$SANDPIPER_S3_ENDPOINT: this has a name of its own: set $AWS_ENDPOINT_URL_S3",
    ),
    (
        {"SANDPIPER_BROKER_FILE": "/x"},
        "$SANDPIPER_BROKER_FILE: only a secret may be a file: set $SANDPIPER_BROKER",
    ),
    (
        {"SANDPIPER_GITLAB__PROJECTS": "a/*"},
        "$SANDPIPER_GITLAB__PROJECTS: gitlab.projects: expected a list of texts; found 'a/*': "
        "write ['a/*']",
    ),
    (
        {"SANDPIPER_GITLAB__PROJECTS": "[a"},
        "$SANDPIPER_GITLAB__PROJECTS: gitlab.projects: the [ of this list is not closed, or text "
        "in it needs quotes (column 1)",
    ),
    (
        {P: "{a: {api: gemini}, a: {}}"},
        f"${P}: models.providers.a: there already, in line 1: leave one of them out",
    ),
    (
        {P: "{new: {api: gemini, key: hidden}}"},
        f"${P}: models.providers.new.key: does not belong here: name a variable that holds it as "
        "key_env",
    ),
    (
        {f"{P}__MY_VLLM__KEY": "hidden"},
        f"${P}__MY_VLLM__KEY: name a variable that holds the key as ${P}__MY_VLLM__KEY_ENV",
    ),
    (
        {f"{P}__MY_VLM__BASE_URL": "https://y"},
        f"${P}__MY_VLM__BASE_URL: models.providers has no entry of this name: did you mean "
        "MY_VLLM?",
    ),
    (
        {f"{P}__OTHER__BASE_URL": "https://y"},
        f"${P}__OTHER__BASE_URL: models.providers has no entry of this name: set ${P} instead",
    ),
    (
        {f"{P}__A_B__BASE_URL": "https://y"},
        f"${P}__A_B__BASE_URL: a-b and a.b of models.providers are both meant: set ${P} instead",
    ),
    (
        {f"{P}__MY_VLLM__BASE_URLL": "https://y"},
        f"${P}__MY_VLLM__BASE_URLL: unknown variable: did you mean {P}__MY_VLLM__BASE_URL?",
    ),
    (
        {f"{P}__MY_VLLM": "{api: gemini}"},
        f"${P}__MY_VLLM: this is a section: set one key of it, such as {P}__MY_VLLM__API",
    ),
    (
        {"SANDPIPER_MODELS__TIERS__FAST__MODEL": "a/b"},
        "$SANDPIPER_MODELS__TIERS__FAST__MODEL: models.tiers has no entry of this name: expected "
        "balanced, smart, coding or deep",
    ),
    (
        {"SANDPIPER_MODEL": "a/b", "SANDPIPER_MODELS__DEFAULT": "a/c"},
        "$SANDPIPER_MODELS__DEFAULT: models.default: $SANDPIPER_MODEL says something else: unset "
        "one of them",
    ),
    (
        {"GITLAB_URL": "https://a", "SANDPIPER_GITLAB__URL": "https://b"},
        "$SANDPIPER_GITLAB__URL: gitlab.url: $GITLAB_URL says something else: unset one of them",
    ),
    (
        {"SANDPIPER_VLLM_KEY": "hidden", "SANDPIPER_VLLM_KEY_FILE": "/x"},
        "$SANDPIPER_VLLM_KEY: $SANDPIPER_VLLM_KEY_FILE is set too: unset one of them",
    ),
    (
        {"GITLAB_READ_TOKEN_FILE": "/nowhere"},
        "$GITLAB_READ_TOKEN_FILE: /nowhere cannot be read (no such file or directory): put the "
        "secret there (on Kubernetes: as a key of the Secret) or unset the variable",
    ),
    (
        {"SANDPIPER_MODEL": f"sk-ant-api03-{'hidden' * 9}"},
        "$SANDPIPER_MODEL: models.default: expected provider/model, like "
        "anthropic/claude-sonnet-5-5; found '[redacted: anthropic-key]'",
    ),
    (
        {"SANDPIPER_MODEL": "hidden-in-the-wrong-one", "GITLAB_TOKEN": "hidden-in-the-wrong-one"},
        "$SANDPIPER_MODEL: models.default: expected provider/model, like "
        "anthropic/claude-sonnet-5-5; found '[redacted: secret]'",
    ),
]


def write_file(folder: Path) -> str:
    file = folder / "sandpiper.yaml"
    file.write_text(FILE, encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(("env", "line"), REFUSED, ids=lambda each: next(iter(each), ""))
def test_a_wrong_variable_is_told_in_this_line(
    env: dict[str, str], line: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as refused:
        load(write_file(tmp_path), env)
    assert str(refused.value).splitlines() == [line]
    assert "hidden" not in line


@pytest.mark.attack("redaction")
@pytest.mark.parametrize("variable", sorted({name for names in SECRETS.values() for name in names}))
def test_a_secret_beside_its_file_is_refused(variable: str, tmp_path: Path) -> None:
    env = {variable: "hidden", f"{variable}_FILE": str(tmp_path / "key")}
    (tmp_path / "key").write_text("hidden-there-0123456789-0123456789", encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        load(write_file(tmp_path), env)
    said = f"${variable}: ${variable}_FILE is set too: unset one of them"
    assert said in str(refused.value).splitlines()
    assert "hidden" not in str(refused.value)


KUBERNETES = {
    **{f"SANDPIPER_{each}": "tcp://10.0.0.1:80" for each in ("PORT", "REDIS_PORT", "A_B_PORT")},
    **{f"SANDPIPER_{each}": "10.0.0.1" for each in ("SERVICE_HOST", "RECEIVER_SERVICE_HOST")},
    **{f"SANDPIPER_{each}": "80" for each in ("SERVICE_PORT", "REDIS_SERVICE_PORT_HTTP")},
    **{f"SANDPIPER_PORT_8080_TCP{each}": "x" for each in ("", "_ADDR", "_PORT", "_PROTO")},
}


@pytest.mark.parametrize(
    "env",
    [
        KUBERNETES,
        {"SANDPIPER_TEST_REDIS": "x", "SANDPIPER_BASE": "x", "SANDPIPER_GOLDEN": "write"},
        {"SANDPIPER_URL": "https://x", "SANDPIPER_ID_TOKEN": "x", "SANDPIPER_CACHE": "/x"},
        {"SANDPIPER_LIMITS__COST_USD": "", "SANDPIPER_NOT_THERE": "", "GITLAB_TOKEN_FILE": ""},
        {"SANDPIPERS": "x", "sandpiper_x": "x", "MY_SANDPIPER_X": "x"},
    ],
    ids=lambda env: next(iter(env)),
)
def test_a_variable_that_is_no_setting_stops_nothing(env: dict[str, str], tmp_path: Path) -> None:
    assert load(write_file(tmp_path), env) == load(write_file(tmp_path), {})


def test_a_variable_that_a_provider_names_is_its_key(tmp_path: Path) -> None:
    read = load(write_file(tmp_path), {"SANDPIPER_VLLM_KEY": "hidden-key"})
    assert read.models.get_provider("my-vllm").key == "hidden-key"
    named = {f"{P}__A_B": "", f"{P}__MY_VLLM__KEY_ENV": "SANDPIPER_OTHER", "SANDPIPER_OTHER": "k"}
    assert load(write_file(tmp_path), named).models.get_provider("my-vllm").key == "k"


def test_both_ways_may_say_the_same_and_the_whole_comes_before_its_parts(tmp_path: Path) -> None:
    env = {"SANDPIPER_MODEL": "a/b", "SANDPIPER_MODELS__DEFAULT": "a/b"}
    assert load(write_file(tmp_path), env).models.default == "a/b"
    env = {P: "{one: {api: gemini}}", f"{P}__ONE__BASE_URL": "https://y"}
    rows = load(write_file(tmp_path), env).models.providers
    assert {name: (row.api, row.base_url) for name, row in rows.items()} == {
        "one": ("gemini", "https://y")
    }


def test_a_text_is_taken_as_it_stands(tmp_path: Path) -> None:
    env = {f"{P}__MY_VLLM__CALL_ID": "^[a-z]: {2}$", "SANDPIPER_BROKER_MASTER": "no"}
    read = load(write_file(tmp_path), env)
    assert read.models.get_provider("my-vllm").call_id == "^[a-z]: {2}$"
    assert read.broker_master == "no"
    emptied = load(write_file(tmp_path), {f"{P}__MY_VLLM__BASE_URL": '""'})
    assert emptied.models.get_provider("my-vllm").base_url == ""
    unset = {"SANDPIPER_MODELS__TIERS__SMART__REASONING": "null"}
    assert load(write_file(tmp_path), unset).models.tiers["smart"].reasoning is None
