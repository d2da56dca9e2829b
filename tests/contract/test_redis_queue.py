"""The queue over a real Redis: whoever dies while taking a message, somebody else gets it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import kombu
import pytest
import redis

from tests.brokers import running_redis
from tests.flow.product import free_port
from tests.flow.proxy import Proxy
from tests.flow.taker import killed_with_a_message
from worker.redis_queue import Transport

QUEUE = kombu.Queue("work", kombu.Exchange("work"), routing_key="work")
LONGEST = 30.0


def connected(url: str, patience: float = 600) -> kombu.Connection:
    """`patience` are the seconds after which what is not acknowledged is handed out again."""
    options = {
        "priority_steps": [0],
        "visibility_timeout": patience,
        "unacked_restore_throttle": 1,
    }
    return kombu.Connection(url, transport=Transport, transport_options=options)


def put(url: str, *bodies: Any) -> None:
    with connected(url) as connection:
        producer = connection.Producer()
        for body in bodies:
            producer.publish(body, exchange=QUEUE.exchange, routing_key="work", declare=[QUEUE])


class Consumer:
    """Takes what there is, in a thread where others do too; acknowledges unless told not to."""

    def __init__(self, url: str, *, patience: float = 600, acknowledges: bool = True) -> None:
        self.bodies: list[Any] = []
        self.channel: Any = None
        self._url, self._patience, self._acknowledges = url, patience, acknowledges

    def until(self, condition: Callable[[], object]) -> None:
        """Take messages until it holds. Fails where it never does."""
        deadline = time.monotonic() + LONGEST
        with self.taking() as connection:
            while not condition():
                assert time.monotonic() < deadline, self.bodies
                with suppress(TimeoutError):
                    connection.drain_events(timeout=0.2)

    @contextmanager
    def taking(self) -> Iterator[kombu.Connection]:
        with connected(self._url, self._patience) as connection:
            self.channel = connection.default_channel
            with connection.Consumer([QUEUE], callbacks=[self._take]) as consumer:
                consumer.qos(prefetch_count=1)
                yield connection

    def _take(self, body: Any, message: Any) -> None:
        self.bodies.append(body)
        if self._acknowledges:
            message.ack()


def soon(condition: Callable[[], object]) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + LONGEST
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def left(url: str) -> tuple[int, int, int]:
    """What is queued, and what is noted as unacknowledged."""
    with redis.Redis.from_url(url) as client:
        return client.llen("work"), client.hlen("unacked"), client.zcard("unacked_index")


def test_a_message_whose_taker_is_killed_before_it_notes_it_is_taken_by_the_next_one(
    redis_url: str,
) -> None:
    put(redis_url, "precious")
    assert killed_with_a_message(redis_url, "work")
    assert left(redis_url) == (0, 1, 1)
    heir = Consumer(redis_url, patience=1)
    heir.until(lambda: heir.bodies)
    assert heir.bodies == ["precious"]
    assert left(redis_url) == (0, 0, 0)


def test_a_message_that_does_not_arrive_is_taken_by_the_next_one(redis_url: str) -> None:
    server = urlsplit(redis_url)
    assert server.hostname
    assert server.port
    with Proxy((server.hostname, server.port)) as between:
        put(redis_url, "precious")

        def cut() -> None:
            soon(lambda: between.swallowed)
            between.speak()
            between.away(0)

        taker = Consumer(server._replace(netloc=f"127.0.0.1:{between.port}").geturl())
        between.silent_at(rb"\bEVAL\r\n", heard=True)
        cutting = threading.Thread(target=cut)
        cutting.start()
        with pytest.raises(redis.ConnectionError):
            taker.until(lambda: taker.bodies)
        cutting.join()
    assert left(redis_url) == (0, 1, 1)
    heir = Consumer(redis_url, patience=1)
    heir.until(lambda: heir.bodies)
    assert heir.bodies == ["precious"]


def test_messages_come_in_their_order_and_each_to_one_of_many_takers(redis_url: str) -> None:
    put(redis_url, *range(60))
    takers = [Consumer(redis_url) for _ in range(3)]

    def all_taken() -> bool:
        return sum(len(taker.bodies) for taker in takers) >= 60

    threads = [threading.Thread(target=taker.until, args=[all_taken]) for taker in takers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONGEST)
    assert all(taker.bodies == sorted(taker.bodies) for taker in takers)
    assert sorted(body for taker in takers for body in taker.bodies) == list(range(60))
    assert left(redis_url) == (0, 0, 0)


def test_a_message_that_comes_while_it_is_waited_for_is_taken_and_noted(redis_url: str) -> None:
    taker = Consumer(redis_url, acknowledges=False)
    with taker.taking() as connection:
        with pytest.raises(TimeoutError):
            connection.drain_events(timeout=0.1)
        put(redis_url, "late")
        while not taker.bodies:
            with suppress(TimeoutError):
                connection.drain_events(timeout=0.2)
        assert left(redis_url) == (0, 1, 1)
    # Who ends in good order puts back what it did not do.
    assert left(redis_url) == (1, 0, 0)


def test_who_has_stopped_taking_leaves_what_comes_in_the_queue(redis_url: str) -> None:
    got: list[Any] = []
    with connected(redis_url) as connection:
        consumer = connection.Consumer([QUEUE], callbacks=[lambda body, _: got.append(body)])
        consumer.consume()
        with pytest.raises(TimeoutError):
            connection.drain_events(timeout=0.1)
        assert connection.default_channel.awaited == "work"
        consumer.cancel()
        put(redis_url, "for others")
    assert got == []
    assert left(redis_url) == (1, 0, 0)


def test_what_kombu_did_not_write_does_not_stand_in_the_way(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.lpush("work", b"no message")
    put(redis_url, "a message")
    taker = Consumer(redis_url)
    with pytest.raises(ValueError, match="Expecting value"):
        taker.until(lambda: taker.bodies)
    taker.until(lambda: taker.bodies)
    assert taker.bodies == ["a message"]
    assert left(redis_url) == (0, 0, 0)


@pytest.mark.parametrize("lacks", [("blmove", ""), ("", "blmove"), ("", "eval")])
def test_a_server_that_cannot_move_messages_is_used_as_kombu_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, lacks: tuple[str, str]
) -> None:
    unknown, forbidden = lacks
    options = ["--rename-command", unknown, ""] if unknown else []
    with running_redis(tmp_path, free_port(), *options) as server:
        if forbidden:
            with redis.Redis.from_url(server.url) as client:
                client.execute_command("ACL", "SETUSER", "default", f"-{forbidden}")
        taker = Consumer(server.url)
        put(server.url, *range(3))
        taker.until(lambda: len(taker.bodies) == 3)
        assert left(server.url) == (0, 0, 0)
    assert taker.bodies == [0, 1, 2]
    assert taker.channel.awaited == ""
    told = [each.getMessage() for each in caplog.records if each.name == "sandpiper.queue"]
    assert [line[:24] for line in told] == ["a worker killed while it"]


def test_a_server_without_memory_keeps_what_it_has_until_there_is_some(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        running_redis(tmp_path, free_port()) as server,
        redis.Redis.from_url(server.url) as client,
    ):
        taker = Consumer(server.url)
        with taker.taking() as connection:
            put(server.url, "kept")
            client.config_set("maxmemory", 1)
            once = threading.Thread(target=connection.drain_events, kwargs={"timeout": LONGEST})
            once.start()
            soon(lambda: "no memory left" in caplog.text)
            assert left(server.url) == (1, 0, 0)
            client.config_set("maxmemory", 0)
            once.join(LONGEST)
        assert taker.bodies == ["kept"]
        assert left(server.url) == (0, 0, 0)


def test_consumers_that_acknowledge_nothing_leave_nothing_noted(redis_url: str) -> None:
    got: list[Any] = []
    put(redis_url, "an answer")
    with connected(redis_url) as connection:
        consumer = connection.Consumer(
            [QUEUE], no_ack=True, callbacks=[lambda body, _: got.append(body)]
        )
        with consumer:
            while not got:
                with suppress(TimeoutError):
                    connection.drain_events(timeout=0.2)
    assert got == ["an answer"]
    assert left(redis_url) == (0, 0, 0)
