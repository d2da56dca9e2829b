"""The base class and common types of the settings' parts."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.json_schema import SkipJsonSchema


class Part(BaseModel):
    """A mapping of the file: unknown keys are refused, and values cannot be changed.

    Each field has a `description`, which is its text in the reference.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)


class Clash(ValueError):
    """Values that do not go together. `keys` are theirs, seen from the part that is checked, such
    as `pages.secret`; the first that is set is the one to look at."""

    def __init__(self, message: str, *keys: str) -> None:
        super().__init__(message)
        self.places = tuple(tuple(key.split(".")) for key in keys)


def say_form(message: str) -> dict[str, JsonValue]:
    """Make the extra of a field's schema that says what its pattern is; editors show it, too."""
    return {"patternErrorMessage": message}


URL = Annotated[
    str,
    Field(
        pattern=r"^(https?://[^/?#@\s]+[^?#@\s]*)?$",
        json_schema_extra=say_form(
            "expected a URL such as https://host/path, without user, query and fragment"
        ),
    ),
]
"""An HTTP URL without query, fragment or user, or nothing."""

ProjectGlobs = tuple[
    Annotated[
        str,
        Field(
            pattern=r"^[^/\s][^\s]*$",
            json_schema_extra=say_form("expected a glob of projects' paths such as group/*"),
        ),
    ],
    ...,
]
"""Globs of the paths of projects in GitLab, without its address."""

Secret = Annotated[SkipJsonSchema[str], Field(exclude=True, repr=False)]
"""A secret comes from the environment and is never shown: see `environment.SECRETS`."""


def list_secrets(part: Part) -> Iterator[str]:
    """Yield every `Secret` of a part and of the parts inside it, empty ones too, and every value of
    a mapping that is not shown either."""
    for name, field in type(part).model_fields.items():
        value = getattr(part, name)
        if not field.repr:
            yield from value.values() if isinstance(value, dict) else [value]
        for inner in value.values() if isinstance(value, dict) else [value]:
            if isinstance(inner, Part):
                yield from list_secrets(inner)
