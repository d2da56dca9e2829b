"""What a place must offer to hold sessions: named objects with conditional writes."""

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
    """All raise StoreError. Names are relative, `/`-separated, and checked by the caller.

    Nobody ever sees half an object, and what was written is durable when the call returns. The one
    exception is `write`.
    """

    def exists(self, name: str) -> bool:
        """Whether there is such an object."""
        ...

    def modified(self, name: str) -> float | None:
        """When the object was last written, in epoch seconds of the store; None without one."""
        ...

    def read(self, name: str, limit: int) -> Stored | None:
        """The object, or None. More than `limit` bytes is a StoreError."""
        ...

    def create(self, name: str, content: bytes) -> bool:
        """Write an object that must not exist; False if it does. One of many callers wins."""
        ...

    def replace(self, name: str, content: bytes, version: str) -> bool:
        """Write an object that must still be at `version`; False if it is not, or is gone."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Write an object whether it exists or not.

        For what is replaced all the time: it outlives the worker, but a host that loses power may
        leave it torn or forget it, so whoever reads it must be able to tell and do without.
        """
        ...

    def upload(self, name: str, chunks: Iterable[bytes]) -> int:
        """The same from a stream, in constant memory. Returns its bytes.

        What `chunks` raises is passed on, and nothing is written.
        """
        ...

    def open(self, name: str) -> AbstractContextManager[Iterator[bytes]] | None:
        """The object as chunks of at most CHUNK bytes, or None."""
        ...

    def delete(self, name: str, version: str | None = None) -> None:
        """Remove an object if it is there and, where given, still at `version`."""
        ...

    def names(self, prefix: str) -> Iterator[str]:
        """All names that begin with `prefix`, sorted; read as far as it is consumed."""
        ...

    def place(self, name: str) -> str:
        """Where the object lies, for a human."""
        ...
