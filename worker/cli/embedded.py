"""The receiver and a worker inside a command's own process, on a free port."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import uvicorn

from worker import app, wiring
from worker.cli.interrupts import StoppedBySignal, end_at_once, watch_signals
from worker.conversation.events import Watcher
from worker.errors import SandpiperError
from worker.jobs import process
from worker.settings import Settings
from worker.turns.placeholder import UnfinishedNote
from worker.turns.sandbox import remove_sandbox

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
        _wait_for_start(server)
        host, port = server.servers[0].sockets[0].getsockname()
        try:
            yield f"http://{host}:{port}"
        finally:
            server.should_exit = True
            thread.join(10)


def _wait_for_start(server: uvicorn.Server) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not server.started:
        if time.monotonic() > deadline:
            raise SandpiperError("the receiver did not start")
        time.sleep(0.01)
