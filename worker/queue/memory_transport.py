"""The queue of `memory://`: kombu's, but a message wakes its reader instead of being polled for."""

import threading
from queue import Empty
from typing import Any

from kombu.transport import memory

PAUSE = 0.1
"""The most seconds the reader waits before the worker looks after what else it has to do.

A finished job is acknowledged then, which lets the next one in, and a shutdown is noticed.
"""

_arrived = threading.Condition()


class _Count:
    """How many messages were put so far, by anybody in this process."""

    puts = 0


class Channel(memory.Channel):  # type: ignore[misc]
    """A channel of this process; every message is told to the readers."""

    def _put(self, queue: str, message: Any, **options: Any) -> None:
        super()._put(queue, message, **options)
        with _arrived:
            _Count.puts += 1
            _arrived.notify_all()


class Transport(memory.Transport):  # type: ignore[misc]
    """kombu.transport.memory, woken by messages."""

    Channel = Channel

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:
        """Deliver one message. Raises TimeoutError, sooner than asked, if there is none."""
        before = _Count.puts
        if self._delivered():
            return
        with _arrived:
            _arrived.wait_for(
                lambda: _Count.puts != before, PAUSE if timeout is None else min(timeout, PAUSE)
            )
        if not self._delivered():
            raise TimeoutError

    def _delivered(self) -> bool:
        try:
            self.cycle.get(self._deliver, timeout=0)
        except Empty:
            return False
        return True
