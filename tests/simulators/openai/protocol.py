"""What both simulators share: errors, strict JSON, and how rules are put."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

Json = dict[str, Any]

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Refused(Exception):
    """An error answer."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        kind: str = "invalid_request_error",
    ) -> None:
        super().__init__(message)
        self.status = status
        self._error = {"message": message, "type": kind, "param": param, "code": code}

    def body(self) -> Json:
        """The error body."""
        return {"error": self._error}


def invalid(message: str, param: str | None = None, code: str | None = None) -> Refused:
    """A request that breaks a rule."""
    return Refused(400, message, code=code, param=param)


def unknown(path: str) -> Refused:
    """A field that the API does not have."""
    return invalid(f"Unknown parameter: '{path}'.", path, "unknown_parameter")


def missing(path: str) -> Refused:
    """A field that must be there."""
    return invalid(f"Missing required parameter: '{path}'.", path, "missing_required_parameter")


def wrong_type(path: str, expected: str, found: Any) -> Refused:
    """A field with a value of another kind."""
    return invalid(
        f"Invalid type for '{path}': expected {expected}, but got {type(found).__name__} instead.",
        path,
        "invalid_type",
    )


def wrong_value(path: str, found: Any, supported: Collection[str]) -> Refused:
    """A field with a value that is not one of those it may have."""
    names = ", ".join(f"'{each}'" for each in sorted(supported))
    return invalid(
        f"Invalid value: '{found}'. Supported values are: {names}.", path, "invalid_value"
    )


def parse(raw: bytes) -> Json:
    """The body as JSON, as strict as a server that isn't written in Python."""
    try:
        body = json.loads(raw.decode(), parse_constant=_no_constant)
        json.dumps(body, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise invalid(
            "We could not parse the JSON body of your request. (HINT: This likely means you "
            f"aren't using your HTTP library correctly: {error})"
        ) from error
    if not isinstance(body, dict):
        raise wrong_type("body", "an object", body)
    return body


def _no_constant(name: str) -> None:
    raise ValueError(f"unexpected {name}")


def known(path: str, fields: Any, allowed: Collection[str], required: Collection[str]) -> Json:
    """`fields` with nothing that is not allowed and all that is required. Raises Refused."""
    if not isinstance(fields, dict):
        raise wrong_type(path, "an object", fields)
    prefix = f"{path}." if path else ""
    for name in fields:
        if name not in allowed:
            raise unknown(prefix + name)
    for name in required:
        if name not in fields:
            raise missing(prefix + name)
    return fields


def text(path: str, found: Any) -> str:
    """A string. Raises Refused."""
    if not isinstance(found, str):
        raise wrong_type(path, "a string", found)
    return found


def items(path: str, found: Any) -> Sequence[Any]:
    """A list with something in it. Raises Refused."""
    if not isinstance(found, list):
        raise wrong_type(path, "an array", found)
    if not found:
        raise invalid(
            f"Invalid '{path}': empty array. Expected an array with minimum length 1, but got an "
            "empty array instead.",
            path,
            "empty_array",
        )
    return found


def tool_name(path: str, found: Any) -> str:
    """A function's name. Raises Refused."""
    name = text(path, found)
    if not TOOL_NAME.fullmatch(name):
        raise invalid(
            f"Invalid '{path}': string does not match pattern. Expected a string that matches the "
            "pattern '^[a-zA-Z0-9_-]+$'.",
            path,
            "invalid_value",
        )
    return name


def call_id(path: str, found: Any, longest: int) -> str:
    """A call's id. Raises Refused."""
    given = text(path, found)
    if not 1 <= len(given) <= longest:
        raise invalid(
            f"Invalid '{path}': string too long. Expected a string with maximum length {longest}, "
            f"but got a string with length {len(given)} instead.",
            path,
            "string_above_max_length",
        )
    return given


def limit(path: str, found: Any, most: int) -> None:
    """The cap on an answer. Raises Refused."""
    if not isinstance(found, int) or isinstance(found, bool):
        raise wrong_type(path, "an integer", found)
    if not 1 <= found <= most:
        raise invalid(
            f"{path} is too large: {found}. This model supports at most {most} completion tokens.",
            path,
            "invalid_value",
        )


def choice(found: Any, tools: Sequence[Any]) -> None:
    """`tool_choice`. Raises Refused."""
    if not tools:
        raise invalid(
            "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are "
            "specified.",
            "tool_choice",
        )
    if isinstance(found, str) and found not in {"none", "auto", "required"}:
        raise wrong_value("tool_choice", found, {"none", "auto", "required"})


def compact(value: Mapping[str, Any] | Sequence[Any] | str) -> str:
    """JSON with keys in the order received: the order is part of a prefix."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
