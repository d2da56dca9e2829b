from pathlib import Path

import pytest

from worker.errors import ConfigError
from worker.settings import Settings, load
from worker.settings.environment import SECRETS

NOTHING: dict[str, str] = {}


def write(folder: Path, text: str) -> str:
    file = folder / "sandpiper.yaml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_every_field_has_a_default(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, ""), NOTHING)
    assert loaded == Settings()
    assert loaded.broker == "memory://"
    assert loaded.models.default == "anthropic/claude-sonnet-5-5"


def test_the_whole_documented_file_is_accepted(tmp_path: Path) -> None:
    loaded = load(
        write(
            tmp_path,
            """
gitlab:
  url: https://gitlab.example.com/
  projects: ["group/*"]
  reply_min_access: developer
broker: redis://localhost:6379/0
store: s3://bucket/prefix
sandbox:
  {image: "x:latest", runtime: runsc, memory: 2g, cpus: 1, pids: 256, disk: 2g, exec_timeout: 120}
models:
  default: anthropic/claude-sonnet-5-5
  providers:
    anthropic: {base_url: https://api.anthropic.com}
    gemini: {base_url: https://generativelanguage.googleapis.com}
    anthropic-vertex: {project: my-project, location: global}
limits: {max_iterations: 50, context_tokens: 200000, wall_clock: 900, cost_usd: 2.0}
workflows: ./workflows
""",
        ),
        NOTHING,
    )
    assert loaded.gitlab.url == "https://gitlab.example.com"
    assert loaded.gitlab.projects == ("group/*",)
    assert loaded.models.get_provider("anthropic-vertex").project == "my-project"


def test_off_needs_no_quotes(tmp_path: Path) -> None:
    settings = load(write(tmp_path, "loop: {plan: off, gate: off}\n"), {})
    assert (settings.loop.plan, settings.loop.gate) == ("off", "off")


@pytest.mark.parametrize(
    "said", ["reply: smart", "reply: {model: smart}", "reply: {model: anthropic/claude-haiku-5-5}"]
)
def test_replies_may_have_a_tier_or_a_model(tmp_path: Path, said: str) -> None:
    tiers = "tiers: {smart: {model: anthropic/claude-opus-5-5}}"
    loaded = load(write(tmp_path, f"models:\n  {tiers}\n  {said}\n"), NOTHING).models
    assert loaded.reply.model in ("smart", "anthropic/claude-haiku-5-5")
    assert loaded.reply.max_output == 1500
    assert loaded.use_alone("anthropic/claude-sonnet-5-5").reply.model == ""


def test_the_environment_overrides_the_file(tmp_path: Path) -> None:
    env = {
        "GITLAB_URL": "http://127.0.0.1:1",
        "SANDPIPER_BROKER": "redis://x",
        "SANDPIPER_STORE": "file:///elsewhere",
        "SANDPIPER_MODEL": "anthropic/other",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:2",
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:3",
    }
    loaded = load(write(tmp_path, "gitlab: {url: https://a.example}"), env)
    assert loaded.gitlab.url == "http://127.0.0.1:1"
    assert (loaded.broker, loaded.store) == ("redis://x", "file:///elsewhere")
    assert loaded.models.default == "anthropic/other"
    assert loaded.models.get_provider("anthropic").base_url == "http://127.0.0.1:2"
    assert loaded.s3_endpoint == "http://127.0.0.1:3"


