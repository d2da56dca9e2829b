"""Tool arguments: pydantic models that give the JSON Schema and errors a model can act on."""

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from worker.errors import ArgumentError


class Arguments(BaseModel):
    """The base of every argument model: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


A = TypeVar("A", bound=Arguments)


def schema(model: type[Arguments]) -> dict[str, Any]:
    """Return the JSON Schema of `model`, with `$ref`s inlined and without pydantic's titles.

    Titles cost tokens and add nothing; not every provider resolves `$ref`.
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
    return {
        key: {name: _plain(value, defs) for name, value in child.items()}
        if key == "properties"
        else _plain(child, defs)
        for key, child in node.items()
        if key != "$defs" and not (key == "title" and isinstance(child, str))
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
