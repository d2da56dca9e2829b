"""Reads the messages on the queue, on which anybody with access to the broker can put anything.

Only a trigger is delivered. Of its message nothing else is believed: Celery's headers and the body
are written anew, so that a message cannot ask for another task, another time or a further call.
"""

import json
import logging
import math
import sys
import threading
from collections.abc import Mapping
from queue import Empty, Queue
from typing import Any

from kombu import Message, compression
from kombu.transport import memory, redis, virtual
from kombu.utils.uuid import uuid

from worker.conversation.triggers import Trigger, from_message, to_message, trigger_id
from worker.safety.untrusted import parse_json

TASK = "sandpiper.run"

QUEUED_AT = "queued_at"
"""The header with the time when the trigger's wait began, in epoch seconds."""

LONGEST_BODY = 65_536
"""Bytes; a trigger has a few hundred."""

_SHOWN = 80
_NO_CALLS: Mapping[str, Any] = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}


class NotOurs(ValueError):
    """A message is not one of this product's; says why, in a line that may be logged."""


def clean_message(message: Message) -> None:
    """Check a message of kombu's and reduce it to its trigger. Raises NotOurs."""
    headers = message.headers if isinstance(message.headers, dict) else {}
    if headers.get("task") != TASK:
        raise NotOurs(f"its task is {_show(headers.get('task'))}")
    if message.content_type != "application/json":
        raise NotOurs(f"its content type is {_show(message.content_type)}")
    for header in ("eta", "expires"):
        if headers.get(header) is not None:
            raise NotOurs(f"it has the header {header}={_show(headers[header])}")
    name = headers.get("id")
    if not isinstance(name, str) or not 0 < len(name) <= _SHOWN:
        raise NotOurs(f"its id is {_show(name)}")
    trigger = _read_trigger(message.body)
    message.headers = _make_headers(name, trigger, headers.get(QUEUED_AT))
    message.body = json.dumps([[to_message(trigger)], {}, _NO_CALLS]).encode()
    message.content_encoding = "utf-8"


def _read_trigger(body: Any) -> Trigger:
    """Return the trigger in a body, `[[trigger], {}, {…}]`. Raises NotOurs."""
    if not isinstance(body, str | bytes | bytearray | memoryview):
        raise NotOurs(f"its body is {_show(body)}")
    content = body.encode("utf-8", "replace") if isinstance(body, str) else bytes(body)
    if len(content) > LONGEST_BODY:
        raise NotOurs(f"its body has {len(content)} bytes, more than {LONGEST_BODY}")
    # As UTF-8, since of bytes Python's parser takes UTF-16 too.
    match parse_json(content.decode("utf-8", "replace")):
        case [[dict() as trigger], dict() as options, dict() as calls]:
            if options or any(calls.values()):
                raise NotOurs("it asks for more than a run")
        case _:
            raise NotOurs(f"its body is {_show(content)}")
    try:
        return from_message(trigger)
    except ValueError as error:
        raise NotOurs(f"its body is {_show(content)}: {str(error)[:_SHOWN]}") from error


def _make_headers(name: str, trigger: Trigger, queued_at: Any) -> dict[str, Any]:
    headers = {
        "task": TASK,
        "id": name,
        "root_id": name,
        "lang": "py",
        "retries": 0,
        "ignore_result": True,
        "argsrepr": trigger_id(trigger),
        "kwargsrepr": "",
    }
    is_time = type(queued_at) in (int, float) and math.isfinite(queued_at) and queued_at > 0
    return {**headers, QUEUED_AT: queued_at} if is_time else headers


def _show(value: Any) -> str:
    """Return the beginning of a value that may be anything."""
    if isinstance(value, str | bytes):
        return repr(value[:_SHOWN]) + ("…" if len(value) > _SHOWN else "")
    return "missing" if value is None else f"of type {type(value).__name__}"


def refuse_compression() -> None:
    """Let kombu unpack nothing in this process: it does so before anybody sees the message, and a
    few kilobytes may become gigabytes. Ours are not compressed."""
    for form in compression.encoders():
        compression.register(_refuse_form, _refuse_form, form)


