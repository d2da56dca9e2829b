"""What a run of the evaluation makes of a product that does not take the case."""

import gc
import shutil
import time
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from tests.evaluated import CASES, MODEL, answer_right, play
from worker.conversation.events import Watcher
from worker.errors import ConfigError
from worker.lab.cases import load_case
from worker.lab.running import play_case
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


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is missing")
def test_a_run_closes_its_connections() -> None:
    gc.collect()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        # Celery holds the parts of the first run until the second one.
        for _ in range(2):
            assert play(CASE, "right", answer_right(CASE), "bubblewrap").is_right
        gc.collect()
    assert [str(each.message) for each in told] == []
