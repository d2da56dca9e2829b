"""kombu's transport for `memory://`, changed so that messages wake readers, which do not poll."""

import threading
from queue import Empty, Queue
from typing import Any

from kombu.transport import memory

PAUSE = 0.1
"""Seconds after which a reader returns without a message, so that the worker does its other work.

The worker then acknowledges finished jobs, which lets the next one in, and notices a shutdown.
"""

_arrived = threading.Condition()


class _Count:
    """How many messages this process has put on its queues."""

    puts = 0


class Channel(memory.Channel):  # type: ignore[misc]
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


class Transport(memory.Transport):  # type: ignore[misc]
    """kombu's transport with readers that wait for messages."""

    Channel = Channel

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
