"""The rules of the session store, which are the same for every place that it is in.

`context.json` is a turn's commit point: it is created once, after everything else of the turn, and
never replaced. So a turn is committed once, and no trigger is lost or answered twice.
"""

import json
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from itertools import islice

from worker.conversation.context import SessionKey
from worker.errors import StoreError, TurnTaken
from worker.sessions import keys
from worker.sessions.base import Claim
from worker.sessions.checked import CheckedObjects
from worker.sessions.known import KnownStore
from worker.sessions.object_names import INSTALLATION_KEY
from worker.sessions.objects import Objects
from worker.sessions.recent import RecentStore
from worker.sessions.records import Stored, update_record
from worker.stored_keys import from_stored, pick_known, to_stored

MAX_CONTEXT = 64 * 1024 * 1024
"""Bytes of a `context.json`, `checkpoint.json` or `evidence.json`."""

_MAX_SMALL = 64 * 1024
_MAX_REASON = 1000
_WORKING = (keys.CHECKPOINT, keys.STOP)
_KEY = re.compile(rb"[0-9a-f]{64}")
# A worker loses a round only if another one wins it, so a few rounds are enough.
_ROUNDS = 8


class Store:
    """See `sessions.base.SessionStore`."""

    def __init__(self, objects: Objects, now: Callable[[], float] = time.time) -> None:
        self._objects: Objects = CheckedObjects(objects, now)

    @property
    def known_failures(self) -> KnownStore:
        """The known failures, stored beside the sessions."""
        return KnownStore(self._objects)

    @property
    def recent_turns(self) -> RecentStore:
        """The turns by time, stored beside the sessions."""
        return RecentStore(self._objects)

    def find_latest_turn(self, key: SessionKey) -> int | None:
        """See SessionStore."""
        found = map(keys.parse_name, self._objects.list_names(keys.make_session_prefix(key)))
        return max(
            (each.turn for each in found if each and each.leaf == keys.CONTEXT), default=None
        )

    def read_context(self, key: SessionKey, turn: int) -> bytes:
        """See SessionStore."""
        name = keys.make_turn_prefix(key, turn) + keys.CONTEXT
        stored = self._objects.read(name, MAX_CONTEXT)
        if stored is None:
            raise StoreError(
                f"there is no {self._objects.describe_place(name)}: the turn was not committed"
            )
        return stored.content

    def open_files(
        self, key: SessionKey, turn: int
    ) -> AbstractContextManager[Iterator[bytes]] | None:
        """See SessionStore."""
        return self._objects.open(keys.make_turn_prefix(key, turn) + keys.FILES)

    def write_files(self, key: SessionKey, turn: int, chunks: Iterable[bytes]) -> int:
        """See SessionStore. Raises TurnTaken if the turn is committed, also during the upload."""
        self._refuse_committed(key, turn)
        return self._objects.upload(
            keys.make_turn_prefix(key, turn) + keys.FILES,
            self._refuse_if_committed(key, turn, chunks),
        )

    def write_evidence(self, key: SessionKey, turn: int, record: bytes) -> None:
        """See SessionStore."""
        name = keys.make_turn_prefix(key, turn) + keys.EVIDENCE
        self._check_size(name, record)
        self._refuse_committed(key, turn)
        self._objects.write(name, record)

    def read_evidence(self, key: SessionKey, turn: int) -> bytes | None:
        """See SessionStore."""
        found = map(keys.parse_name, self._objects.list_names(keys.make_session_prefix(key)))
        turns = [each.turn for each in found if each and each.leaf == keys.EVIDENCE]
        newest = max((number for number in turns if number <= turn), default=None)
        if newest is None:
            return None
        stored = self._objects.read(keys.make_turn_prefix(key, newest) + keys.EVIDENCE, MAX_CONTEXT)
        return stored.content if stored else None

    def commit_turn(self, key: SessionKey, turn: int, context: bytes) -> None:
        """See SessionStore."""
        place = keys.make_turn_prefix(key, turn)
        self._check_size(place + keys.CONTEXT, context)
        self._write_index(key)
        if not self._objects.create(place + keys.CONTEXT, context):
            raise self._make_turn_taken(key, turn)
        # The turn is committed: an error in removing the checkpoint must not make it look failed.
        for leaf in _WORKING:
            with suppress(StoreError):
                self._objects.delete(place + leaf)

    def remove_leftovers(self, key: SessionKey, turn: int) -> None:
        """See SessionStore."""
        place = keys.make_turn_prefix(key, turn)
        found = set(self._objects.list_names(place))
        if place + keys.CONTEXT in found:
            # The claim may be in another place, which is not listed here.
            for leaf in (keys.CLAIM, *(leaf for leaf in _WORKING if place + leaf in found)):
                self._objects.delete(place + leaf)

    @property
    def records(self) -> Objects:
        """See SessionStore."""
        return self._objects

    def claim_turn(
        self, key: SessionKey, turn: int, claim: Claim, now: float, over: Claim | None = None
    ) -> Claim | None:
        """See SessionStore. A claim of the same owner and trigger is renewed."""
        name = keys.make_turn_prefix(key, turn) + keys.CLAIM
        self._write_index(key)
        for _ in range(_ROUNDS):
            stored = self._objects.read(name, _MAX_SMALL)
            if stored is None:
                if self._objects.create(name, _encode_claim(claim)):
                    return None
                continue
            held = self._decode_claim(name, stored)
            free = now >= held.expires_at or (over is not None and _have_same_holder(held, over))
            if not free and not _have_same_holder(held, claim):
                return held
            if self._objects.replace(name, _encode_claim(claim), stored.version):
                return None
        raise StoreError(
            f"too many workers contend for {self._objects.describe_place(name)}", transient=True
        )

    def release_turn(self, key: SessionKey, turn: int, claim: Claim) -> None:
        """See SessionStore."""
        name = keys.make_turn_prefix(key, turn) + keys.CLAIM
        stored = self._objects.read(name, _MAX_SMALL)
        if stored and _have_same_holder(self._decode_claim(name, stored), claim):
            self._objects.delete(name, stored.version)

    def find_holder(self, key: SessionKey, turn: int, now: float) -> Claim | None:
        """See SessionStore."""
        name = keys.make_turn_prefix(key, turn) + keys.CLAIM
        stored = self._objects.read(name, _MAX_SMALL)
        held = self._decode_claim(name, stored) if stored else None
        return held if held and now < held.expires_at else None

    def request_stop(self, key: SessionKey, turn: int, reason: str) -> None:
        """See SessionStore."""
        self._objects.create(
            keys.make_turn_prefix(key, turn) + keys.STOP, reason[:_MAX_REASON].encode()
        )

    def read_stop_reason(self, key: SessionKey, turn: int) -> str:
        """See SessionStore."""
        stored = self._objects.read(keys.make_turn_prefix(key, turn) + keys.STOP, _MAX_SMALL)
        return stored.content.decode("utf-8", "replace") if stored else ""

    def write_aftermath(self, key: SessionKey, turn: int, after: bytes) -> None:
        """See SessionStore."""
        name = keys.make_turn_prefix(key, turn) + keys.AFTER
        if len(after) > _MAX_SMALL:
            raise StoreError(
                f"{self._objects.describe_place(name)} would be larger than {_MAX_SMALL} bytes"
            )
        self._objects.create(name, after)

    def read_aftermath(self, key: SessionKey, turn: int) -> bytes | None:
        """See SessionStore."""
        stored = self._objects.read(keys.make_turn_prefix(key, turn) + keys.AFTER, _MAX_SMALL)
        return stored.content if stored else None

    def read_feedback(self, key: SessionKey, turn: int) -> bytes | None:
        """See SessionStore."""
        stored = self._objects.read(keys.make_turn_prefix(key, turn) + keys.FEEDBACK, _MAX_SMALL)
        return stored.content if stored else None

    def change_feedback(
        self, key: SessionKey, turn: int, change: Callable[[bytes | None], bytes | None]
    ) -> None:
        """See SessionStore."""
        place = keys.make_turn_prefix(key, turn)

        def change_stored(votes: bytes | None) -> bytes | None:
            is_there = self._objects.exists(place + keys.CONTEXT)
            changed = change(votes) if is_there else None
            return votes if changed is None else changed

        update_record(self._objects, place + keys.FEEDBACK, change_stored, limit=_MAX_SMALL)

    def erase_session(self, key: SessionKey, before: int) -> None:
        """See SessionStore."""
        place = keys.make_turn_prefix(key, before) + keys.CONTEXT
        if not self._objects.exists(place):
            raise StoreError(
                f"there is no {self._objects.describe_place(place)}: nothing was erased"
            )
        for name in list(self._objects.list_names(keys.make_session_prefix(key))):
            found = keys.parse_name(name)
            if found and (found.turn < before or found.leaf not in (keys.CONTEXT, keys.CLAIM)):
                self._objects.delete(name)

    def find_last_change(self, key: SessionKey) -> float | None:
        """See SessionStore."""
        names = list(self._objects.list_names(keys.make_session_prefix(key)))
        commits = [name for name in names if name.endswith(f"/{keys.CONTEXT}")]
        times = [self._objects.find_modification_time(name) for name in commits[-1:] or names]
        return max((at for at in times if at is not None), default=None)

    def remove_session(self, key: SessionKey) -> None:
        """See SessionStore. The index entry is removed first."""
        names = list(self._objects.list_names(keys.make_session_prefix(key)))
        turns = {found.turn for found in map(keys.parse_name, names) if found}
        commits = [name for name in names if name.endswith(f"/{keys.CONTEXT}")]
        self._objects.delete(f"index/{key.session_id}")
        # A claim may be in another place, which is not listed here.
        claims_of = [keys.make_turn_prefix(key, number) + keys.CLAIM for number in sorted(turns)]
        others = [name for name in names if name not in commits and name not in claims_of]
        for name in (*others, *commits, *claims_of):
            self._objects.delete(name)

    def write_checkpoint(self, key: SessionKey, turn: int, context: bytes) -> None:
        """See SessionStore."""
        name = keys.make_turn_prefix(key, turn) + keys.CHECKPOINT
        self._check_size(name, context)
        self._objects.write(name, context)

    def read_checkpoint(self, key: SessionKey, turn: int) -> bytes | None:
        """See SessionStore."""
        stored = self._objects.read(keys.make_turn_prefix(key, turn) + keys.CHECKPOINT, MAX_CONTEXT)
        return stored.content if stored else None

    def find_session(self, session_id: str) -> SessionKey | None:
        """See SessionStore. Raises StoreError for a prefix that several ids have."""
        start = keys.make_index_name(session_id)
        # Names are sorted, so a whole id comes before longer ids that begin with it.
        names = list(islice(self._objects.list_names(start), 2)) if start else []
        if len(names) == 2 and names[0] != start:
            raise StoreError(f"several session ids begin with {session_id}: give more of it")
        return self._read_index(names[0]) if names else None

    def list_sessions(self, project_id: int = 0, mr_iid: int = 0) -> Iterator[SessionKey]:
        """See SessionStore. A session whose first turn is not committed yet is included."""
        last = None
        for name in self._objects.list_names(keys.make_merge_request_prefix(project_id, mr_iid)):
            found = keys.parse_name(name)
            # The objects of one session are adjacent.
            if found and found.key != last:
                last = found.key
                yield last

    def read_installation_key(self) -> str:
        """Return the secret key of everything that shares this store; the first caller makes it.

        Callers that come at once get the same one. Raises StoreError, also if it is damaged: with
        another one, every link to a page would be dead.
        """
        stored = self._objects.read(INSTALLATION_KEY, _MAX_SMALL)
        if stored is None:
            self._objects.create(INSTALLATION_KEY, secrets.token_hex(32).encode())
            # Whoever was first has made it; the store has the last word on who that was.
            stored = self._objects.read(INSTALLATION_KEY, _MAX_SMALL)
        if stored is None or not _KEY.fullmatch(stored.content):
            place = self._objects.describe_place(INSTALLATION_KEY)
            raise StoreError(
                f"{place} is no key of 64 hex digits: restore it, or delete it, and earlier links "
                "to sessions are dead",
                transient=True,
            )
        return stored.content.decode()

    def describe_location(self, key: SessionKey, turn: int) -> str:
        """See SessionStore."""
        return self._objects.describe_place(keys.make_turn_prefix(key, turn))

    def probe(self) -> None:
        """Raise StoreError unless the store takes writes and honours their conditions.

        Many S3-compatible stores ignore conditions; then two workers could own one turn.
        """
        if not self.honours_conditions():
            raise StoreError(
                f"{self._objects.describe_place('')} ignores conditional writes (If-None-Match, "
                "If-Match), so two workers could commit the same turn: use a store that honours "
                "them, or redis:// as the broker, which then keeps the claims"
            )

    def honours_conditions(self) -> bool:
        """Whether the store honours the conditions of writes. Raises StoreError.

        It does not only if what a refused write should have left alone is seen to be overwritten:
        whatever answers in the place of a store that is away proves nothing about the store.
        """
        name = f"probe/{secrets.token_hex(8)}"
        try:
            if not self._objects.create(name, b"1"):
                raise self._make_odd(name, "exists before it is written")
            if self._objects.create(name, b"2"):
                self._read_probe(name, b"2")
                return False
            version = self._read_probe(name, b"1")
            if not self._objects.replace(name, b"3", version):
                return False
            if self._objects.replace(name, b"4", version):
                self._read_probe(name, b"4")
                return False
            return True
        finally:
            with suppress(StoreError):
                self._objects.delete(name)

    def _read_probe(self, name: str, expected: bytes) -> str:
        """Return the version of an object. Raises StoreError unless it is as it was written."""
        stored = self._objects.read(name, _MAX_SMALL)
        if stored is None or stored.content != expected:
            raise self._make_odd(name, "does not hold what was written there")
        return stored.version

    def _make_odd(self, name: str, what: str) -> StoreError:
        place = self._objects.describe_place(name)
        return StoreError(f"{place} {what}: is the store up, and is it the store that answers?",
                          transient=True)  # fmt: skip

    def _refuse_committed(self, key: SessionKey, turn: int) -> None:
        if self._objects.exists(keys.make_turn_prefix(key, turn) + keys.CONTEXT):
            raise self._make_turn_taken(key, turn)

    def _refuse_if_committed(
        self, key: SessionKey, turn: int, chunks: Iterable[bytes]
    ) -> Iterator[bytes]:
        # An exception at the end of the stream makes the upload undo itself.
        yield from chunks
        self._refuse_committed(key, turn)

    def _make_turn_taken(self, key: SessionKey, turn: int) -> TurnTaken:
        place = self._objects.describe_place(keys.make_turn_prefix(key, turn) + keys.CONTEXT)
        return TurnTaken(f"{place} exists: another worker committed this turn")

    def _check_size(self, name: str, content: bytes) -> None:
        if len(content) > MAX_CONTEXT:
            raise StoreError(
                f"{self._objects.describe_place(name)} would have {len(content)} bytes, "
                f"and more than {MAX_CONTEXT} are not stored"
            )

    def _write_index(self, key: SessionKey) -> None:
        keys.make_session_prefix(key)
        self._objects.create(f"index/{key.session_id}", keys.encode_pointer(key))

    def _read_index(self, name: str) -> SessionKey | None:
        stored = self._objects.read(name, _MAX_SMALL)
        if stored is None:
            return None
        return keys.decode_pointer(name.removeprefix("index/"), stored.content)

    def _decode_claim(self, name: str, stored: Stored) -> Claim:
        try:
            return from_stored(Claim, pick_known(Claim, json.loads(stored.content)))
        except (TypeError, ValueError, RecursionError) as error:
            place = self._objects.describe_place(name)
            raise StoreError(
                f"{place} is damaged ({error}): delete it to free the turn", doubtful=True
            ) from error


def _encode_claim(claim: Claim) -> bytes:
    return json.dumps(to_stored(claim), sort_keys=True).encode()


def _have_same_holder(one: Claim, other: Claim) -> bool:
    """Whether both claims belong to one run; `expires_at` differs after a renewal."""
    return (one.owner, one.trigger_id) == (other.owner, other.trigger_id)
