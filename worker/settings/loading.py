"""Reads the settings file and the environment; no other module of the worker does.

Every key has a variable: `SANDPIPER_`, and its path in capitals with `__` between the parts.
`limits.cost_usd` is `SANDPIPER_LIMITS__COST_USD`. A text is taken as it stands (`""` is an empty
one), a list or a mapping is written as in YAML. An empty variable says nothing. The name of an
entry, such as that of a provider, is written in capitals too, with an underscore for whatever is no
letter or digit (`my-vllm`: `MY_VLLM`); it has to be one that is there: in the file, in the variable
of the whole mapping, or built in.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from worker.errors import ConfigError
from worker.safety.sentences import find_nearest, suggest_nearest
from worker.settings.environment import (
    DEFAULTS,
    ENVIRONMENT_ONLY,
    OVERRIDES,
    SECRETS,
    Place,
    Spots,
    apply_environment,
    get,
    list_lent_variables,
    put,
    take_out_secrets,
)
from worker.settings.models import read_reply
from worker.settings.tree import Settings
from worker.settings.validation import (
    Schema,
    find_schema,
    join_words,
    list_choices,
    list_fields,
    list_words,
    make_schema,
    validate,
)
from worker.settings.yaml_text import (
    Document,
    Problem,
    Spot,
    Step,
    Unreadable,
    explain_unreadable,
    read_yaml,
    refuse,
)

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
    problems += _apply_variables(tree, env, spots)
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


PREFIX = "SANDPIPER_"
SEPARATOR = "__"

OTHERS = frozenset(
    {
        "SANDPIPER_CONFIG",
        *("SANDPIPER_URL", "SANDPIPER_ID_TOKEN"),  # compose.yaml's, and a CI job's
        *("SANDPIPER_BASE", "SANDPIPER_CACHE", "SANDPIPER_GOLDEN"),  # of building and testing
    }
)
"""Variables that are no settings and nevertheless ours; besides them those of tests."""
_OF_TESTS = "SANDPIPER_TEST_"

_KUBERNETES = re.compile(
    r"SANDPIPER_(?:[A-Z0-9_]+_)?(?:SERVICE_(?:HOST|PORT(?:_[A-Z0-9_]+)?)"
    r"|PORT_[0-9]{1,5}_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)"
)
_ADDRESS = re.compile(r"(?:tcp|udp|sctp)://.*")
"""What Kubernetes and Docker's links give a container for each service whose name begins with
`sandpiper`: `…_SERVICE_HOST`, `…_PORT_8080_TCP`, and `…_PORT`, which is an address."""


def _apply_variables(tree: dict[str, Any], env: Mapping[str, str], spots: Spots) -> list[Problem]:
    """Put the values of the variables of keys into `tree`, and the variables into `spots`.

    Returns what is wrong with them, such as a variable of no key.
    """
    names = [name for name in env if _is_meant(name, env[name])]
    if not names:
        return []
    reader = _Reader(make_schema(Settings), tree, spots)
    # A variable of a whole mapping before those of its entries.
    for name in sorted(names, key=lambda each: (each.count(SEPARATOR), each)):
        reader.read(name, env[name])
    problems = [*reader.problems, *_find_conflicts(reader.places, env)]
    lent = list_lent_variables(tree)
    known = {*lent, *(f"{name}_FILE" for name in lent)}
    return problems + [each for name, each in reader.unknown.items() if name not in known]


def name_variable(place: Iterable[str]) -> str:
    """Return the variable of a key."""
    return PREFIX + SEPARATOR.join(map(_name_part, place))


def _name_part(name: str) -> str:
    return re.sub("[^A-Z0-9]+", "_", name.upper()).strip("_")


def _is_meant(name: str, value: str) -> bool:
    """Whether a variable may be that of a key, right or misspelt."""
    if not name.startswith(PREFIX) or name in OTHERS or name.startswith(_OF_TESTS):
        return False
    if name in OVERRIDES or name.removesuffix("_FILE") in _list_secret_names():
        return False
    is_address = name.endswith("_PORT") and _ADDRESS.fullmatch(value)
    return value != "" and not (_KUBERNETES.fullmatch(name) or is_address)


def _list_secret_names() -> set[str]:
    return {name for names in SECRETS.values() for name in names}


def _find_conflicts(places: Mapping[Place, str], env: Mapping[str, str]) -> Iterator[Problem]:
    """Yield where two variables say two things of one key."""
    for variable, place in OVERRIDES.items():
        other = places.get(place)
        if other and env.get(variable) and env[variable] != env[other]:
            yield Problem(f"${other}", f"${variable} says something else: unset one of them", place)


class _Reader:
    """Reads one variable after the other into a tree."""

    def __init__(self, schema: Schema, tree: dict[str, Any], spots: Spots) -> None:
        self._schema, self._tree, self._spots = schema, tree, spots
        self.places: dict[Place, str] = {}
        self.problems: list[Problem] = []
        self.unknown: dict[str, Problem] = {}
        """Variables of no key, which a row of providers may yet name as its own."""

    def read(self, variable: str, text: str) -> None:
        """Read a variable's value to its place, or note what is wrong."""
        try:
            place, schema = self._find_place(variable)
        except _Unknown as error:
            self.unknown[variable] = Problem(f"${variable}", str(error))
            return
        try:
            value = self._read_value(variable, text, place, schema)
        except Unreadable as error:
            self.problems.append(replace(error.problem, place=place, line=0))
            return
        self.places[place] = variable
        if place[:-1] == ("models", "reply") and isinstance(get(self._tree, place[:-1]), str):
            self._tree["models"]["reply"] = read_reply(self._tree["models"]["reply"])
        put(self._tree, place, value, variable, self._spots)

    def _find_place(self, variable: str) -> tuple[Place, Schema]:
        """Return the key of a variable and its schema. Raises _Unknown."""
        place: Place = ()
        schema = self._schema
        parts = variable.removeprefix(PREFIX).split(SEPARATOR)
        for number, part in enumerate(parts):
            name, inner = self._find_step(variable, parts[:number], part, place, schema)
            place, schema = (*place, name), inner
        if all("properties" in each for each in list_choices(schema)):
            some = next(iter(list_choices(schema)[0]["properties"]))
            example = f"{variable}{SEPARATOR}{_name_part(some)}"
            raise _Unknown(f"this is a section: set one key of it, such as {example}")
        return place, schema

    def _find_step(
        self, variable: str, before: list[str], part: str, place: Place, schema: Schema
    ) -> tuple[str, Schema]:
        for each in list_choices(schema):
            fields = each.get("properties", {})
            name = part.lower()
            if name in fields and name.upper() == part:
                return name, fields[name]
            if isinstance(inner := each.get("additionalProperties"), dict):
                return self._find_entry(variable, before, part, place, each), inner
        if own := _find_own_variable((*place, part.lower())):
            raise _Unknown(f"this has a name of its own: set ${own}")
        if place[:-1] == ("models", "providers") and part == "KEY":
            raise _Unknown(f"name a variable that holds the key as ${variable}_ENV")
        raise _Unknown(self._suggest(variable, before, schema))

    def _find_entry(
        self, variable: str, before: list[str], part: str, place: Place, schema: Schema
    ) -> str:
        """Return the name of the entry that a variable means. Raises _Unknown unless it is one."""
        names: list[str] = [*(get(self._tree, place) or ()), *_list_built_in(place)]
        names += list_words(schema.get("propertyNames", {}))
        found = [each for each in dict.fromkeys(names) if _name_part(each) == part]
        if len(found) == 1:
            return found[0]
        whole = PREFIX + SEPARATOR.join(before)
        key = ".".join(place)
        if found:
            raise _Unknown(f"{' and '.join(found)} of {key} are both meant: set ${whole} instead")
        if words := list_words(schema.get("propertyNames", {})):
            raise _Unknown(f"{key} has no entry of this name: expected {join_words(words)}")
        near = suggest_nearest(part, map(_name_part, names))
        raise _Unknown(f"{key} has no entry of this name{near or f': set ${whole} instead'}")

    def _suggest(self, variable: str, before: list[str], schema: Schema) -> str:
        """Say what an unknown variable may stand for; what all begin with makes none alike."""
        here = PREFIX + SEPARATOR.join([*before, ""])
        fields = [name for each in list_choices(schema) for name in each.get("properties", {})]
        fixed = [place for place in list_fields(self._schema) if "NAME" not in place]
        known = {here + _name_part(name) for name in fields} if before else set()
        known |= {name_variable(each) for each in fixed if not self._is_section(each)}
        known |= {*OVERRIDES, *_list_secret_names(), "SANDPIPER_CONFIG"}
        if variable.removesuffix("_FILE") in known:
            return f"only a secret may be a file: set ${variable.removesuffix('_FILE')}"
        by_rest = {name.removeprefix(PREFIX): name for name in known}
        near = by_rest.get(find_nearest(variable.removeprefix(PREFIX), by_rest))
        hint = f": did you mean {near}?" if near else " (`sandpiper settings` lists the keys)"
        return f"unknown variable{hint}"

    def _is_section(self, place: Place) -> bool:
        choices = list_choices(find_schema(self._schema, place) or {})
        return all("properties" in each for each in choices)

    def _read_value(self, variable: str, text: str, place: Place, schema: Schema) -> Any:
        kinds = {each.get("type") for each in schema.get("anyOf", [schema])}
        if kinds & {"array", "object"}:
            document = read_yaml(text, f"${variable}")
            self.problems += [
                replace(each, line=0, place=(*place, *each.place)) for each in document.problems
            ]
            return document.tree
        if "null" in kinds and text in ("null", "~"):
            return None
        return "" if text in ('""', "''") and "string" in kinds else text


class _Unknown(Exception):
    """A variable of no key; the message is what to say of it."""


def _find_own_variable(place: Place) -> str:
    """Return the variable of what has no key in the file; "" if it has one."""
    return ENVIRONMENT_ONLY.get(place) or next(iter(SECRETS.get(place, ())), "")


def _list_built_in(place: Place) -> list[str]:
    """List the names of built-in entries of a mapping: those of providers have variables."""
    known = (*OVERRIDES.values(), *DEFAULTS, *SECRETS)
    return [each[len(place)] for each in known if each[: len(place)] == place and place]
