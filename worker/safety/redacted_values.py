"""A type for bytes without secrets: documents are made of nothing else.

Strings are redacted before they are encoded: in JSON, a token at the beginning of a line follows
the letter of an escape (`\\n`) and would be missed, yet it is a token again once decoded.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import cache
from itertools import islice
from typing import Any, TypeVar, cast

from worker.safety.untrusted import visible

T = TypeVar("T")
Redact = Callable[[bytes], bytes]
"""A function that removes secrets and keeps the number of lines."""


class _Key:
    """Proves that a value was redacted; no other module has an instance."""


_KEY = _Key()


class Redacted(bytes):
    """Bytes without secrets. Only the functions of this module make them.

    The methods of `bytes` return plain bytes again; `cut` and `join_all` return Redacted.
    """

    __slots__ = ()

    def __new__(cls, data: bytes, key: _Key) -> "Redacted":
        if key is not _KEY:
            raise TypeError("only this module makes Redacted: see redact_bytes")
        return super().__new__(cls, data)

    def cut(self, size: int) -> "Redacted":
        """Return the first `size` bytes."""
        return Redacted(self[:size], _KEY)

    @staticmethod
    def join_all(parts: "Iterable[Redacted]") -> "Redacted":
        """Join the parts. Raises TypeError if one of them is not Redacted."""
        given: list[object] = list(parts)
        if not all(isinstance(part, Redacted) for part in given):
            raise TypeError("a part of what is joined was not redacted")
        return Redacted(b"".join(cast("list[Redacted]", given)), _KEY)


def assume_redacted(data: bytes) -> Redacted:
    """Mark as redacted what was made of redacted bytes alone: read back, packed or escaped.

    tests/law names the few modules that may call this.
    """
    return Redacted(data, _KEY)


def redact_bytes(data: bytes, redact: Redact) -> Redacted:
    """Return `data`, a text or a file, without its secrets."""
    return Redacted(redact(data), _KEY)


def redact_stream(pieces: Iterable[bytes], redact: Redact) -> Iterator[Redacted]:
    """Redact one text in pieces of whole lines; a secret that spans two pieces is found too."""
    return (Redacted(each, _KEY) for each in redact_chunks(pieces, redact))


def redact_json(value: Mapping[str, Any], redact: Callable[[str], str]) -> Redacted:
    """Return compact JSON in the given order, one line per item of its lists, for grep and sed.

    Strings lose their secrets and invisible characters. Raises TypeError, ValueError or
    RecursionError for what is not JSON.
    """
    clean = redact_values(value, lambda text: redact(_remove_invisible(text)))
    return Redacted(_to_json(clean).encode(errors="replace"), _KEY)


# ---------------------------------------------------------------------------------------- values


def redact_values(value: T, redact: Callable[[str], str]) -> T:
    """Return `value` with every string in it redacted, including the keys of mappings.

    Looks into mappings, lists, tuples and dataclasses. The key of a string in a mapping may reveal
    that it is a secret, as may the `name` or `key` beside a `value`; the strings of a list are
    searched as the lines of one text.
    """
    return cast(T, _redact_any(value, "", cache(redact)))


def _redact_any(value: Any, name: str, redact: Callable[[str], str]) -> Any:
    if _is_text(value):
        return _redact_string(value, name, redact)
    if isinstance(value, Mapping):
        return _redact_mapping(value, redact)
    if isinstance(value, list | tuple):
        items = _redact_items(value, name, redact)
        return tuple(items) if isinstance(value, tuple) else items
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value)]
        return replace(
            value, **{each: _redact_any(getattr(value, each), "", redact) for each in names}
        )
    return value


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not isinstance(value, Enum)


def _redact_string(text: str, name: str, redact: Callable[[str], str]) -> str:
    clean = redact(text)
    lead = f"{name}: "
    named = redact(lead + clean) if name else ""
    return named.removeprefix(lead) if named.startswith(lead) else clean


def _redact_mapping(value: Mapping[Any, Any], redact: Callable[[str], str]) -> dict[Any, Any]:
    redacted: dict[Any, Any] = {}
    named = _read_name(value)
    for key, item in value.items():
        name = redact(key) if _is_text(key) else key
        while name in redacted:  # two keys were secrets and now look the same; keep both values
            name = f"{name}'"
        redacted[name] = _redact_any(item, named if key == "value" and named else str(key), redact)
    return redacted


def _read_name(value: Mapping[Any, Any]) -> str:
    """Return the name of a mapping's value, as in a list of variables; "" if it tells none."""
    names = (value.get(key) for key in ("name", "key"))
    return next((each for each in names if isinstance(each, str)), "")


