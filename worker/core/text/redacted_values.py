"""What has no secrets, as a type: a document is made of nothing else.

Strings are redacted as they are, before anything encodes them: in JSON a token at the beginning of
a line follows the letter of an escape, and stands there again once that is decoded.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import cache
from itertools import islice
from typing import Any, TypeVar, cast

from worker.core.text.redact_stream import redact_chunks
from worker.core.text.untrusted import visible

T = TypeVar("T")
Redact = Callable[[bytes], bytes]
"""Takes secrets out, and keeps the number of lines."""


class _Key:
    """Shows that a value was redacted; no other module has one."""


_KEY = _Key()


class Redacted(bytes):
    """Bytes without secrets. Only the functions of this module make them.

    What bytes do gives plain bytes again, but for `cut` and `join_all`.
    """

    __slots__ = ()

    def __new__(cls, data: bytes, key: _Key) -> "Redacted":
        if key is not _KEY:
            raise TypeError("only this module makes Redacted: see redact_bytes")
        return super().__new__(cls, data)

    def cut(self, size: int) -> "Redacted":
        """The first `size` bytes."""
        return Redacted(self[:size], _KEY)

    @staticmethod
    def join_all(parts: "Iterable[Redacted]") -> "Redacted":
        """The parts, one after the other."""
        given: list[object] = list(parts)
        if not all(isinstance(part, Redacted) for part in given):
            raise TypeError("a part of what is joined was not redacted")
        return Redacted(b"".join(cast("list[Redacted]", given)), _KEY)


def assume_redacted(data: bytes) -> Redacted:
    """For what was made of redacted bytes alone: read back from a file, packed, escaped.

    tests/law names the few modules that may call it.
    """
    return Redacted(data, _KEY)


def redact_bytes(data: bytes, redact: Redact) -> Redacted:
    """`data`, a text or a file, without its secrets."""
    return Redacted(redact(data), _KEY)


def redact_stream(pieces: Iterable[bytes], redact: Redact) -> Iterator[Redacted]:
    """Pieces of whole lines of one text; a secret that lies in two of them is found too."""
    return (Redacted(each, _KEY) for each in redact_chunks(pieces, redact))


def redact_json(value: Mapping[str, Any], redact: Callable[[str], str]) -> Redacted:
    """Compact JSON in the given order, one line per item of its lists: made for grep and sed.

    Strings lose their secrets and what is never seen in them. Raises TypeError, ValueError or
    RecursionError for what is no JSON.
    """
    clean = redact_values(value, lambda text: redact(_visible(text)))
    return Redacted(_to_json(clean).encode(errors="replace"), _KEY)


# ---------------------------------------------------------------------------------------- values


def redact_values(value: T, redact: Callable[[str], str]) -> T:
    """`value` with every string in it redacted, also those that are keys.

    Looks into mappings, lists, tuples and dataclasses. The name of a string in a mapping may say
    that it is a secret; strings of one list are also looked at as the lines of one text.
    """
    return cast(T, _values(value, "", cache(redact)))


def _values(value: Any, name: str, redact: Callable[[str], str]) -> Any:
    if _is_text(value):
        return _string(value, name, redact)
    if isinstance(value, Mapping):
        return _mapping(value, redact)
    if isinstance(value, list | tuple):
        made = _items(value, name, redact)
        return tuple(made) if isinstance(value, tuple) else made
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value)]
        return replace(value, **{each: _values(getattr(value, each), "", redact) for each in names})
    return value


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not isinstance(value, Enum)


def _string(text: str, name: str, redact: Callable[[str], str]) -> str:
    clean = redact(text)
    lead = f"{name}: "
    named = redact(lead + clean) if name else ""
    return named.removeprefix(lead) if named.startswith(lead) else clean


def _mapping(value: Mapping[Any, Any], redact: Callable[[str], str]) -> dict[Any, Any]:
    made: dict[Any, Any] = {}
    for key, item in value.items():
        name = redact(key) if _is_text(key) else key
        while name in made:  # two names that were secrets, each with a value of its own
            name = f"{name}'"
        made[name] = _values(item, str(key), redact)
    return made


def _items(value: Sequence[Any], name: str, redact: Callable[[str], str]) -> list[Any]:
    if value and all(map(_is_text, value)):
        text = "\n".join(value)
        lines = _string(text, name, redact).split("\n")
        if len(lines) == text.count("\n") + 1:
            each = iter(lines)
            return ["\n".join(islice(each, item.count("\n") + 1)) for item in value]
    return [_values(item, name, redact) for item in value]


# ------------------------------------------------------------------------------------------ JSON


def _visible(text: str) -> str:
    return visible(text.encode(errors="replace").decode())


def _to_json(value: Mapping[str, Any]) -> str:
    lines = [f"{json.dumps(key)}:{_field(item)}" for key, item in value.items()]
    return "{" + ",\n".join(lines) + "}\n"


def _field(item: Any) -> str:
    if isinstance(item, list | tuple) and item:
        return "[\n" + ",\n".join(map(_compact, item)) + "\n]"
    return _compact(item)


def _compact(item: Any) -> str:
    return json.dumps(item, separators=(",", ":"), ensure_ascii=False)
