"""Reads the settings file and the environment; no other module of the worker does."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from worker.errors import ConfigError
from worker.settings import environment
from worker.settings.tree import Settings

DEFAULT_FILE = "sandpiper.yaml"

_PLAIN = {"model_type": "expected a mapping", "dict_type": "expected a mapping"}
"""Our words for what pydantic says in those of its library, by its types of errors."""


def load(path: str | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Load the settings from `path`, $SANDPIPER_CONFIG, or ./sandpiper.yaml if it exists.

    Raises ConfigError.
    """
    env = os.environ if environ is None else environ
    file = find_file(path, env)
    tree = _read(file) if file else {}
    environment.refuse_secrets(tree, file)
    environment.apply_environment(tree, env)
    return _validate(tree, file)


def find_file(path: str | None = None, environ: Mapping[str, str] | None = None) -> Path | None:
    """Return the file that `load` would read, or None. Raises ConfigError."""
    env = os.environ if environ is None else environ
    if named := path or env.get("SANDPIPER_CONFIG"):
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


def _validate(tree: dict[str, Any], file: Path | None) -> Settings:
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        problems = [
            ": ".join(filter(None, (str(file or "environment"), _name(problem), _explain(problem))))
            for problem in error.errors(include_url=False)
        ]
        raise ConfigError("\n".join(problems)) from error


def _name(problem: Mapping[str, Any]) -> str:
    return ".".join(map(str, problem["loc"]))


def _explain(problem: Mapping[str, Any]) -> str:
    if problem["type"] == "extra_forbidden":
        return "unknown field (`sandpiper settings` lists the known ones)"
    message = _PLAIN.get(problem["type"], str(problem["msg"])).removeprefix("Value error, ")
    # What concerns all settings at once has no place, and every secret is in what was found there.
    if not problem["loc"] or re.search("secret|token|key", str(problem["loc"][-1])):
        return message
    if "headers" in problem["loc"]:
        return message
    return f"{message}; found {_describe(problem['input'])}"


def _describe(found: object) -> str:
    """Show a plain value, without what may be a user and a password. Of a mapping nothing is shown:
    the environment's secrets are in it, too."""
    if isinstance(found, dict):
        return "a mapping"
    if isinstance(found, list):
        return f"[{', '.join(map(_describe, found))}]"
    return "nothing" if found is None else _hide_user(repr(found))


def _hide_user(shown: str) -> str:
    """Replace what stands before the last @: in a URL, that is a user and a password."""
    before, at, host = shown.rpartition("@")
    scheme, slashes, _ = before.partition("//")
    return f"{scheme + slashes if slashes else ''}…@{host}" if at else shown
