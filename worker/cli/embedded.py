"""The receiver and a worker inside a command's own process, on a free port."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from worker import app, wiring
from worker.core.events import Watcher
from worker.errors import SandpiperError
from worker.queue import process
from worker.settings import Settings


@contextmanager
def serve_embedded(chosen: Settings, watch: Watcher) -> Iterator[str]:
    """Run the receiver on a free port and the embedded worker; yield the receiver's URL.

    Raises what making the parts of a job raises, such as ConfigError for a model without a key.
    """
    made = wiring.build_deps(chosen)
    celery = app.build_app(chosen, lambda: made, watch)
    door = wiring.build_receiver(chosen, app.acceptor(celery))
    config = uvicorn.Config(door, host="127.0.0.1", port=0, log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    with process.run_embedded_worker(celery, concurrency=1):
        thread.start()
        _wait_until(lambda: server.started, "the receiver did not start")
        host, port = server.servers[0].sockets[0].getsockname()
        try:
            yield f"http://{host}:{port}"
        finally:
            server.should_exit = True
            thread.join(10)


def _wait_until(ready: Callable[[], bool], otherwise: str, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            raise SandpiperError(otherwise)
        time.sleep(0.01)
