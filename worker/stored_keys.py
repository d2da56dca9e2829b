"""Dataclasses as flat JSON objects. Pure.

A renamed field keeps its stored key (KEY), or is still read under its former one (FORMER).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

KEY = "key"
"""The entry of a field's metadata that holds its stored key, if that is not the field's name."""

FORMER = "former"
"""The entry of a field's metadata that holds a key under which earlier versions stored it."""

T = TypeVar("T")


def to_stored(value: Any, *without: str) -> dict[str, Any]:
    """The fields of a dataclass by their stored keys, except the fields named in `without`.

    Values are not copied: `dataclasses.asdict` copies deeply, which costs more than encoding them.
    """
    return {
        each.metadata.get(KEY, each.name): getattr(value, each.name)
        for each in fields(value)
        if each.name not in without
    }


def pick_known(cls: Callable[..., Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a dataclass has; those that a later version may have added are left out."""
    return {key: stored[key] for key in _names(cls) if key in stored}


def from_stored(cls: Callable[..., T], stored: Mapping[str, Any]) -> T:
    """The dataclass from the fields that `to_stored` returned.

    Raises KeyError for an unknown key (see `pick_known`), TypeError if a field without a default is
    missing or one has a value of another type (see `_check_types`).
    """
    names = _names(cls)
    return _check_types(cls(**{names[key]: value for key, value in stored.items()}))


@cache
def _names(cls: Any) -> Mapping[str, str]:
    """The name of each field, by the keys under which it may be stored."""
    return {
        key: each.name
        for each in fields(cls)
        for key in (each.metadata.get(FORMER), each.metadata.get(KEY, each.name))
        if key
    }


def _check_types(value: T) -> T:
    """Return a dataclass whose fields have the right types; what is stored may be anything.

    Raises TypeError for a value of another type than its field's, and for a number that nothing can
    be computed with: NaN, infinity, 10^400. The items of collections are not checked.
    """
    cls: Any = type(value)
    for name, types in _types(cls).items():
        content = getattr(value, name)
        absurd = isinstance(content, int | float) and not abs(content) < 2**63
        # To Python, true and false are numbers.
        flag = isinstance(content, bool) and not {bool, object} & set(types)
        if absurd or flag or not isinstance(content, types):
            raise TypeError(f"{name} of a {cls.__name__} is {repr(content)[:80]}")
    return value


@cache
def _types(cls: Any) -> Mapping[str, tuple[type, ...]]:
    """The types that each field's value may have, by the field's name."""
    hints = get_type_hints(cls)
    return {each.name: tuple(_list_types(hints[each.name])) for each in fields(cls)}


def _list_types(hint: Any) -> Iterator[type]:
    for each in get_args(hint) if get_origin(hint) is UnionType else [hint]:
        plain = get_origin(each) or each
        yield plain if isinstance(plain, type) else object
        if plain is float:
            yield int
