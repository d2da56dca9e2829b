"""Settings: one YAML file, secrets only from the environment, read once at start.

Every field has a default; a wrong field, type or value is a ConfigError that names the file, the
key and what was expected. The only module that reads the environment.
"""

import os
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from worker.errors import ConfigError

DEFAULT_FILE = "sandpiper.yaml"
ACCESS_LEVELS = {"guest": 10, "reporter": 20, "developer": 30, "maintainer": 40, "owner": 50}


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GitLabSettings(_Part):
    """`gitlab:`. Tokens and the webhook secret come from the environment."""

    url: str = "https://gitlab.com"
    projects: tuple[str, ...] = ()
    reply_min_access: Literal["guest", "reporter", "developer", "maintainer", "owner"] = "developer"
    skip_labels: tuple[str, ...] = ()
    skip_drafts: bool = False
    skip_paths: tuple[str, ...] = ()
    bot_merge_requests: bool = False
    ci_audience: str = Field(default="sandpiper", min_length=1)
    ci_issuer: str = ""
    read_token: str = Field(default="", exclude=True, repr=False)
    write_token: str = Field(default="", exclude=True, repr=False)
    webhook_secret: str = Field(default="", exclude=True, repr=False)

    @field_validator("url")
    @classmethod
    def _http(cls, value: str) -> str:
        if not value.startswith(("http://", "https://")):
            raise ValueError("expected a URL that begins with https:// or http://")
        return value.rstrip("/")


class SandboxSettings(_Part):
    """`sandbox:`. Sizes as the engine reads them ("2g"). `pool` are kept started ahead of need."""

    driver: Literal["docker", "bubblewrap"] = "docker"
    pool: int = Field(default=0, ge=0, le=32)
    image: str = "sandpiper-sandbox:latest"
    runtime: str = "runc"
    memory: str = Field(default="2g", pattern=r"^\d+[bkmg]?$")
    cpus: float = Field(default=1.0, gt=0)
    pids: int = Field(default=256, ge=16)
    disk: str = Field(default="2g", pattern=r"^\d+[bkmg]?$")
    exec_timeout: float = Field(default=120.0, gt=0, le=3600)


class ProviderSettings(_Part):
    """One entry of `models.providers:`. An unset field falls back to the built-in provider's.

    The last three are for `openai-compatible` servers: how they name the answer's limit, the field
    in which they want thinking back, and what they take for a call's id (a regular expression).
    """

    base_url: str = ""
    project: str = ""
    location: str = ""
    max_tokens_field: Literal["", "max_tokens", "max_completion_tokens"] = ""
    send_reasoning: Literal["", "reasoning_content", "reasoning", "reasoning_details"] = ""
    call_id: str = ""
    key: str = Field(default="", exclude=True, repr=False)


Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Dollars = Annotated[float, Field(ge=0)]


class PriceSettings(_Part):
    """Dollars per million tokens; an unstated cache price is that of plain input."""

    input: Dollars | None = None
    output: Dollars | None = None
    cache_read: Dollars | None = None
    cache_write: Dollars | None = None
    cache_write_1h: Dollars | None = None


class TierSettings(PriceSettings):
    """Prices above so many tokens of prompt, or since a day."""

    above: int = Field(default=0, ge=0)
    since: date | None = None


class CatalogueSettings(PriceSettings):
    """One entry of `models.catalogue:`: a model that is not built in, or corrects one that is."""

    window: int | None = Field(default=None, ge=1)
    max_output: int | None = Field(default=None, ge=1)
    min_cached: int | None = Field(default=None, ge=0)
    binds_thinking: bool | None = None
    effort: Effort | None = None
    chat_effort: Effort | None = None
    tiers: tuple[TierSettings, ...] | None = None


