"""Calls to a runner over one connection; every wait has a deadline.

An engine multiplexes a process's stdout and stderr, with an 8-byte header before each piece:
https://docs.docker.com/reference/api/engine/version/v1.41/#operation/ContainerAttach. Without an
engine the session has a socket of its own. A session speaks in the frames of
sandbox/image/frames.py. All that the sandbox sends is hostile: sizes are checked before anything is
read, and a violation raises BadReport.
"""

import json
import select
import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

PEER_ENDED: int = getattr(select, "POLLRDHUP", 0)
"""The event of `select.poll` for a peer that sends no more. Only Linux has it."""

_READ = 1 << 16
_STDERR_KEPT = 2000
_DRAINED = 200
_KILLED = 137
_KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 30), ("TCP_KEEPCNT", 4))
"""In seconds, and a count. Load balancers drop connections that are silent for some minutes."""


class StreamBroken(Exception):
    """A call ended without a valid report. The subclass says why."""


class Silent(StreamBroken):
    """Nothing was received before the deadline."""


class Ended(StreamBroken):
    """The stream ended early. The message is the end of the runner's stderr."""


class BadReport(StreamBroken):
    """The received data is not what a runner sends."""


class Wire(Protocol):
    """A connection to one runner."""

    def send(self, data: bytes, deadline: float) -> None:
        """Send all of `data`. Raises Silent at `deadline` (monotonic seconds), or Ended."""
        ...

    def receive(self, size: int, deadline: float) -> bytes:
        """Receive exactly `size` bytes of the runner's stdout. Raises Silent or Ended."""
        ...

    def is_quiet(self) -> bool:
        """Whether nothing was received since the last report, not even the stream's end."""
        ...

    def get_exit_code(self) -> int | None:
        """Return the exit code of a runner whose stream ended; None if it runs, or is unknown."""
        ...

    def close(self) -> None:
        """Close the connection. Never raises."""
        ...


class SocketWire:
    """A socket that carries only the runner's stream. Implements Wire."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._buffer = b""
        self._read = 0

    def send(self, data: bytes, deadline: float) -> None:
        unsent = memoryview(data)
        try:
            while unsent:
                # When a runner ends, the engine closes its own side of the connection and leaves
                # ours open: sending would wait forever.
                poll = select.poll()
                poll.register(self._socket, select.POLLOUT | PEER_ENDED)
                ready = poll.poll(1000 * compute_time_left(deadline))
                if not ready:
                    raise TimeoutError
                while ready[0][1] & PEER_ENDED:
                    self.receive(_READ, deadline)  # raises Ended with the runner's last output
                self._socket.settimeout(compute_time_left(deadline))
                unsent = unsent[self._socket.send(unsent) :]
        except TimeoutError as error:
            raise Silent("it does not take what is sent") from error
        except (OSError, ValueError) as error:  # ValueError: the socket is closed
            raise Ended(str(error)) from error

    def receive(self, size: int, deadline: float) -> bytes:
        parts = []
        while size:
            part = self._read_some(size, deadline)
            size -= len(part)
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _read_some(self, most: int, deadline: float) -> bytes:
        """Read at least one byte and at most `most`, from the buffer or the socket."""
        if self._read == len(self._buffer):
            try:
                self._socket.settimeout(compute_time_left(deadline))
                data = self._socket.recv(_READ)
            except TimeoutError as error:
                raise Silent("no answer in time") from error
            except OSError as error:
                raise Ended(str(error)) from error
            if not data:
                raise Ended(self._get_last_output())
            self._buffer, self._read = data, 0
        part = self._buffer[self._read : self._read + most]
        self._read += len(part)
        return part

    def _get_last_output(self) -> str:
        return "no message"

    def is_quiet(self) -> bool:
        if self._read != len(self._buffer) or self._socket.fileno() < 0:
            return False
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return not poll.poll(0)

    def get_exit_code(self) -> int | None:
        """Return the code of a killed process: a local connection ends only with its process."""
        return _KILLED

    def close(self) -> None:
        self._socket.close()


class EngineWire(SocketWire):
    """A process's streams, multiplexed by the engine. Implements Wire.

    `status` asks the engine for the process's exit code, `release` closes its connection.
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
                # Skip the rest of a piece of stderr, keeping its end, and read the next header.
                while self._left:
                    part = self._read_some(self._left, deadline)
                    self._left -= len(part)
                    self._stderr = (self._stderr + part)[-_STDERR_KEPT:]
                self._kind, self._left = struct.unpack(">BxxxL", super().receive(8, deadline))
            part = self._read_some(min(size, self._left), deadline)
            self._left -= len(part)
            size -= len(part)
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def drain(self, deadline: float) -> bytes:
        """Wait for the stream's end; returns the beginning of stdout. Raises Silent."""
        output = b""
        try:
            while True:
                output = (output + self.receive(1, deadline))[:_DRAINED]
        except Ended:
            return output

    def _get_last_output(self) -> str:
        return self._stderr.decode("utf-8", "replace").strip() or "no message"

    def get_exit_code(self) -> int | None:
        return self._status()

    def close(self) -> None:
        self._release()
        super().close()


