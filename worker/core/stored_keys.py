"""Dataclasses as flat JSON objects, for fields whose stored key is older than their name. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

KEY = "key"
"""In a field's metadata: the key under which it is stored, where that is not the field's name."""

T = TypeVar("T")


@cache
def _keys(made: Any) -> Mapping[str, str]:
    """The key of each field, by the field's name."""
    return {each.name: each.metadata.get(KEY, each.name) for each in fields(made)}


def to_stored(value: Any, *without: str) -> dict[str, Any]:
    """The fields of a dataclass by their keys, but for those `without`. Values are not copied:
    `dataclasses.asdict` copies deeply, which costs more than to encode them."""
    made: Any = type(value)
    return {key: getattr(value, name) for name, key in _keys(made).items() if name not in without}


def from_stored(made: Callable[..., T], stored: Mapping[str, Any]) -> T:
    """The dataclass whose fields `to_stored` gave. Raises KeyError for a key that is not one of
    its, TypeError if one is missing that has no default."""
    names = {key: name for name, key in _keys(made).items()}
    return made(**{names[key]: value for key, value in stored.items()})