class ModelSettings(_Part):
    """`models:`. `fallback` are tried in order when `default` does not answer."""

    default: str = "anthropic/claude-sonnet-5-5"
    fallback: tuple[str, ...] = ()
    providers: dict[str, ProviderSettings] = {}
    catalogue: dict[str, CatalogueSettings] = {}

    @field_validator("default", "fallback")
    @classmethod
    def _slash(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for name in [value] if isinstance(value, str) else value:
            if not all(name.partition("/")):
                raise ValueError("expected provider/model, like anthropic/claude-sonnet-5-5")
        return value

    def provider(self, name: str) -> ProviderSettings:
        """What is configured for a provider; empty where nothing is."""
        return self.providers.get(name, ProviderSettings())


class LimitSettings(_Part):
    """`limits:`: model calls, tokens, seconds and dollars of one run."""

    max_iterations: int = Field(default=50, ge=1, le=1000)
    context_tokens: int = Field(default=200_000, ge=1000)
    wall_clock: float = Field(default=900.0, gt=0)
    cost_usd: float = Field(default=2.0, gt=0)
    turns_per_day: int = Field(default=20, ge=1)


_URL = r"^(https?://[^/?#@\s]+[^?#@\s]*)?$"


class TenantSettings(_Part):
    """One entry of `sources.konflux.projects:`. `repository` is the Repository object's name."""

    namespace: str = Field(pattern=r"^[a-z0-9][-a-z0-9]{0,62}$")
    repository: str = Field(default="", pattern=r"^[a-z0-9A-Z]?[-._a-z0-9A-Z]{0,62}$")


class KonfluxSettings(_Part):
    """`sources.konflux:`. Off without `url`; `archive_url` is KubeArchive's, if there is one."""

    url: str = Field(default="", pattern=_URL)
    archive_url: str = Field(default="", pattern=_URL)
    ca_file: str = ""
    projects: dict[str, TenantSettings] = {}
    token: str = Field(default="", exclude=True, repr=False)


class TestingFarmSettings(_Part):
    """`sources.testing_farm:`. Off without `repositories`: git URL globs for each project."""

    url: str = Field(default="https://api.testing-farm.io", pattern=_URL, min_length=1)
    results_url: str = Field(
        default="https://artifacts.dev.testing-farm.io", pattern=_URL, min_length=1
    )
    repositories: dict[str, tuple[str, ...]] = {}
    token: str = Field(default="", exclude=True, repr=False)


class SourceSettings(_Part):
    """`sources:`. `also_read` are globs of the projects that every session may read besides its
    own: their jobs are shown where they run downstream."""

    also_read: tuple[str, ...] = ()
    konflux: KonfluxSettings = KonfluxSettings()
    testing_farm: TestingFarmSettings = TestingFarmSettings()


class Settings(_Part):
    """Everything an operator can set."""

    gitlab: GitLabSettings = GitLabSettings()
    broker: str = "memory://"
    store: str = "file:///var/lib/sandpiper"
    s3_endpoint: str = Field(default="", exclude=True)
    sandbox: SandboxSettings = SandboxSettings()
    models: ModelSettings = ModelSettings()
    limits: LimitSettings = LimitSettings()
    sources: SourceSettings = SourceSettings()
    workflows: str = ""

    @field_validator("broker")
    @classmethod
    def _known_broker(cls, value: str) -> str:
        if value.partition("://")[0] not in {"memory", "redis", "rediss", "amqp", "amqps"}:
            raise ValueError("expected memory://, redis://… or amqp://…")
        return value

    @field_validator("store")
    @classmethod
    def _known_store(cls, value: str) -> str:
        if value.partition("://")[0] not in {"file", "s3"}:
            raise ValueError("expected file:///folder or s3://bucket/prefix")
        return value

    def secrets(self) -> tuple[str, ...]:
        """Every secret in use, for redaction."""
        keys = [provider.key for provider in self.models.providers.values()]
        gitlab = self.gitlab
        own = [gitlab.read_token, gitlab.write_token, gitlab.webhook_secret, *keys]
        own += [self.sources.konflux.token, self.sources.testing_farm.token]
        return tuple(dict.fromkeys(secret for secret in own if secret))


# Where the environment overrides the file: variable → path in the settings.
_OVERRIDES: Mapping[str, tuple[str, ...]] = {
    "GITLAB_URL": ("gitlab", "url"),
    "SANDPIPER_BROKER": ("broker",),
    "SANDPIPER_STORE": ("store",),
    "SANDPIPER_MODEL": ("models", "default"),
    "AWS_ENDPOINT_URL_S3": ("s3_endpoint",),
    "ANTHROPIC_BASE_URL": ("models", "providers", "anthropic", "base_url"),
    "GEMINI_BASE_URL": ("models", "providers", "gemini", "base_url"),
    "OPENAI_BASE_URL": ("models", "providers", "openai", "base_url"),
}
# What the environment says where the file does not: place in the settings → variable.
_DEFAULTS: Mapping[tuple[str, ...], str] = {
    ("models", "providers", "openai-responses", "base_url"): "OPENAI_BASE_URL",
    ("models", "providers", "openai-compatible", "base_url"): "OPENAI_BASE_URL",
    ("models", "providers", "anthropic-vertex", "project"): "GOOGLE_CLOUD_PROJECT",
    ("models", "providers", "anthropic-vertex", "location"): "GOOGLE_CLOUD_LOCATION",
    ("models", "providers", "gemini-vertex", "project"): "GOOGLE_CLOUD_PROJECT",
    ("models", "providers", "gemini-vertex", "location"): "GOOGLE_CLOUD_LOCATION",
}
# Secrets: first variable that is set wins. Each may also be given as X_FILE.
_SECRETS: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("gitlab", "read_token"): ("GITLAB_READ_TOKEN", "GITLAB_TOKEN"),
    ("gitlab", "write_token"): ("GITLAB_WRITE_TOKEN", "GITLAB_TOKEN"),
    ("gitlab", "webhook_secret"): ("GITLAB_WEBHOOK_SECRET",),
    ("sources", "konflux", "token"): ("KONFLUX_TOKEN",),
    ("sources", "testing_farm", "token"): ("TESTING_FARM_API_TOKEN",),
    ("models", "providers", "anthropic", "key"): ("ANTHROPIC_API_KEY",),
    ("models", "providers", "gemini", "key"): ("GEMINI_API_KEY",),
    ("models", "providers", "openai", "key"): ("OPENAI_API_KEY",),
    ("models", "providers", "openai-responses", "key"): ("OPENAI_API_KEY",),
    ("models", "providers", "openai-compatible", "key"): ("OPENAI_API_KEY",),
}
_ENVIRONMENT_ONLY = (*_SECRETS, ("s3_endpoint",))


