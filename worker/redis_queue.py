"""The queue of `redis://`: kombu's, but a message it has taken is not lost with the broker.

kombu takes a message off the list and then writes it down as unacknowledged. A broker that dies in
between forgets it, and kombu drops its own copy with the connection. Here the copy is delivered:
its trigger is safe in the journal as soon as it is begun.
"""

import logging
from typing import Any

from kombu.transport import redis, virtual
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import TimeoutError as NoAnswer

log = logging.getLogger("sandpiper.queue")


class QoS(redis.QoS):  # type: ignore[misc]
    """What is taken and not acknowledged yet."""

    def append(self, message: Any, delivery_tag: str) -> None:
        """Keep it, in this process alone if the broker is gone."""
        try:
            super().append(message, delivery_tag)
        except (NoConnection, NoAnswer, OSError) as error:
            log.warning("a message is kept here alone, the broker is gone: %s", error)
            virtual.QoS.append(self, message, delivery_tag)

    def restore_unacked(self, client: Any = None) -> None:
        """Put back what is not acknowledged, if the connection stands.

        On a connection that is gone kombu ends the worker with an AttributeError. What is begun is
        in the journal; the rest is handed out again when its time-out is over.
        """
        if self.channel.connection.client is None:
            log.warning("messages are left to the broker, the connection is gone")
            return
        super().restore_unacked(client)


class Channel(redis.Channel):  # type: ignore[misc]
    """A channel whose messages outlive the broker."""

    QoS = QoS


class Transport(redis.Transport):  # type: ignore[misc]
    """kombu.transport.redis with that channel."""

    Channel = Channel
