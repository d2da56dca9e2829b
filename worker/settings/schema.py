"""The JSON Schema of what may be set: for editors, for the chart, and for what messages expect."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import BaseModel

from worker.settings.problems import Step

Schema = Mapping[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_IRRELEVANT = ("title", "$defs", "$ref")
_UNITS = ("Seconds", "Days", "Dollars", "Bytes", "Tokens", "Characters")
"""First words of descriptions that say what a number counts."""


@cache
def make_schema(model: type[BaseModel]) -> Schema:
    """Make the schema of a model without references; secrets are not in it."""
    whole = model.model_json_schema()
    made: dict[str, Any] = _inline(whole, whole.get("$defs", {}))
    return {"$schema": DIALECT, **made}


def find_schema(schema: Schema, place: Sequence[Step]) -> Schema | None:
    """Return the schema of a place, None if there is none."""
    for step in place:
        inner = None
        for each in list_choices(schema):
            if isinstance(step, int):
                inner = inner or each.get("items")
            elif step in each.get("properties", {}):
                inner = each["properties"][step]
            elif isinstance(each.get("additionalProperties"), dict):
                inner = inner or each["additionalProperties"]
        if inner is None:
            return None
        schema = inner
    return schema


def list_choices(schema: Schema) -> list[Schema]:
    """List what a schema is one of, without null, and without the False that is YAML's `off`."""
    choices = schema.get("anyOf", [schema])
    return [each for each in choices if each.get("type") != "null" and each.get("const") is None]


def list_fields(schema: Schema, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the place of every field, of sections and entries too; NAME stands for any name."""
    for each in list_choices(schema):
        for name, inner in each.get("properties", {}).items():
            yield (*above, name)
            yield from list_fields(inner, (*above, name))
        if isinstance(inner := each.get("additionalProperties"), dict):
            yield from list_fields(inner, (*above, "NAME"))


def describe_expected(schema: Schema) -> str:
    """Describe in words what a schema expects."""
    choices = sorted(list_choices(schema), key=lambda each: "properties" in each)
    words = [_describe_choice(each, schema.get("description", "")) for each in choices]
    return " or ".join(dict.fromkeys(words))


def list_words(schema: Schema) -> list[str]:
    """List the words that a schema allows, if it has a list of them."""
    return [str(word) for each in list_choices(schema) for word in each.get("enum", ())]


def _describe_choice(schema: Schema, description: str) -> str:
    if message := schema.get("patternErrorMessage"):
        return str(message).removeprefix("expected ")
    if words := list_words(schema):
        return join_words([word or "nothing" for word in words])
    kind = schema.get("type")
    if kind in ("integer", "number"):
        noun = "a whole number" if kind == "integer" else "a number"
        unit = description.partition(" ")[0]
        of = f" of {unit.lower()}" if unit in _UNITS else ""
        return noun + of + _describe_bounds(schema)
    if kind == "array":
        return f"a list of {_describe_items(schema['items'])}"
    if kind == "object":
        some = ", ".join(list(schema.get("properties", {}))[:3])
        return f"keys below it, such as {some}" if some else "a mapping of names"
    if schema.get("format") == "date":
        return "a date such as 2026-01-31"
    kinds = {"string": "some text" if schema.get("minLength") else "text"}
    return {**kinds, "boolean": "true or false"}.get(str(kind), "another value")


def _describe_items(schema: Schema) -> str:
    words = list_words(schema)
    if words:
        return join_words(words)
    return "texts" if schema.get("type") == "string" else "mappings"


def _describe_bounds(schema: Schema) -> str:
    least, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    most, below = schema.get("maximum"), schema.get("exclusiveMaximum")
    if least is not None and most is not None:
        return f" from {least} to {most}"
    bounds = [
        *([f" above {above}"] if above is not None else []),
        *([f", {least} or more"] if least is not None else []),
        *([f" and below {below}"] if below is not None else []),
        *([f", {most} at most"] if most is not None else []),
    ]
    return "".join(bounds)


def join_words(words: Sequence[str]) -> str:
    """Join words as in "a, b or c"."""
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _inline(node: Any, known: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inline(each, known) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        node = {**known[node["$ref"].rpartition("/")[2]], **node}
    made = {name: value for name, value in node.items() if name not in _IRRELEVANT}
    for pattern, inner in made.pop("patternProperties", {}).items():  # of a mapping's names
        made["additionalProperties"] = inner
        made["propertyNames"] = {"pattern": pattern, **made.get("propertyNames", {})}
    for name in ("items", "additionalProperties", "propertyNames", "anyOf"):
        if name in made:
            made[name] = _inline(made[name], known)
    if "properties" in made:
        made["properties"] = {
            name: _inline(each, known) for name, each in made["properties"].items()
        }
        made.pop("default", None)
    if "description" in made:
        made["description"] = " ".join(made["description"].partition("\n\n")[0].split())
    return made
