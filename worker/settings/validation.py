"""Checks values against a model's JSON Schema; what is wrong is told all at once, in words.

The schema is also that of editors and of the chart.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from worker.safety.redact import Redactor
from worker.safety.sentences import find_nearest, suggest_nearest
from worker.safety.untrusted import one_line
from worker.settings.base import Clash
from worker.settings.yaml_text import Problem, Spot, Step, find_spot, format_key

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


Model = TypeVar("Model", bound=BaseModel)
Place = tuple[Step, ...]

_ROUNDS = 4
_MAX_SHOWN = 60
"""Characters of a wrong value."""
_KEY = "[key]"
"""What pydantic puts behind the key of a mapping if it is the key itself that is wrong."""
_HIDDEN = ("headers", "key_env")
"""Parts of places whose values are not shown, though the file may have them."""


def validate(
    model: type[Model],
    tree: Mapping[str, Any],
    spots: Mapping[Place, Spot],
    where: str,
    hint: Callable[[str], str] = lambda name: "",
    secrets: Collection[str] = (),
) -> tuple[Model | None, list[Problem]]:
    """Return the model, or None and all that is wrong.

    `where` is named where no place is known; `hint` makes what follows an unknown key to
    which nothing known is near; `secrets` are not shown.
    """
    try:
        return model.model_validate(tree), []
    except ValidationError as error:
        explain = _Explanation(make_schema(model), spots, where, hint, Redactor(secrets))
        return None, list(_find_all(model, deepcopy(dict(tree)), explain, error))


def _find_all(
    model: type[Model], tree: dict[str, Any], explain: "_Explanation", error: ValidationError
) -> Iterator[Problem]:
    """Yield all problems. What is checked only once the fields of a part are right, is found by
    leaving the wrong ones out; then nothing is said of what has to do with those."""
    wrong: set[Place] = set()
    for _ in range(_ROUNDS):
        before = frozenset(wrong)
        for found in error.errors(include_url=False):
            place = _find_place(found, explain.spots)
            wrong.add(place)
            _leave_out(tree, place[:-1] if found["type"] == "missing" else place)
            if not any(_is_inside(each, before) for each in _list_involved(found)):
                yield explain.make_problem(found, place)
        try:
            model.model_validate(tree)
        except ValidationError as again:
            error = again
        else:
            return


def _find_place(found: Mapping[str, Any], spots: Collection[Place]) -> Place:
    """Return the place to look at: of keys that clash, the first that is set."""
    clash = found.get("ctx", {}).get("error")
    part = tuple(step for step in found["loc"] if step != _KEY)
    inner = [(*part, *each) for each in clash.places] if isinstance(clash, Clash) else [part]
    return next((each for each in inner if each in spots), inner[0])


def _list_involved(found: Mapping[str, Any]) -> list[Place]:
    clash = found.get("ctx", {}).get("error")
    inner = clash.places if isinstance(clash, Clash) else ((),)
    return [(*found["loc"], *each) for each in inner]


def _is_inside(place: Place, others: Collection[Place]) -> bool:
    return any(place[: len(each)] == each or each[: len(place)] == place for each in others)


def _leave_out(tree: Any, place: Place) -> None:
    """Remove a value; of a list, the whole."""
    for number, step in enumerate(place):
        inner = tree.get(step) if isinstance(tree, dict) else None
        if isinstance(tree, dict) and not (isinstance(inner, dict) and place[number + 1 :]):
            tree.pop(step, None)
            return
        tree = inner


class _Explanation:
    """Words for what pydantic says."""

    def __init__(
        self,
        schema: Schema,
        spots: Mapping[Place, Spot],
        where: str,
        hint: Callable[[str], str],
        redactor: Redactor,
    ) -> None:
        self._schema, self.spots, self._where = schema, spots, where
        self._hint, self._redact = hint, redactor.redact_text

    def make_problem(self, found: Mapping[str, Any], place: Place) -> Problem:
        """Make the problem of one of pydantic's."""
        spot = find_spot(self.spots, place, self._where)
        return Problem(spot.where, self._explain(found, place), place, spot.line)

    def _explain(self, found: Mapping[str, Any], place: Place) -> str:
        kind, ours = found["type"], str(found["msg"]).removeprefix("Value error, ")
        if kind == "extra_forbidden":
            return self._explain_unknown_key(place)
        if kind == "value_error" and isinstance(found.get("ctx", {}).get("error"), Clash):
            return ours
        if found["loc"][-1:] == (_KEY,):
            return self._explain_name(place)
        schema = find_schema(self._schema, place)
        if kind == "missing":
            return f"missing: expected {describe_expected(schema or {})}"
        if schema is None:  # a secret
            return ours if kind == "value_error" else "expected text"
        expected = ours if kind == "value_error" else f"expected {describe_expected(schema)}"
        if any(name in place for name in _HIDDEN) or "found " in expected:
            return expected
        return f"{expected}; found {self._show(found['input'], place)}{self._advise(found, schema)}"

    def _explain_unknown_key(self, place: Place) -> str:
        above, name = find_schema(self._schema, place[:-1]) or {}, str(place[-1])
        here = [key for each in list_choices(above) for key in each.get("properties", {})]
        if near := find_nearest(name, here):
            return f"unknown key: did you mean {format_key((*place[:-1], near))}?"
        meant = name.lower().replace("-", "_")
        elsewhere = [each for each in list_fields(self._schema) if each[-1] == meant]
        if len(elsewhere) == 1 and "NAME" not in elsewhere[0]:
            return f"unknown key here: did you mean {format_key(elsewhere[0])}?"
        return f"unknown key{self._hint(name)}"

    def _explain_name(self, place: Place) -> str:
        """Explain why a name in a mapping of names is none."""
        schema = find_schema(self._schema, place[:-1]) or {}
        names = [each["propertyNames"] for each in list_choices(schema) if "propertyNames" in each]
        expected = describe_expected(names[0]) if names else "text"
        words = [word for each in names for word in list_words(each)]
        return f"expected {expected}{suggest_nearest(str(place[-1]), words)}"

    def _advise(self, found: Mapping[str, Any], schema: Schema) -> str:
        value, choices = found["input"], list_choices(schema)
        if any(each.get("type") == "array" for each in choices) and isinstance(value, str):
            return f": write [{self._show(value, ())}]"
        if value is None and any("properties" in each for each in choices):
            return ": set one of them, or leave it out"
        if isinstance(value, str):
            words = [*list_words(schema), *schema.get("examples", ())]
            return suggest_nearest(value, filter(None, words))
        wants_text = any(each.get("type") == "string" for each in choices)
        is_plain = isinstance(value, bool | int | float) and not list_words(schema)
        return ": put it in quotes" if wants_text and is_plain else ""

    def _show(self, value: object, place: Place) -> str:
        """Show a wrong value as it is written, shortened, without what may be a secret."""
        if isinstance(value, dict):
            return "a mapping"
        if isinstance(value, list):
            return "a list"
        spot = self.spots.get(place)
        if value is None or value == "":
            return "nothing"
        if isinstance(value, str):
            shown = f"'{one_line(_hide_user(self._redact(value)), _MAX_SHOWN)}'"
        else:
            shown = str(spot.text if spot and spot.text else value)
        return one_line(shown, _MAX_SHOWN + 2)


def _hide_user(shown: str) -> str:
    """Replace what stands before the last @: in a URL, that is a user and a password."""
    before, at, host = shown.rpartition("@")
    scheme, slashes, _ = before.partition("//")
    hidden = f"{scheme + slashes if slashes else ''}…@{host}" if at else shown
    return re.sub(r"([?&](?:password|secret|token|key)[^=&]{0,40}=)[^&]*", r"\1…", hidden)