def test_every_provider_finds_its_variables_and_the_file_wins_where_it_should(
    tmp_path: Path,
) -> None:
    env = {
        "GEMINI_API_KEY": "gemini-key",
        "GEMINI_BASE_URL": "http://127.0.0.1:4",
        "OPENAI_API_KEY": "openai-key",
        "OPENAI_BASE_URL": "http://127.0.0.1:5",
        "GOOGLE_CLOUD_PROJECT": "env-project",
        "GOOGLE_CLOUD_LOCATION": "eu",
        "AZURE_OPENAI_API_KEY": "azure-key",
        "AZURE_OPENAI_ENDPOINT": "https://mine.openai.azure.com",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_BEARER_TOKEN_BEDROCK": "bedrock-key",
    }
    text = """
models:
  providers:
    openai-compatible: {base_url: "http://llm:8000/v1"}
    gemini-vertex: {project: file-project}
"""
    models = load(write(tmp_path, text), env).models
    assert models.get_provider("gemini").base_url == "http://127.0.0.1:4"
    assert models.get_provider("gemini").key == "gemini-key"
    assert models.get_provider("openai").base_url == "http://127.0.0.1:5"
    assert models.get_provider("openai-compatible").base_url == "http://llm:8000/v1"
    assert models.get_provider("openai-compatible").key == "openai-key"
    assert models.get_provider("gemini-vertex").project == "file-project"
    assert models.get_provider("gemini-vertex").location == "eu"
    assert models.get_provider("anthropic-vertex").project == "env-project"
    assert models.get_provider("openai-azure").key == "azure-key"
    assert models.get_provider("openai-azure").base_url == "https://mine.openai.azure.com"
    assert models.get_provider("anthropic-bedrock").key == "bedrock-key"
    assert models.get_provider("anthropic-bedrock").region == "eu-west-1"
    regions = load(write(tmp_path, text), {**env, "AWS_REGION": "us-east-1"}).models
    assert regions.get_provider("anthropic-bedrock").region == "us-east-1"


def test_a_model_of_ones_own_can_be_described(tmp_path: Path) -> None:
    text = """
models:
  catalogue:
    my-model:
      {window: 64000, input: 0.5, output: 1.5, tiers: [{above: 32000, input: 1, output: 3}]}
"""
    entry = load(write(tmp_path, text), NOTHING).models.catalogue["my-model"]
    assert entry.model_dump(exclude_unset=True) == {
        "window": 64000,
        "input": 0.5,
        "output": 1.5,
        "tiers": ({"above": 32000, "input": 1, "output": 3},),
    }


def test_one_token_serves_both_purposes_and_two_are_kept_apart(tmp_path: Path) -> None:
    both = load(write(tmp_path, ""), {"GITLAB_TOKEN": "glpat-one"}).gitlab
    assert (both.read_token, both.write_token) == ("glpat-one", "glpat-one")
    env = {"GITLAB_TOKEN": "t", "GITLAB_READ_TOKEN": "r", "GITLAB_WRITE_TOKEN": "w"}
    apart = load(write(tmp_path, ""), env).gitlab
    assert (apart.read_token, apart.write_token) == ("r", "w")


def test_a_secret_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-ant-secret\n", encoding="utf-8")
    env = {"ANTHROPIC_API_KEY_FILE": str(tmp_path / "key")}
    loaded = load(write(tmp_path, ""), env)
    assert loaded.models.get_provider("anthropic").key == "sk-ant-secret"
    assert loaded.list_secrets() == ("sk-ant-secret",)
    with pytest.raises(ConfigError, match=r"ANTHROPIC_API_KEY_FILE: .*cannot be read"):
        load(write(tmp_path, ""), {"ANTHROPIC_API_KEY_FILE": str(tmp_path / "none")})


def test_every_secret_file_that_is_missing_is_named_once(tmp_path: Path) -> None:
    names = ("GITLAB_READ_TOKEN", "OPENAI_API_KEY")
    env = {f"{name}_FILE": str(tmp_path / name) for name in names}
    with pytest.raises(ConfigError) as refused:
        load(write(tmp_path, ""), env)
    first, second = str(refused.value).splitlines()
    assert first.startswith(f"$GITLAB_READ_TOKEN_FILE: {tmp_path}/GITLAB_READ_TOKEN cannot be read")
    assert "as a key of the Secret" in first
    assert second.startswith("$OPENAI_API_KEY_FILE: ")


