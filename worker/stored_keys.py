"""Dataclasses as flat JSON objects. Pure.

A renamed field keeps its stored key (KEY), or is still read under its former one (FORMER). A field
that is UNSTORED is left out, and its name is an unknown key.
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

UNSTORED = "unstored"
"""The entry of a field's metadata that says that the field is not stored."""

T = TypeVar("T")


def to_stored(value: Any, *without: str) -> dict[str, Any]:
    """The fields of a dataclass by their stored keys, except those that are UNSTORED or named in
    `without`.

    Values are not copied: `dataclasses.asdict` copies deeply, which costs more than encoding them.
    """
    return {
        each.metadata.get(KEY, each.name): getattr(value, each.name)
        for each in fields(value)
        if each.name not in without and UNSTORED not in each.metadata
    }


def pick_known(cls: Callable[..., Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a dataclass has; those that a later version may have added are left out."""
    return {key: stored[key] for key in _names(cls) if key in stored}


def from_stored(cls: Callable[..., T], stored: Mapping[str, Any]) -> T:
    """The dataclass from the fields that `to_stored` returned; a list, as JSON has it, becomes the
    tuple that its field holds.

    Raises KeyError for an unknown key (see `pick_known`), TypeError if a field without a default is
    missing or one has a value of another type (see `_check_types`).
    """
    names, hints = _names(cls), _hints(cls)
    values = {names[key]: value for key, value in stored.items()}
    return _check_types(cls(**{name: _convert(each, hints[name]) for name, each in values.items()}))


@cache
def _names(cls: Any) -> Mapping[str, str]:
    """The name of each field, by the keys under which it may be stored."""
    return {
        key: each.name
        for each in fields(cls)
        if UNSTORED not in each.metadata
        for key in (each.metadata.get(FORMER), each.metadata.get(KEY, each.name))
        if key
    }


def _convert(value: Any, hint: Any) -> Any:
    """Return a list as a tuple where the type of its field is one; anything else as it is.

    Raises TypeError for a list with items of other types than the tuple's.
    """
    if not isinstance(value, list) or get_origin(hint) is not tuple:
        return value
    kinds = get_args(hint)
    if kinds[1:] == (...,):
        kinds = kinds[:1] * len(value)
    if len(kinds) != len(value):
        raise TypeError(f"{len(value)} items in place of {len(kinds)}")
    items = tuple(map(_convert, value, kinds))
    for item, kind in zip(items, kinds, strict=True):
        if not _is_of(item, tuple(_list_types(kind))):
            raise TypeError(f"{repr(item)[:80]} in a list of {kind}")
    return items


def _check_types(value: T) -> T:
    """Return a dataclass whose fields have the right types; what is stored may be anything.

    Raises TypeError for a value of another type than its field's, and for a number that nothing can
    be computed with: NaN, infinity, 10^400. The items of collections that were not made here of
    lists are not checked.
    """
    cls: Any = type(value)
    for name, types in _types(cls).items():
        content = getattr(value, name)
        if not _is_of(content, types):
            raise TypeError(f"{name} of a {cls.__name__} is {repr(content)[:80]}")
    return value


def _is_of(content: Any, types: tuple[type, ...]) -> bool:
    absurd = isinstance(content, int | float) and not abs(content) < 2**63
    # To Python, true and false are numbers.
    flag = isinstance(content, bool) and not {bool, object} & set(types)
    return isinstance(content, types) and not absurd and not flag


@cache
def _types(cls: Any) -> Mapping[str, tuple[type, ...]]:
    """The types that each field's value may have, by the field's name."""
    hints = _hints(cls)
    return {each.name: tuple(_list_types(hints[each.name])) for each in fields(cls)}


@cache
def _hints(cls: Any) -> Mapping[str, Any]:
    return get_type_hints(cls)


def _list_types(hint: Any) -> Iterator[type]:
    for each in get_args(hint) if get_origin(hint) is UnionType else [hint]:
        plain = get_origin(each) or each
        yield plain if isinstance(plain, type) else object
        if plain is float:
            yield int
