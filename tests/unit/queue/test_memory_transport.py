"""The embedded queue: a message wakes its reader, and no message is none for long."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import kombu
import pytest

from worker.queue.memory_transport import PAUSE, Transport


@pytest.fixture
def connection() -> Iterator[kombu.Connection]:
    with kombu.Connection("memory://localhost//", transport=Transport) as opened:
        yield opened


def test_a_message_wakes_the_reader_that_waits(connection: kombu.Connection) -> None:
    got: list[Any] = []
    queue = kombu.Queue("awake")
    sender = kombu.Connection("memory://localhost//", transport=Transport).Producer()

    def put() -> None:
        sender.publish({"n": 1}, routing_key=queue.name)

    with kombu.Consumer(connection, [queue], callbacks=[lambda body, _: got.append(body)]):
        threading.Timer(PAUSE / 3, put).start()
        connection.drain_events(timeout=5)  # one call: without the wake-up it ends empty
    assert got == [{"n": 1}]


def test_without_a_message_the_worker_is_soon_let_go(connection: kombu.Connection) -> None:
    with kombu.Consumer(connection, [kombu.Queue("idle")], callbacks=[lambda *_: None]):
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            connection.drain_events(timeout=60)
        assert time.monotonic() - began < 30
