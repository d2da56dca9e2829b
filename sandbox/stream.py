"""Calls over one wire: frames in, frames out (sandbox/image/frames.py).

Whatever the sandbox sends is hostile: sizes are capped before anything is read, and a breach is
BadReport, never a crash.
"""

import json
import struct
from collections.abc import Iterable, Iterator
from typing import Any

from sandbox.wire import BadReport, Wire

FRAME = 1 << 16
"""The largest frame in either direction, a report included."""


class Session:
    """A runner that takes one call after the other.

    `begin` and `ask` start a call; it is over, and the session may be used again (`ready`), when
    its report was read. Every wait ends at the call's deadline. Raises StreamBroken. `epoch` is
    the owner's: which of its runners this is one of.
    """

    def __init__(self, wire: Wire, epoch: int = 0) -> None:
        self.wire = wire
        self.epoch = epoch
        self.ready = True
        self._number = 0
        self._deadline = 0.0

    def usable(self) -> bool:
        """Whether another call may be made; one that spoke unasked, or ended, is no longer."""
        return self.ready and self.wire.quiet()

    # ------------------------------------------------------------------------------------ sending

    def ask(self, request: dict[str, Any], deadline: float) -> None:
        """Send the request, which is all there is to send."""
        self.ready = False
        self._deadline = deadline
        self._transmit(_framed(self._numbered(request)) + _framed(b""))

    def begin(self, request: dict[str, Any], deadline: float) -> None:
        """Send the request; data and `end` follow."""
        self.ready = False
        self._deadline = deadline
        self._transmit(_framed(self._numbered(request)))

    def _numbered(self, request: dict[str, Any]) -> bytes:
        self._number += 1
        return json.dumps({**request, "id": self._number}).encode()

    def send(self, content: bytes) -> None:
        """Data frames."""
        for piece in pieces([content]):
            self._transmit(_framed(piece))

    def end(self) -> None:
        """Say that no data follows."""
        self._transmit(_framed(b""))

    def _transmit(self, data: bytes) -> None:
        self.wire.send(data, self._deadline)

    # ---------------------------------------------------------------------------------- receiving

    def data(self) -> Iterator[bytes]:
        """The runner's data frames, up to the empty one."""
        while payload := self._frame():
            yield payload

    def report(self) -> dict[str, Any]:
        """The report, after data frames nobody asked for were refused."""
        if self._frame():
            raise BadReport("data where the report should be")
        return self.last()

    def last(self) -> dict[str, Any]:
        """The report, after `data` was exhausted."""
        try:
            report = json.loads(self._frame())
        except (ValueError, RecursionError) as error:
            raise BadReport("the report is not JSON") from error
        if not isinstance(report, dict):
            raise BadReport("the report is not an object")
        if report.get("id") != self._number:
            raise BadReport("the report answers another call")
        self.ready = True
        return report

    def _frame(self) -> bytes:
        (size,) = struct.unpack(">I", self.wire.receive(4, self._deadline))
        if size > FRAME:
            raise BadReport(f"a frame of {size:,} bytes")
        return self.wire.receive(size, self._deadline)


def _framed(payload: bytes) -> bytes:
    return struct.pack(">I", len(payload)) + payload


def pieces(content: Iterable[bytes]) -> Iterator[bytes]:
    """`content` in pieces of at most one frame, without the empty ones."""
    for chunk in content:
        for start in range(0, len(chunk), FRAME):
            yield chunk[start : start + FRAME]
