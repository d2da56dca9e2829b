"""Small shared records: what leases and the journal are made of, in the store beside the sessions.

`sessions.objects.Objects` satisfies the Protocol; so does whatever else can compare and swap.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

from worker.errors import StoreError

RECORD = 64 * 1024
"""Bytes of one record at most."""


class Stored(Protocol):
    """A record's content, and the version that `replace` compares."""

    @property
    def content(self) -> bytes:
        """Its bytes."""
        ...

    @property
    def version(self) -> str:
        """Another one after every write that changed the content."""
        ...


class Records(Protocol):
    """All raise StoreError. What was written is durable when the call returns."""

    def read(self, name: str, limit: int) -> Stored | None:
        """The record, or None."""
        ...

    def create(self, name: str, content: bytes) -> bool:
        """Write a record that must not exist; False if it does. One of many callers wins."""
        ...

    def replace(self, name: str, content: bytes, version: str) -> bool:
        """Write a record that must still be at `version`; False if it is not, or is gone."""
        ...

    def delete(self, name: str) -> None:
        """Remove a record if it is there."""
        ...

    def find_modification_time(self, name: str) -> float | None:
        """Find when the record was last written, in the store's epoch seconds; None if there is
        none."""
        ...

    def names(self, prefix: str) -> Iterator[str]:
        """All names that begin with `prefix`, sorted."""
        ...

    def place(self, name: str) -> str:
        """Where the record lies, for a human."""
        ...


def update_record(
    records: Records,
    name: str,
    change: Callable[[bytes | None], bytes],
    *,
    rounds: int = 8,
    wait: Callable[[], None] = lambda: None,
) -> None:
    """Replace a record by what `change` makes of it; None stands for no record.

    Atomic against every other worker: `change` is asked again after `wait`, if another was faster.
    Raises StoreError.
    """
    for _ in range(rounds):
        stored = records.read(name, RECORD)
        content = change(stored.content if stored else None)
        if stored is None:
            if records.create(name, content):
                return
        elif stored.content == content or records.replace(name, content, stored.version):
            return
        wait()
    raise StoreError(f"too many contend for {records.place(name)}", transient=True)
