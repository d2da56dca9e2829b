"""Who is alive, and who works on what.

A worker keeps one record, `workers/{name}.json`, that changes with every heartbeat. All that it
holds (claims on turns, running triggers) names the worker, so one small write keeps any number of
sessions alive. Others judge it by their own monotonic clock: a record that they have seen unchanged
for `lease` seconds is replaced and removed, and who held it is dead. Clocks that differ do no harm,
because no time of another machine is ever compared.

A worker whose record was taken away finds out at its next heartbeat, and at the latest before it
posts or commits: `Lease.confirm` beats there and then. Each take-over of a turn raises the fencing
number of its claim.
"""

import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from secrets import token_hex

from worker.core.ports import Claim, Clock, SessionKey, SessionStore
from worker.core.records import RECORD
from worker.errors import HandedOver, LeaseLost, StoreError
from worker.queue.heartbeat import BURIED, FOLDER, Presence

log = logging.getLogger("sandpiper.leases")

BEAT = 8.0
"""Seconds between two heartbeats, and between two looks at the others'."""

LEASE = 30.0
"""Seconds without a heartbeat after which a worker is dead to those who watched."""

OUTAGE = 180.0
OUTAGE_PAUSE = 3.0
"""Seconds for which a finished run waits for a store that is away, and between its attempts."""

BACKSTOP = 86_400.0
"""Seconds after which a claim falls by the clock alone, whoever seems to hold it."""


TIMER = "timer"
"""Stands for the worker itself where it has promised to do something later."""


class Lease:
    """A turn of a session that is ours as long as our worker is alive."""

    def __init__(
        self, key: SessionKey, turn: int, claim: Claim, presence: Presence, leases: "Leases"
    ) -> None:
        self.key, self.turn, self.claim = key, turn, claim
        self._presence, self._leases = presence, leases

    @property
    def taken_over(self) -> bool:
        """Whether another run held the turn before and died."""
        return self.claim.fence > 0

    def check(self) -> None:
        """Before a step's result is kept. Raises LeaseLost; StoreError where it cannot be known.

        The store is asked only if the heart has been still for too long.
        """
        if self._presence.age() > self._leases.lease / 2:
            self.confirm()
        if self._presence.lost:
            raise LeaseLost(f"session {self.key.session_id}: another worker has taken over")

    def sure(self) -> bool:
        """Whether nobody can have taken over by now, as far as is known without asking anybody."""
        return not self._presence.lost and self._presence.age() <= self._leases.lease / 2

    def confirm(self) -> None:
        """Before anything is posted or committed: the same, and the store is always asked."""
        self.patiently(self._presence.beat)
        if self._presence.lost:
            raise LeaseLost(f"session {self.key.session_id}: another worker has taken over")

    def patiently(self, task: Callable[[], None]) -> None:
        """`task`, again and again while the store is away, for OUTAGE seconds: work that is done
        is not thrown away for that. Raises what it raises then."""
        until = self._leases.clock.monotonic() + OUTAGE
        while True:
            try:
                return task()
            except StoreError as error:
                late = self._leases.clock.monotonic() > until
                if not error.transient or late or self._leases.stopping:
                    raise
                log.warning("session %s waits for the store: %s", self.key.session_id, error)
            self._leases.clock.sleep(OUTAGE_PAUSE)

    def pause(self) -> None:
        """Between two steps. Raises HandedOver when this worker is about to end."""
        if self._leases.stopping:
            raise HandedOver(f"session {self.key.session_id} is handed over: this worker ends")


@dataclass(frozen=True, slots=True)
class _Sight:
    """A worker's record as it was last seen; `still` are the seconds it has not changed for."""

    version: str
    at: float
    still: float = 0.0