def _redact_items(value: Sequence[Any], name: str, redact: Callable[[str], str]) -> list[Any]:
    if value and all(map(_is_text, value)):
        text = "\n".join(value)
        lines = _redact_string(text, name, redact).split("\n")
        if len(lines) == text.count("\n") + 1:
            each = iter(lines)
            return ["\n".join(islice(each, item.count("\n") + 1)) for item in value]
    return [_redact_any(item, name, redact) for item in value]


# ------------------------------------------------------------------------------------------ JSON


def _remove_invisible(text: str) -> str:
    return visible(text.encode(errors="replace").decode())


def _to_json(value: Mapping[str, Any]) -> str:
    lines = [f"{json.dumps(key)}:{_write_field(item)}" for key, item in value.items()]
    return "{" + ",\n".join(lines) + "}\n"


def _write_field(item: Any) -> str:
    if isinstance(item, list | tuple) and item:
        return "[\n" + ",\n".join(map(_write_compact, item)) + "\n]"
    return _write_compact(item)


def _write_compact(item: Any) -> str:
    return json.dumps(item, separators=(",", ":"), ensure_ascii=False)


# ------------------------------------------------------------------------------------------ streams

OVERLAP = 300
"""How many of the last lines are searched again together with the next piece."""

_LEAST = 1 << 16
_MOST = 16 << 20  # the most bytes held back, however few of them are certain
_MOST_TRIES = 8


def redact_chunks(
    pieces: Iterable[bytes], redact: Callable[[bytes], bytes], overlap: int = OVERLAP
) -> Iterator[bytes]:
    """Yield the text of the pieces (of whole lines each) without secrets.

    `redact` must keep the number of lines. Of a secret longer than `overlap` lines, the rest may
    stay.
    """
    held = b""
    for piece in pieces:
        if len(held) >= _LEAST:  # checked only here, when it is known that more comes
            clean = redact(held)
            if len(held) > _MOST:
                yield clean
                held = b""
            elif cut := _find_certain_line(held, clean, redact, overlap):
                yield clean[: cut[1]]
                held = held[cut[0] :]
        held += piece
    if held:
        yield redact(held)


def _find_certain_line(
    raw: bytes, clean: bytes, redact: Callable[[bytes], bytes], overlap: int
) -> tuple[int, int] | None:
    """Return where, in both texts, the last line begins that is at least `overlap` lines before the
    end and whose text is redacted the same without what comes before it. None if there is none.

    Lines that are as they were may lie within a secret: output between the lines of a key.
    """
    raw_at, clean_at = len(raw), len(clean)
    for _ in range(_MOST_TRIES):
        if (found := _find_same_line(raw, clean, raw_at, clean_at, overlap)) is None:
            return None
        raw_at, clean_at = found
        if redact(raw[raw_at + 1 :]) == clean[clean_at + 1 :]:
            return raw_at + 1, clean_at + 1
    return None


def _find_same_line(
    raw: bytes, clean: bytes, raw_at: int, clean_at: int, overlap: int
) -> tuple[int, int] | None:
    """Return the line end, in both texts, before the last line that is the same in both and at
    least `overlap` lines before the places given. None if there is none."""
    for _ in range(overlap):
        raw_at, clean_at = raw.rfind(b"\n", 0, raw_at), clean.rfind(b"\n", 0, clean_at)
        if raw_at < 0 or clean_at < 0:
            return None
    while raw_at >= 0 and clean_at >= 0:
        raw_end, clean_end = raw.find(b"\n", raw_at + 1), clean.find(b"\n", clean_at + 1)
        # Replacing a secret changes every line that it reaches into. Only an empty line may look
        # the same although it is part of a secret.
        line = raw[raw_at:raw_end]
        if line == clean[clean_at:clean_end] and not line.isspace():
            return raw_at, clean_at
        raw_at, clean_at = raw.rfind(b"\n", 0, raw_at), clean.rfind(b"\n", 0, clean_at)
    return None
