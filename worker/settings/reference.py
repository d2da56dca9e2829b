"""Writes the settings reference from the pydantic models, so that it always matches the code.

`python -m worker.settings.reference` writes README.md beside this file; `sandpiper settings` prints
a whole sandpiper.yaml.
"""

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args

from pydantic.fields import FieldInfo

from worker.settings.base import Part
from worker.settings.environment import DEFAULTS, OVERRIDES, SECRETS, Place
from worker.settings.tree import Settings

PAGE = Path(__file__).with_name("README.md")
NAME = "NAME"
"""A placeholder for the name of an entry in a mapping of parts."""
_WIDTH = 100

_INTRODUCTION = """\
# Settings

One YAML file: `--config FILE`, `$SANDPIPER_CONFIG`, or `./sandpiper.yaml`. Every field has a
default; whatever is wrong is refused at start, all at once: a line for each problem, with the
file's line, the key, and what was expected. `sandpiper settings` prints a whole file with these
texts as comments, `sandpiper settings --schema` its JSON Schema: editors that know YAML's language
server complete and check the file where `sandpiper.schema.json` is beside it.

Made of the models in this folder by `python -m worker.settings.reference`; a test fails when it is
out of date.
"""
_HEAD = """\
# yaml-language-server: $schema=./sandpiper.schema.json
# Editors check this file once the schema is beside it: \
sandpiper settings --schema >sandpiper.schema.json
# Every setting, at its default. Secrets come from the environment.
"""
_VARIABLES = """\
## Variables

Every key has a variable: `SANDPIPER_`, and the key in capitals with two underscores between its
parts. It wins over the file, and an empty one says nothing.

| in the file | in the environment |
| --- | --- |
| `limits: {cost_usd: 1}` | `SANDPIPER_LIMITS__COST_USD=1` |
| `gitlab: {projects: ["group/*"]}` | `SANDPIPER_GITLAB__PROJECTS='["group/*"]'` |
| `models: {helper: ""}` | `SANDPIPER_MODELS__HELPER='""'` |
| `models: {providers: {my-vllm: {base_url: "http://llm/v1"}}}` | \
`SANDPIPER_MODELS__PROVIDERS__MY_VLLM__BASE_URL=http://llm/v1` |

- A text is taken as it stands, `""` as an empty one, `null` as not set. A list or a mapping is
  written as YAML or JSON, and takes the place of the file's.
- The name of an entry (`NAME` above) is written in capitals too, with one `_` for whatever is no
  letter or digit. It has to be there already: in the file, in the variable of the whole mapping
  (`SANDPIPER_MODELS__PROVIDERS='{my-vllm: {api: openai-chat}}'`), or built in. Where two names
  would be written alike, only the whole mapping can be set.
- An unknown variable that begins with `SANDPIPER_` is refused like an unknown key. Left alone are
  those that `models.providers` names, `SANDPIPER_TEST_…`, `SANDPIPER_URL`, `SANDPIPER_ID_TOKEN`,
  `SANDPIPER_BASE`, `SANDPIPER_CACHE`, `SANDPIPER_GOLDEN`, and what Kubernetes and Docker set for a
  service (`SANDPIPER_SERVICE_HOST`, `SANDPIPER_PORT_8080_TCP` …).

Some have another name besides, or are another program's. "overrides" wins over the file, and is
refused beside a variable of the key that says something else; "default" is used where nothing else
says anything.
"""
_OUTSIDE = """\
Besides these, `$SANDPIPER_CONFIG` names the file; `$SSL_CERT_FILE` (or `$SSL_CERT_DIR`) names the
certificates to trust instead of the usual ones, for every connection but those to Docker and
Kubernetes, which have their own (`REQUESTS_CA_BUNDLE` goes before it for GitLab and traces,
`AWS_CA_BUNDLE` for S3, `broker_tls.ca_file` for the broker). Docker's variables (`DOCKER_HOST` …),
Amazon's (`AWS_ACCESS_KEY_ID` …), Google's (`GOOGLE_APPLICATION_CREDENTIALS`) and those of proxies
are read by the libraries that know them.
"""
_SECRECY = """\
## Secrets

From the environment only; in the file they are refused. Each may be given as `X`, or as a file that
`X_FILE` names; both at once are refused. Where there are two variables, the first that is set is
used. For a provider's key, `models.providers.NAME.key_env` may name another variable.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One field: its place, its possible values, its default in YAML, and its description."""

    place: Place
    values: str
    default: str
    text: str

    @property
    def key(self) -> str:
        """The field's key as messages and the README show it."""
        return _format_key(self.place)


def list_rows(model: type[Part] = Settings, above: Place = ()) -> Iterator[Row]:
    """Yield every field of the file, in order; a mapping is followed by its entries' fields."""
    schema = model.model_json_schema()
    described, named = schema["properties"], schema.get("$defs", {})
    for name, field in model.model_fields.items():
        place = (*above, name)
        if field.exclude:
            continue
        if not _is_part(field.annotation):
            yield Row(
                place,
                _describe_values(described[name], named),
                _format_default(field),
                field.description or "",
            )
        for part, step in _list_parts(field):
            yield from list_rows(part, (*place, *step))


