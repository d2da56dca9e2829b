"""Queues triggers again that a dead worker has left or whose message was lost.

Each worker has a thread for this. It keeps the worker registered, finds dead workers, and queues
the triggers that they were running, those that nobody has begun for long, and those that this
worker was to begin later. If several workers find the same entry, the journal lets one of them act.
A trigger that is still queued twice is run once.
"""

import heapq
import logging
import math
import random
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import count

from worker.clock import Clock
from worker.conversation.events import Backlog, Watcher, ignore_event
from worker.conversation.triggers import Trigger, trigger_id
from worker.errors import QueueError, StoreError
from worker.queue.journal import Entry, Journal, State, StoredEntry, get_project_id
from worker.queue.leases import TIMER, Leases, get_worker_name

log = logging.getLogger("sandpiper.recovery")

PATIENCE = 40.0
"""Seconds for which an entry may have no owner before it is queued again; doubled each time."""

MOST_PATIENCE = 90.0
"""The most of these seconds. With the pauses between two searches, what a broker has lost is queued
again within two minutes, if by then a worker has taken anything younger: else all are busy."""

BACKLOG = 64
"""So many times the patience an entry may wait for its message in a queue from which this worker
has taken nothing younger."""

DISORDER = 2.0
"""Seconds by which messages may overtake each other: receivers' clocks differ, a batch is written
into the journal before it is queued."""

READERS = 8
"""Entries that are read at the same time: one after the other, ten thousand take minutes."""


@dataclass(frozen=True, slots=True)
class _Observation:
    """An entry as it was last read. All times are monotonic."""

    stored: StoredEntry
    read: float
    """When it was read."""
    since: float
    """Since when it has not changed."""
    queued: float
    """When its message was put on the queue, or a little later."""


