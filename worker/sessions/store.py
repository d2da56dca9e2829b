"""The session store: its rules are the same over a folder and over a bucket.

`context.json` is a turn's commit point: it is created once, after everything else of the turn, and
never replaced. So a turn is committed once, and no trigger is lost or answered twice.
"""

import json
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from itertools import islice

from worker.conversation.context import SessionKey
from worker.errors import StoreError, TurnTaken
from worker.sessions import layout
from worker.sessions.checked import CheckedObjects
from worker.sessions.layout import INSTALLATION_KEY
from worker.sessions.objects import Objects, Stored, update_record
from worker.sessions.projects import KnownStore, Preferences
from worker.sessions.recent import RecentTurns
from worker.stored_keys import KEY, from_stored, pick_known, to_stored

MAX_CONTEXT = 64 * 1024 * 1024
"""Bytes of a `context.json`, `checkpoint.json` or `evidence.json`."""

_MAX_SMALL = 64 * 1024
_MAX_REASON = 1000
_WORKING = (layout.CHECKPOINT, layout.STOP)
_KEY = re.compile(rb"[0-9a-f]{64}")
_ROUNDS = 8  # a worker loses a round only if another one wins it


@dataclass(frozen=True, slots=True)
class Claim:
    """Who works on a turn, for which trigger, until when (epoch seconds). `fence` is how often the
    turn was taken over from a dead owner."""

    owner: str
    trigger_id: str
    expires_at: float = field(metadata={KEY: "until"})
    fence: int = 0

    def has_same_holder(self, other: "Claim") -> bool:
        """Whether both claims belong to one run; `expires_at` differs after a renewal."""
        return (self.owner, self.trigger_id) == (other.owner, other.trigger_id)


