"""Runs Celery's worker, in a process of its own or in the receiver's."""

import logging
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

from celery import Celery
from celery.app.amqp import AMQP
from celery.apps.worker import install_worker_term_handler
from celery.bootsteps import StartStopStep
from celery.exceptions import SecurityWarning
from celery.signals import worker_shutting_down
from celery.utils.timer2 import Timer
from celery.worker import state
from celery.worker.consumer import Consumer as CeleryConsumer
from kombu import Connection, Message

from worker.errors import QueueError, SandpiperError
from worker.jobs.consumer import Consumer
from worker.queue.broker import explain_failure, name_place, require_login
from worker.queue.messages import NotOurs, clean_message

log = logging.getLogger("sandpiper.queue")

INTERVAL = 5.0
"""Seconds between two renewals of the ready file, by the loop that also reads from the broker."""


class ReadyFile:
    """A file that exists, and is renewed, while messages are taken. Without a path it does nothing.

    No method raises: a worker that cannot write the file works all the same.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path

    def renew(self) -> None:
        """Create the file, or set its time to now."""
        if self._path is None:
            return
        try:
            self._path.touch()
        except OSError as error:
            log.warning("the ready file cannot be written: %s", error)

    def remove(self) -> None:
        """Delete the file, also one that an earlier process has left."""
        if self._path is None:
            return
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("the ready file cannot be removed: %s", error)


class _PerConsumerConnection(Connection):  # type: ignore[misc]
    """A connection on which Celery limits what is taken ahead per consumer, not per channel.

    A channel has one consumer here, so it is the same; but quorum queues refuse the latter, and
    whether the server has made one is not to be seen.
    """

    @property
    def qos_semantics_matches_spec(self) -> bool:
        """Whether a limit holds for all of a channel's consumers without being asked to."""
        return True


class _PerConsumerAmqp(AMQP):  # type: ignore[misc]
    """Celery's part that makes messages and connections."""

    Connection = _PerConsumerConnection


class Sandpiper(Celery):  # type: ignore[misc]
    """A Celery app with its worker's consumer, and the file that says if it takes messages.

    `failure` is what kept the consumer from starting, which Celery itself only logs.
    """

    amqp_cls = _PerConsumerAmqp
    consumer: Consumer
    ready_file: ReadyFile
    failure: SandpiperError | None = None


class BrokerConsumer(CeleryConsumer):  # type: ignore[misc]
    """Celery's consumer, which survives the loss of the broker in the middle of a read, and any
    message: what is not ours is rejected with one line in the log."""

    class Blueprint(CeleryConsumer.Blueprint):  # type: ignore[misc]
        """Celery's steps but the one that declares 28 exchanges and queues for messages with a time
        as soon as a quorum queue is there: here, recovery's timer waits."""

        default_steps: ClassVar = [
            each
            for each in CeleryConsumer.Blueprint.default_steps
            if "delayed_delivery" not in each
        ]

    def create_task_handler(self, *arguments: Any, **options: Any) -> Callable[[Message], None]:
        deliver = super().create_task_handler(*arguments, **options)

        def handle_message(message: Message) -> None:
            try:
                clean_message(message)
            except NotOurs as error:
                self.on_decode_error(message, error)
            else:
                deliver(message)

        return handle_message

    def ensure_connected(self, conn: Any) -> Any:
        """Connect, however often that takes, with a line for each look. Celery's own lines are
        several, and name our transport's class."""

        def log_failure(error: Exception, pause: float) -> None:
            failure = explain_failure(name_place(conn), error)
            log.warning("%s; next look in %.0f s", failure, pause)

        retries = self.app.conf.broker_connection_max_retries
        connected = conn.ensure_connection(log_failure, retries, callback=state.maybe_shutdown)
        self.first_connection_attempt = False
        self.broker_connection_retry_attempt = 0
        return connected

    def on_connection_error_before_connected(self, exc: Exception) -> None:
        log.warning("%s; it is looked for again", explain_failure(name_place(self.conninfo), exc))

    def on_decode_error(self, message: Message, exc: Exception) -> None:
        log.warning("a message on the queue was refused: %.300s", exc)
        message.reject_log_error(log, self.connection_errors)

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        if self.task_consumer is not None:
            end_broken_read(self.task_consumer.channel, self.connection)
        super().on_connection_error_after_connected(exc)


class PromptTimer(Timer):  # type: ignore[misc]
    """Celery's timer; `stop` wakes it, so that a process does not wait a second for it to end."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._stopping = threading.Event()

    def _next_entry(self) -> None:
        """Do what is due, or wait for it. Celery's thread would sleep for what is returned."""
        if delay := super()._next_entry():
            if self.on_tick:
                self.on_tick(delay)
            self._stopping.wait(delay)

    def stop(self) -> None:
        self._stopping.set()
        super().stop()


