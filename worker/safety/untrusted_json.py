"""Reads JSON that may be anything: what a model, a tool or a damaged file has written. Pure."""

import json
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text, None if it is no JSON or nested too deep to be read."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def parse_object(text: str | bytes) -> dict[str, Any]:
    """Return the members of a JSON object, {} if the text is anything else."""
    found = parse_json(text)
    return found if isinstance(found, dict) else {}


def parse_objects(text: str, name: str) -> list[dict[str, Any]]:
    """Return the objects in the list `name` of a JSON object, or the object if it has no such list;
    [] for anything else. The calls and results of a batch are written so."""
    whole = parse_json(text)
    listed = whole.get(name) if isinstance(whole, dict) else None
    parts = listed if isinstance(listed, list) else [whole]
    return [part for part in parts if isinstance(part, dict)]
