"""Triggers onto the queue: one connection that is kept open, and Celery's own messages.

`Celery.send_task` does the same in twice the CPU time: for every message it describes the arguments
for results that nobody stores, asks a pool for a connection and declares the queue.
"""

import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, TypeVar

from celery import Celery
from celery.utils import uuid
from kombu.exceptions import KombuError

from worker.core.triggers import Trigger, to_message, trigger_id
from worker.errors import QueueError

T = TypeVar("T")

PERSISTENT = 2
"""AMQP's delivery mode of a message that a restart of the broker does not lose."""

CONNECT_SECONDS = 5.0

QUEUED_AT = "queued_at"
"""The header of a message that says since when its trigger waits, in epoch seconds."""


class Publisher:
    """Puts triggers on the app's default queue, for its task `task`. Safe to share by threads."""

    def __init__(self, app: Celery, task: str) -> None:
        self._app, self._task = app, task
        self._lock = threading.Lock()
        # For each message a random id of its own would cost as much as to write it.
        self._name, self._numbers = uuid(), count()
        self._connection: Any = None
        self._producer: Any = None

    def __call__(self, trigger: Trigger, since: float | None = None) -> None:
        """One message. `since` is when its wait began (epoch seconds), if that was before now.

        Raises QueueError, transient, if the broker does not take it. A message may
        arrive twice where its confirmation got lost: triggers are idempotent.
        """
        self._attempt(partial(self._send, trigger, since))

    def count_waiting(self) -> int:
        """How many messages no worker has taken yet. Raises QueueError, transient."""
        return self._attempt(self._count)

    def close(self) -> None:
        """Give the connection up; the next message opens another one."""
        with self._lock:
            self._close()

    def _attempt(self, work: Callable[[Any], T]) -> T:
        """What `work` makes of a producer that is connected. Raises QueueError, transient."""
        failure: Exception | None = None
        with self._lock:
            # The second attempt is for a broker that was restarted since the last message.
            for _ in range(2):
                connection: Any = self._connection or self._app.connection_for_write()
                self._connection = connection
                foreign = (*connection.connection_errors, *connection.channel_errors)
                try:
                    return work(self._connected(connection))
                except (KombuError, OSError, *foreign) as error:
                    self._close()
                    failure = error
        raise QueueError(f"the broker does not answer: {failure}", transient=True) from failure

    def _connected(self, connection: Any) -> Any:
        if self._producer is None:
            connection.ensure_connection(
                max_retries=1, interval_start=0, interval_step=0, timeout=CONNECT_SECONDS
            )
            self._producer = self._app.amqp.Producer(connection, auto_declare=False)
            self._app.amqp.default_queue(self._producer.channel).declare()
        return self._producer

    def _close(self) -> None:
        connection, self._connection, self._producer = self._connection, None, None
        if connection is not None:
            connection.release()

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

    def _count(self, producer: Any) -> int:
        queue = self._app.amqp.default_queue
        # Declaring a queue again is the one way in which every broker tells its length.
        found = producer.channel.queue_declare(
            queue=queue.name,
            durable=queue.durable,
            exclusive=queue.exclusive,
            auto_delete=queue.auto_delete,
            arguments=queue.queue_arguments,
        )
        return int(found.message_count)
