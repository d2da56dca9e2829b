"""Which worker is alive, and which one works on a turn of a session.

A worker keeps one record, `workers/{name}.json`, and changes it with every heartbeat. Claims on
turns and entries of the journal name the worker, so one small write renews any number of them.
Other workers watch the record by their own monotonic clock: if it has not changed for `lease`
seconds, they remove it, and the worker counts as dead. Clocks of machines are never compared.

A worker whose record was removed notices that at its next heartbeat, and at the latest before it
posts or commits: `Lease.confirm_held` sends a heartbeat first. Each take-over of a turn raises the
fencing number of its claim.
"""

import json
import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from secrets import token_hex

from worker.clock import Clock
from worker.conversation.context import SessionKey
from worker.errors import HandedOver, LeaseLost, StoreError
from worker.safety.untrusted import parse_object
from worker.sessions.objects import RECORD, Records
from worker.sessions.store import Claim, SessionStore

log = logging.getLogger("sandpiper.leases")

FOLDER = "workers/"
DEAD_RECORD = b'{"worker": ""}'
"""Replaces a dead worker's record before it is deleted: not every store deletes conditionally."""

BEAT = 8.0
"""Seconds between two heartbeats, and between two checks of the other workers' heartbeats."""

LEASE = 30.0
"""Seconds without a heartbeat after which the other workers consider a worker dead."""

OUTAGE, OUTAGE_PAUSE = 180.0, 3.0
"""Seconds that a finished run waits for a store that is away, and seconds between its tries."""

BACKSTOP = 86_400.0
"""Seconds after which a claim expires, whoever holds it."""

TIMER = "timer"
"""Stands for the worker itself, as the owner of triggers that it will begin later."""


class Registration:
    """This worker's record in the store, from its creation to its removal.

    The constructor creates it and raises StoreError. `is_lost` says that the record no longer
    belongs to this worker, `is_given_up` that this worker removed it itself.
    """

    def __init__(self, name: str, records: Records, clock: Clock) -> None:
        self.name, self.is_lost, self.is_given_up = name, False, False
        self._record, self._records, self._clock = f"{FOLDER}{name}.json", records, clock
        self._lock = threading.Lock()
        self._number = 0
        self._at = clock.monotonic()
        if not records.create(self._record, self._encode_record()):
            raise StoreError(f"{records.describe_place(self._record)} exists", transient=True)

    def send_heartbeat(self) -> None:
        """Write the next heartbeat; sets `is_lost` if another worker removed the record.

        Raises StoreError, also for a record that is damaged: it may be ours.
        """
        with self._lock:
            if self.is_lost:
                return
            started = self._clock.monotonic()
            stored = self._records.read(self._record, RECORD)
            self._number += 1
            # The record may have a heartbeat of ours for which the store's answer was lost.
            is_ours = stored is not None and parse_object(stored.content).get("worker") == self.name
            fresh = self._encode_record()
            if stored and is_ours and self._records.replace(self._record, fresh, stored.version):
                self._at = started
                return
            self.is_lost = True
            log.error("worker %s was taken for dead; its runs end here, others go on", self.name)

    def count_seconds_since_heartbeat(self) -> float:
        """Return the seconds since the last heartbeat that was written."""
        return self._clock.monotonic() - self._at

    def remove_record(self) -> None:
        """Delete the record, which frees all that this worker holds. Raises StoreError."""
        with self._lock:
            if not self.is_lost:
                self.is_lost = self.is_given_up = True
                self._records.delete(self._record)

    def _encode_record(self) -> bytes:
        return json.dumps({"worker": self.name, "beat": self._number}).encode()


