"""Parses JSON and keeps, with each value, the exact text that it was parsed from.

Newer models sign their thinking together with everything before it, so an answer is sent back byte
for byte. Parsing and dumping it again would change escapes, spaces and number formats; a slice of
the original text keeps them.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

_FILLER = re.compile(r"[ \t\n\r,:]*")


class Slice(NamedTuple):
    """A JSON value, its text, and the offset of its end in the whole text."""

    value: Any
    text: str
    end: int


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def parse_json(text: str) -> Any:
    """Parse strict JSON. Raises ValueError, also for NaN and for nesting too deep to read."""
    try:
        return _DECODER.decode(text)
    except RecursionError as error:
        raise ValueError("JSON nested too deep") from error


def dump_json(value: Any) -> bytes:
    """Return compact JSON in UTF-8, with U+FFFD for lone surrogates, which it cannot encode."""
    return repair_surrogates(_ENCODER.encode(value)).encode()


def repair_surrogates(text: str) -> str:
    """Return `text` with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def parse_members(text: str) -> dict[str, Slice]:
    """Return the members of the JSON object `text`. Raises ValueError if it is not one."""
    if not isinstance(parse_json(text), dict):
        raise ValueError("a JSON object was expected")
    members: dict[str, Slice] = {}
    at = _skip_blanks(text, text.index("{") + 1)
    while text[at] != "}":
        key, end = _DECODER.raw_decode(text, at)
        members[key], at = _parse_slice(text, _skip_blanks(text, end))
    return members


def parse_elements(text: str) -> list[Slice]:
    """Return the elements of the JSON array `text`. Raises ValueError if it is not one."""
    if not isinstance(parse_json(text), list):
        raise ValueError("a JSON array was expected")
    elements: list[Slice] = []
    at = _skip_blanks(text, text.index("[") + 1)
    while text[at] != "]":
        element, at = _parse_slice(text, at)
        elements.append(element)
    return elements


# The text is known to be valid JSON here, so separators are skipped without being checked.
def _parse_slice(text: str, start: int) -> tuple[Slice, int]:
    value, end = _DECODER.raw_decode(text, start)
    return Slice(value, text[start:end], end), _skip_blanks(text, end)


def _skip_blanks(text: str, at: int) -> int:
    match = _FILLER.match(text, at)
    return match.end() if match else at


def parse_arguments(arguments: str) -> dict[str, Any]:
    """Return the arguments of a call that can be sent back, {} if they are no JSON object."""
    try:
        value = parse_json(arguments)
        dump_json(value)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def get_value(members: Mapping[str, Slice], name: str) -> Any:
    """Return the value of a member, or None if it is not there."""
    return members[name].value if name in members else None


def join_array(elements: Iterable[Slice]) -> str:
    """Return a JSON array of the elements, each byte for byte as it was parsed."""
    return f"[{','.join(element.text for element in elements)}]"


_MOST_COUNTED = 10**9


def get_count(value: Any, *path: str) -> int:
    """Return the number of tokens under nested members, 0 if there is none or it cannot be true:
    a sum of money cannot be computed from 10^400 tokens."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return value if is_count and 0 <= value <= _MOST_COUNTED else 0
