"""A worker that is killed when it has taken a message: `python -m tests.flow.taker URL QUEUE`.

It dies between the two steps that taking is to kombu: the message is off its queue, and kombu has
not yet noted that it is unacknowledged.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import kombu
from kombu.transport.redis import Channel, QoS, Transport


class Dying(QoS):  # type: ignore[misc]
    """Where kombu would note what it has taken."""

    def append(self, message: Any, delivery_tag: str) -> None:
        """Not any more."""
        os.kill(os.getpid(), signal.SIGKILL)


class _Channel(Channel):  # type: ignore[misc]
    QoS = Dying


class _Transport(Transport):  # type: ignore[misc]
    Channel = _Channel


def killed_with_a_message(url: str, queue: str) -> bool:
    """Whether a process has taken the queue's next message and died with it."""
    words = [sys.executable, "-m", "tests.flow.taker", url, queue]
    died = subprocess.run(words, cwd=Path(__file__).parents[2], timeout=60, check=False)
    return died.returncode == -signal.SIGKILL


def main(url: str, name: str) -> None:
    """Take a message."""
    queue = kombu.Queue(name, kombu.Exchange(name), routing_key=name)
    options = {"priority_steps": [0]}
    with (
        kombu.Connection(url, transport=_Transport, transport_options=options) as connection,
        connection.Consumer([queue], callbacks=[lambda *_: None]),
    ):
        while True:
            with suppress(TimeoutError):
                connection.drain_events(timeout=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
