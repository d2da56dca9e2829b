"""The interface of a place that stores sessions: named objects with conditional writes."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

CHUNK = 1024 * 1024
"""Bytes read at a time when an object is streamed."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An object's content, and the version that `replace` and `delete` compare."""

    content: bytes
    version: str


class Objects(Protocol):
    """Named objects. Names are relative, `/`-separated, and checked by the caller.

    No reader ever sees part of an object. What was written is durable when the call returns, except
    after `write`. All methods raise StoreError.
    """

    def exists(self, name: str) -> bool:
        """Whether there is such an object."""
        ...

    def find_modification_time(self, name: str) -> float | None:
        """Return the last write's time in the store's epoch seconds; None without an object."""
        ...

    def read(self, name: str, limit: int) -> Stored | None:
        """Read the object; None without one. More than `limit` bytes is a StoreError."""
        ...

    def create(self, name: str, content: bytes) -> bool:
        """Write an object that must not exist; False if it does. One of many callers wins."""
        ...

    def replace(self, name: str, content: bytes, version: str) -> bool:
        """Write an object that must still have `version`; False if it has not, or is gone."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Write an object whether it exists or not.

        For objects that are replaced often. They outlive the worker, but may be damaged or lost if
        the host loses power, so their readers must detect that and do without them.
        """
        ...

    def upload(self, name: str, chunks: Iterable[bytes]) -> int:
        """Write an object from a stream, in constant memory. Returns its size in bytes.

        An exception of `chunks` is passed on, and nothing is written.
        """
        ...

    def open(self, name: str) -> AbstractContextManager[Iterator[bytes]] | None:
        """Open the object as chunks of at most CHUNK bytes; None without one."""
        ...

    def delete(self, name: str, version: str | None = None) -> None:
        """Remove an object if it exists and, if `version` is given, still has that version."""
        ...

    def list_names(self, prefix: str) -> Iterator[str]:
        """Yield all names that begin with `prefix`, sorted; the store is read lazily."""
        ...

    def describe_place(self, name: str) -> str:
        """Describe for a human where the object is."""
        ...
