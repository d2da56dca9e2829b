"""Accepts triggers for the queue, and processes the triggers in its messages."""

import logging
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from worker.conversation.events import Watcher
from worker.conversation.triggers import Trigger, trigger_id
from worker.errors import QueueError, StoreError
from worker.jobs.delivery import deliver_trigger
from worker.queue.broker import Publisher
from worker.queue.journal import Journal
from worker.queue.project_slots import ProjectSlots
from worker.queue.recovery import Recovery
from worker.turns.parts import Deps

WRITERS = 4
"""The most parts of a batch that are written into the journal at the same time."""

THREADS = 12
"""Enough for four batches at a time: the first part of each is written by the caller's thread."""

log = logging.getLogger("sandpiper.queue")


class Consumer:
    """The queue's side of one process: it accepts triggers, runs them, and recovers lost ones.

    `build_deps` makes the parts of a job and is called once, when they are needed. `journal` opens
    the journal in a process that only accepts triggers; without it, the one in the parts is used.
    `publish` puts a trigger on the queue. `alone` says that the queue is in this process's memory.
    If nobody has begun a trigger after `patience` seconds, recovery queues it again.
    """

    def __init__(
        self,
        build_deps: Callable[[], Deps],
        publish: Publisher,
        watch: Watcher,
        *,
        journal: Callable[[], Journal] | None = None,
        alone: bool,
        patience: float,
    ) -> None:
        self._build_deps, self._publish, self._watch = build_deps, publish, watch
        self._journal = journal or (lambda: self.make_deps().queue.journal)
        self._alone, self._patience = alone, patience
        self._made: Deps | None = None
        self._recovery: Recovery | None = None
        self._slots: ProjectSlots | None = None
        self._lock = threading.Lock()
        self._writers = ThreadPoolExecutor(THREADS, "journal")

    def make_deps(self) -> Deps:
        """Return the parts of a job, made at the first call. Raises what making them raises."""
        with self._lock:
            if self._made is None:
                self._made = self._build_deps()
            return self._made

    def accept_trigger(self, trigger: Trigger) -> None:
        """Accept one trigger: see `accept_triggers`. Raises QueueError."""
        (failure,) = self.accept_triggers([trigger])
        if failure:
            raise failure

    def accept_triggers(self, triggers: Sequence[Trigger]) -> list[QueueError | None]:
        """Write triggers into the journal, then queue them.

        Returns for each trigger why the store or the broker did not accept it, or None. Once it is
        in the journal, it is not lost, whatever the broker does: recovery finds it there.
        """
        if not triggers:
            return []
        size = math.ceil(len(triggers) / WRITERS)
        parts = [triggers[start : start + size] for start in range(0, len(triggers), size)]
        # The threads mostly wait for the store.
        futures = [self._writers.submit(self._add_each, part) for part in parts[1:]]
        failures = sum((each.result() for each in futures), self._add_each(parts[0]))
        added = [each for each, failure in zip(triggers, failures, strict=True) if not failure]
        try:
            if added:
                self._publish.publish_all(added)
        except QueueError as error:
            return [failure or error for failure in failures]
        return failures

    def _add_each(self, triggers: Sequence[Trigger]) -> list[QueueError | None]:
        journal, failures = self._journal(), list[QueueError | None]()
        for trigger in triggers:
            try:
                journal.add_trigger(trigger)
                failures.append(None)
            except StoreError as error:
                failures.append(QueueError(f"the trigger cannot be kept: {error}", transient=True))
        return failures

    def deliver(self, trigger: Trigger, queued_at: float | None = None) -> None:
        """Deliver the trigger of a message: see `deliver_trigger`.

        `queued_at` is when it was queued (epoch seconds). Raises what `make_deps` raises, too.
        """
        deps = self.make_deps()
        waited = None
        if queued_at is not None:
            since = deps.runtime.clock.now() - queued_at
            waited = max(0.0, since)
            if self._recovery is not None:
                self._recovery.note_taken(since)
        deliver_trigger(trigger, deps, self._watch, self._queue_later, waited, self._slots)

    def start_recovery(self, threads: int) -> None:
        """Start recovery in a worker with `threads` threads. Raises what `make_deps` raises."""
        deps = self.make_deps()
        cap = deps.options.project_concurrency or threads // 2
        self._slots = ProjectSlots(
            deps.storage.sessions.records, deps.queue.journal, deps.queue.leases, self._publish, cap
        )
        self._recovery = Recovery(
            deps.queue.journal,
            deps.queue.leases,
            self._publish,
            deps.runtime.clock,
            self._patience,
            self._watch,
            admit=self._slots.queue_held,
            count_waiting=self._publish.count_waiting,
        )
        self._recovery.start(alone=self._alone)

    def stop_runs(self) -> None:
        """Let all runs end after their current step, so that another worker continues them."""
        if self._made is not None:
            self._made.queue.leases.is_stopping = True

    def release_everything(self) -> None:
        """End recovery and give up all leases of this process. Raises nothing."""
        if self._recovery is not None:
            self._recovery.close()
        if self._made is not None:
            self._made.queue.leases.unregister()

    def _queue_later(self, trigger: Trigger, seconds: float) -> None:
        """Queue a trigger after `seconds` seconds; at once if this process is shutting down."""
        staying = self._made is not None and not self._made.queue.leases.is_stopping
        if self._recovery is not None and staying:
            self._recovery.queue_later(trigger, seconds)
            return
        try:
            self._publish(trigger)
        except QueueError as error:
            log.warning("trigger %s is left to the journal: %s", trigger_id(trigger), error)
