"""What a run of the evaluation makes of a product that does not take the case."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from tests.evaluated import CASES, MODEL
from worker.core.events import Watcher
from worker.errors import ConfigError
from worker.evaluation.cases import load_case
from worker.evaluation.running import play_case
from worker.settings import Settings

CASE = load_case(CASES / "rounding-per-row")


class Broken(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(500)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def serve_broken(settings: Settings, watch: Watcher) -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Broken) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def serve_nothing(settings: Settings, watch: Watcher) -> AbstractContextManager[str]:
    raise ConfigError("no API key")


def test_no_run_is_waited_for_that_the_receiver_has_refused() -> None:
    begun = time.monotonic()
    played = play_case(CASE, MODEL, 1, Settings(), serve_broken)
    assert played.problem == "no note (the receiver answered 500)"
    assert time.monotonic() - begun < 60


def test_wrong_settings_are_no_result_of_a_run() -> None:
    with pytest.raises(ConfigError, match="no API key"):
        play_case(CASE, MODEL, 1, Settings(), serve_nothing)
