"""Dataclasses as flat JSON objects; a renamed field may keep its old stored key. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

KEY = "key"
"""The entry of a field's metadata that holds its stored key, if that is not the field's name."""

T = TypeVar("T")


@cache
def _keys(made: Any) -> Mapping[str, str]:
    """The key of each field, by the field's name."""
    return {each.name: each.metadata.get(KEY, each.name) for each in fields(made)}


def to_stored(value: Any, *without: str) -> dict[str, Any]:
    """The fields of a dataclass by their stored keys, except the fields named in `without`.

    Values are not copied: `dataclasses.asdict` copies deeply, which costs more than encoding them.
    """
    made: Any = type(value)
    return {key: getattr(value, name) for name, key in _keys(made).items() if name not in without}


def from_stored(made: Callable[..., T], stored: Mapping[str, Any]) -> T:
    """The dataclass from the fields that `to_stored` returned.

    Raises KeyError for an unknown key, TypeError if a field without a default is missing.
    """
    names = {key: name for name, key in _keys(made).items()}
    return made(**{names[key]: value for key, value in stored.items()})
