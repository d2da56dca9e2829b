"""The base class and common types of the settings' parts."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Part(BaseModel):
    """A mapping of the file: unknown keys are refused, and values cannot be changed.

    Each field has a `description`, which is its text in the reference.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)


URL = r"^(https?://[^/?#@\s]+[^?#@\s]*)?$"
"""An HTTP URL without query, fragment or user, or nothing."""

Secret = Annotated[str, Field(exclude=True, repr=False)]
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