class Recovery:
    """Runs every `leases.interval` seconds until `close`.

    `admit` queues as many of a project's held triggers as may begin. `count_waiting` returns how
    many messages the broker has.
    """

    def __init__(
        self,
        journal: Journal,
        leases: Leases,
        enqueue: Callable[[Trigger], None],
        clock: Clock,
        patience: float = PATIENCE,
        watch: Watcher = ignore_event,
        admit: Callable[[int], int] = lambda project: 0,
        count_waiting: Callable[[], int] = lambda: 0,
    ) -> None:
        self._admit = admit
        self._count_waiting = count_waiting
        self._watch = watch
        self._journal, self._leases, self._enqueue = journal, leases, enqueue
        self._clock, self._patience = clock, min(patience, MOST_PATIENCE)
        self._readers = ThreadPoolExecutor(READERS, "sandpiper-recovery")
        self._youngest = -math.inf
        self._observations: dict[str, _Observation] = {}
        self._due: list[tuple[float, int, Trigger]] = []
        self._numbers = count()
        self._change = threading.Condition()
        self._closed = self._alone = False
        self._thread = threading.Thread(target=self._run, name="sandpiper-recovery", daemon=True)

    def start(self, *, alone: bool = False) -> None:
        """Start the thread. `alone` says that the queue is in this process's memory and was empty
        at the start: entries without an owner are queued at once."""
        self._alone = alone
        self._thread.start()

    def queue_later(self, trigger: Trigger, seconds: float) -> None:
        """Queue a trigger after `seconds` seconds."""
        with self._change:
            due = self._clock.monotonic() + seconds
            heapq.heappush(self._due, (due, next(self._numbers), trigger))
            self._change.notify_all()

    def note_taken(self, waited: float) -> None:
        """Note that this worker has taken a message that was on the queue for `waited` seconds.

        A queue gives its messages in their order, so those that are older are taken or lost. One
        from the future, by a clock that is wrong, says nothing.
        """
        if waited > -DISORDER:
            self._youngest = max(self._youngest, self._clock.monotonic() - max(0.0, waited))

    def close(self) -> None:
        """Stop the thread; what is being queued is finished."""
        with self._change:
            self._closed = True
            self._change.notify_all()

    def _is_open(self) -> bool:
        return not self._closed

    def run_once(self, *, first: bool = False) -> int:
        """Go through the journal once and return how many triggers were queued.

        `first` queues all entries without an owner. Raises StoreError or QueueError.
        """
        self._leases.stay_registered()
        died = bool(self._leases.remove_dead_workers()) or first
        names = list(self._journal.list_names())
        self._observations = {
            name: self._observations[name] for name in names if name in self._observations
        }
        self._read_entries(names, afresh=died)
        abandoned, entries = self._find_abandoned(first=first), self._list_entries()
        runs = Counter(get_worker_name(each.owner) for each in entries if each.is_begun())
        queued = sum(self._queue_again(name, runs) for name in abandoned)
        held = [each for each in self._list_entries() if each.state is State.HELD]
        queued += sum(map(self._admit, {get_project_id(each.trigger) for each in held}))
        entries = self._list_entries()
        waiting = [each.accepted_at for each in entries if each.state is not State.PARKED]
        oldest = max(0.0, self._clock.now() - min(waiting)) if waiting else 0.0
        self._watch(Backlog(len(waiting), len(entries) - len(waiting), oldest))
        return queued

    def _list_entries(self) -> list[Entry]:
        """List the entries as they were last read."""
        return [observation.stored.entry for observation in self._observations.values()]

    def _read_entries(self, names: list[str], *, afresh: bool) -> None:
        """Read the entries that were not read not long ago, or all of them.

        What cannot be read keeps nobody from reading the rest. Raises StoreError if nothing can be.
        """
        long_ago = self._clock.monotonic() - self._patience
        known = {} if afresh else self._observations
        due = [name for name in names if name not in known or known[name].read <= long_ago]
        failures: list[StoreError] = []
        for name, found in zip(due, self._readers.map(self._read_entry, due), strict=True):
            if isinstance(found, StoreError):
                failures.append(found)
            else:
                self._observe(name, found)
        if failures and len(failures) == len(names):
            raise failures[-1]
        if failures:
            last = failures[-1]
            log.warning("%d of %d entries could not be read: %s", len(failures), len(due), last)

    def _read_entry(self, name: str) -> StoredEntry | StoreError | None:
        try:
            return self._journal.read_entry(name)
        except StoreError as error:
            return error

    def _observe(self, name: str, stored: StoredEntry | None) -> None:
        """Keep what was read of an entry just now."""
        now, before = self._clock.monotonic(), self._observations.pop(name, None)
        if stored is None:
            return
        if before is not None and before.stored.version == stored.version:
            self._observations[name] = replace(before, read=now)
            return
        entry, age = stored.entry, 0.0
        if before is None and not entry.requeues:
            age = max(0.0, self._clock.now() - entry.accepted_at)
        self._observations[name] = _Observation(stored, now, now, now - age)

    def _find_abandoned(self, *, first: bool) -> list[str]:
        """Return the names of the entries that no worker will continue."""
        dead, unowned = [], []
        for name, observation in self._observations.items():
            entry = observation.stored.entry
            if entry.state in (State.PARKED, State.HELD):
                continue
            if not entry.owner:
                unowned.append(name)
            elif get_worker_name(entry.owner) in self._leases.live_workers:
                continue
            elif not self._leases.is_alive(entry.owner):
                dead.append(name)
        return dead + (unowned if first else self._find_overdue(unowned))

    def _find_overdue(self, unowned: list[str]) -> list[str]:
        """Return the entries without an owner whose message is considered lost.

        While the broker has any messages, theirs may be among them, unless this worker has taken a
        younger one.
        """
        now = self._clock.monotonic()
        waited = {name: now - self._observations[name].since for name in unowned}
        overdue = []
        for name in unowned:
            requeues = self._observations[name].stored.entry.requeues
            patience = min(self._patience * 2.0 ** min(requeues, 10), MOST_PATIENCE)
            if waited[name] >= patience:
                overdue.append(name)
        if not overdue or self._count_waiting() == 0:
            return overdue
        longest, youngest = self._patience * BACKLOG, self._youngest - DISORDER
        return [
            name
            for name in overdue
            if self._observations[name].queued < youngest or waited[name] >= longest
        ]

    def _queue_again(self, name: str, runs: Counter[str]) -> bool:
        """Queue an entry again; False if it has changed meanwhile.

        A worker of `runs` that is alive has only broken off this run: then the blame is the run's.
        """
        stored = self._observations[name].stored
        worker = get_worker_name(stored.entry.owner)
        shared_by = 1 if self._leases.is_alive(f"{worker}/{TIMER}") else runs[worker]
        now = self._journal.read_entry(name)
        is_same = now is not None and now.version == stored.version
        if not is_same or not self._journal.reopen_entry(stored, shared_by):
            self._observe(name, now)
            return False
        del self._observations[name]
        self._enqueue(stored.entry.trigger)
        log.warning("trigger %s is queued again", trigger_id(stored.entry.trigger))
        return True

    def _run(self) -> None:
        first = self._alone
        while self._is_open():
            try:
                self.run_once(first=first)
                first = False
            except (StoreError, QueueError) as error:
                log.warning("the journal could not be searched: %s", error)
            except RuntimeError:
                if self._is_open():
                    raise
                return  # The process ends, and lets nobody read any more.
            self._queue_due(
                self._clock.monotonic() + self._leases.interval * random.uniform(0.9, 1.1)
            )

    def _queue_due(self, until: float) -> None:
        """Queue the triggers that become due, until the monotonic time `until`."""
        while True:
            with self._change:
                now = self._clock.monotonic()
                due = min(self._due[0][0], until) if self._due else until
                if now < due and not self._closed:
                    self._change.wait(due - now)
                    continue
                if self._closed or not self._due or self._due[0][0] > now:
                    return
                trigger = heapq.heappop(self._due)[2]
            try:
                self._enqueue(trigger)
            except QueueError as error:
                log.warning("trigger %s is late: %s", trigger_id(trigger), error)
                self.queue_later(trigger, self._leases.interval)
