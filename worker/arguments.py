"""Tool arguments: pydantic models that give the JSON Schema and messages a model can act on."""

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from worker.errors import ArgumentError


class Arguments(BaseModel):
    """The base of every argument model: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


A = TypeVar("A", bound=Arguments)


def schema(model: type[Arguments]) -> dict[str, Any]:
    """The JSON Schema of `model` without pydantic's titles, which cost tokens and say nothing."""
    full = model.model_json_schema()
    cleaned: dict[str, Any] = _untitled(full)
    cleaned.pop("description", None)
    cleaned.setdefault("properties", {})
    return cleaned


def _untitled(node: Any) -> Any:
    if isinstance(node, dict):
        return {
            key: {name: _untitled(value) for name, value in child.items()}
            if key == "properties"
            else _untitled(child)
            for key, child in node.items()
            if not (key == "title" and isinstance(child, str))
        }
    if isinstance(node, list):
        return [_untitled(child) for child in node]
    return node


def parse(model: type[A], arguments: str) -> A:
    """`arguments` (JSON text) as a `model`. Raises ArgumentError naming each wrong field."""
    try:
        return model.model_validate_json(arguments or "{}")
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc'])) or 'arguments'}: {problem['msg']}"
            for problem in error.errors(include_url=False, include_input=False)
        )
        raise ArgumentError(f"wrong arguments: {problems}") from error
