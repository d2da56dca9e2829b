"""Work that somebody left lying is queued again, by every worker's own look at the journal.

One thread for each worker. It registers the worker, finds the dead ones, and puts on the queue what
they had, what nobody has taken for long, and what this worker has promised for later. Many may see
the same; the journal lets one of them act. What is queued twice all the same is begun once.
"""

import heapq
import logging
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass

from worker.core.ports import Clock
from worker.core.progress import Backlog, Watcher, unwatched
from worker.core.triggers import Trigger, trigger_id
from worker.errors import QueueError, StoreError
from worker.queue.journal import Journal, Noted, State, project_of
from worker.queue.leases import Leases

log = logging.getLogger("sandpiper.rescue")

PATIENCE = 40.0
"""Seconds that an entry may be nobody's before it is queued again; doubled each time."""

LONGEST = 6
"""Doublings of the patience at most."""


@dataclass(frozen=True, slots=True)
class _Sight:
    """An entry as it was last read, when that was, and since when it has been so."""

    noted: Noted
    read: float
    since: float


class Rescuer:
    """Looks every `leases.interval` seconds until `close`."""

    def __init__(
        self,
        journal: Journal,
        leases: Leases,
        enqueue: Callable[[Trigger], None],
        clock: Clock,
        patience: float = PATIENCE,
        watch: Watcher = unwatched,
        admit: Callable[[int], int] = lambda project: 0,
        count_waiting: Callable[[], int] = lambda: 0,
    ) -> None:
        self._admit = admit
        self._count_waiting = count_waiting
        self._watch = watch
        self._journal, self._leases, self._enqueue = journal, leases, enqueue
        self._clock, self._patience = clock, patience
        self._sights: dict[str, _Sight] = {}
        self._later: list[tuple[float, int, Trigger]] = []
        self._promised = 0
        self._change = threading.Condition()
        self._closed = self._alone = False
        self._living: frozenset[str] = frozenset()
        self._thread = threading.Thread(target=self._run, name="sandpiper-rescue", daemon=True)

    def start(self, *, alone: bool = False) -> None:
        """Begin. `alone` says that the queue is this process's own, and was empty at the start:
        what is nobody's is queued at once."""
        self._alone = alone
        self._thread.start()

    def later(self, trigger: Trigger, seconds: float) -> None:
        """Queue a trigger again after a while."""
        with self._change:
            self._promised += 1
            due = self._clock.monotonic() + seconds
            heapq.heappush(self._later, (due, self._promised, trigger))
            self._change.notify_all()

    def close(self) -> None:
        """No look begins after this."""
        with self._change:
            self._closed = True
            self._change.notify_all()

    def look(self, *, first: bool = False) -> int:
        """Look once; how many triggers were queued. Raises StoreError, QueueError."""
        self._leases.stay()
        died = bool(self._leases.bury()) or first
        self._living = self._leases.living
        names = list(self._journal.names())
        self._sights = {name: self._sights[name] for name in names if name in self._sights}
        for name in names:
            self._read(name, afresh=died)
        queued = sum(self._revive(name) for name in self._left(first=first))
        queued += sum(self._admit(project) for project in self._held())
        self._report()
        return queued

    def _held(self) -> set[int]:
        """The projects that hold something back."""
        entries = (sight.noted.entry for sight in self._sights.values())
        return {project_of(each.trigger) for each in entries if each.state is State.HELD}

    def _report(self) -> None:
        """What was seen, as it was last read."""
        entries = [sight.noted.entry for sight in self._sights.values()]
        waiting = [each.accepted_at for each in entries if each.state is not State.PARKED]
        oldest = max(0.0, self._clock.now() - min(waiting)) if waiting else 0.0
        self._watch(Backlog(len(waiting), len(entries) - len(waiting), oldest))

    def _read(self, name: str, *, afresh: bool) -> None:
        """Read an entry unless that was done not long ago."""
        now, sight = self._clock.monotonic(), self._sights.get(name)
        if sight is not None and not afresh and now - sight.read < self._patience:
            return
        noted = self._journal.read(name)
        if noted is None:
            self._sights.pop(name, None)
            return
        same = sight is not None and sight.noted.version == noted.version
        self._sights[name] = _Sight(noted, now, sight.since if sight and same else now)

    def _left(self, *, first: bool) -> list[str]:
        """The entries that nobody will do anything about."""
        begun, unbegun = [], []
        for name, sight in self._sights.items():
            entry = sight.noted.entry
            if entry.state in (State.PARKED, State.HELD):
                continue
            if not entry.owner:
                unbegun.append(name)
            elif not self._lives(entry.owner):
                begun.append(name)
        return begun + (unbegun if first else self._overdue(unbegun))

    def _lives(self, owner: str) -> bool:
        return owner.partition("/")[0] in self._living or self._leases.alive(owner)

    def _overdue(self, unbegun: list[str]) -> list[str]:
        """Of the entries that nobody has begun, those whose message must have been lost.

        As long as the broker has any messages, theirs may be among them.
        """
        now = self._clock.monotonic()
        waited = {name: now - self._sights[name].since for name in unbegun}
        overdue = [name for name in unbegun if waited[name] >= self._patience_with(name)]
        if not overdue or self._count_waiting() == 0:
            return overdue
        longest = self._patience * (1 << LONGEST)
        return [name for name in overdue if waited[name] >= longest]

    def _patience_with(self, name: str) -> float:
        """Seconds that an entry may be nobody's; twice as many each time it is queued again."""
        return self._patience * (1 << min(self._sights[name].noted.entry.queued, LONGEST))

    def _revive(self, name: str) -> bool:
        """Queue an entry again; False if another worker was faster."""
        noted = self._sights[name].noted
        if not self._journal.revive(noted):
            return False
        del self._sights[name]
        self._enqueue(noted.entry.trigger)
        log.warning("trigger %s is queued again", trigger_id(noted.entry.trigger))
        return True

    def _run(self) -> None:
        first = self._alone
        while not self._closed:
            try:
                self.look(first=first)
                first = False
            except (StoreError, QueueError) as error:
                log.warning("no look at what was left lying: %s", error)
            self._tend(self._clock.monotonic() + self._leases.interval * random.uniform(0.9, 1.1))

    def _tend(self, until: float) -> None:
        """Queue what becomes due until then."""
        while True:
            with self._change:
                now = self._clock.monotonic()
                due = min(self._later[0][0], until) if self._later else until
                if now < due and not self._closed:
                    self._change.wait(due - now)
                    continue
                if self._closed or not self._later or self._later[0][0] > now:
                    return
                trigger = heapq.heappop(self._later)[2]
            try:
                self._enqueue(trigger)
            except QueueError as error:
                log.warning("trigger %s is late: %s", trigger_id(trigger), error)
                self.later(trigger, self._leases.interval)
