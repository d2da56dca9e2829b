"""Sends an answer back to a model: verbatim to the one that gave it, rebuilt to any other."""

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from worker.conversation.messages import Assistant

T = TypeVar("T")


def encode_answer(
    origin: str,
    copy: Callable[[Assistant, str], T | None],
    rebuild: Callable[[Assistant], T],
    message: Assistant,
    bare: bool,
) -> T:
    """Return the copy of the wire form if the model `origin` gave the answer and it is not to be
    `bare`; else, and if `copy` returns nothing or raises ValueError, the rebuilt answer."""
    if not bare and message.wire is not None and message.wire.origin == origin:
        with suppress(ValueError):
            if copied := copy(message, message.wire.content):
                return copied
    return rebuild(message)
