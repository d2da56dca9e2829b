"""The rules of the session store, the same for every place that holds it (laws 9 and 10).

`context.json` is a turn's commit point: created once, never replaced. Everything else of a turn
comes before it.
"""

import secrets
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from itertools import islice
from typing import TYPE_CHECKING

from worker.core.ports import Claim, SessionKey
from worker.errors import StoreError, TurnTaken
from worker.sessions import claims, keys
from worker.sessions.objects import Objects, Stored

MAX_CONTEXT = 64 * 1024 * 1024
"""Bytes of a `context.json` or `checkpoint.json`."""

_MAX_SMALL = 64 * 1024
_MAX_REASON = 1000
# Each round is lost only to a worker that won it, so a handful is plenty.
_ROUNDS = 8


class Store:
    """See `core.ports.SessionStore`."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def latest(self, key: SessionKey) -> int | None:
        """See SessionStore."""
        found = map(keys.parse, self._objects.names(keys.session(key)))
        return max(
            (each.turn for each in found if each and each.leaf == keys.CONTEXT), default=None
        )

    def read_context(self, key: SessionKey, turn: int) -> bytes:
        """See SessionStore."""
        name = keys.turn(key, turn) + keys.CONTEXT
        stored = self._objects.read(name, MAX_CONTEXT)
        if stored is None:
            raise StoreError(f"there is no {self._objects.place(name)}: the turn was not committed")
        return stored.content

    def open_files(
        self, key: SessionKey, turn: int
    ) -> AbstractContextManager[Iterator[bytes]] | None:
        """See SessionStore."""
        return self._objects.open(keys.turn(key, turn) + keys.FILES)

    def write_files(self, key: SessionKey, turn: int, chunks: Iterable[bytes]) -> int:
        """See SessionStore. Raises TurnTaken for a turn that is committed, also meanwhile."""
        self._refuse_committed(key, turn)
        return self._objects.upload(
            keys.turn(key, turn) + keys.FILES, self._unless_committed(key, turn, chunks)
        )

    def commit(self, key: SessionKey, turn: int, context: bytes) -> None:
        """See SessionStore."""
        place = keys.turn(key, turn)
        self._check_size(place + keys.CONTEXT, context)
        self._index(key)
        if not self._objects.create(place + keys.CONTEXT, context):
            raise self._taken(key, turn)
        # The turn is committed: a checkpoint that stays behind must not make it look failed.
        for leaf in (keys.CHECKPOINT, keys.STOP):
            with suppress(StoreError):
                self._objects.delete(place + leaf)

    def claim(self, key: SessionKey, turn: int, claim: Claim, now: float) -> Claim | None:
        """See SessionStore. A claim of the same owner and trigger is renewed."""
        name = keys.turn(key, turn) + keys.CLAIM
        self._index(key)
        for _ in range(_ROUNDS):
            stored = self._objects.read(name, _MAX_SMALL)
            if stored is None:
                if self._objects.create(name, claims.encode(claim)):
                    return None
                continue
            held = self._decode(name, stored)
            if not claims.same_holder(held, claim) and now < held.until:
                return held
            if self._objects.replace(name, claims.encode(claim), stored.version):
                return None
        raise StoreError(
            f"too many workers contend for {self._objects.place(name)}", transient=True
        )

    def release(self, key: SessionKey, turn: int, claim: Claim) -> None:
        """See SessionStore."""
        name = keys.turn(key, turn) + keys.CLAIM
        stored = self._objects.read(name, _MAX_SMALL)
        if stored and claims.same_holder(self._decode(name, stored), claim):
            self._objects.delete(name, stored.version)

    def holder(self, key: SessionKey, turn: int, now: float) -> Claim | None:
        """See SessionStore."""
        name = keys.turn(key, turn) + keys.CLAIM
        stored = self._objects.read(name, _MAX_SMALL)
        held = self._decode(name, stored) if stored else None
        return held if held and now < held.until else None

    def stop(self, key: SessionKey, turn: int, reason: str) -> None:
        """See SessionStore."""
        self._objects.create(keys.turn(key, turn) + keys.STOP, reason[:_MAX_REASON].encode())

    def stopped(self, key: SessionKey, turn: int) -> str:
        """See SessionStore."""
        stored = self._objects.read(keys.turn(key, turn) + keys.STOP, _MAX_SMALL)
        return stored.content.decode("utf-8", "replace") if stored else ""

    def erase(self, key: SessionKey, before: int) -> None:
        """See SessionStore."""
        place = keys.turn(key, before) + keys.CONTEXT
        if not self._objects.exists(place):
            raise StoreError(f"there is no {self._objects.place(place)}: nothing was erased")
        for name in list(self._objects.names(keys.session(key))):
            found = keys.parse(name)
            if found and found.turn < before:
                self._objects.delete(name)

    def checkpoint(self, key: SessionKey, turn: int, context: bytes) -> None:
        """See SessionStore."""
        name = keys.turn(key, turn) + keys.CHECKPOINT
        self._check_size(name, context)
        self._objects.write(name, context)

    def read_checkpoint(self, key: SessionKey, turn: int) -> bytes | None:
        """See SessionStore."""
        stored = self._objects.read(keys.turn(key, turn) + keys.CHECKPOINT, MAX_CONTEXT)
        return stored.content if stored else None

    def find(self, session_id: str) -> SessionKey | None:
        """See SessionStore. A beginning that fits several ids is a StoreError."""
        start = keys.index(session_id)
        # Names come sorted, so a whole id stands before the longer ones it is the beginning of.
        names = list(islice(self._objects.names(start), 2)) if start else []
        if len(names) == 2 and names[0] != start:
            raise StoreError(f"several session ids begin with {session_id}: give more of it")
        return self._follow(names[0]) if names else None

    def sessions(self, project_id: int = 0, mr_iid: int = 0) -> Iterator[SessionKey]:
        """See SessionStore. One whose first turn is not committed yet counts."""
        last = None
        for name in self._objects.names(keys.merge_request(project_id, mr_iid)):
            found = keys.parse(name)
            # The objects of one session are neighbours.
            if found and found.key != last:
                last = found.key
                yield last

    def location(self, key: SessionKey, turn: int) -> str:
        """See SessionStore."""
        return self._objects.place(keys.turn(key, turn))

    def probe(self) -> None:
        """Raise StoreError unless the store takes writes and honours their conditions.

        Many S3-compatible stores ignore them (wire-misc 3); then two workers could own one turn.
        """
        name = f"probe/{secrets.token_hex(8)}"
        try:
            kept = self._objects.create(name, b"1") and self._honours_conditions(name)
        except StoreError:
            with suppress(StoreError):
                self._objects.delete(name)
            raise
        self._objects.delete(name)
        if not kept:
            raise StoreError(
                f"{self._objects.place('')} ignores conditional writes (If-None-Match, If-Match), "
                "so two workers could commit the same turn: use a store that honours them"
            )

    def _honours_conditions(self, name: str) -> bool:
        if self._objects.create(name, b"2"):
            return False
        stored = self._objects.read(name, _MAX_SMALL)
        if stored is None or not self._objects.replace(name, b"3", stored.version):
            return False
        return not self._objects.replace(name, b"4", stored.version)

    def _refuse_committed(self, key: SessionKey, turn: int) -> None:
        if self._objects.exists(keys.turn(key, turn) + keys.CONTEXT):
            raise self._taken(key, turn)

    def _unless_committed(
        self, key: SessionKey, turn: int, chunks: Iterable[bytes]
    ) -> Iterator[bytes]:
        # Raising at the end of the stream is what makes the upload undo itself.
        yield from chunks
        self._refuse_committed(key, turn)

    def _taken(self, key: SessionKey, turn: int) -> TurnTaken:
        place = self._objects.place(keys.turn(key, turn) + keys.CONTEXT)
        return TurnTaken(f"{place} exists: another worker committed this turn")

    def _check_size(self, name: str, content: bytes) -> None:
        if len(content) > MAX_CONTEXT:
            raise StoreError(
                f"{self._objects.place(name)} would have {len(content)} bytes, "
                f"and more than {MAX_CONTEXT} are not stored"
            )

    def _index(self, key: SessionKey) -> None:
        keys.session(key)
        self._objects.create(f"index/{key.session_id}", keys.pointer(key))

    def _follow(self, name: str) -> SessionKey | None:
        stored = self._objects.read(name, _MAX_SMALL)
        if stored is None:
            return None
        key = keys.follow(name.removeprefix("index/"), stored.content)
        if key is None:
            raise StoreError(f"{self._objects.place(name)} is damaged: it should be PROJECT/IID")
        return key

    def _decode(self, name: str, stored: Stored) -> Claim:
        try:
            return claims.decode(stored.content)
        except (ValueError, OverflowError, RecursionError) as error:
            place = self._objects.place(name)
            raise StoreError(f"{place} is damaged ({error}): delete it to free the turn") from error


if TYPE_CHECKING:
    from worker.core.ports import SessionStore

    def _conforms(store: Store) -> SessionStore:
        return store
