"""Small shared records in the store, beside the sessions; leases and the journal are made of them.

`sessions.objects.Objects` satisfies the Protocol; so does anything else that can compare and swap.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from worker.errors import StoreError

RECORD = 64 * 1024
"""The most bytes of one record."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A record's content, and the version that `replace` and `delete` compare. Every write that
    changes the content makes a new version."""

    content: bytes
    version: str


class Records(Protocol):
    """All raise StoreError. What was written is durable when the call returns."""

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