def describe_secrets() -> Iterator[tuple[Sequence[str], str]]:
    """Yield the variables of each secret, and its purpose."""
    for place, variables in SECRETS.items():
        model: type[Part] = Settings
        for name in _name_entry(place)[:-1]:
            if name != NAME:
                ((model, _),) = _list_parts(model.model_fields[name])
        description = model.model_fields[place[-1]].description
        yield variables, f"{description} (`{'.'.join(place)}`)"


@cache
def list_keys() -> frozenset[str]:
    """Return every key, including sections and secrets; NAME stands for any entry's name."""
    places = {row.place for row in list_rows()} | {_name_entry(place) for place in SECRETS}
    whole = {place[:length] for place in places for length in range(1, len(place) + 1)}
    return frozenset(map(_format_key, whole))


def _format_key(place: Place) -> str:
    return ".".join(place).replace(".[]", "[]")


def format_reference() -> str:
    """Return the whole reference as Markdown."""
    overrides = [(variable, place, "overrides") for variable, place in OVERRIDES.items()]
    defaults = [(name, place, "default") for place, names in DEFAULTS.items() for name in names]
    settings = [
        (f"`{row.key}`", row.values, f"`{row.default}`" if row.default else "", row.text)
        for row in list_rows()
    ]
    variables = [(f"`{v}`", f"`{'.'.join(p)}`", how) for v, p, how in (*overrides, *defaults)]
    secrets = [(", ".join(f"`{v}`" for v in names), text) for names, text in describe_secrets()]
    parts = [
        _INTRODUCTION,
        _format_table(("key", "values", "default", "what it does"), settings),
        _VARIABLES,
        _format_table(("variable", "key", ""), variables),
        _OUTSIDE,
        _SECRECY,
        _format_table(("variable", "what it is"), secrets),
    ]
    return "\n".join(parts)


def format_example() -> str:
    """Return a sandpiper.yaml with every field at its default; mapping entries are comments."""
    return _HEAD + "\n".join(_format_yaml(Settings, 0, entry=False)) + "\n"


def _format_yaml(model: type[Part], depth: int, *, entry: bool) -> Iterator[str]:
    margin = "# " + "  " * depth if entry else "  " * depth
    for name, field in model.model_fields.items():
        if field.exclude:
            continue
        if _is_part(field.annotation):
            yield from ("", f"{margin}{name}:")
        else:
            room = _WIDTH - len(margin) - 2
            comment = textwrap.wrap(field.description or "", room, break_on_hyphens=False)
            yield from (f"{margin}# {line}" for line in comment)
            default = "…" if field.is_required() else _format_default(field) or "null"
            yield f"{margin}{name}: {default}"
        for part, step in _list_parts(field):
            begin = {NAME: f"{NAME}:", "[]": "-"}
            steps = [f"# {'  ' * (depth + 1)}{begin[each]}" for each in step]
            yield from steps
            yield from _format_yaml(part, depth + 1 + len(steps), entry=entry or bool(step))


def _list_parts(field: FieldInfo) -> Iterator[tuple[type[Part], Place]]:
    """Yield the parts inside a field with the step to them: none, NAME, or [] for a list."""
    annotation = field.annotation
    if _is_part(annotation):
        yield annotation, ()  # type: ignore[misc]
        return
    for inner in (annotation, *get_args(annotation)):
        for each in get_args(inner):
            if _is_part(each):
                yield each, (NAME,) if getattr(inner, "__origin__", None) is dict else ("[]",)
                return


def _is_part(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Part)


def _name_entry(place: Place) -> Place:
    return (*place[:2], NAME, *place[3:]) if place[:2] == ("models", "providers") else place


def _format_default(field: FieldInfo) -> str:
    """Return the default as YAML; "" for a field that is required or unset."""
    value = field.get_default()
    if field.is_required() or value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, str) and value else json.dumps(value)


_NO_VALUES: tuple[object, ...] = ({"type": "null"}, {"const": False, "type": "boolean"})
"""Schemas of null and of False (YAML's `off`), left out: `off` is already listed as a word."""


def _describe_values(schema: Mapping[str, Any], named: Mapping[str, Any]) -> str:
    """Describe the values that a schema allows; `named` are those that it refers to."""
    if "anyOf" in schema:
        (schema,) = (each for each in schema["anyOf"] if each not in _NO_VALUES)
    if "$ref" in schema:
        schema = named[schema["$ref"].rpartition("/")[2]]
    if "enum" in schema:
        return ", ".join(f"`{each}`" if each else '`""`' for each in schema["enum"])
    if schema.get("format") == "date":
        return "date"
    kinds = {"string": "text", "array": "list", "object": "mapping", "boolean": "true, false"}
    bounds = {"exclusiveMinimum": ">", "minimum": "≥", "maximum": "≤"}
    kind = str(schema.get("type"))
    limits = [f"{sign} {schema[bound]:g}" for bound, sign in bounds.items() if bound in schema]
    return " ".join([kinds.get(kind, kind), *limits])


def _format_table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    escaped = [[cell.replace("|", "\\|") for cell in line] for line in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in escaped)


if __name__ == "__main__":
    PAGE.write_text(format_reference(), encoding="utf-8")
