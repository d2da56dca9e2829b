"""Reads settings from the environment: overrides, defaults, and every secret."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from worker.errors import ConfigError

Place = tuple[str, ...]

OVERRIDES: Mapping[str, Place] = {
    "GITLAB_URL": ("gitlab", "url"),
    "SANDPIPER_BROKER": ("broker",),
    "SANDPIPER_STORE": ("store",),
    "SANDPIPER_MODEL": ("models", "default"),
    "AWS_ENDPOINT_URL_S3": ("s3_endpoint",),
    "ANTHROPIC_BASE_URL": ("models", "providers", "anthropic", "base_url"),
    "GEMINI_BASE_URL": ("models", "providers", "gemini", "base_url"),
    "OPENAI_BASE_URL": ("models", "providers", "openai", "base_url"),
    "OTEL_EXPORTER_OTLP_ENDPOINT": ("traces", "endpoint"),
}
"""Where the environment overrides the file: variable → place in the settings."""

DEFAULTS: Mapping[Place, str] = {
    ("models", "providers", "openai-responses", "base_url"): "OPENAI_BASE_URL",
    ("models", "providers", "openai-compatible", "base_url"): "OPENAI_BASE_URL",
    ("models", "providers", "anthropic-vertex", "project"): "GOOGLE_CLOUD_PROJECT",
    ("models", "providers", "anthropic-vertex", "location"): "GOOGLE_CLOUD_LOCATION",
    ("models", "providers", "gemini-vertex", "project"): "GOOGLE_CLOUD_PROJECT",
    ("models", "providers", "gemini-vertex", "location"): "GOOGLE_CLOUD_LOCATION",
}
"""Where the environment gives a default for the file: place in the settings → variable."""

SECRETS: Mapping[Place, tuple[str, ...]] = {
    ("gitlab", "read_token"): ("GITLAB_READ_TOKEN", "GITLAB_TOKEN"),
    ("gitlab", "write_token"): ("GITLAB_WRITE_TOKEN", "GITLAB_TOKEN"),
    ("gitlab", "webhook_secret"): ("GITLAB_WEBHOOK_SECRET",),
    ("gitlab", "webhook_key"): ("GITLAB_WEBHOOK_KEY",),
    ("gitlab", "setup_token"): ("GITLAB_SETUP_TOKEN",),
    ("broker_sentinel_password",): ("SANDPIPER_SENTINEL_PASSWORD",),
    ("sources", "konflux", "token"): ("KONFLUX_TOKEN",),
    ("sources", "testing_farm", "token"): ("TESTING_FARM_API_TOKEN",),
    ("pages", "secret"): ("SANDPIPER_PAGE_SECRET",),
    ("pages", "operator_token"): ("SANDPIPER_OPERATOR_TOKEN",),
    ("models", "providers", "anthropic", "key"): ("ANTHROPIC_API_KEY",),
    ("models", "providers", "gemini", "key"): ("GEMINI_API_KEY",),
    ("models", "providers", "openai", "key"): ("OPENAI_API_KEY",),
    ("models", "providers", "openai-responses", "key"): ("OPENAI_API_KEY",),
    ("models", "providers", "openai-compatible", "key"): ("OPENAI_API_KEY",),
}
"""Secrets → variables; the first that is set wins. X_FILE may name a file with X's value."""

_ENVIRONMENT_ONLY: Mapping[Place, str] = {("s3_endpoint",): "AWS_ENDPOINT_URL_S3"}
"""Settings → variables; these are not secret, but not allowed in the file either."""


def apply_environment(tree: dict[str, Any], env: Mapping[str, str]) -> None:
    """Put the environment's settings into `tree`. Raises ConfigError."""
    for variable, place in OVERRIDES.items():
        if env.get(variable):
            _set(tree, place, env[variable])
    for place, variable in DEFAULTS.items():
        if env.get(variable) and _get(tree, place) is None:
            _set(tree, place, env[variable])
    problems: dict[str, None] = {}
    for place, variables in SECRETS.items():
        try:
            if secret := _read_secret(env, variables):
                _set(tree, place, secret)
        except ConfigError as error:
            problems[str(error)] = None
    if problems:
        raise ConfigError("\n".join(problems))


def refuse_secrets(tree: Mapping[str, Any], file: Path | None) -> None:
    """Raise ConfigError if the file sets something that belongs in the environment."""
    only = {place: variables[0] for place, variables in SECRETS.items()} | dict(_ENVIRONMENT_ONLY)
    for place, variable in only.items():
        if _get(tree, place) is not None:
            raise ConfigError(
                f"{file}: {'.'.join(place)} does not belong in the file: set ${variable}"
            )


def _get(tree: Mapping[str, Any], place: Place) -> Any:
    node: Any = tree
    for part in place:
        node = node.get(part) if isinstance(node, dict) else None
    return node


def _set(tree: dict[str, Any], place: Place, value: str) -> None:
    for part in place[:-1]:
        child = tree.setdefault(part, {})
        if not isinstance(child, dict):
            return  # validation will report the wrong type
        tree = child
    tree[place[-1]] = value


def _read_secret(env: Mapping[str, str], variables: tuple[str, ...]) -> str:
    for variable in variables:
        if value := env.get(variable, "").strip():
            return value
        if named := env.get(f"{variable}_FILE"):
            try:
                return Path(named).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(
                    f"${variable}_FILE: {named} cannot be read ({type(error).__name__}): put "
                    "the secret there (on Kubernetes: as a key of the Secret) or unset the variable"
                ) from error
    return ""