def _refuse_form(body: bytes) -> bytes:
    raise NotOurs("it is compressed")


log = logging.getLogger("sandpiper.queue")


class _ReadMessage(virtual.Message):  # type: ignore[misc]
    """kombu's message. One that cannot be read has its reason in `errors`, where a consumer looks
    for it, and can be rejected like any other."""

    def __init__(self, payload: Any, channel: Any = None, **options: Any) -> None:
        try:
            super().__init__(payload, channel=channel, **options)
            place = self.delivery_info
            # By these, Redis is told of the message.
            for each in (self.delivery_tag, place["exchange"], place["routing_key"]):
                if not isinstance(each, str):
                    raise NotOurs("its delivery tag, exchange and routing key are no texts")
        except Exception:  # what is no message can fail in any way
            self.errors = [sys.exc_info()]
            place = {"exchange": "", "routing_key": ""}
            empty = {"body": None, "properties": {"delivery_tag": uuid(), "delivery_info": place}}
            super().__init__(empty, channel=channel, **options)


class _Reading:
    """Takes items off the queue, for kombu's channels."""

    Message = _ReadMessage

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[misc]
        except Empty:
            raise
        except Exception as error:
            transport: Any = self.connection  # type: ignore[attr-defined]
            foreign = (*transport.connection_errors, *transport.channel_errors)
            # For kombu a KeyError is Redis's failure too; here it comes from an item.
            if isinstance(error, foreign) and not isinstance(error, KeyError):
                raise
            # It is taken off the queue by now, and no message.
            log.warning("a message on the queue was refused: it cannot be read: %.200s", error)
            return True


class _RedisChannel(_Reading, redis.Channel):  # type: ignore[misc]
    """kombu's channel to one Redis."""


class RedisTransport(redis.Transport):  # type: ignore[misc]
    """kombu's transport to one Redis."""

    Channel = _RedisChannel


class _SentinelChannel(_Reading, redis.SentinelChannel):  # type: ignore[misc]
    """kombu's channel to the Redis that Sentinel names."""


class SentinelTransport(redis.SentinelTransport):  # type: ignore[misc]
    """kombu's transport to the Redis that Sentinel names."""

    Channel = _SentinelChannel


PAUSE = 0.1
"""Seconds after which a reader returns without a message, so that the worker does its other work.

The worker then acknowledges finished jobs, which lets the next one in, and notices a shutdown.
"""

_arrived = threading.Condition()


class _Count:
    """How many messages this process has put on its queues."""

    puts = 0


class _MemoryChannel(memory.Channel):  # type: ignore[misc]
    """kombu's channel, which wakes the readers at every message.

    Threads that use a queue for the first time at once get the same one: kombu's own channel gives
    each of them another, all but one of which are lost with their messages.
    """

    def _new_queue(self, queue: str, **options: Any) -> None:
        self._queue_for(queue)

    def _queue_for(self, queue: str) -> "Queue[Any]":
        return self.queues.setdefault(queue, Queue())  # type: ignore[no-any-return]

    def _put(self, queue: str, message: Any, **options: Any) -> None:
        super()._put(queue, message, **options)
        with _arrived:
            _Count.puts += 1
            _arrived.notify_all()


class MemoryTransport(memory.Transport):  # type: ignore[misc]
    """kombu's transport with readers that wait for messages."""

    Channel = _MemoryChannel

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:
        """Deliver one message. Raises TimeoutError if none comes, after at most PAUSE seconds."""
        before = _Count.puts
        if self._deliver_one():
            return
        with _arrived:
            _arrived.wait_for(
                lambda: _Count.puts != before, PAUSE if timeout is None else min(timeout, PAUSE)
            )
        if not self._deliver_one():
            raise TimeoutError

    def _deliver_one(self) -> bool:
        try:
            self.cycle.get(self._deliver, timeout=0)
        except Empty:
            return False
        return True
