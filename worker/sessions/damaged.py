"""What to do with a stored record that cannot be read: look again, then set it aside. Never delete.

damaged/seen/{name}             when the record was first found damaged, and what it held
damaged/kept/{name}~{digest}    a record that was set aside, to be brought back by hand

One look proves nothing: a gateway may have answered instead of the store. A record is set aside
only if it holds the same at a second look, SECOND_LOOK seconds later; until then it stays where it
is, and whoever needs it waits.
"""

import hashlib
from collections.abc import Iterator

from worker.errors import Unreadable
from worker.safety.untrusted import parse_object
from worker.sessions.records import Records, Stored

SECOND_LOOK = 180.0
"""Seconds between the first look and the one that sets a damaged record aside."""

STALE = 3600.0
"""Seconds after which a first look counts no more: in between, the record may have been whole."""

DAMAGED = "damaged/"
SEEN = f"{DAMAGED}seen/"
KEPT = f"{DAMAGED}kept/"

_MARK = 4096


def confirm_damage(records: Records, name: str, content: bytes, why: str, now: float) -> None:
    """Return if the record held the same at a first look at least SECOND_LOOK seconds ago.

    Otherwise remember this look and raise Unreadable. `now` is in epoch seconds. Raises StoreError.
    """
    mark, digest = f"{SEEN}{name}", _digest(content)
    stored = records.read(mark, _MARK)
    first = parse_object(stored.content) if stored else {}
    at = first.get("at")
    if not isinstance(at, int | float) or first.get("digest") != digest or now - at > STALE:
        fresh = b'{"at": %.1f, "digest": "%s"}' % (now, digest.encode())
        if stored is None:
            records.create(mark, fresh)
        else:
            records.replace(mark, fresh, stored.version)
        at = now
    if now - at < SECOND_LOOK:
        raise Unreadable(
            f"{records.describe_place(name)} is damaged ({why}): it is looked at again in "
            f"{SECOND_LOOK - now + at:.0f} s, and set aside only if it is the same then"
        )


def set_aside(records: Records, name: str, stored: Stored) -> None:
    """Move a record whose damage is confirmed to where `bring_back` finds it. Raises StoreError."""
    records.create(f"{KEPT}{name}~{_digest(stored.content)}", stored.content)
    records.delete(name, stored.version)
    forget_look(records, name)


def forget_look(records: Records, name: str) -> None:
    """Forget that a record was found damaged: it is whole, or gone. Raises StoreError."""
    records.delete(f"{SEEN}{name}")


def list_set_aside(records: Records, under: str = "") -> Iterator[str]:
    """Yield the names of the records that were set aside, as `bring_back` takes them; only those
    whose own name begins with `under`. Raises StoreError."""
    for name in records.list_names(f"{KEPT}{under}"):
        yield name.removeprefix(KEPT)


def bring_back(records: Records, kept: str, limit: int) -> bool:
    """Put a record that was set aside where it was, unless there is another one by now.

    Returns False if there is, or if nothing of this name was set aside. Raises StoreError.
    """
    stored = records.read(f"{KEPT}{kept}", limit)
    if stored is None or not records.create(kept.rpartition("~")[0], stored.content):
        return False
    records.delete(f"{KEPT}{kept}")
    return True


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
