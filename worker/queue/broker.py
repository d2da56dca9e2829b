"""Asks the broker whether it can be used, and which workers answer through it."""

import logging
import re
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, TypeVar
from urllib.parse import urlsplit

import amqp
import redis
from celery import Celery
from celery.utils import uuid
from kombu import Queue
from kombu.exceptions import KombuError, OperationalError
from redis.sentinel import MasterNotFoundError

from worker.conversation.triggers import Trigger, to_message, trigger_id
from worker.errors import QueueError
from worker.queue.messages import QUEUED_AT
from worker.transport.failures import find_cause

log = logging.getLogger("sandpiper.queue")

QUEUE = "celery"
"""How Celery calls its queue."""

_REFUSALS = (
    amqp.AccessRefused,
    amqp.NotAllowed,
    redis.AuthenticationError,
    redis.exceptions.AuthenticationWrongNumberOfArgsError,
)
"""What brokers answer to a wrong user, password or virtual host; `__cause__` of kombu's errors."""

_START = "start it, or set SANDPIPER_BROKER to its address"
_CA_SETTING = "broker_tls.ca_file or SSL_CERT_FILE"
_UNFIT = {
    "cluster": "is a node of a Redis Cluster, which cannot be a queue, as each key has another "
    "node; use a single Redis, or several that Sentinels watch, by sentinel://",
    "sentinel": "is a Sentinel and no Redis; name it as sentinel:// and what it calls its Redis as "
    "broker_master",
}
"""What is said of the modes of Redis in which it can be no queue."""


def make_queues(url: str, kind: str) -> list[Queue] | None:
    """Return RabbitMQ's queue with its kind; None, for Celery's own, if that is the server's."""
    if kind == "server" or not url.startswith("amqp"):
        return None
    return [Queue(QUEUE, queue_arguments={"x-queue-type": kind})]


def find_broker_failure(app: Celery) -> QueueError | None:
    """Return why the broker cannot be used, with its URL but no user; None if it can be.

    The error is transient, unless waiting helps nothing; then it says what to do.
    """
    with app.connection_for_write() as connection:
        foreign = (*connection.connection_errors, *connection.channel_errors)
        try:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=3)
            return _find_unfit_redis(connection) or _find_other_queue(app, connection)
        except (KombuError, OSError, *foreign) as error:
            if isinstance(error.__cause__ or error, MasterNotFoundError):
                return _explain_sentinels(connection, error)
            return explain_failure(name_place(connection), error)


def _find_unfit_redis(connection: Any) -> QueueError | None:
    """Return why a Redis that answers can be no queue, None if it can, or is none."""
    if connection.transport.driver_type != "redis":
        return None
    client = connection.default_channel.client
    try:
        mode = client.info("server").get("redis_mode")
        role = client.info("replication").get("role") if mode == "standalone" else ""
    except redis.ResponseError:
        return None  # This user may not ask.
    place = name_place(connection)
    if mode in _UNFIT:
        return QueueError(f"the broker {place} {_UNFIT[mode]}")
    if role == "slave":
        advice = "name the one that is written to, or its Sentinels by sentinel://"
        return QueueError(
            f"the broker {place} is a replica of another Redis; {advice}", transient=True
        )
    return None


def _find_other_queue(app: Celery, connection: Any) -> QueueError | None:
    """Return why RabbitMQ's queue is not the one that is asked for; None if it is, or will be."""
    if connection.transport.driver_type != "amqp":
        return None
    queue = app.amqp.default_queue
    try:
        queue(connection.channel()).queue_declare(passive=True)
        queue(connection.channel()).queue_declare()
    except amqp.NotFound:
        return None  # A look makes none.
    except amqp.PreconditionFailed as error:
        return _explain_other_queue(name_place(connection), error)
    return None


def _explain_other_queue(place: str, error: Exception) -> QueueError:
    """Say what to do where RabbitMQ refuses (PRECONDITION_FAILED) to declare the queue."""
    reason = str(getattr(error, "message", "") or error).rstrip(".")
    return QueueError(
        f"the broker {place} has another kind of queue than broker_queue asks for: {reason}; set "
        "broker_queue to the kind that it has; or stop all receivers and workers, delete the queue "
        "(rabbitmqctl delete_queue) and start them: what was on it is in the journal and is queued "
        "again"
    )


def explain_failure(place: str, error: Exception) -> QueueError:
    """Return why the broker at `place` cannot be used, by what kombu has raised."""
    reason = str(getattr(error, "message", "") or error).rstrip(".")
    if any(isinstance(each, _REFUSALS) for each in (error, error.__cause__)):
        advice = "set SANDPIPER_BROKER to a user, password and virtual host that it knows"
        return QueueError(f"the broker {place} refuses this login: {reason}; {advice}")
    cause = find_cause(error, place, _CA_SETTING, advice=_START)
    text = f"the broker {place} does not answer: {cause.finding}; {cause.advice or _START}"
    return QueueError(text, transient=not cause.lasts)


def _explain_sentinels(connection: Any, error: Exception) -> QueueError:
    """Explain why no Sentinel has named a Redis, by asking each anew: redis-py keeps no reasons."""
    place, options = name_place(connection), connection.transport_options
    addresses = [urlsplit(each) for each in connection.alt] or [connection]
    for each in addresses:
        client = redis.Redis(each.hostname, each.port, **options["sentinel_kwargs"])
        try:
            client.sentinel_get_master_addr_by_name(options["master_name"])
        except redis.AuthenticationError as refusal:
            return QueueError(
                f"the Sentinel {each.hostname}:{each.port} refuses this login: {refusal}; set "
                "SANDPIPER_SENTINEL_PASSWORD to its own password, which the address does not hold"
            )
        except redis.RedisError as failure:
            place, error = f"{place} (its Sentinel {each.hostname}:{each.port})", failure
        else:
            name = options["master_name"]
            reason = f"its Sentinels know no Redis that is called {name}, or none that answers"
            return QueueError(f"the broker {place} does not answer: {reason}", transient=True)
        finally:
            client.close()
    return explain_failure(place, error)


def name_place(connection: Any) -> str:
    """Return the broker's URL without its user, and without the name of our transport in it."""
    scheme, _, rest = str(connection.as_uri()).partition("://")
    if scheme.endswith("Transport"):
        scheme = "sentinel" if scheme.endswith(":SentinelTransport") else "redis"
        scheme += "s" if connection.ssl else ""
    return re.sub("//[^/]*@", "//", f"{scheme}://{rest}")


def require_login(app: Celery) -> None:
    """Raise QueueError if the broker can never be used as it is set; warn of one that does not
    answer, which may yet come."""
    failure = find_broker_failure(app)
    if failure is None:
        return
    if not failure.transient:
        raise failure
    log.warning("%s; triggers wait in the store until it does", failure)


def make_readiness_check(app: Celery) -> Callable[[], str | None]:
    """Return a function that returns why the broker cannot be used, for strangers, or None."""

    def check() -> str | None:
        failure = find_broker_failure(app)
        if failure is None:
            return None
        log.warning("%s", failure)
        return "the broker does not answer"

    return check


def list_workers(app: Celery) -> list[str]:
    """Return the names of the workers that answer through the broker within three seconds.

    Raises QueueError.
    """
    try:
        return sorted(app.control.inspect(timeout=3.0).ping() or {})
    except (OperationalError, OSError) as error:
        raise explain_failure(name_place(app.connection_for_write()), error) from error


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
                raise _explain_other_queue(name_place(connection), error) from error
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