class Lease:
    """This worker's hold on one turn of a session, for as long as its heartbeats are in time."""

    def __init__(
        self, key: SessionKey, claim: Claim, registration: Registration, leases: "Leases"
    ) -> None:
        self.key, self.claim = key, claim
        self._registration, self._leases = registration, leases

    @property
    def is_takeover(self) -> bool:
        """Whether another run held the turn before and its worker died."""
        return self.claim.fence > 0

    def check_held(self) -> None:
        """Check the lease before the result of a step is stored.

        Asks the store only if the last heartbeat is too old. Raises LeaseLost if the turn is free
        for another worker, and StoreError if the store cannot tell.
        """
        if not self.is_surely_held():
            self.confirm_held()

    def is_surely_held(self) -> bool:
        """Whether the last heartbeat is so recent that nobody can have taken over."""
        return (
            not self._registration.is_lost
            and self._registration.count_seconds_since_heartbeat() <= self._leases.lease / 2
        )

    def confirm_held(self) -> None:
        """Check the lease before something is posted or committed: like `check_held`, but always
        ask the store, unless the lease is known to be lost."""
        if not self._registration.is_lost:
            self.retry_while_away(self._registration.send_heartbeat)
        if self._registration.is_lost:
            why = "another worker has taken over"
            if self._registration.is_given_up:
                why = "it was stopped with this worker, and the next worker continues it"
            raise LeaseLost(f"session {self.key.session_id}: {why}")

    def retry_while_away(self, task: Callable[[], None]) -> None:
        """Call `task` until the store answers, for at most OUTAGE seconds, so that finished work is
        not thrown away. Raises what `task` raises last."""
        until = self._leases.clock.monotonic() + OUTAGE
        while True:
            try:
                return task()
            except StoreError as error:
                late = self._leases.clock.monotonic() > until
                if not error.transient or late or self._leases.is_stopping:
                    raise
                log.warning("session %s waits for the store: %s", self.key.session_id, error)
            self._leases.clock.sleep(OUTAGE_PAUSE)

    def raise_if_stopping(self) -> None:
        """Raise HandedOver if this worker is shutting down. To be called between two steps."""
        if self._leases.is_stopping:
            raise HandedOver(f"session {self.key.session_id} is handed over: this worker ends")


@dataclass(frozen=True, slots=True)
class _Observation:
    """A worker's record as it was last read; it has not changed for `still` seconds."""

    version: str
    at: float
    still: float = 0.0


