"""What the door puts on the queue, over each kind of broker."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest
import redis

from tests.brokers import QUEUE
from worker import app
from worker.conversation.triggers import PipelineFailed, from_message
from worker.errors import QueueError
from worker.queue.broker import Publisher
from worker.queue.messages import TASK
from worker.settings import Settings
from worker.turns.parts import Deps

TRIGGER = PipelineFailed(233, 881204, "5d9b3c1f", "fix/window", 418, 233)


def no_deps() -> Deps:
    raise AssertionError("only a worker needs them")


@contextmanager
def publisher(url: str) -> Iterator[Publisher]:
    made = Publisher(app.build_app(Settings(broker=url), no_deps), TASK)
    with closing(made):
        yield made


def queued(url: str) -> list[object]:
    """The triggers on the queue, taken from it."""
    found: list[object] = []
    built = app.build_app(Settings(broker=url), no_deps)
    with built.connection_for_read() as connection, connection.SimpleQueue(QUEUE) as queue:
        while True:
            try:
                message = queue.get(timeout=0.5)
            except queue.Empty:
                return found
            assert message.headers["task"] == TASK
            assert message.properties["delivery_mode"] == 2
            found.append(from_message(message.payload[0][0]))
            message.ack()


def test_a_trigger_arrives_as_it_was_and_outlives_a_broken_connection(redis_url: str) -> None:
    with publisher(redis_url) as publish, redis.Redis.from_url(redis_url) as client:
        publish(TRIGGER)
        for each in client.client_list():
            if each["db"] == _database(redis_url) and int(each["id"]) != client.client_id():
                client.client_kill_filter(_id=each["id"])
        publish(TRIGGER)
    assert queued(redis_url) == [TRIGGER, TRIGGER]


def test_triggers_that_are_sent_together_arrive_in_their_order(
    redis_url: str, rabbit_url: str
) -> None:
    triggers = [replace(TRIGGER, pipeline_id=number) for number in range(1, 40)]
    for url in (redis_url, rabbit_url, "memory://"):
        with publisher(url) as publish:
            publish.publish_all(triggers)
        assert queued(url) == triggers


def test_many_triggers_take_one_round_trip_to_redis(redis_url: str) -> None:
    triggers = [replace(TRIGGER, pipeline_id=number) for number in range(1, 40)]
    with publisher(redis_url) as publish, redis.Redis.from_url(redis_url) as client:
        publish(TRIGGER)
        before = client.info("stats")["total_reads_processed"]
        publish.publish_all(triggers)
        reads = client.info("stats")["total_reads_processed"] - before
        client.delete(QUEUE)
    assert reads < len(triggers)


def test_the_broker_tells_how_many_messages_wait(redis_url: str, rabbit_url: str) -> None:
    for url in (redis_url, rabbit_url, "memory://"):
        with publisher(url) as publish:
            assert publish.count_waiting() == 0
            publish(TRIGGER)
            publish(TRIGGER)
            assert publish.count_waiting() == 2
        assert len(queued(url)) == 2


def _database(url: str) -> str:
    return url.rpartition("/")[2]


def test_rabbitmq_keeps_a_trigger_that_comes_before_any_worker(rabbit_url: str) -> None:
    with publisher(rabbit_url) as publish:
        publish(TRIGGER)
    assert queued(rabbit_url) == [TRIGGER]


@pytest.mark.parametrize("scheme", ["redis", "amqp"])
def test_a_broker_that_is_down_is_a_passing_queue_error(scheme: str) -> None:
    with publisher(f"{scheme}://127.0.0.1:9/") as publish:
        for _ in range(2):
            with pytest.raises(
                QueueError, match=r"the broker .* does not answer: nothing"
            ) as raised:
                publish(TRIGGER)
            assert raised.value.transient
