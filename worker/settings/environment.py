"""Reads settings from the environment: overrides, defaults, and every secret."""

import re
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from worker.settings.yaml_text import Problem, Spot, Step, explain_unreadable, find_spot

Place = tuple[str, ...]
Spots = MutableMapping[tuple[Step, ...], Spot]

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
"""Where the environment overrides the file: variable → place in the settings. Besides these, every
key has a variable that is made of its name: see `loading.py`."""

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
    ("pages", "sign_in", "client_secret"): ("GITLAB_OIDC_CLIENT_SECRET",),
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

ENVIRONMENT_ONLY: Mapping[Place, str] = {("s3_endpoint",): "AWS_ENDPOINT_URL_S3"}
"""Settings → variables; these are not secret, but not allowed in the file either."""


def apply_environment(tree: dict[str, Any], env: Mapping[str, str], spots: Spots) -> list[Problem]:
    """Put the environment's settings into `tree`, and their variables into `spots`. Returns what is
    wrong with secrets; the other values are checked with the file's."""
    for variable, place in OVERRIDES.items():
        if value := env.get(variable):
            put(tree, place, value, variable, spots)
    defaults = [*DEFAULTS.items()]
    for row_place, row in list_rows(tree):
        fields = _DEFAULTS_OF_ROWS.get(str(row.get("auth")), {})
        defaults += [((*row_place, field), names) for field, names in fields.items()]
    for place, names in defaults:
        variable = next(filter(env.get, names), "")
        if variable and get(tree, place) is None:
            put(tree, place, env[variable], variable, spots)
    secrets, problems = _list_row_secrets(tree, spots)
    for place, variables in {**SECRETS, **secrets}.items():
        problems += [
            Problem(f"${name}", f"${name}_FILE is set too: unset one of them")
            for name in variables
            if env.get(name, "").strip() and env.get(f"{name}_FILE")
        ]
        for name in variables:
            variable, secret, named = name, env.get(name, "").strip(), env.get(f"{name}_FILE")
            if not secret and not named:
                continue
            if not secret and named:
                variable = f"{name}_FILE"
                try:
                    secret = Path(named).read_text(encoding="utf-8").strip()
                except (OSError, UnicodeDecodeError) as error:
                    said = (
                        f"{named} cannot be read ({explain_unreadable(error)}): put the secret "
                        "there (on Kubernetes: as a key of the Secret) or unset the variable"
                    )
                    problems.append(Problem(f"${variable}", said))
            if secret:
                put(tree, place, secret, variable, spots)
            break
    return problems


def list_lent_variables(tree: Mapping[str, Any]) -> set[str]:
    """List the variables that rows of providers name for their keys and headers."""
    secrets, _ = _list_row_secrets(tree, {})
    return {name for names in secrets.values() for name in names}


def _list_row_secrets(
    tree: Mapping[str, Any], spots: Mapping[tuple[Step, ...], Spot]
) -> tuple[dict[Place, tuple[str, ...]], list[Problem]]:
    """Return what the rows of providers read from the environment: the key that `key_env` names,
    and headers whose value is `$` and a variable; and those that are another part's secret."""
    found: dict[Place, tuple[str, ...]] = {}
    problems = []
    others = {name for of, names in SECRETS.items() if of[:2] != _PROVIDERS for name in names}
    for place, row in list_rows(tree):
        named: dict[Place, Any] = {("key",): row.get("key_env")}
        headers = row.get("headers")
        for name, value in headers.items() if isinstance(headers, dict) else ():
            if isinstance(value, str) and value.startswith("$"):
                named["headers", name] = value[1:]
        for field, variable in named.items():
            if not isinstance(variable, str) or not _NAME.fullmatch(variable):
                continue
            if variable.removesuffix("_FILE") not in others:
                found[*place, *field] = (variable,)
            else:
                key = (*place, *(("key_env",) if field == ("key",) else field))
                spot = find_spot(spots, key, "")
                said = f"${variable} is a secret of another part's"
                problems.append(Problem(spot.where, said, key, spot.line))
    return found, problems


def list_rows(tree: Mapping[str, Any]) -> Iterator[tuple[Place, Mapping[str, Any]]]:
    """Yield the rows of providers with their places."""
    rows = get(tree, _PROVIDERS)
    for name, row in rows.items() if isinstance(rows, dict) else ():
        if isinstance(name, str) and isinstance(row, dict):
            yield (*_PROVIDERS, name), row


def take_out_secrets(
    tree: dict[str, Any], spots: Mapping[tuple[Step, ...], Spot], where: str
) -> list[Problem]:
    """Remove what does not belong in a file, and list it with the variable where it does."""
    variables = {place: f"set ${names[0]}" for place, names in SECRETS.items()}
    variables |= {place: f"set ${name}" for place, name in ENVIRONMENT_ONLY.items()}
    for row, _ in list_rows(tree):
        name = "name a variable that holds it as key_env"
        variables.setdefault((*row, "key"), name)
    problems = []
    for place, advice in variables.items():
        if get(tree, place) is not None:
            del get(tree, place[:-1])[place[-1]]
            spot = find_spot(spots, place, where)
            here = "here" if spot.where.startswith("$") else "in the file"
            said = f"does not belong {here}: {advice}"
            problems.append(Problem(spot.where, said, place, spot.line))
    return problems


def get(tree: Any, place: Place) -> Any:
    """Return the value at a place, None if there is none."""
    for part in place:
        tree = tree.get(part) if isinstance(tree, dict) else None
    return tree


def put(tree: dict[str, Any], place: Place, value: object, variable: str, spots: Spots) -> None:
    """Set the value of a variable. Where a part is no mapping, nothing: validation will say so."""
    for part in place[:-1]:
        child = tree.setdefault(part, {})
        if not isinstance(child, dict):
            return
        tree = child
    tree[place[-1]] = value
    for each in [each for each in spots if each[: len(place)] == place]:
        del spots[each]
    spots[place] = Spot(f"${variable}")