class SessionStore:
    """Stores sessions in `objects`, so that they outlive workers. All methods raise StoreError."""

    def __init__(self, objects: Objects, now: Callable[[], float] = time.time) -> None:
        self._objects: Objects = CheckedObjects(objects, now)

    @property
    def records(self) -> Objects:
        """The small records that all workers on this store share."""
        return self._objects

    @property
    def known_failures(self) -> KnownStore:
        """The known failures, stored beside the sessions."""
        return KnownStore(self._objects)

    @property
    def preferences(self) -> Preferences:
        """What people chose, stored beside the sessions."""
        return Preferences(self._objects)

    @property
    def recent_turns(self) -> RecentTurns:
        """The turns by time, stored beside the sessions."""
        return RecentTurns(self._objects)

    def find_session(self, session_id: str) -> SessionKey | None:
        """Find the key of a session by its id alone, or by a beginning that only it has."""
        start = layout.make_index_name(session_id)
        # Names are sorted, so a whole id comes before longer ids that begin with it.
        names = list(islice(self._objects.list_names(start), 2)) if start else []
        if len(names) == 2 and names[0] != start:
            raise StoreError(f"several session ids begin with {session_id}: give more of it")
        stored = self._objects.read(names[0], _MAX_SMALL) if names else None
        if stored is None:
            return None
        return layout.decode_pointer(names[0].removeprefix(layout.INDEX), stored.content)

    def list_sessions(
        self, project_id: int = 0, mr_iid: int = 0, branch: str = ""
    ) -> Iterator[SessionKey]:
        """List every stored session, or those of a project, merge request or branch (by its name in
        keys); also those whose first turn is not committed yet."""
        prefix, last = layout.make_sessions_prefix(project_id, mr_iid, branch), None
        for found in map(layout.parse_name, self._objects.list_names(prefix)):
            # The objects of one session are adjacent.
            if found and found.key != last:
                last = found.key
                yield last

    def find_latest_turn(self, key: SessionKey) -> int | None:
        """Find the highest turn that has a `context.json`, or None."""
        return max(self._list_turns_with(key, layout.CONTEXT), default=None)

    def find_last_change(self, key: SessionKey) -> float | None:
        """Find when the session's latest turn was committed, or else anything was last written, in
        epoch seconds; None if nothing was."""
        names = list(self._objects.list_names(layout.make_session_prefix(key)))
        commits = [name for name in names if name.endswith(f"/{layout.CONTEXT}")]
        times = [self._objects.find_modification_time(name) for name in commits[-1:] or names]
        return max((at for at in times if at is not None), default=None)

    def describe_location(self, key: SessionKey, turn: int) -> str:
        """Say where the turn's objects are stored, for a human."""
        return self._objects.describe_place(layout.make_turn_prefix(key, turn))

    # ------------------------------------------------------------------------- a turn's own objects

    def read_context(self, key: SessionKey, turn: int) -> bytes:
        """Read the committed `context.json` of a turn."""
        content = self._read(key, turn, layout.CONTEXT, MAX_CONTEXT)
        if content is None:
            place = self._objects.describe_place(
                layout.make_turn_prefix(key, turn) + layout.CONTEXT
            )
            raise StoreError(f"there is no {place}: the turn was not committed")
        return content

    def commit_turn(self, key: SessionKey, turn: int, context: bytes) -> None:
        """Write `context.json` if the turn has none. Raises TurnTaken if it has."""
        place = layout.make_turn_prefix(key, turn)
        self._check_size(place + layout.CONTEXT, context)
        self._write_index(key)
        if not self._objects.create(place + layout.CONTEXT, context):
            raise self._make_turn_taken(key, turn)
        # The turn is committed: an error in removing the checkpoint must not make it look failed.
        for leaf in _WORKING:
            with suppress(StoreError):
                self._objects.delete(place + leaf)

    def write_checkpoint(self, key: SessionKey, turn: int, context: bytes) -> None:
        """Keep the unfinished turn's context, until the next one or `commit_turn`."""
        name = layout.make_turn_prefix(key, turn) + layout.CHECKPOINT
        self._check_size(name, context)
        self._objects.write(name, context)

    def read_checkpoint(self, key: SessionKey, turn: int) -> bytes | None:
        """Read the unfinished turn's last checkpoint, or None."""
        return self._read(key, turn, layout.CHECKPOINT, MAX_CONTEXT)

    def remove_leftovers(self, key: SessionKey, turn: int) -> None:
        """Remove what is left by a worker that died right after `commit_turn`."""
        place = layout.make_turn_prefix(key, turn)
        found = set(self._objects.list_names(place))
        if place + layout.CONTEXT in found:
            # The claim may be in another place, which is not listed here.
            for leaf in (layout.CLAIM, *(leaf for leaf in _WORKING if place + leaf in found)):
                self._objects.delete(place + leaf)

    def open_files(
        self, key: SessionKey, turn: int
    ) -> AbstractContextManager[Iterator[bytes]] | None:
        """Open a turn's `sandbox.tar.gz` as chunks; None if it has none."""
        return self._objects.open(layout.make_turn_prefix(key, turn) + layout.FILES)

    def write_files(self, key: SessionKey, turn: int, chunks: Iterable[bytes]) -> int:
        """Store `sandbox.tar.gz` from a stream; return its bytes. Raises TurnTaken once the turn is
        committed, also during the upload."""

        def refuse_at_the_end() -> Iterator[bytes]:
            # An exception at the end of the stream makes the upload undo itself.
            yield from chunks
            self._refuse_committed(key, turn)

        self._refuse_committed(key, turn)
        name = layout.make_turn_prefix(key, turn) + layout.FILES
        return self._objects.upload(name, refuse_at_the_end())

    def write_evidence(self, key: SessionKey, turn: int, record: bytes) -> None:
        """Keep the evidence that proves quotes. Raises TurnTaken once the turn is committed."""
        name = layout.make_turn_prefix(key, turn) + layout.EVIDENCE
        self._check_size(name, record)
        self._refuse_committed(key, turn)
        self._objects.write(name, record)

    def read_evidence(self, key: SessionKey, turn: int) -> bytes | None:
        """Read the newest evidence that was kept in this turn or before, or None."""
        turns = [each for each in self._list_turns_with(key, layout.EVIDENCE) if each <= turn]
        return self._read(key, max(turns), layout.EVIDENCE, MAX_CONTEXT) if turns else None

    # --------------------------------------------------------------- who works on a turn, and stops

    def claim_turn(
        self, key: SessionKey, turn: int, claim: Claim, now: float, over: Claim | None = None
    ) -> Claim | None:
        """Take the turn for `claim.owner`; None on success, else the claim that holds it.

        A claim past its `expires_at` is taken over, and so is `over`, whose owner was found dead.
        A claim of the same owner and trigger is renewed. Atomic across workers.
        """
        name = layout.make_turn_prefix(key, turn) + layout.CLAIM
        content = json.dumps(to_stored(claim), sort_keys=True).encode()
        self._write_index(key)
        for _ in range(_ROUNDS):
            stored = self._objects.read(name, _MAX_SMALL)
            if stored is None:
                if self._objects.create(name, content):
                    return None
                continue
            held = self._decode_claim(name, stored)
            is_free = now >= held.expires_at or (over is not None and held.has_same_holder(over))
            if not is_free and not held.has_same_holder(claim):
                return held
            if self._objects.replace(name, content, stored.version):
                return None
        place = self._objects.describe_place(name)
        raise StoreError(f"too many workers contend for {place}", transient=True)

    def find_holder(self, key: SessionKey, turn: int, now: float) -> Claim | None:
        """Find the claim, not expired, of whoever works on the turn, or None."""
        name = layout.make_turn_prefix(key, turn) + layout.CLAIM
        stored = self._objects.read(name, _MAX_SMALL)
        held = self._decode_claim(name, stored) if stored else None
        return held if held and now < held.expires_at else None

    def release_turn(self, key: SessionKey, turn: int, claim: Claim) -> None:
        """Give up the turn, if `claim` still holds it."""
        name = layout.make_turn_prefix(key, turn) + layout.CLAIM
        stored = self._objects.read(name, _MAX_SMALL)
        if stored and self._decode_claim(name, stored).has_same_holder(claim):
            self._objects.delete(name, stored.version)

    def request_stop(self, key: SessionKey, turn: int, reason: str) -> None:
        """Ask whoever works on the turn to end it. The first reason is kept."""
        name = layout.make_turn_prefix(key, turn) + layout.STOP
        self._objects.create(name, reason[:_MAX_REASON].encode())

    def read_stop_reason(self, key: SessionKey, turn: int) -> str:
        """Read the reason given to `request_stop`, or ""."""
        return (self._read(key, turn, layout.STOP) or b"").decode("utf-8", "replace")

    # ------------------------------------------------------------- what came after a committed turn

    def write_aftermath(self, key: SessionKey, turn: int, after: bytes) -> None:
        """Keep what became of a committed turn's pipeline, as `after.json`. The first is kept."""
        name = layout.make_turn_prefix(key, turn) + layout.AFTER
        if len(after) > _MAX_SMALL:
            place = self._objects.describe_place(name)
            raise StoreError(f"{place} would be larger than {_MAX_SMALL} bytes")
        self._objects.create(name, after)

    def read_aftermath(self, key: SessionKey, turn: int) -> bytes | None:
        """Read what `write_aftermath` has kept, or None."""
        return self._read(key, turn, layout.AFTER)

    def read_feedback(self, key: SessionKey, turn: int) -> bytes | None:
        """Read what `change_feedback` has kept, or None."""
        return self._read(key, turn, layout.FEEDBACK)

    def change_feedback(
        self, key: SessionKey, turn: int, change: Callable[[bytes | None], bytes | None]
    ) -> None:
        """Replace a committed turn's `feedback.json` by what `change` returns, unless that is None.

        Atomic across workers: `change` is called again if another one was faster.
        """
        place = layout.make_turn_prefix(key, turn)

        def change_stored(votes: bytes | None) -> bytes | None:
            is_there = self._objects.exists(place + layout.CONTEXT)
            changed = change(votes) if is_there else None
            return votes if changed is None else changed

        update_record(self._objects, place + layout.FEEDBACK, change_stored, limit=_MAX_SMALL)

    def erase_session(self, key: SessionKey, before: int) -> None:
        """Remove all objects of a session except the commit of the turn `before` and its claim."""
        place = layout.make_turn_prefix(key, before) + layout.CONTEXT
        if not self._objects.exists(place):
            where = self._objects.describe_place(place)
            raise StoreError(f"there is no {where}: nothing was erased")
        for name in list(self._objects.list_names(layout.make_session_prefix(key))):
            found = layout.parse_name(name)
            if found and (found.turn < before or found.leaf not in (layout.CONTEXT, layout.CLAIM)):
                self._objects.delete(name)

    def remove_session(self, key: SessionKey) -> None:
        """Remove all objects of a session, its entry in the index first. The caller must hold its
        next turn."""
        names = list(self._objects.list_names(layout.make_session_prefix(key)))
        turns = {found.turn for found in map(layout.parse_name, names) if found}
        commits = [name for name in names if name.endswith(f"/{layout.CONTEXT}")]
        self._objects.delete(f"{layout.INDEX}{key.session_id}")
        # A claim may be in another place, which is not listed here.
        claims = [layout.make_turn_prefix(key, number) + layout.CLAIM for number in sorted(turns)]
        others = [name for name in names if name not in commits and name not in claims]
        for name in (*others, *commits, *claims):
            self._objects.delete(name)

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
        name = f"{layout.PROBE}{secrets.token_hex(8)}"

        def read_version(expected: bytes) -> str:
            stored = self._objects.read(name, _MAX_SMALL)
            if stored is None or stored.content != expected:
                raise self._make_odd(name, "does not hold what was written there")
            return stored.version

        try:
            if not self._objects.create(name, b"1"):
                raise self._make_odd(name, "exists before it is written")
            if self._objects.create(name, b"2"):
                read_version(b"2")
                return False
            version = read_version(b"1")
            if not self._objects.replace(name, b"3", version):
                return False
            if self._objects.replace(name, b"4", version):
                read_version(b"4")
                return False
            return True
        finally:
            with suppress(StoreError):
                self._objects.delete(name)

    def _make_odd(self, name: str, what: str) -> StoreError:
        ask = f"{what}: is the store up, and is it the store that answers?"
        return StoreError(f"{self._objects.describe_place(name)} {ask}", transient=True)

    def _read(self, key: SessionKey, turn: int, leaf: str, limit: int = _MAX_SMALL) -> bytes | None:
        stored = self._objects.read(layout.make_turn_prefix(key, turn) + leaf, limit)
        return stored.content if stored else None

    def _list_turns_with(self, key: SessionKey, leaf: str) -> list[int]:
        found = map(layout.parse_name, self._objects.list_names(layout.make_session_prefix(key)))
        return [each.turn for each in found if each and each.leaf == leaf]

    def _refuse_committed(self, key: SessionKey, turn: int) -> None:
        if self._objects.exists(layout.make_turn_prefix(key, turn) + layout.CONTEXT):
            raise self._make_turn_taken(key, turn)

    def _make_turn_taken(self, key: SessionKey, turn: int) -> TurnTaken:
        place = self._objects.describe_place(layout.make_turn_prefix(key, turn) + layout.CONTEXT)
        return TurnTaken(f"{place} exists: another worker committed this turn")

    def _check_size(self, name: str, content: bytes) -> None:
        if len(content) > MAX_CONTEXT:
            place = self._objects.describe_place(name)
            size = f"{len(content)} bytes, and more than {MAX_CONTEXT}"
            raise StoreError(f"{place} would have {size} are not stored")

    def _write_index(self, key: SessionKey) -> None:
        layout.make_session_prefix(key)  # raises StoreError for an invalid key
        self._objects.create(f"{layout.INDEX}{key.session_id}", layout.encode_pointer(key))

    def _decode_claim(self, name: str, stored: Stored) -> Claim:
        try:
            return from_stored(Claim, pick_known(Claim, json.loads(stored.content)))
        except (TypeError, ValueError, RecursionError) as error:
            place = self._objects.describe_place(name)
            raise StoreError(
                f"{place} is damaged ({error}): delete it to free the turn", doubtful=True
            ) from error
