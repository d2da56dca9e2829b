"""The queue of `redis://`: kombu's, but no message is lost on its way to a worker.

kombu takes a message off the list (`BRPOP`) and writes it down as unacknowledged afterwards: a
worker that is killed in between, or whose answer does not arrive, loses it (kombu 5.7,
transport/redis.py: `Channel._brpop_start`, `_brpop_read`, `QoS.append`). Here both are one step of
the server. A worker only waits for a message to be there: `BLMOVE` from the end of the list to the
same end changes nothing. Then a script moves it, and kombu hands it out again when its worker has
not acknowledged it in time.
"""

import logging
from time import monotonic, sleep, time
from typing import Any

from kombu.transport import redis, virtual
from redis import Redis
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import NoPermissionError, OutOfMemoryError, ResponseError
from redis.exceptions import TimeoutError as NoAnswer

log = logging.getLogger("sandpiper.queue")

TAKE = """
local message = redis.call('LINDEX', KEYS[1], -1)
if not message then return false end
local read, tag, told = pcall(function()
  local properties = cjson.decode(message).properties
  return properties.delivery_tag, properties.delivery_info
end)
if read and type(tag) == 'string' and type(told) == 'table' then
  local where = cjson.encode(told.exchange) .. ',' .. cjson.encode(told.routing_key)
  redis.call('ZADD', KEYS[3], ARGV[1], tag)
  redis.call('HSET', KEYS[2], tag, '[' .. message .. ',' .. where .. ']')
else
  tag = ''
end
redis.call('RPOP', KEYS[1])
return {message, tag}
"""
"""Takes the next message of a queue, noted as kombu's QoS.append does; its tag if it was noted."""


class QoS(redis.QoS):  # type: ignore[misc]
    """What is taken and not acknowledged yet."""

    def append(self, message: Any, delivery_tag: str) -> None:
        """Keep it; in this process alone if the server has noted it, or the broker is gone."""
        noted, self.channel.noted = self.channel.noted, ""
        if noted == delivery_tag:
            virtual.QoS.append(self, message, delivery_tag)
            return
        try:
            super().append(message, delivery_tag)
        except (NoConnection, NoAnswer, OSError) as error:
            # Its trigger is safe in the journal as soon as it is begun.
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


class Client(Redis):
    """What kombu's channel speaks through: where it reads a `BRPOP`, a message is moved."""

    def __init__(self, channel: "Channel", **options: Any) -> None:
        super().__init__(**options)
        self._channel = channel

    def parse_response(self, connection: Any, command_name: str, **options: Any) -> Any:
        """The answer to a command; to `BRPOP` the queue and its message, or None."""
        if command_name != "BRPOP" or not self._channel.awaited:
            return self._read(connection, command_name, **options)
        try:
            return self._taken(connection, self._channel.awaited)
        except ResponseError as error:
            self._channel.refused(error)
            return None

    def _taken(self, connection: Any, queue: str) -> tuple[bytes, bytes] | None:
        there = self._read(connection, "BLMOVE")
        if there is None or not self._channel.wants(queue):
            return None
        connection.send_command("EVAL", TAKE, 3, *self._channel.keys(queue), time())
        taken = self._read(connection, "EVAL")
        if taken is None:
            return None  # another worker was faster
        message, tag = taken
        self._channel.noted = tag.decode()
        return queue.encode(), message

    def _read(self, connection: Any, command: str, **options: Any) -> Any:
        return super().parse_response(connection, command, **options)  # type: ignore[no-untyped-call]


class Channel(redis.Channel):  # type: ignore[misc]
    """A channel whose messages outlive the worker and the broker.

    It needs Redis 6.2, and one key for a queue (`priority_steps` of `[0]`). Consumers that
    acknowledge nothing (answers to remote control) take their messages kombu's way.
    """

    QoS = QoS

    awaited = ""
    """The queue whose next message is waited for."""

    noted = ""
    """The tag of the message that was moved last."""

    _moves = True

    def basic_consume(self, queue: str, no_ack: bool, *args: Any, **options: Any) -> Any:
        """Begin to take a queue's messages."""
        self._moves = self._moves and not no_ack
        return super().basic_consume(queue, no_ack, *args, **options)

    def wants(self, queue: str) -> bool:
        """Whether a queue's messages are still taken here."""
        return queue in self.active_queues and not self._closing

    def keys(self, queue: str) -> tuple[str, str, str]:
        """What TAKE works on."""
        return queue, self.unacked_key, self.unacked_index_key

    def refused(self, error: ResponseError) -> None:
        """Wait while the server has no memory to note a message with; go on kombu's way if it
        cannot move any. Raises any other error."""
        if isinstance(error, OutOfMemoryError):
            log.warning("Redis has no memory left: no message is taken")
            sleep(self.brpop_timeout)
        elif isinstance(error, NoPermissionError) or "unknown command" in str(error):
            self._moves = False
            log.warning("a worker killed while it takes a message may lose it (%s)", error)
        else:
            raise error

    def _brpop_start(self, timeout: float | None = None) -> None:
        queues = self.active_queues
        single = len(queues) == 1 == len(self.priority_steps)
        self.awaited = queues[0] if self._moves and single else ""
        if not self.awaited:
            super()._brpop_start(timeout)
            return
        connection = self._in_poll = self.client.connection
        self._brpop_sent_at = monotonic()
        longest = (self.brpop_timeout if timeout is None else timeout) or 0
        connection.send_command("BLMOVE", queues[0], queues[0], "RIGHT", "RIGHT", longest)

    def _get_client(self) -> Any:
        super()._get_client()  # refuses old versions of the library
        return lambda **options: Client(self, **options)


class Transport(redis.Transport):  # type: ignore[misc]
    """kombu.transport.redis with that channel."""

    Channel = Channel
