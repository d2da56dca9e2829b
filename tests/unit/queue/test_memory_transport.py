"""The embedded queue: a message wakes its reader, and no message is none for long."""

import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import kombu
import pytest

from worker.queue.messages import PAUSE, MemoryTransport


@pytest.fixture
def connection() -> Iterator[kombu.Connection]:
    with kombu.Connection("memory://localhost//", transport=MemoryTransport) as opened:
        yield opened


def test_a_message_wakes_the_reader_that_waits(connection: kombu.Connection) -> None:
    got: list[Any] = []
    queue = kombu.Queue("awake")
    sender = kombu.Connection("memory://localhost//", transport=MemoryTransport).Producer()

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


def test_threads_that_use_a_queue_first_at_once_get_the_same_one(
    connection: kombu.Connection,
) -> None:
    channel, interval = connection.channel(), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            for number in range(300):
                start = threading.Barrier(8)

                def put(name: str = f"first {number}", start: threading.Barrier = start) -> None:
                    start.wait()
                    channel._queue_for(name).put(1)

                for done in [threads.submit(put) for _ in range(8)]:
                    done.result()
                assert channel._size(f"first {number}") == 8
    finally:
        sys.setswitchinterval(interval)
