"""A source as a row of the table, and how its documents are written."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from worker.arguments import Arguments
from worker.core.ports import Document
from worker.sources.reader import Reader

A = TypeVar("A", bound=Arguments)


@dataclass(frozen=True, slots=True)
class SourceDef(Generic[A]):
    """One read-only source.

    `args` never holds a project (law 2). `fetch` raises SourceError. `note` is its line in the
    system prompt. `redacted` says that what `fetch` gives was cleaned of secrets already.
    """

    name: str
    description: str
    args: type[A]
    fetch: Callable[[A, Reader], Document]
    note: str
    redacted: bool = False


class NoArguments(Arguments):
    """For sources that are fully bound to the session."""


def to_json(value: Mapping[str, Any]) -> bytes:
    """Compact JSON in the given order, one line per item of its lists: made for grep and sed."""
    lines = [f"{json.dumps(key)}:{_value(item)}" for key, item in value.items()]
    return ("{" + ",\n".join(lines) + "}\n").encode(errors="replace")


def _value(item: Any) -> str:
    if isinstance(item, list) and item:
        return "[\n" + ",\n".join(map(_compact, item)) + "\n]"
    return _compact(item)


def _compact(item: Any) -> str:
    return json.dumps(item, separators=(",", ":"), ensure_ascii=False)


def present(**fields: Any) -> dict[str, Any]:
    """The fields that say something: None, "", False and empty lists are left out."""
    return {name: value for name, value in fields.items() if value not in (None, "", False, [])}
