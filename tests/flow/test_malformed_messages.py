"""What strangers and other programs may put on the queue ends and stalls no worker."""

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import amqp
import kombu
import pytest
import redis

from tests.brokers import QUEUE
from tests.flow import crew
from tests.flow.product import Process, Product
from tests.malformed import BODIES, HEADERS, RAW, Sent, make_message
from worker.conversation.triggers import Reacted

CONCURRENCY = 4


@contextmanager
def at_work(made: Product) -> Iterator[Process]:
    with made.process(
        "worker", "--concurrency", str(CONCURRENCY), "--metrics-port", "0"
    ) as running:
        yield running


def assert_each_is_refused_in_a_line(
    made: Product, put: Callable[[Any], None], messages: list[Any]
) -> None:
    """Put each on the queue of a worker, and after them all a trigger, which has to end."""
    with at_work(made) as worker:
        for message in messages:
            put(message)

        def lines() -> list[str]:
            return [each for each in worker.log.read_text().splitlines() if "refused" in each]

        worker.until(lambda: len(lines()) >= len(messages), "not all were refused")
        mr = made.scene.mr
        nobodys = made.gitlab.comment(mr, made.scene.author, "Not the bot's.")
        assert nobodys is not None
        with crew.accepting(made) as accept:
            for number in range(2 * CONCURRENCY):
                accept(Reacted(mr.project.id, mr.iid, nobodys.id, number))
        worker.until(lambda: not made.unfinished(), "a trigger does not end")
        assert len(lines()) == len(messages)
        assert all(len(each) < 600 for each in lines())
        others = [each for each in worker.log.read_text().splitlines() if "Traceback" in each]
        assert others == []


def as_item(sent: Sent) -> bytes:
    """A message as kombu keeps it in Redis."""
    place = {"exchange": "", "routing_key": QUEUE}
    properties = {"delivery_tag": "a-tag", "delivery_info": place, "priority": 0, **sent.properties}
    body = sent.body
    if isinstance(body, bytes):
        body = base64.b64encode(body).decode()
        properties.setdefault("body_encoding", "base64")
    item = {"body": body, "headers": sent.headers, "properties": properties}
    named = {"content-type": sent.content_type, "content-encoding": sent.content_encoding}
    return json.dumps(item | named).encode()


@pytest.mark.attack("broker")
@pytest.mark.usefixtures("bubblewrap")
def test_what_is_no_message_of_ours_is_refused_by_a_worker_on_redis(
    tmp_path: Path, redis_url: str, record_property: Callable[[str, object], None]
) -> None:
    items = [*RAW, *(as_item(make_message(**each)) for each in (*BODIES, *HEADERS))]
    record_property("tried", len(items))
    with (
        crew.hasty(tmp_path, crew.script(), redis_url) as made,
        redis.Redis.from_url(redis_url) as client,
    ):
        assert_each_is_refused_in_a_line(made, lambda item: client.lpush(QUEUE, item), items)
        assert client.hlen("unacked") == 0


@pytest.mark.attack("broker")
@pytest.mark.usefixtures("bubblewrap")
def test_what_is_no_message_of_ours_is_refused_by_a_worker_on_rabbitmq(
    tmp_path: Path, rabbit_url: str, record_property: Callable[[str, object], None]
) -> None:
    sent = [make_message(**each) for each in (*BODIES, *HEADERS)]
    sent = [each for each in sent if each.fits_amqp]
    record_property("tried", len(sent))
    with (
        crew.hasty(tmp_path, crew.script(), rabbit_url) as made,
        kombu.Connection(rabbit_url, connect_timeout=5) as connection,
        closing(connection.channel()) as channel,
    ):
        channel.queue_declare(QUEUE, durable=True, auto_delete=False)

        def put(each: Sent) -> None:
            message = amqp.Message(
                each.body,
                application_headers=each.headers,
                **{
                    name: value
                    for name, value in (
                        ("content_type", each.content_type),
                        ("content_encoding", each.content_encoding),
                        *each.properties.items(),
                    )
                    if value is not None
                },
            )
            channel.basic_publish(message, routing_key=QUEUE)

        assert_each_is_refused_in_a_line(made, put, sent)
