"""The interface of a place that stores sessions: named objects with conditional writes.

Small objects are records, which all workers share; leases and the journal are made of them.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from worker.errors import StoreError

Addressing = Literal["path", "virtual"]
"""Where an S3 server expects a bucket's name: in the path, or in front of its host's."""

CHUNK = 1024 * 1024
"""Bytes read at a time when an object is streamed."""

RECORD = 64 * 1024
"""The most bytes of one record."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A record's content, and the version that `replace` and `delete` compare. Every write that
    changes the content makes a new version."""

    content: bytes
    version: str


class Records(Protocol):
    """Small objects that can be compared and swapped.

    What was written is durable when the call returns. All methods raise StoreError.
    """

    def read(self, name: str, limit: int) -> Stored | None:
        """Read the record; None without one. More than `limit` bytes is a StoreError."""
        ...

    def create(self, name: str, content: bytes) -> bool:
        """Write a record that must not exist; False if it does. Of many callers, one succeeds."""
        ...

    def replace(self, name: str, content: bytes, version: str) -> bool:
        """Write a record that must still have `version`; False if it does not, or is gone."""
        ...

    def delete(self, name: str, version: str | None = None) -> None:
        """Remove a record if it is there and, if `version` is given, still has that version."""
        ...

    def find_modification_time(self, name: str) -> float | None:
        """Find when the record was last written, in the store's epoch seconds; None if there is
        none."""
        ...

    def list_names(self, prefix: str) -> Iterator[str]:
        """Yield all names that begin with `prefix`, sorted; the store is read lazily."""
        ...

    def describe_place(self, name: str) -> str:
        """Say where the record is stored, for a human."""
        ...


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


def update_record(
    records: Records,
    name: str,
    change: Callable[[bytes | None], bytes | None],
    *,
    limit: int = RECORD,
    rounds: int = 8,
    wait: Callable[[], None] = lambda: None,
) -> None:
    """Replace a record by the result of `change`; None stands for no record.

    Atomic across workers: if another one was faster, `change` is called again after `wait`. Raises
    StoreError, also if the record would be larger than `limit` bytes.
    """
    for _ in range(rounds):
        stored = records.read(name, limit)
        content = change(stored.content if stored else None)
        if content is not None and len(content) > limit:
            raise StoreError(f"{records.describe_place(name)} would be larger than {limit} bytes")
        if _try_write(records, name, stored, content):
            return
        wait()
    raise StoreError(f"too many workers contend for {records.describe_place(name)}", transient=True)


def _try_write(records: Records, name: str, stored: Stored | None, content: bytes | None) -> bool:
    """Write `content`; False if the record has changed since it was read as `stored`."""
    if stored is None:
        return content is None or records.create(name, content)
    if content is None:
        records.delete(name, stored.version)
        return records.find_modification_time(name) is None
    return stored.content == content or records.replace(name, content, stored.version)
