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
    ) -> None:
        self._admit = admit
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
        queued = sum(self._consider(name, afresh=died, first=first) for name in names)
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

    def _consider(self, name: str, *, afresh: bool, first: bool) -> bool:
        now, sight = self._clock.monotonic(), self._sights.get(name)
        if sight is None or afresh or now - sight.read >= self._patience:
            noted = self._journal.read(name)
            if noted is None:
                return False
            same = sight is not None and sight.noted.version == noted.version
            sight = _Sight(noted, now, sight.since if sight and same else now)
            self._sights[name] = sight
        if not self._lies(sight, now, first=first) or not self._journal.revive(sight.noted):
            return False
        trigger = sight.noted.entry.trigger
        del self._sights[name]
        self._enqueue(trigger)
        log.warning("trigger %s is queued again", trigger_id(trigger))
        return True

    def _lies(self, sight: _Sight, now: float, *, first: bool) -> bool:
        """Whether nobody will do anything about an entry."""
        entry = sight.noted.entry
        if entry.state in (State.PARKED, State.HELD):
            return False
        if entry.owner.partition("/")[0] in self._living:
            return False
        if entry.owner:
            return not self._leases.alive(entry.owner)
        patience = self._patience * 2 ** min(entry.queued, LONGEST)
        return first or now - sight.since >= patience

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
