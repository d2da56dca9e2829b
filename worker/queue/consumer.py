"""A worker's time at work, whatever brings it the triggers: what it has, begins with and leaves."""

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from worker.core.progress import Watcher
from worker.core.triggers import Trigger, trigger_id
from worker.deps import Deps
from worker.errors import QueueError, StoreError
from worker.queue import delivery
from worker.queue.journal import Journal
from worker.queue.project_slots import Gate
from worker.queue.recovery import Rescuer

log = logging.getLogger("sandpiper.queue")


class Publisher(Protocol):
    """Puts a trigger on the queue, where it has waited `since` then (epoch seconds)."""

    def __call__(self, trigger: Trigger, since: float | None = None) -> None:
        """Raises QueueError."""
        ...

    def count_waiting(self) -> int:
        """How many messages no worker has taken yet. Raises QueueError."""
        ...


class Shift:
    """The parts of this process's jobs, made once, and its share in what others left lying.

    `publish` puts a trigger on the queue. `journal` makes the journal of a process that has no
    other parts of a job. `alone` says that the queue is in this process's memory.
    """

    def __init__(
        self,
        make: Callable[[], Deps],
        publish: Publisher,
        watch: Watcher,
        *,
        journal: Callable[[], Journal] | None = None,
        alone: bool,
        patience: float,
    ) -> None:
        self._make, self._publish, self._watch = make, publish, watch
        self._journal = journal or (lambda: self.deps().journal)
        self._alone, self._patience = alone, patience
        self._made: Deps | None = None
        self._rescuer: Rescuer | None = None
        self._gate: Gate | None = None
        self._lock = threading.Lock()

    def deps(self) -> Deps:
        """The parts of a job. Raises what making them raises."""
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made

    def accept(self, trigger: Trigger) -> None:
        """Write a trigger into the journal, then queue it. Raises QueueError.

        Once it is in the journal it is safe: without a message recovery finds it there.
        """
        try:
            self._journal().accept(trigger)
        except StoreError as error:
            raise QueueError(f"the trigger cannot be kept: {error}", transient=True) from error
        self._publish(trigger)

    def work(self, trigger: Trigger, queued_at: float | None = None) -> None:
        """Run a trigger from the queue, put there at `queued_at` (epoch seconds, if known).

        Raises StoreError where it could not even be noted that it is begun.
        """
        deps = self.deps()
        waited = None if queued_at is None else max(0.0, deps.clock.now() - queued_at)
        delivery.perform(trigger, deps, self._watch, self._later, waited, self._gate)

    def begin(self, threads: int) -> None:
        """The worker is there: look after what was left lying. Raises what `deps` raises."""
        deps = self.deps()
        cap = deps.project_concurrency or threads // 2
        gate = Gate(deps.store.records, deps.journal, deps.leases, self._publish, cap)
        self._gate = gate
        self._rescuer = Rescuer(
            *(deps.journal, deps.leases, self._publish, deps.clock, self._patience, self._watch),
            admit=gate.admit,
            count_waiting=self._publish.count_waiting,
        )
        self._rescuer.start(alone=self._alone)

    def stop(self) -> None:
        """The worker is about to end: runs end between two steps and are handed over."""
        if self._made is not None:
            self._made.leases.stopping = True

    def end(self) -> None:
        """The worker is gone: what it still held is free. Raises nothing."""
        if self._rescuer is not None:
            self._rescuer.close()
        if self._made is not None:
            self._made.leases.resign()

    def _later(self, trigger: Trigger, seconds: float) -> None:
        """This process's timer, unless it will not be there to keep its promise."""
        staying = self._made is not None and not self._made.leases.stopping
        if self._rescuer is not None and staying:
            self._rescuer.later(trigger, seconds)
            return
        try:
            self._publish(trigger)
        except QueueError as error:
            log.warning("trigger %s is left to the journal: %s", trigger_id(trigger), error)
