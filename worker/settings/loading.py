"""Reads the settings file and the environment; no other module of the worker does."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from worker.errors import ConfigError
from worker.settings.environment import (
    SECRETS,
    apply_environment,
    take_out_secrets,
)
from worker.settings.problems import Problem, Spot, Step, refuse
from worker.settings.tree import Settings
from worker.settings.validation import validate
from worker.settings.variables import apply_variables
from worker.settings.yaml_text import Document, Unreadable, explain_unreadable, read_yaml

DEFAULT_FILE = "sandpiper.yaml"
_SECRET = re.compile("token|secret|passw|credential|key")


def load(path: str | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Load the settings from `path`, $SANDPIPER_CONFIG, or ./sandpiper.yaml if it exists.

    Raises ConfigError, which has a line for each problem.
    """
    env = os.environ if environ is None else environ
    file = find_file(path, env)
    where = str(file or "the environment")
    document = _read(file) if file else Document({})
    tree: dict[str, Any] = document.tree
    spots: dict[tuple[Step, ...], Spot] = dict(document.spots)
    problems = [*document.problems, *take_out_secrets(tree, spots, where)]
    problems += apply_variables(tree, env, spots)
    problems += take_out_secrets(tree, spots, where)
    problems += apply_environment(tree, env, spots)
    settings, wrong = validate(Settings, tree, spots, where, _advise, _list_secrets(env))
    refuse([*problems, *wrong])
    assert settings is not None  # nothing was wrong
    return settings


def _advise(name: str) -> str:
    """Say where to look after an unknown key."""
    if _SECRET.search(name.lower()):
        return "; secrets are variables, which `sandpiper settings --markdown` lists"
    return " (`sandpiper settings` lists the keys)"


def _list_secrets(env: Mapping[str, str]) -> list[str]:
    """List the secrets that are plain variables; they may have been put in the wrong one, too."""
    names = {name for names in SECRETS.values() for name in names}
    return [value for name in names if (value := env.get(name, "").strip())]


def find_file(path: str | None = None, environ: Mapping[str, str] | None = None) -> Path | None:
    """Return the file that `load` would read, or None. Raises ConfigError."""
    env = os.environ if environ is None else environ
    by = "--config" if path else "$SANDPIPER_CONFIG"
    if named := path or env.get("SANDPIPER_CONFIG"):
        if not Path(named).exists():
            raise ConfigError(f"{named}: no such file (named by {by})")
        if Path(named).is_dir():
            raise ConfigError(f"{named}: expected a file, found a folder (named by {by})")
        return Path(named)
    default = Path(DEFAULT_FILE)
    return default if default.is_file() else None


def _read(file: Path) -> Document:
    try:
        document = read_yaml(file.read_text(encoding="utf-8-sig"), str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read: {explain_unreadable(error)}") from error
    except Unreadable as error:
        refuse([error.problem])
        raise
    if document.tree is None:
        return Document({})
    if not isinstance(document.tree, dict):
        found = "a list" if isinstance(document.tree, list) else "text"
        said = f"expected keys such as gitlab: at the top, found {found}"
        refuse([Problem(str(file), said)])
    return document
