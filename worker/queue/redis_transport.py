"""kombu's transport for Redis, changed so that nothing on the queue can end its reader.

kombu takes an item off the queue and then reads it: one that is no message raises whatever it
happens to raise, in the loop that keeps the worker going.
"""

import logging
import sys
from queue import Empty
from typing import Any

from kombu.transport import redis, virtual
from kombu.utils.uuid import uuid

from worker.queue.messages import NotOurs

log = logging.getLogger("sandpiper.queue")


class Message(virtual.Message):  # type: ignore[misc]
    """kombu's message. One that cannot be read has its reason in `errors`, where a consumer looks
    for it, and can be rejected like any other."""

    def __init__(self, payload: Any, channel: Any = None, **options: Any) -> None:
        try:
            super().__init__(payload, channel=channel, **options)
            self._check_delivery()
        except Exception:  # what is no message can fail in any way
            self.errors = [sys.exc_info()]
            place = {"exchange": "", "routing_key": ""}
            empty = {"body": None, "properties": {"delivery_tag": uuid(), "delivery_info": place}}
            super().__init__(empty, channel=channel, **options)

    def _check_delivery(self) -> None:
        """Raise NotOurs if Redis could not be told of the message by what it says of itself."""
        place = self.delivery_info
        for each in (self.delivery_tag, place["exchange"], place["routing_key"]):
            if not isinstance(each, str):
                raise NotOurs("its delivery tag, exchange and routing key are no texts")


class _Reading:
    """Takes items off the queue, for kombu's channels."""

    Message = Message

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[misc]
        except Empty:
            raise
        except Exception as error:
            if self._is_broker_failure(error):
                raise
            # It is taken off the queue by now, and no message.
            log.warning("a message on the queue was refused: it cannot be read: %.200s", error)
            return True

    def _is_broker_failure(self, error: Exception) -> bool:
        """Whether Redis failed. For kombu a KeyError is that too; here it comes from an item."""
        transport: Any = self.connection  # type: ignore[attr-defined]
        foreign = (*transport.connection_errors, *transport.channel_errors)
        return isinstance(error, foreign) and not isinstance(error, KeyError)


class Channel(_Reading, redis.Channel):  # type: ignore[misc]
    """kombu's channel to one Redis."""


class Transport(redis.Transport):  # type: ignore[misc]
    """kombu's transport to one Redis."""

    Channel = Channel


class SentinelChannel(_Reading, redis.SentinelChannel):  # type: ignore[misc]
    """kombu's channel to the Redis that Sentinel names."""


class SentinelTransport(redis.SentinelTransport):  # type: ignore[misc]
    """kombu's transport to the Redis that Sentinel names."""

    Channel = SentinelChannel
