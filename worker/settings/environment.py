"""Reads settings from the environment: overrides, defaults, and every secret."""

import re
from collections.abc import Iterator, Mapping
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

DEFAULTS: Mapping[Place, tuple[str, ...]] = {
    ("models", "providers", "openai-responses", "base_url"): ("OPENAI_BASE_URL",),
    ("models", "providers", "openai-compatible", "base_url"): ("OPENAI_BASE_URL",),
    ("models", "providers", "openai-azure", "base_url"): ("AZURE_OPENAI_ENDPOINT",),
    ("models", "providers", "anthropic-vertex", "project"): ("GOOGLE_CLOUD_PROJECT",),
    ("models", "providers", "anthropic-vertex", "location"): ("GOOGLE_CLOUD_LOCATION",),
    ("models", "providers", "gemini-vertex", "project"): ("GOOGLE_CLOUD_PROJECT",),
    ("models", "providers", "gemini-vertex", "location"): ("GOOGLE_CLOUD_LOCATION",),
    ("models", "providers", "anthropic-bedrock", "region"): ("AWS_REGION", "AWS_DEFAULT_REGION"),
}
"""Where the environment gives a default for the file: place in the settings → variables, of which
the first that is set is used."""

_DEFAULTS_OF_ROWS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "bedrock": {"region": ("AWS_REGION", "AWS_DEFAULT_REGION")},
    "vertex": {"project": ("GOOGLE_CLOUD_PROJECT",), "location": ("GOOGLE_CLOUD_LOCATION",)},
}
"""The same of any row of providers, by its `auth`."""

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
    ("models", "providers", "openai-azure", "key"): ("AZURE_OPENAI_API_KEY",),
    ("models", "providers", "anthropic-bedrock", "key"): ("AWS_BEARER_TOKEN_BEDROCK",),
}
"""Secrets → variables; the first that is set wins. X_FILE may name a file with X's value. A
provider's `key_env` names another variable for its key."""

_PROVIDERS: Place = ("models", "providers")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")

_ENVIRONMENT_ONLY: Mapping[Place, str] = {("s3_endpoint",): "AWS_ENDPOINT_URL_S3"}
"""Settings → variables; these are not secret, but not allowed in the file either."""


def apply_environment(tree: dict[str, Any], env: Mapping[str, str]) -> None:
    """Put the environment's settings into `tree`. Raises ConfigError."""
    for variable, place in OVERRIDES.items():
        if env.get(variable):
            _set(tree, place, env[variable])
    for place, names in (*DEFAULTS.items(), *_list_row_defaults(tree)):
        found = next(filter(None, map(env.get, names)), "")
        if found and _get(tree, place) is None:
            _set(tree, place, found)
    problems: dict[str, None] = {}
    for place, variables in {**SECRETS, **_list_row_secrets(tree)}.items():
        try:
            if secret := _read_secret(env, variables):
                _set(tree, place, secret)
        except ConfigError as error:
            problems[str(error)] = None
    if problems:
        raise ConfigError("\n".join(problems))


def _list_row_secrets(tree: Mapping[str, Any]) -> dict[Place, tuple[str, ...]]:
    """Return what the rows of providers read from the environment: the key that `key_env` names,
    and headers whose value is `$` and a variable. Raises ConfigError for another part's secret."""
    found: dict[Place, tuple[str, ...]] = {}
    for place, row in _list_rows(tree):
        named: dict[Place, Any] = {("key",): row.get("key_env")}
        headers = row.get("headers")
        for name, value in headers.items() if isinstance(headers, dict) else ():
            if isinstance(value, str) and value.startswith("$"):
                named["headers", name] = value[1:]
        for field, variable in named.items():
            if isinstance(variable, str) and _NAME.fullmatch(variable):
                _check_lendable(variable, (*place, *(("key_env",) if field == ("key",) else field)))
                found[*place, *field] = (variable,)
    return found


def _list_row_defaults(tree: Mapping[str, Any]) -> list[tuple[Place, tuple[str, ...]]]:
    """List where the environment gives defaults for what rows of providers leave out."""
    return [
        ((*place, field), names)
        for place, row in _list_rows(tree)
        for auth, fields in _DEFAULTS_OF_ROWS.items()
        if row.get("auth") == auth
        for field, names in fields.items()
    ]


def _list_rows(tree: Mapping[str, Any]) -> Iterator[tuple[Place, Mapping[str, Any]]]:
    rows = _get(tree, _PROVIDERS)
    for name, row in rows.items() if isinstance(rows, dict) else ():
        if isinstance(name, str) and isinstance(row, dict):
            yield (*_PROVIDERS, name), row


def _check_lendable(variable: str, place: Place) -> None:
    """Raise ConfigError for a variable that holds what no model's server may see."""
    others = {name for of, names in SECRETS.items() if of[:2] != _PROVIDERS for name in names}
    if variable.removesuffix("_FILE") in others:
        raise ConfigError(f"{'.'.join(place)}: ${variable} is a secret of another part's")


def refuse_secrets(tree: Mapping[str, Any], file: Path | None) -> None:
    """Raise ConfigError if the file sets something that belongs in the environment."""
    variables = {place: names[0] for place, names in SECRETS.items()} | dict(_ENVIRONMENT_ONLY)
    for row, fields in _list_rows(tree):
        if "key" in fields and (*row, "key") not in variables:
            raise ConfigError(
                f"{file}: {'.'.join(row)}.key does not belong in the file: name a variable that "
                "holds it as key_env"
            )
    for place, variable in variables.items():
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