def load(path: str | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """The settings of `path`, else of $SANDPIPER_CONFIG, else of ./sandpiper.yaml if it is there.

    Raises ConfigError.
    """
    env = os.environ if environ is None else environ
    file = _file(path or env.get("SANDPIPER_CONFIG"))
    tree = _read(file) if file else {}
    _refuse_secrets(tree, file)
    for variable, place in _OVERRIDES.items():
        if env.get(variable):
            _set(tree, place, env[variable])
    for place, variable in _DEFAULTS.items():
        if env.get(variable) and _get(tree, place) is None:
            _set(tree, place, env[variable])
    for place, variables in _SECRETS.items():
        if value := _secret(env, variables):
            _set(tree, place, value)
    return _validated(tree, file)


def _file(named: str | None) -> Path | None:
    if named:
        if not Path(named).is_file():
            raise ConfigError(f"{named}: no such file (named by --config or SANDPIPER_CONFIG)")
        return Path(named)
    default = Path(DEFAULT_FILE)
    return default if default.is_file() else None


def _read(file: Path) -> dict[str, Any]:
    try:
        tree = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{file}: cannot be read as YAML: {error}") from error
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise ConfigError(f"{file}: expected a mapping at the top, found {type(tree).__name__}")
    return tree


def _refuse_secrets(tree: Mapping[str, Any], file: Path | None) -> None:
    for place in _ENVIRONMENT_ONLY:
        if _get(tree, place) is not None:
            variable = _SECRETS.get(place, ("AWS_ENDPOINT_URL_S3",))[0]
            raise ConfigError(
                f"{file}: {'.'.join(place)} does not belong in the file: set ${variable}"
            )


def _get(tree: Mapping[str, Any], place: tuple[str, ...]) -> Any:
    node: Any = tree
    for part in place:
        node = node.get(part) if isinstance(node, dict) else None
    return node


def _set(tree: dict[str, Any], place: tuple[str, ...], value: str) -> None:
    for part in place[:-1]:
        child = tree.setdefault(part, {})
        if not isinstance(child, dict):
            return  # validation names the wrong type
        tree = child
    tree[place[-1]] = value


def _secret(env: Mapping[str, str], variables: tuple[str, ...]) -> str:
    for variable in variables:
        if value := env.get(variable, "").strip():
            return value
        if named := env.get(f"{variable}_FILE"):
            try:
                return Path(named).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(f"${variable}_FILE: {named} cannot be read: {error}") from error
    return ""


def _validated(tree: dict[str, Any], file: Path | None) -> Settings:
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        problems = [
            f"{file or 'environment'}: {'.'.join(map(str, problem['loc']))}: {_explain(problem)}"
            for problem in error.errors(include_url=False)
        ]
        raise ConfigError("\n".join(problems)) from error


def _explain(problem: Mapping[str, Any]) -> str:
    if problem["type"] == "extra_forbidden":
        return "unknown field (see the README's table of settings for the known ones)"
    message = str(problem["msg"]).removeprefix("Value error, ")
    if "secret" in problem["loc"][-1:] or "token" in str(problem["loc"][-1:]):
        return message
    return f"{message}; found {problem['input']!r}"
