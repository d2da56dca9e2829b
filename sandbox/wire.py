"""The bytes of a session, both ways, every wait under a deadline.

An engine multiplexes a process's stdout and stderr (wire-misc 1.2: an 8-byte header per piece);
without an engine the socket is the session's own.
"""

import select
import socket
import struct
import time
from collections.abc import Callable
from typing import Protocol

_READ = 1 << 16
_STDERR_KEPT = 2000
_DRAINED = 200


class StreamBroken(Exception):
    """The call gave no good report. The subclass says how."""


class Silent(StreamBroken):
    """Nothing came until the deadline."""


class Ended(StreamBroken):
    """The stream ended early; the message is the end of the runner's stderr."""


class BadReport(StreamBroken):
    """What came is not what a runner sends."""


class Wire(Protocol):
    """One way to one runner."""

    def send(self, data: bytes, deadline: float) -> None:
        """All of `data`. Raises Silent at `deadline` (monotonic seconds), or Ended."""
        ...

    def receive(self, size: int, deadline: float) -> bytes:
        """Exactly `size` bytes of the runner's stdout. Raises Silent or Ended."""
        ...

    def quiet(self) -> bool:
        """Whether nothing came since the last report, not even the end."""
        ...

    def exit_code(self) -> int | None:
        """The status of a runner whose stream ended, if it can be known."""
        ...

    def close(self) -> None:
        """Hang up. Never raises."""
        ...


class SocketWire:
    """A socket that carries nothing else. Satisfies Wire."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._buffer = b""
        self._read = 0

    def send(self, data: bytes, deadline: float) -> None:
        try:
            self._socket.settimeout(time_left(deadline))
            self._socket.sendall(data)
        except TimeoutError as error:
            raise Silent("it does not take what is sent") from error
        except OSError as error:
            raise Ended(str(error)) from error

    def receive(self, size: int, deadline: float) -> bytes:
        parts = []
        while size:
            part = self._some(size, deadline)
            size -= len(part)
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _some(self, most: int, deadline: float) -> bytes:
        """At least one byte and at most `most`, from what was read ahead or from the socket."""
        if self._read == len(self._buffer):
            self._buffer, self._read = self._fill(deadline), 0
        part = self._buffer[self._read : self._read + most]
        self._read += len(part)
        return part

    def _fill(self, deadline: float) -> bytes:
        try:
            self._socket.settimeout(time_left(deadline))
            data = self._socket.recv(_READ)
        except TimeoutError as error:
            raise Silent("no answer in time") from error
        except OSError as error:
            raise Ended(str(error)) from error
        if not data:
            raise Ended(self._last_words())
        return data

    def _last_words(self) -> str:
        return "no message"

    def quiet(self) -> bool:
        if self._read != len(self._buffer) or self._socket.fileno() < 0:
            return False
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return not poll.poll(0)

    def exit_code(self) -> int | None:
        return None

    def close(self) -> None:
        self._socket.close()


class EngineWire(SocketWire):
    """A process's streams as the engine multiplexes them. Satisfies Wire.

    `status` asks the engine for the process's exit code, `release` lets its connection go.
    """

    def __init__(
        self,
        connected: socket.socket,
        status: Callable[[], int | None],
        release: Callable[[], None],
    ) -> None:
        super().__init__(connected)
        self._status, self._release = status, release
        self._kind = self._left = 0
        self._stderr = b""

    def receive(self, size: int, deadline: float) -> bytes:
        parts = []
        while size:
            while self._kind != 1 or not self._left:
                self._next_piece(deadline)
            part = self._some(min(size, self._left), deadline)
            self._left -= len(part)
            size -= len(part)
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def drain(self, deadline: float) -> bytes:
        """The beginning of stdout, once the stream has ended. Raises Silent."""
        said = b""
        try:
            while True:
                said = (said + self.receive(1, deadline))[:_DRAINED]
        except Ended:
            return said

    def _next_piece(self, deadline: float) -> None:
        """Skip to the next piece of the multiplexed stream, keeping the end of stderr."""
        while self._left:
            part = self._some(self._left, deadline)
            self._left -= len(part)
            self._stderr = (self._stderr + part)[-_STDERR_KEPT:]
        self._kind, self._left = struct.unpack(">BxxxL", super().receive(8, deadline))

    def _last_words(self) -> str:
        return self._stderr.decode("utf-8", "replace").strip() or "no message"

    def exit_code(self) -> int | None:
        return self._status()

    def close(self) -> None:
        self._release()
        super().close()


def time_left(deadline: float) -> float:
    """Seconds until `deadline`. Raises TimeoutError if there are none."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
