"""Puts triggers on the queue as Celery's messages, over one connection that is kept open.

`Celery.send_task` does the same in twice the CPU time: for every message it describes the arguments
for results that nobody stores, asks a pool for a connection and declares the queue.
"""

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, TypeVar

import amqp
from celery import Celery
from celery.utils import uuid
from kombu.exceptions import KombuError

from worker.conversation.triggers import Trigger, to_message, trigger_id
from worker.errors import QueueError
from worker.queue.broker import explain_failure, explain_other_queue, name_place
from worker.queue.messages import QUEUED_AT

T = TypeVar("T")

PERSISTENT = 2
"""AMQP's delivery mode of a message that a restart of the broker does not lose."""

CONNECT_SECONDS = 5.0


class Publisher:
    """Puts triggers on the app's default queue, for its task `task`. Thread-safe."""

    def __init__(self, app: Celery, task: str) -> None:
        self._app, self._task = app, task
        self._lock = threading.Lock()
        # A new random id for each message would cost as much as writing the message.
        self._name, self._numbers = uuid(), count()
        self._connection: Any = None
        self._producer: Any = None

    def __call__(self, trigger: Trigger, since: float | None = None) -> None:
        """Send one message. `since` is when the trigger's wait began (epoch seconds), by default
        now. Raises QueueError: see `publish_all`."""
        self._with_producer(partial(self._send_all, [trigger], since))

    def publish_all(self, triggers: Sequence[Trigger]) -> None:
        """Send a message for each trigger, to Redis all of them in one round trip.

        Raises QueueError, transient, if the broker does not accept all of them. If only the
        confirmation is lost, messages arrive twice, which is harmless: triggers are idempotent.
        """
        self._with_producer(partial(self._send_all, triggers, None))

    def count_waiting(self) -> int:
        """Return how many messages no worker has taken yet. Raises QueueError, transient."""
        return self._with_producer(self._count_messages)

    def close(self) -> None:
        """Close the connection; the next message opens another one."""
        with self._lock:
            self._disconnect()

    def _with_producer(self, work: Callable[[Any], T]) -> T:
        """Call `work` with a connected producer, over a new connection if it fails. Raises
        QueueError."""
        failure: Exception | None = None
        place = ""
        with self._lock:
            # The second attempt is for a broker that was restarted since the last message.
            for _ in range(2):
                connection: Any = self._connection or self._app.connection_for_write()
                self._connection = connection
                foreign = (*connection.connection_errors, *connection.channel_errors)
                try:
                    return work(self._connect(connection))
                except (KombuError, OSError, *foreign) as error:
                    place = name_place(connection)
                    self._disconnect()
                    failure = error
        text = str(explain_failure(place, failure)) if failure else ""
        raise QueueError(text, transient=True) from failure

    def _connect(self, connection: Any) -> Any:
        if self._producer is None:
            connection.ensure_connection(
                max_retries=1, interval_start=0, interval_step=0, timeout=CONNECT_SECONDS
            )
            self._producer = self._app.amqp.Producer(connection, auto_declare=False)
            try:
                self._app.amqp.default_queue(self._producer.channel).declare()
            except amqp.PreconditionFailed as error:
                self._disconnect()
                raise explain_other_queue(name_place(connection), error) from error
        return self._producer

    def _disconnect(self) -> None:
        connection, self._connection, self._producer = self._connection, None, None
        if connection is not None:
            connection.release()

    def _send_all(self, triggers: Sequence[Trigger], since: float | None, producer: Any) -> None:
        with producer.batch():
            for each in triggers:
                self._send(each, since, producer)

    def _send(self, trigger: Trigger, since: float | None, producer: Any) -> None:
        message = self._app.amqp.as_task_v2(
            f"{self._name}-{next(self._numbers)}",
            self._task,
            [to_message(trigger)],
            ignore_result=True,
            argsrepr=trigger_id(trigger),
            kwargsrepr="",
        )
        producer.publish(
            message.body,
            headers={**message.headers, QUEUED_AT: since or time.time()},
            routing_key=self._app.amqp.default_queue.name,
            serializer=self._app.conf.task_serializer,
            delivery_mode=PERSISTENT,
            **message.properties,
        )

    def _count_messages(self, producer: Any) -> int:
        queue = self._app.amqp.default_queue
        # Declaring a queue again is the only way to get its length from every broker.
        declared = producer.channel.queue_declare(
            queue=queue.name,
            durable=queue.durable,
            exclusive=queue.exclusive,
            auto_delete=queue.auto_delete,
            arguments=queue.queue_arguments,
        )
        return int(declared.message_count)