def list_keepalive_options() -> list[tuple[int, int, int]]:
    """List the socket options by which the kernel probes a silent TCP connection."""
    probes = [(name, value) for name, value in _KEEPALIVE if hasattr(socket, name)]
    return [
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        *((socket.IPPROTO_TCP, getattr(socket, name), value) for name, value in probes),
    ]


def compute_time_left(deadline: float) -> float:
    """Return the seconds until `deadline`. Raises TimeoutError if there are none."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


FRAME = 1 << 16
"""The size of the largest frame in either direction, reports included."""


class Session:
    """A connection to a runner, for one call at a time.

    `begin_request` and `send_request` start a call; when its report has been read, the session may
    be used again. Every wait ends at the call's deadline. Methods raise StreamBroken. `epoch` is
    for the owner (see FramedSandbox).
    """

    def __init__(self, wire: Wire, epoch: int = 0) -> None:
        self.wire = wire
        self.epoch = epoch
        self.ready = True
        self._number = 0
        self._deadline = 0.0

    def is_usable(self) -> bool:
        """Whether another call may be made: the runner is idle and sent nothing unasked."""
        return self.ready and self.wire.is_quiet()

    # ------------------------------------------------------------------------------------ sending

    def send_request(self, request: dict[str, Any], deadline: float) -> None:
        """Send a request without data."""
        self.ready = False
        self._deadline = deadline
        self._transmit(_make_frame(self._number_request(request)) + _make_frame(b""))

    def begin_request(self, request: dict[str, Any], deadline: float) -> None:
        """Send a request that is followed by data and `end_data`."""
        self.ready = False
        self._deadline = deadline
        self._transmit(_make_frame(self._number_request(request)))

    def _number_request(self, request: dict[str, Any]) -> bytes:
        self._number += 1
        return json.dumps({**request, "id": self._number}).encode()

    def send_data(self, content: bytes) -> None:
        """Send content as data frames."""
        for piece in split_content([content]):
            self._transmit(_make_frame(piece))

    def end_data(self) -> None:
        """Tell the runner that no more data follows."""
        self._transmit(_make_frame(b""))

    def _transmit(self, data: bytes) -> None:
        self.wire.send(data, self._deadline)

    # ---------------------------------------------------------------------------------- receiving

    def read_data(self) -> Iterator[bytes]:
        """Yield the runner's data frames."""
        while payload := self._read_frame():
            yield payload

    def read_report(self) -> dict[str, Any]:
        """Read the report. Raises BadReport if data frames come first."""
        if self._read_frame():
            raise BadReport("data where the report should be")
        return self.read_last_report()

    def read_last_report(self) -> dict[str, Any]:
        """Read the report after `read_data` is exhausted."""
        try:
            report = json.loads(self._read_frame())
        except (ValueError, RecursionError) as error:
            raise BadReport("the report is not JSON") from error
        if not isinstance(report, dict):
            raise BadReport("the report is not an object")
        if report.get("id") != self._number:
            raise BadReport("the report answers another call")
        self.ready = True
        return report

    def _read_frame(self) -> bytes:
        (size,) = struct.unpack(">I", self.wire.receive(4, self._deadline))
        if size > FRAME:
            raise BadReport(f"a frame of {size:,} bytes")
        return self.wire.receive(size, self._deadline)


def _make_frame(payload: bytes) -> bytes:
    return struct.pack(">I", len(payload)) + payload


def split_content(content: Iterable[bytes]) -> Iterator[bytes]:
    """Split `content` into pieces of at most one frame; empty pieces are left out."""
    for chunk in content:
        for start in range(0, len(chunk), FRAME):
            yield chunk[start : start + FRAME]