def end_broken_read(channel: Any, connection: Any) -> None:
    """End the read that a channel has begun on a lost Redis, so that the channel can be closed.

    Otherwise kombu 5.7 ends the read instead of closing the channel, and discards the connection.
    When Celery closes the channel again, or a run that goes on acknowledges its message, kombu
    raises AttributeError, which would end the worker.
    """
    if connection.transport.driver_type == "redis":
        with suppress(*connection.connection_errors, *connection.channel_errors):
            channel.close()


class ConsumerStep(StartStopStep):  # type: ignore[misc]
    """Starts recovery with Celery's worker; stops the runs after its consumer and before its
    pool."""

    requires = ("celery.worker.components:Pool",)

    def start(self, parent: Any) -> None:
        try:
            parent.app.consumer.start_recovery(parent.concurrency or 1)
        except SandpiperError as error:
            parent.app.failure = error
            raise

    def stop(self, parent: Any) -> None:
        parent.app.consumer.stop_runs()

    terminate = stop


class ReadinessStep(StartStopStep):  # type: ignore[misc]
    """Celery starts it whenever its consumer is connected, and stops it when the broker is lost."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self._was_started = False
        self._renewals: Any = None

    def start(self, parent: Any) -> None:
        message = "the broker is back: messages are taken again"
        log.info(message if self._was_started else "messages are taken from the broker")
        self._was_started = True
        ready: ReadyFile = parent.app.ready_file
        ready.renew()
        self._renewals = parent.timer.call_repeatedly(INTERVAL, ready.renew)

    def stop(self, parent: Any) -> None:
        if self._renewals is not None:
            self._renewals.cancel()
            self._renewals = None
        parent.app.ready_file.remove()

    terminate = shutdown = stop


class _SignalStep(StartStopStep):  # type: ignore[misc]
    """Makes Celery's worker end on SIGTERM without printing a line to stdout."""

    requires = ("celery.worker.components:Pool",)

    def start(self, parent: Any) -> None:
        install_worker_term_handler(parent, verbose=False)

    def stop(self, parent: Any) -> None:
        """Do nothing: the handler stays installed."""

    terminate = stop


def run_worker(app: Sandpiper, concurrency: int, grace: float, ready: Path | None = None) -> None:
    """Run Celery's worker in this process until SIGTERM, with threads: runs mostly wait for a
    model.

    SIGTERM ends every run after its current step, so that another worker continues it. After
    `grace` seconds, or at a second SIGTERM, the process exits at once. The file `ready` exists
    while messages are taken from the broker. Raises what kept the consumer from starting, and
    QueueError if the broker refuses the login, or if Celery's worker ended for another reason than
    a signal.
    """
    # Celery warns root of pickled messages, in six lines; ours are JSON, and no others are read.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    require_login(app)
    app.ready_file = ReadyFile(ready)
    app.steps["worker"].add(_SignalStep)
    shutdown = threading.Event()

    def begin_shutdown(**_: object) -> None:
        shutdown.set()
        app.consumer.stop_runs()
        log.info("shutdown: the runs of this worker end after their current step")
        signal.signal(signal.SIGTERM, lambda *_: exit_now(app))
        timer = threading.Timer(grace, exit_now, [app])
        timer.daemon = True
        timer.start()

    worker_shutting_down.connect(begin_shutdown, weak=False)
    try:
        app.worker_main(
            [
                "--quiet",
                "worker",
                "--pool=threads",
                f"--concurrency={concurrency}",
                "--without-gossip",
                "--without-mingle",
            ]
        )
    finally:
        app.consumer.release_everything()
    # Celery logs what ended its worker, and returns as if nothing had happened.
    if app.failure is not None:
        raise app.failure
    if not shutdown.is_set():
        require_login(app)
        raise QueueError("the worker ended although nobody stopped it: the log above says why")


def exit_now(app: Sandpiper) -> None:
    """Exit at once, with status 1; other workers continue the runs of this one."""
    log.error("the runs did not end in time: they are left to other workers")
    app.consumer.release_everything()
    os._exit(1)


@contextmanager
def run_embedded_worker(
    app: Sandpiper, concurrency: int, grace: float = 30.0, late: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Run Celery's worker in a thread of this process until the block ends, for `memory://`.

    At the end of the block, its runs end after their current step. If that takes longer than
    `grace` seconds, `late` is called.
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
        app.consumer.stop_runs()
        state.should_stop = 0
        thread.join(grace)
        state.should_stop = None
        app.consumer.release_everything()
        if thread.is_alive():
            late()
