"""Celery: one generic task that takes a trigger. `celery -A worker.app worker` finds `app` here."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from celery import Celery, Task
from celery.signals import setup_logging
from celery.worker import state
from kombu.exceptions import OperationalError

from worker import job
from worker.core.progress import Watcher, unwatched
from worker.core.triggers import Trigger, from_message, to_message, trigger_id
from worker.deps import Deps
from worker.errors import QueueError, SandpiperError
from worker.settings import Settings

log = logging.getLogger("sandpiper.queue")

TASK = "sandpiper.run"
MAX_RETRIES = 60
LONGEST_WAIT = 60
STOP_SECONDS = 30.0


def build(settings: Settings, deps: Callable[[], Deps], watch: Watcher = unwatched) -> Celery:
    """The Celery app. `deps` is called once, in the first job that needs it."""
    app = Celery("sandpiper", broker=_address(settings.broker), set_as_current=False)
    app.conf.update(
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_ignore_result=True,
        task_publish_retry_policy={"max_retries": 2, "interval_start": 0.1, "interval_max": 0.5},
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        broker_connection_retry_on_startup=True,
        broker_connection_timeout=5,
        broker_transport_options=_transport(settings),
    )
    setup_logging.connect(_keep_our_logging, weak=False)
    _add_task(app, _once(deps), watch)
    return app


def enqueuer(app: Celery) -> Callable[[Trigger], None]:
    """A function that puts a trigger on the queue. It raises QueueError."""

    def enqueue(trigger: Trigger) -> None:
        try:
            app.send_task(TASK, args=[to_message(trigger)])
        except (OperationalError, OSError) as error:
            raise QueueError(f"the broker does not answer: {error}", transient=True) from error

    return enqueue


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


def run_worker(app: Celery, concurrency: int) -> None:
    """A worker process, until SIGTERM. Threads: a session mostly waits on the model."""
    app.worker_main(
        [
            "worker",
            "--pool=threads",
            f"--concurrency={concurrency}",
            "--without-gossip",
            "--without-mingle",
        ]
    )


@contextmanager
def embedded(app: Celery, concurrency: int) -> Iterator[None]:
    """A worker in a thread of this process, for `memory://`."""
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
        state.should_stop = 0
        thread.join(STOP_SECONDS)
        state.should_stop = None


def _address(broker: str) -> str:
    """`memory://` with the host that kombu warns about the lack of."""
    return "memory://localhost//" if broker == "memory://" else broker


def _transport(settings: Settings) -> dict[str, Any]:
    scheme = settings.broker.partition("://")[0]
    if scheme == "memory":
        return {"polling_interval": 0.02}
    if scheme.startswith("redis"):
        # Redis hands a message out again when it is older than this, finished or not
        # (wire-misc 2.2): longer than any run may take.
        longest = settings.limits.wall_clock + job.CLAIM_MARGIN
        return {
            "visibility_timeout": max(3600, int(2 * longest)),
            "socket_connect_timeout": 5,
            "socket_timeout": 30,
        }
    return {}


def _add_task(app: Celery, deps: Callable[[], Deps], watch: Watcher) -> None:
    @app.task(name=TASK, bind=True, max_retries=MAX_RETRIES)  # type: ignore[untyped-decorator]
    def run(self: Task, message: dict[str, Any]) -> None:
        try:
            trigger = from_message(message)
        except ValueError:
            log.exception("a message that is no trigger was dropped")
            return
        try:
            _run(trigger, deps(), watch)
        except SandpiperError as error:
            if not error.transient:
                log.error("trigger %s failed: %s", trigger_id(trigger), error)
                return
            wait = min(2 ** (self.request.retries + 1), LONGEST_WAIT)
            log.warning("trigger %s again in %d s: %s", trigger_id(trigger), wait, error)
            raise self.retry(exc=error, countdown=wait) from error


def _run(trigger: Trigger, deps: Deps, watch: Watcher) -> None:
    ended = job.run(trigger, deps, watch)
    if isinstance(ended, job.Skipped):
        log.info("trigger %s skipped: %s", trigger_id(trigger), ended.reason)


def _once(make: Callable[[], Deps]) -> Callable[[], Deps]:
    made: list[Deps] = []
    lock = threading.Lock()

    def get() -> Deps:
        with lock:
            if not made:
                made.append(make())
            return made[0]

    return get


def _keep_our_logging(**_: object) -> None:
    """Connected to `setup_logging`, so that Celery leaves the root logger alone."""


def __getattr__(name: str) -> Celery:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from worker import wiring

    settings = wiring.start(None)
    return build(settings, lambda: wiring.deps(settings))