class Leases:
    """This worker's claims, and what it knows of the other workers. Thread-safe.

    The worker is registered while it holds something, and from `stay_registered` on; a thread sends
    its heartbeats. `is_stopping` asks all runs to end after their current step.
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
        self.is_stopping = False
        self.live_workers: frozenset[str] = frozenset()
        self.clock = clock
        self._store = store
        self._host = re.sub(r"[^A-Za-z0-9.-]", "-", host)[:80] or "worker"
        self._registration: Registration | None = None
        self._held: set[str] = set()
        self._unreleased: list[tuple[SessionKey, int, Claim]] = []
        self._observations: dict[str, _Observation] = {}
        self._staying = False
        self._change = threading.Condition(threading.RLock())

    # ------------------------------------------------------------------------ this worker's claims

    @contextmanager
    def claim_turn(self, key: SessionKey, turn: int, trigger: str) -> Iterator[Lease | Claim]:
        """Claim a turn on behalf of `trigger` until the block ends.

        Yields the Lease, or the claim of the worker that holds the turn. Raises StoreError.
        """
        with self.register_work() as (owner, registration):
            claim = Claim(owner, trigger, self.clock.now() + BACKSTOP)
            holder = self._claim(key, turn, claim)
            if holder.owner != owner:
                yield holder
                return
            try:
                yield Lease(key, holder, registration, self)
            finally:
                self._release(key, turn, holder)

    @contextmanager
    def register_work(self) -> Iterator[tuple[str, Registration]]:
        """Yield a name under which this worker can hold something until the block ends."""
        owner, registration = self.begin_work()
        try:
            yield owner, registration
        finally:
            self.end_work(owner)

    def begin_work(self) -> tuple[str, Registration]:
        """Return a name under which something can be held until `end_work`. Raises StoreError."""
        with self._change:
            registration = self._ensure_registered()
            owner = f"{registration.name}/{token_hex(4)}"
            self._held.add(owner)
            return owner, registration

    def end_work(self, owner: str) -> None:
        """Free everything that is held under this name."""
        with self._change:
            self._held.discard(owner)
            if self._held or self._staying or self._registration is None:
                return
            registration, self._registration = self._registration, None
            self._change.notify_all()
        _remove_record(registration)

    def get_timer_owner(self) -> str:
        """Return the owner of triggers that this worker will begin later. Raises StoreError."""
        with self._change:
            return f"{self._ensure_registered().name}/{TIMER}"

    def stay_registered(self) -> None:
        """Register this worker until `unregister`, even while it holds nothing. Raises
        StoreError."""
        with self._change:
            self._staying = True
            self._ensure_registered()

    def unregister(self) -> None:
        """Remove this worker's record, which frees everything that it holds. Raises nothing."""
        with self._change:
            self._staying, registration, self._registration = False, self._registration, None
            self._held.clear()
            self._change.notify_all()
        if registration is not None:
            _remove_record(registration)

    def _ensure_registered(self) -> Registration:
        if self._registration is None or self._registration.is_lost:
            name = f"{self._host}-{token_hex(6)}"
            self._registration = Registration(name, self._store.records, self.clock)
            self._held.clear()
            log.info("worker %s is registered", name)
            thread = threading.Thread(
                target=self._keep_beating,
                args=(self._registration,),
                name="sandpiper-heartbeat",
                daemon=True,
            )
            thread.start()
        return self._registration

    def _keep_beating(self, registration: Registration) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._registration is not registration, self.interval)
                if self._registration is not registration or registration.is_lost:
                    return
            try:
                registration.send_heartbeat()
                while self._unreleased:  # claims that could not be released in time
                    self._store.release_turn(*self._unreleased[0])
                    self._unreleased.pop(0)
            except StoreError as error:
                log.warning("no heartbeat: %s", error)

    def _claim(self, key: SessionKey, turn: int, claim: Claim) -> Claim:
        """Try to claim a turn; return the claim that then holds it."""
        now = self.clock.now()
        holder = self._store.claim_turn(key, turn, claim, now)
        if holder is None:
            return claim
        if self.is_alive(holder.owner):
            return holder
        takeover = replace(claim, fence=holder.fence + 1)
        log.warning("session %s turn %d: %s is dead", key.session_id, turn, holder.owner)
        return self._store.claim_turn(key, turn, takeover, now, over=holder) or takeover

    def _release(self, key: SessionKey, turn: int, claim: Claim) -> None:
        try:
            self._store.release_turn(key, turn, claim)
        except StoreError as error:
            log.warning("session %s turn %d: not released: %s", key.session_id, turn, error)
            with self._change:
                self._unreleased.append((key, turn, claim))

    # --------------------------------------------------------------------------- the other workers

    def find_holder(self, key: SessionKey, turn: int) -> Claim | None:
        """Return the claim of the living worker that holds a turn, or None. Raises StoreError."""
        claim = self._store.find_holder(key, turn, self.clock.now())
        return claim if claim and self.is_alive(claim.owner) else None

    def is_alive(self, owner: str) -> bool:
        """Whether the worker that holds something under this name is alive. Raises StoreError.

        Removes the record of a worker that has sent no heartbeat for too long.
        """
        worker, token = get_worker_name(owner), owner.partition("/")[2]
        with self._change:
            if (
                self._registration
                and worker == self._registration.name
                and not self._registration.is_lost
            ):
                return owner in self._held or token == TIMER
        return bool(re.fullmatch(r"[A-Za-z0-9.-]{1,100}", worker)) and self._is_worker_alive(worker)

    def remove_dead_workers(self) -> list[str]:
        """Check every worker and return the names of the dead ones. Raises StoreError.

        Sets `live_workers` to the names of the other workers that are alive.
        """
        records = list(self._store.records.list_names(FOLDER))
        names = [name.removeprefix(FOLDER).removesuffix(".json") for name in records]
        with self._change:
            self._observations = {
                name: self._observations[name] for name in names if name in self._observations
            }
        dead = [name for name in names if not self.is_alive(f"{name}/{TIMER}")]
        own_name = {self._registration.name} if self._registration else set()
        self.live_workers = frozenset(names) - frozenset(dead) - own_name
        return dead

    def _is_worker_alive(self, worker: str) -> bool:
        record = f"{FOLDER}{worker}.json"
        stored = self._store.records.read(record, RECORD)
        if stored is None:
            return False
        if self._observe(worker, stored.version).still < self.lease:
            return True
        # This fails if a heartbeat came in between, which changes the version.
        if not self._store.records.replace(record, DEAD_RECORD, stored.version):
            return True
        self._store.records.delete(record)
        log.warning("worker %s has not been heard of for %.0f s: dead", worker, self.lease)
        return False

    def _observe(self, worker: str, version: str) -> _Observation:
        """Update and return the observation of a worker.

        The time between two reads counts as at most two heartbeat intervals: while the store was
        unavailable, nobody could send heartbeats.
        """
        now = self.clock.monotonic()
        with self._change:
            observation = self._observations.get(worker)
            if observation is None or observation.version != version:
                observation = _Observation(version, now)
            else:
                passed = min(now - observation.at, 2 * self.interval)
                observation = _Observation(version, now, observation.still + passed)
            self._observations[worker] = observation
            return observation


def get_worker_name(owner: str) -> str:
    """Return the name of the worker that holds something under the name `owner`."""
    return owner.partition("/")[0]


def _remove_record(registration: Registration) -> None:
    try:
        registration.remove_record()
    except StoreError as error:
        log.warning("worker %s is taken for alive a little longer: %s", registration.name, error)
