"""`sandpiper serve`: the webhook receiver, and with the embedded broker the worker too.

`serve_embedded` runs both inside another command's own process, on a free port.
"""

import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext

import click
import uvicorn

from worker import app, wiring
from worker.cli.terminal import StoppedBySignal, end_at_once, watch_signals
from worker.conversation.events import Watcher
from worker.errors import SandpiperError
from worker.jobs import process
from worker.queue import broker
from worker.settings import Settings
from worker.telemetry.parts import Telemetry
from worker.turns.parts import Deps
from worker.turns.placeholder import UnfinishedNote
from worker.turns.sandbox import remove_sandbox

log = logging.getLogger("sandpiper.start")

TURN = 0.0005
"""Python's switch interval in seconds. The thread that queues triggers waits often, and briefly:
with the default of 5 ms, each wait would take longer than the work."""


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option(
    "--port", default=8080, show_default=True, type=click.IntRange(0, 65535), help="0: a free one."
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="Where Prometheus alone reads /metrics, 0 for nowhere.  [default: beside the webhook]",
)
@click.option(
    "--concurrency",
    default=4,
    show_default=True,
    type=click.IntRange(1, 256),
    help="Jobs at a time, with the embedded broker.",
)
@click.pass_obj
def command(
    config: str | None, host: str, port: int, metrics_port: int | None, concurrency: int
) -> None:
    """Receive GitLab's webhooks at POST /webhooks/gitlab."""
    settings = wiring.load_settings(config)
    with closing(wiring.bind_port(host, port)) as taken:
        watched = wiring.build_telemetry(settings)
        run_receiver(
            settings,
            lambda: wiring.build_deps(settings, watched=watched),
            taken,
            concurrency,
            watched,
            metrics_port if settings.metrics.enabled else 0,
        )


def run_receiver(
    settings: Settings,
    parts: Callable[[], Deps],
    taken: socket.socket,
    concurrency: int,
    watched: Telemetry | None = None,
    metrics_port: int | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; `parts` is as in `app.build_app`, `taken` the port.

    `metrics_port` alone serves /metrics, 0 for none; without it, they are beside the webhook.
    Raises ConfigError, and QueueError if the broker refuses the login.
    """
    sys.setswitchinterval(TURN)
    watched = watched or wiring.build_telemetry(settings)
    wiring.require_secret(settings)
    embedded = settings.broker.startswith("memory://")
    if embedded:
        wiring.require_worker(settings, waits=True)
    journal = None if embedded else wiring.open_journal(settings, watched)
    celery = app.build_app(settings, parts, watched.watch, (lambda: journal) if journal else None)
    broker.require_login(celery)
    wiring.introduce_gitlab(settings)
    receiver = wiring.build_receiver(
        settings,
        celery.consumer.accept_triggers,
        broker.make_readiness_check(celery),
        watched,
        with_metrics=metrics_port is None,
    )
    stop = watched.metrics.serve(metrics_port) if metrics_port else lambda: None
    host, port = taken.getsockname()[:2]
    server = wiring.build_server(receiver, host, port)
    for line in (*wiring.list_parts(settings), *wiring.describe_door(settings, host, port)):
        log.info("%s", line)
    ending = _watch_signals(lambda: process.exit_now(celery))
    grace = settings.worker.grace
    working = process.run_embedded_worker(
        celery, concurrency, grace, lambda: process.exit_now(celery)
    )
    try:
        with working if embedded else nullcontext():
            if not ending.is_set():
                server.run([taken])
    finally:
        stop()


def _watch_signals(again: Callable[[], None]) -> threading.Event:
    """Return an event that the first SIGTERM or SIGINT sets; a second one calls `again`.

    uvicorn handles signals while it serves. It raises them again afterwards, when the receiver is
    closed and the embedded worker is in its grace period.
    """
    ending = threading.Event()

    def handle_signal(*_: object) -> None:
        if ending.is_set():
            again()
        ending.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle_signal)
    return ending


_START_SECONDS = 10.0


@contextmanager
def serve_embedded(
    chosen: Settings,
    watch: Watcher,
    listener: socket.socket | None = None,
    tidy: Callable[[], None] = lambda: None,
) -> Iterator[str]:
    """Run the receiver, on `listener` or a free port, and the embedded worker; yield its URL.

    Ctrl-C raises StoppedBySignal there, and the block ends after the worker's present step; a
    second one calls `tidy` and ends the process. Raises what making the parts of a job raises, such
    as ConfigError for a model without a key.
    """
    with ExitStack() as opened:
        deps = wiring.build_deps(chosen, opened=opened)
        note = UnfinishedNote(watch)
        celery = app.build_app(chosen, lambda: deps, note.watch)
        receiver = wiring.build_receiver(chosen, celery.consumer.accept_triggers)
        config = uvicorn.Config(receiver, host="127.0.0.1", port=0, log_config=None, lifespan="off")
        server = uvicorn.Server(config)
        sockets = [listener] if listener else None
        thread = threading.Thread(target=server.run, args=(sockets,), daemon=True)

        def stop(number: int) -> None:
            raise StoppedBySignal(number)

        def remove() -> None:
            deps.queue.leases.is_stopping = True  # no new sandbox for the one that is removed
            tidy()
            if session := note.session_id:
                remove_sandbox(session, deps)

        def end_late() -> None:
            if came:
                end_at_once(came[0], remove)

        came = opened.enter_context(watch_signals(stop, remove))
        opened.enter_context(process.run_embedded_worker(celery, concurrency=1, late=end_late))
        thread.start()
        deadline = time.monotonic() + _START_SECONDS
        while not server.started:
            if time.monotonic() > deadline:
                raise SandpiperError("the receiver did not start")
            time.sleep(0.01)
        host, port = server.servers[0].sockets[0].getsockname()
        try:
            yield f"http://{host}:{port}"
        finally:
            server.should_exit = True
            thread.join(10)