class Leases:
    """This worker's claims, and its view of the other workers. For any number of threads.

    It is present while it holds something, or from `stay` on; a thread of its own beats.
    """

    def __init__(
        self,
        store: SessionStore,
        clock: Clock,
        host: str = "worker",
        *,
        beat: float = BEAT,
        lease: float = LEASE,
    ) -> None:
        self.lease, self.interval = lease, beat
        self.stopping = False
        self.living: frozenset[str] = frozenset()
        self.clock = self._clock = clock
        self._store = store
        self._host = re.sub(r"[^A-Za-z0-9.-]", "-", host)[:80] or "worker"
        self._presence: Presence | None = None
        self._held: set[str] = set()
        self._owed: list[tuple[SessionKey, int, Claim]] = []
        self._sights: dict[str, _Sight] = {}
        self._staying = False
        self._change = threading.Condition(threading.RLock())

    # ------------------------------------------------------------------------------ what is ours

    @contextmanager
    def claimed(self, key: SessionKey, turn: int, trigger: str) -> Iterator[Lease | Claim]:
        """Hold the turn; yields the Lease, or the claim of who holds it. Raises StoreError.

        `trigger` says on behalf of what.
        """
        with self.entered() as (owner, presence):
            claim = Claim(owner, trigger, self._clock.now() + BACKSTOP)
            held = self._claim(key, turn, claim)
            if held.owner != owner:
                yield held
                return
            try:
                yield Lease(key, turn, held, presence, self)
            finally:
                self._release(key, turn, held)

    @contextmanager
    def entered(self) -> Iterator[tuple[str, Presence]]:
        """A name under which something is held until the block ends, at the latest."""
        owner, presence = self._enter()
        try:
            yield owner, presence
        finally:
            self.leave(owner)

    def leave(self, owner: str) -> None:
        """Nothing is held under this name any more."""
        with self._change:
            self._held.discard(owner)
            if self._held or self._staying or self._presence is None:
                return
            presence, self._presence = self._presence, None
            self._change.notify_all()
        _leave(presence)

    def enter(self) -> str:
        """A name under which something is held until `leave`. Raises StoreError."""
        return self._enter()[0]

    def timer(self) -> str:
        """The name under which this worker promises to do something later. Raises StoreError."""
        with self._change:
            return f"{self._present().name}/{TIMER}"

    def stay(self) -> None:
        """Be present until `resign`, also while nothing is held. Raises StoreError."""
        with self._change:
            self._staying = True
            self._present()

    def resign(self) -> None:
        """Be gone: all that is held is free for others at once. Raises nothing."""
        with self._change:
            self._staying, presence, self._presence = False, self._presence, None
            self._held.clear()
            self._change.notify_all()
        if presence is not None:
            _leave(presence)

    def _enter(self) -> tuple[str, Presence]:
        with self._change:
            presence = self._present()
            owner = f"{presence.name}/{token_hex(4)}"
            self._held.add(owner)
            return owner, presence

    def _present(self) -> Presence:
        if self._presence is None or self._presence.lost:
            name = f"{self._host}-{token_hex(6)}"
            self._presence = Presence(name, self._store, self._clock)
            self._held.clear()
            log.info("worker %s is present", name)
            thread = threading.Thread(
                target=self._beat, args=(self._presence,), name="sandpiper-heart", daemon=True
            )
            thread.start()
        return self._presence

    def _beat(self, presence: Presence) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._presence is not presence, self.interval)
                if self._presence is not presence or presence.lost:
                    return
            try:
                presence.beat()
                self._pay()
            except StoreError as error:
                log.warning("no heartbeat: %s", error)

    def _pay(self) -> None:
        """Release what could not be released when it was due. Raises StoreError."""
        while self._owed:
            self._store.release(*self._owed[0])
            self._owed.pop(0)

    def _claim(self, key: SessionKey, turn: int, claim: Claim) -> Claim:
        """The claim that holds the turn after we have tried to take it."""
        now = self._clock.now()
        held = self._store.claim(key, turn, claim, now)
        if held is None:
            return claim
        if self.alive(held.owner):
            return held
        heir = replace(claim, fence=held.fence + 1)
        log.warning("session %s turn %d: %s is dead", key.session_id, turn, held.owner)
        return self._store.claim(key, turn, heir, now, over=held) or heir

    def _release(self, key: SessionKey, turn: int, claim: Claim) -> None:
        try:
            self._store.release(key, turn, claim)
        except StoreError as error:
            log.warning("session %s turn %d: not released: %s", key.session_id, turn, error)
            with self._change:
                self._owed.append((key, turn, claim))

    # --------------------------------------------------------------------------- what is others'

    def holder(self, key: SessionKey, turn: int) -> Claim | None:
        """Who is at work on a turn, or None. Raises StoreError."""
        held = self._store.holder(key, turn, self._clock.now())
        return held if held and self.alive(held.owner) else None

    def alive(self, owner: str) -> bool:
        """Whether who holds something under this name still lives. Raises StoreError.

        A worker that was seen without a heartbeat for too long is buried here.
        """
        worker, _, token = owner.partition("/")
        with self._change:
            if self._presence and worker == self._presence.name and not self._presence.lost:
                return owner in self._held or token == TIMER
        return bool(re.fullmatch(r"[A-Za-z0-9.-]{1,100}", worker)) and self._lives(worker)

    def bury(self) -> list[str]:
        """Look at every worker; the names of those found dead. Raises StoreError.

        `living` are then the others.
        """
        records = list(self._store.records.names(FOLDER))
        names = [name.removeprefix(FOLDER).removesuffix(".json") for name in records]
        with self._change:
            self._sights = {name: self._sights[name] for name in names if name in self._sights}
        dead = [name for name in names if not self.alive(f"{name}/{TIMER}")]
        own = {self._presence.name} if self._presence else set()
        self.living = frozenset(names) - frozenset(dead) - own
        return dead

    def _lives(self, worker: str) -> bool:
        record = f"{FOLDER}{worker}.json"
        stored = self._store.records.read(record, RECORD)
        if stored is None:
            return False
        if self._watched(worker, stored.version).still < self.lease:
            return True
        # The version decides between a heartbeat that just came and the burial.
        if not self._store.records.replace(record, BURIED, stored.version):
            return True
        self._store.records.delete(record)
        log.warning("worker %s has not been heard of for %.0f s: dead", worker, self.lease)
        return False

    def _watched(self, worker: str, version: str) -> _Sight:
        """What has been seen of a worker. A store that was away must not make everybody look
        dead: the time between two looks counts for two heartbeats at most."""
        now = self._clock.monotonic()
        with self._change:
            sight = self._sights.get(worker)
            if sight is None or sight.version != version:
                sight = _Sight(version, now)
            else:
                passed = min(now - sight.at, 2 * self.interval)
                sight = _Sight(version, now, sight.still + passed)
            self._sights[worker] = sight
            return sight


def _leave(presence: Presence) -> None:
    try:
        presence.leave()
    except StoreError as error:
        log.warning("worker %s is taken for alive a little longer: %s", presence.name, error)
