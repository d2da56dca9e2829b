"""Tool arguments: pydantic models that give the JSON Schema and errors a model can act on."""

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from worker.errors import ArgumentError


class Arguments(BaseModel):
    """The base of every argument model: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


A = TypeVar("A", bound=Arguments)


_UNTOLD = frozenset(
    {"$defs", "title", "pattern", "minLength", "maxLength", "minItems", "maxItems"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "additionalProperties"}
)


def schema(model: type[Arguments]) -> dict[str, Any]:
    """Return the JSON Schema of `model` as a model is told it: names, types, choices, descriptions
    and what is required, with `$ref`s inlined, since not every provider resolves them.

    Bounds and empty defaults cost tokens in every request; `parse` names the one that is broken.
    """
    full = model.model_json_schema()
    cleaned: dict[str, Any] = _plain(full, full.get("$defs", {}))
    cleaned.pop("description", None)
    cleaned.setdefault("properties", {})
    return cleaned


def _plain(node: Any, defs: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_plain(child, defs) for child in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = defs[node["$ref"].rpartition("/")[2]]
        return _plain({key: value for key, value in target.items() if key != "description"}, defs)
    choices = [each for each in node.get("anyOf", ()) if each != {"type": "null"}]
    if len(choices) == 1:  # what may be left out
        node = {**choices[0], **{key: node[key] for key in node if key != "anyOf"}}
    return {
        key: {name: _plain(value, defs) for name, value in child.items()}
        if key == "properties"
        else _plain(child, defs)
        for key, child in node.items()
        if key not in _UNTOLD and (key != "default" or child)
    }


def parse(model: type[A], arguments: str) -> A:
    """Parse `arguments` (JSON text) as a `model`. Raises ArgumentError naming each wrong field."""
    try:
        return model.model_validate_json(arguments or "{}")
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc'])) or 'arguments'}: {problem['msg']}"
            for problem in error.errors(include_url=False, include_input=False)
        )
        raise ArgumentError(f"wrong arguments: {problems}") from error
