"""One call of the in-container runner: frames in, frames out, every wait under a deadline.

The engine multiplexes the runner's stdout and stderr (wire-misc 1.2: an 8-byte header per piece);
inside its stdout lie our own frames (sandbox/image/frames.py). Whatever the container sends is
hostile: sizes are capped before anything is read, and a breach is BadReport, never a crash.
"""

import json
import socket
import struct
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, cast

from docker import APIClient

from sandbox.base import SandboxGone
from sandbox.engine import engine_errors
from sandbox.spec import COMMAND_USER

FRAME = 1 << 16
"""The largest frame in either direction, a report included."""

_STDERR_KEPT = 2000
_EXIT_SECONDS = 2


class StreamBroken(Exception):
    """The call gave no good report. The subclass says how."""


class Silent(StreamBroken):
    """Nothing came until the deadline."""


class Ended(StreamBroken):
    """The stream ended early; the message is the end of the runner's stderr."""


class BadReport(StreamBroken):
    """What came is not what a runner sends."""


class RunnerCall:
    """`argv` in `container`, as the uid of the commands; usually the runner with one verb.

    `deadline` is in monotonic seconds. A context manager: leaving it closes the connection, which
    does not end the process. Raises SandboxGone if the engine cannot start it.
    """

    def __init__(self, api: APIClient, container: str, argv: list[str], deadline: float) -> None:
        self._api, self._deadline = api, deadline
        self._kind, self._left = 0, 0
        self._stderr = b""
        with engine_errors(SandboxGone, "starting a process in the sandbox"):
            created = api.exec_create(container, argv, stdin=True, user=COMMAND_USER, workdir="/")
            self._id = created["Id"]
            self._file = cast(Any, api.exec_start(self._id, socket=True))
        # The plain socket, past any reader's buffer: nothing can have been buffered yet, because
        # the runner is silent until it has its request.
        self._socket: socket.socket = getattr(self._file, "_sock", self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        response = getattr(self._file, "_response", None)
        if response is not None:
            response.close()
        self._file.close()
        self._socket.close()

    def wait(self) -> None:
        """Read to the end of the stream, keeping the end of what is said."""
        with suppress(Ended):
            while True:
                self._next_piece()

    def exit_code(self) -> int | None:
        """The status of a process whose stream ended; None if it lives on."""
        until = time.monotonic() + _EXIT_SECONDS
        while True:
            with engine_errors(SandboxGone, "asking for an exit code"):
                code = self._api.exec_inspect(self._id)["ExitCode"]
            if code is not None or time.monotonic() > until:
                return code if code is None else int(code)
            time.sleep(0.005)

    # ------------------------------------------------------------------------------------ sending

    def ask(self, request: dict[str, Any]) -> None:
        """Send the request, which is all there is to send."""
        self.open(request)
        self.end()

    def open(self, request: dict[str, Any]) -> None:
        """Send the request; data frames and `end` follow."""
        self._frame(json.dumps(request).encode())

    def send(self, content: bytes) -> None:
        for start in range(0, len(content), FRAME):
            self._frame(content[start : start + FRAME])

    def end(self) -> None:
        self._frame(b"")

    def _frame(self, payload: bytes) -> None:
        try:
            self._socket.settimeout(self._time_left())
            self._socket.sendall(struct.pack(">I", len(payload)) + payload)
        except TimeoutError as error:
            raise Silent("it does not take what is sent") from error
        except OSError as error:
            raise Ended(str(error)) from error

    # ---------------------------------------------------------------------------------- receiving

    def data(self) -> Iterator[bytes]:
        """The runner's data frames, up to the empty one."""
        while payload := self._read_frame():
            yield payload

    def report(self) -> dict[str, Any]:
        """The report, after data frames nobody asked for were refused."""
        if self._read_frame():
            raise BadReport("data where the report should be")
        return self.last()

    def last(self) -> dict[str, Any]:
        """The report, after `data` was exhausted."""
        try:
            report = json.loads(self._read_frame())
        except (ValueError, RecursionError) as error:
            raise BadReport("the report is not JSON") from error
        if not isinstance(report, dict):
            raise BadReport("the report is not an object")
        return report

    def _read_frame(self) -> bytes:
        (size,) = struct.unpack(">I", self._read_stdout(4))
        if size > FRAME:
            raise BadReport(f"a frame of {size:,} bytes")
        return self._read_stdout(size)

    def _read_stdout(self, size: int) -> bytes:
        parts = []
        while size:
            while self._kind != 1 or not self._left:
                self._next_piece()
            part = self._receive(min(size, self._left))
            self._left -= len(part)
            size -= len(part)
            parts.append(part)
        return b"".join(parts)

    def _next_piece(self) -> None:
        """Skip to the next piece of the multiplexed stream, keeping the end of stderr."""
        while self._left:
            part = self._receive(min(self._left, FRAME))
            self._left -= len(part)
            self._stderr = (self._stderr + part)[-_STDERR_KEPT:]
        header = b""
        while len(header) < 8:
            header += self._receive(8 - len(header))
        self._kind, self._left = struct.unpack(">BxxxL", header)

    def _receive(self, size: int) -> bytes:
        try:
            self._socket.settimeout(self._time_left())
            data = self._socket.recv(size)
        except TimeoutError as error:
            raise Silent("no answer in time") from error
        except OSError as error:
            raise Ended(str(error)) from error
        if not data:
            raise Ended(self._stderr.decode("utf-8", "replace").strip() or "no message")
        return data

    def _time_left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


def pieces(content: Iterable[bytes]) -> Iterator[bytes]:
    """`content` in pieces of at most one frame, without the empty ones."""
    for chunk in content:
        for start in range(0, len(chunk), FRAME):
            yield chunk[start : start + FRAME]