def test_a_password_of_the_broker_is_a_secret(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, "broker: redis://:hush%2Fhush@redis:6379/0"), {})
    assert loaded.list_secrets() == ("hush%2Fhush", "hush/hush")
    assert load(write(tmp_path, "broker: redis://redis:6379/0"), {}).list_secrets() == ()
    two = load(write(tmp_path, "broker: amqp://a:first@one//;amqp://a:second@two//"), {})
    assert two.list_secrets() == ("first", "second")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("valkey://:hush@redis:6379/0", "found 'valkey://…@redis:6379/0'"),
        ("' redis://u:hu//sh@redis'", "found 'redis://…@redis'"),
        (":hush@redis", "found '…@redis'"),
        ("{url: 'redis://:hush@redis'}", "found a mapping"),
        ("['redis://:hush@redis']", "found a list"),
        ("redis://:hu[sh@redis", "a URL whose password is percent-encoded"),
        ("amqp://u:hush@[::1", "a URL whose password is percent-encoded"),
    ],
)
def test_a_refused_url_is_told_without_its_password(tmp_path: Path, url: str, says: str) -> None:
    file = write(tmp_path, f"broker: {url}")
    with pytest.raises(ConfigError) as refused:
        load(file, {})
    assert says in str(refused.value)
    assert "sh@" not in str(refused.value)


@pytest.mark.attack("redaction")
@pytest.mark.parametrize(
    "text",
    [
        "models: {reply: nowhere}",
        "models: {reply: nowhere, providers: {mine: {api: openai-chat, key_env: MINE}}}",
        "models: {providers: {mine: {key_env: MINE, headers: {A: $MINE}, api: [{}]}}}",
        "gitlab: {write_actions: 3}",
        "pages: {secret_of: 3, days: -1}",
        "sources: {konflux: {url: nowhere}}",
    ],
)
def test_a_refused_setting_is_told_without_the_secrets_beside_it(tmp_path: Path, text: str) -> None:
    """Where a whole part is refused, all that the environment has put into it was found there."""
    names = {name for named in SECRETS.values() for name in named} | {"MINE"}
    env = {name: f"hidden-{name}-{'0' * 32}" for name in names}
    with pytest.raises(ConfigError) as refused:
        load(write(tmp_path, text), env)
    assert "hidden" not in str(refused.value)


def test_settings_never_show_a_secret(tmp_path: Path) -> None:
    env = {"GITLAB_TOKEN": "glpat-hidden", "GITLAB_WEBHOOK_SECRET": "hook-hidden"}
    loaded = load(write(tmp_path, ""), env)
    assert "hidden" not in repr(loaded)
    assert "hidden" not in loaded.model_dump_json()


def test_the_secret_that_others_know_signs_no_links(tmp_path: Path) -> None:
    env = {"GITLAB_WEBHOOK_SECRET": "hook-hidden-0123456789"}
    env["SANDPIPER_PAGE_SECRET"] = env["GITLAB_WEBHOOK_SECRET"]
    with pytest.raises(
        ConfigError, match="SANDPIPER_PAGE_SECRET is the webhook's secret"
    ) as caught:
        load(write(tmp_path, ""), env)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("key", ["short", f"{'k' * 32} short", " ".join(["k" * 32] * 3)])
def test_a_key_that_could_be_found_out_is_refused_and_not_shown(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigError, match=r"gitlab\.webhook_key: expected one key") as caught:
        load(write(tmp_path, ""), {"GITLAB_WEBHOOK_KEY": key})
    assert "kkk" not in str(caught.value)
    assert "short" not in str(caught.value)


def test_a_key_is_no_secret_that_others_know_and_each_of_two_is_redacted(tmp_path: Path) -> None:
    env = {"GITLAB_WEBHOOK_KEY": f"{'k' * 32} {'o' * 32}"}
    assert {"k" * 32, "o" * 32} <= set(load(write(tmp_path, ""), env).list_secrets())
    with pytest.raises(ConfigError, match="GITLAB_WEBHOOK_KEY is the webhook's secret"):
        load(write(tmp_path, ""), env | {"GITLAB_WEBHOOK_SECRET": "o" * 32})


def test_how_a_note_is_told_can_be_set(tmp_path: Path) -> None:
    text = "note: {thread: true, suggestions: false, progress: 0}\n"
    loaded = load(write(tmp_path, text), NOTHING).note
    assert (loaded.thread, loaded.suggestions, loaded.progress) == (True, False, 0)
    with pytest.raises(ConfigError, match=r"note\.progress"):
        load(write(tmp_path, "note: {progress: -1}\n"), NOTHING)
