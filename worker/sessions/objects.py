"""The interface of a place that stores sessions: named objects with conditional writes."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Literal, Protocol

from worker.sessions.records import Records

Addressing = Literal["path", "virtual"]
"""Where an S3 server expects a bucket's name: in the path, or in front of its host's."""

CHUNK = 1024 * 1024
"""Bytes read at a time when an object is streamed."""


class Objects(Records, Protocol):
    """Named objects: records, and larger ones that are streamed.

    Names are relative, `/`-separated, and checked by the caller. No reader ever sees part of an
    object. What was written is durable when the call returns, except after `write` and what
    concerns only workers that are alive (`slots/`, `workers/`). All methods raise StoreError.
    """

    def exists(self, name: str) -> bool:
        """Whether there is such an object."""
        ...

    def open(self, name: str) -> AbstractContextManager[Iterator[bytes]] | None:
        """Open the object as chunks of at most CHUNK bytes; None without one."""
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
