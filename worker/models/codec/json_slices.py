"""JSON kept as it was written: values together with the very text they were parsed from.

Newer models sign their thinking together with everything before it, so an answer is sent back
byte for byte (wire-models 1.6). Parsing and dumping again would change escapes, spaces and number
forms; a slice of the original text cannot.
"""

import json
import re
from typing import Any, NamedTuple, NoReturn

_FILLER = re.compile(r"[ \t\n\r,:]*")


class Slice(NamedTuple):
    """A JSON value, its text, and where it ends in the whole."""

    value: Any
    text: str
    end: int


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def loads(text: str) -> Any:
    """Strict JSON. Raises ValueError, also for NaN and for nesting too deep to read."""
    try:
        return _DECODER.decode(text)
    except RecursionError as error:
        raise ValueError("JSON nested too deep") from error


def dumps(value: Any) -> bytes:
    """Compact JSON in UTF-8. Half surrogate pairs, which UTF-8 cannot say, become U+FFFD."""
    return clean(_ENCODER.encode(value)).encode()


def clean(text: str) -> str:
    """`text` with whole surrogate pairs joined and half ones replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def members(text: str) -> dict[str, Slice]:
    """The members of the JSON object `text`. Raises ValueError if it is not one."""
    if not isinstance(loads(text), dict):
        raise ValueError("a JSON object was expected")
    found: dict[str, Slice] = {}
    at = _next(text, text.index("{") + 1)
    while text[at] != "}":
        key, end = _DECODER.raw_decode(text, at)
        found[key], at = _slice(text, _next(text, end))
    return found


def elements(text: str) -> list[Slice]:
    """The elements of the JSON array `text`. Raises ValueError if it is not one."""
    if not isinstance(loads(text), list):
        raise ValueError("a JSON array was expected")
    found: list[Slice] = []
    at = _next(text, text.index("[") + 1)
    while text[at] != "]":
        element, at = _slice(text, at)
        found.append(element)
    return found


# The text is known to be valid here, so separators can be skipped without a look.
def _slice(text: str, start: int) -> tuple[Slice, int]:
    value, end = _DECODER.raw_decode(text, start)
    return Slice(value, text[start:end], end), _next(text, end)


def _next(text: str, at: int) -> int:
    found = _FILLER.match(text, at)
    return found.end() if found else at
