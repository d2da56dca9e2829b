"""Calls to a runner over one connection, in the frames of sandbox/image/frames.py.

All that the sandbox sends is hostile: sizes are checked before anything is read, and a violation
raises BadReport.
"""

import json
import struct
from collections.abc import Iterable, Iterator
from typing import Any

from sandbox.wire import BadReport, Wire

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
