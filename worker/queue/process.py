"""A process that runs Celery's worker, alone or beside the door, and what it asks the broker."""

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from celery import Celery
from celery.bootsteps import StartStopStep
from celery.signals import worker_shutting_down
from celery.worker import state
from kombu.exceptions import OperationalError

from worker.errors import QueueError
from worker.queue.consumer import Shift

log = logging.getLogger("sandpiper.queue")


class Sandpiper(Celery):  # type: ignore[misc]
    """Celery with what is ours: the shift that its workers work."""

    shift: Shift


class WorkerStep(StartStopStep):  # type: ignore[misc]
    """The shift as a part of Celery's worker: stopped after the consumer, before the pool."""

    requires = ("celery.worker.components:Pool",)

    def start(self, parent: Any) -> None:
        parent.app.shift.begin(parent.concurrency or 1)

    def stop(self, parent: Any) -> None:
        parent.app.shift.stop()

    terminate = stop


def run_worker(app: Sandpiper, concurrency: int, grace: float) -> None:
    """A worker process, until SIGTERM. Threads: a session mostly waits on the model.

    SIGTERM ends every run between two steps and hands it over. What takes longer than `grace`
    seconds is left where it is, as it is after a second SIGTERM.
    """

    def closing(**_: object) -> None:
        app.shift.stop()
        signal.signal(signal.SIGTERM, lambda *_: leave(app))
        ending = threading.Timer(grace, leave, [app])
        ending.daemon = True
        ending.start()

    worker_shutting_down.connect(closing, weak=False)
    try:
        app.worker_main(
            [
                "worker",
                "--pool=threads",
                f"--concurrency={concurrency}",
                "--without-gossip",
                "--without-mingle",
            ]
        )
    finally:
        app.shift.end()


def leave(app: Sandpiper) -> None:
    """End this process now; others go on with what it has."""
    log.error("the runs did not end in time: they are left to other workers")
    app.shift.end()
    os._exit(1)


@contextmanager
def embedded(
    app: Sandpiper, concurrency: int, grace: float = 30.0, late: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """A worker in a thread of this process, for `memory://`.

    At the end of the block its runs end between two steps; those that take longer than `grace`
    seconds are left where they are, and `late` is called.
    """
    # The pool's threads look for their task in the default app; a worker's own process sets it too.
    app.set_default()
    worker = app.WorkController(
        pool="threads",
        concurrency=concurrency,
        without_heartbeat=True,
        without_mingle=True,
        without_gossip=True,
        hostname="embedded@localhost",
    )
    thread = threading.Thread(target=worker.start, name="sandpiper-worker", daemon=True)
    state.should_stop = None
    thread.start()
    try:
        yield
    finally:
        app.shift.stop()
        state.should_stop = 0
        thread.join(grace)
        state.should_stop = None
        app.shift.end()
        if thread.is_alive():
            late()


def readiness(app: Celery) -> Callable[[], str | None]:
    """A function that says why the broker cannot be used, or None."""

    def ready() -> str | None:
        try:
            with app.connection_for_write() as connection:
                connection.ensure_connection(max_retries=1, timeout=3)
        except (OperationalError, OSError) as error:
            log.warning("the broker does not answer: %s", error)
            return "the broker does not answer"
        return None

    return ready


def workers(app: Celery, seconds: float = 3.0) -> list[str]:
    """The names of the workers that answer through the broker within so many seconds."""
    try:
        return sorted(app.control.inspect(timeout=seconds).ping() or {})
    except (OperationalError, OSError) as error:
        raise QueueError(f"the broker does not answer: {error}", transient=True) from error
