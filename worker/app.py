"""The Celery app and its one task, which takes a trigger: `celery -A worker.app worker`."""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from celery import Task
from celery.exceptions import Reject
from celery.signals import setup_logging

from worker.conversation.events import Watcher, ignore_event
from worker.conversation.triggers import from_message, trigger_id
from worker.errors import ConfigError, SandpiperError
from worker.jobs.consumer import Consumer
from worker.jobs.process import (
    BrokerConsumer,
    ConsumerStep,
    PromptTimer,
    ReadinessStep,
    ReadyFile,
    Sandpiper,
)
from worker.queue.broker import Publisher, make_queues
from worker.queue.journal import Journal
from worker.queue.messages import QUEUED_AT, TASK, refuse_compression
from worker.settings import Settings
from worker.turns.parts import Deps

log = logging.getLogger("sandpiper.queue")

TRANSPORTS = {
    "memory": "worker.queue.messages:MemoryTransport",
    "redis": "worker.queue.messages:RedisTransport",
    "rediss": "worker.queue.messages:RedisTransport",
    "sentinel": "worker.queue.messages:SentinelTransport",
    "sentinels": "worker.queue.messages:SentinelTransport",
}
"""What replaces kombu's own transports: that of `memory://` polls for messages once a second, and
that of Redis ends the worker at an item that is no message."""

RETRY_SECONDS = 3
"""Seconds to wait before a message goes back to the broker if the store cannot be used."""


def build_app(
    settings: Settings,
    deps: Callable[[], Deps],
    watch: Watcher = ignore_event,
    journal: Callable[[], Journal] | None = None,
) -> Sandpiper:
    """Make the Celery app.

    `deps` makes the parts of a job and is called once, when the worker starts or a job needs them.
    `journal` opens the journal in a process that only accepts triggers.
    """
    alone = settings.broker.startswith("memory://")
    refuse_compression()
    # kombu warns of `memory://` without a host, and knows Sentinels by one name alone.
    broker = "memory://localhost//" if settings.broker == "memory://" else settings.broker
    broker = broker.replace("sentinels://", "sentinel://")
    app = Sandpiper("sandpiper", broker=broker, set_as_current=False)
    app.conf.update(
        task_queues=make_queues(settings.broker, settings.broker_queue),
        broker_transport=TRANSPORTS.get(settings.broker.partition("://")[0]),
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_ignore_result=True,
        task_publish_retry_policy={"max_retries": 2, "interval_start": 0.1, "interval_max": 0.5},
        worker_prefetch_multiplier=1,
        # After a lost connection, Celery 5.7 would raise the prefetch count again from the pool's
        # threads, which take RabbitMQ's answers from the main thread: all of them wait forever
        # (celery/worker/consumer/consumer.py, _restore_prefetch_count_after_connection_restart).
        worker_enable_prefetch_count_reduction=False,
        # A Redis that is out of memory refuses commands; the worker waits until it accepts them.
        broker_channel_error_retry=True,
        worker_consumer=BrokerConsumer,
        worker_timer=PromptTimer,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        broker_connection_retry_on_startup=True,
        broker_connection_timeout=5,
        broker_transport_options=_make_transport_options(settings),
        broker_use_ssl=_make_tls_options(settings),
    )
    setup_logging.connect(_ignore_logging_setup, weak=False)
    patience = settings.worker.lease * 4 / 3
    app.consumer = Consumer(
        deps, Publisher(app, TASK), watch, journal=journal, alone=alone, patience=patience
    )
    app.ready_file = ReadyFile()
    app.steps["worker"].add(ConsumerStep)
    app.steps["consumer"].add(ReadinessStep)
    _add_task(app)
    return app


def _make_transport_options(settings: Settings) -> dict[str, Any]:
    scheme = settings.broker.partition("://")[0]
    if scheme.startswith("amqp"):
        # A message counts as queued when the broker has it, not when it was sent.
        return {"confirm_publish": True}
    if scheme.startswith(("redis", "sentinel")):
        waits = {"socket_connect_timeout": 5, "socket_timeout": 30}
        options: dict[str, Any] = {"priority_steps": [0], **waits}
        if scheme.startswith("sentinel"):
            options["master_name"] = settings.broker_master
            own: dict[str, Any] = dict(waits)  # with the Sentinels themselves
            if settings.broker_sentinel_password:
                own["password"] = settings.broker_sentinel_password
            if scheme == "sentinels":
                own |= {"ssl": True, **settings.broker_tls.get_redis_options()}
            options["sentinel_kwargs"] = own
        return options
    return {}


def _make_tls_options(settings: Settings) -> dict[str, Any] | None:
    """Return how the broker's certificate is checked, None where it has none. Without this, neither
    kombu nor py-amqp would check it. Raises ConfigError."""
    scheme, tls = settings.broker.partition("://")[0], settings.broker_tls
    if scheme not in ("rediss", "sentinels", "amqps"):
        return None
    if tls.ca_file and not Path(tls.ca_file).is_file():
        raise ConfigError(f"broker_tls.ca_file: there is no file {tls.ca_file}")
    return tls.get_amqp_options() if scheme == "amqps" else tls.get_redis_options()


def _add_task(app: "Sandpiper") -> None:
    @app.task(name=TASK, bind=True, shared=False)  # type: ignore[untyped-decorator]
    def run(self: Task, message: dict[str, Any]) -> None:
        trigger = from_message(message)
        # Celery turns the publisher's headers into attributes.
        header = getattr(self.request, QUEUED_AT, None)
        queued_at = float(header) if isinstance(header, int | float) else None
        try:
            app.consumer.deliver(trigger, queued_at)
        except SandpiperError as error:
            # The journal could not be used, so the message goes back to the broker.
            log.warning("trigger %s again in %d s: %s", trigger_id(trigger), RETRY_SECONDS, error)
            time.sleep(RETRY_SECONDS)
            raise Reject(str(error), requeue=True) from error


def _ignore_logging_setup(**_: object) -> None:
    """Connected to `setup_logging`, so that Celery leaves the root logger alone."""


def __getattr__(name: str) -> Sandpiper:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from worker import wiring

    settings = wiring.load_settings(None)
    watched = wiring.build_telemetry(settings)
    return build_app(settings, lambda: wiring.build_deps(settings, watched=watched), watched.watch)
