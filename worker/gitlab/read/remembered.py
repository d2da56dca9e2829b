"""What was asked of GitLab is not asked again by the same thread, for some seconds: the parts of a
job that ask before an analysis begins need the same answers."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Answered = tuple[Any, bool]
"""A JSON value, and whether the list goes on."""

MOST_REMEMBERED = 64

_remembered: ContextVar[dict[str, Answered] | None] = ContextVar("remembered", default=None)


@contextmanager
def remember_answers() -> Iterator[None]:
    """Let no question be asked twice by this thread until the block ends, or until
    `forget_answers`."""
    token = _remembered.set({})
    try:
        yield
    finally:
        _remembered.reset(token)


def forget_answers() -> None:
    """Ask GitLab again from now on."""
    _remembered.set(None)


def get_remembered() -> dict[str, Answered] | None:
    """Return the answers by their questions; None if nothing is remembered now."""
    return _remembered.get()
