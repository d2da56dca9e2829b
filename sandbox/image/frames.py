"""Frames between host and runner.

A session consists of calls, one after the other:

in:   one frame of JSON (the request), data frames, an empty frame
out:  data frames, an empty frame, one frame of JSON (the report, with the request's id)

A frame is a big-endian 32-bit length and that many bytes. Nothing is written before a request is
read: the host may not be listening yet, and closes a session that sends anything unasked.
"""

import json
import os
import struct
from collections.abc import Iterator
from typing import Any

CHUNK = 1 << 20
FRAME = 1 << 16

Json = dict[str, Any]


class Refused(Exception):
    """A failure of a verb to report to the host: a code and a message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def _read_exact(fd: int, size: int) -> bytes:
    """Read exactly `size` bytes. Raises EOFError if the host closed the stream."""
    parts = []
    while size:
        data = os.read(fd, min(size, CHUNK))
        if not data:
            raise EOFError
        parts.append(data)
        size -= len(data)
    return b"".join(parts)


def read_frame(fd: int) -> bytes:
    (size,) = struct.unpack(">I", _read_exact(fd, 4))
    return _read_exact(fd, size)


class Source:
    """The data frames after one request. Raises EOFError if the host closed the stream early."""

    def __init__(self, fd: int = 0) -> None:
        self.fd = fd
        self.at_end = False

    def read_data(self) -> Iterator[bytes]:
        """Yield the remaining data frames."""
        while not self.at_end:
            data = read_frame(self.fd)
            self.at_end = not data
            if data:
                yield data

    def drain(self) -> None:
        """Read to the end: a host that is still sending would never read the report."""
        for _ in self.read_data():
            pass


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def send_data(data: bytes) -> None:
    view = memoryview(data)
    for start in range(0, len(data), FRAME):
        piece = view[start : start + FRAME]
        head = struct.pack(">I", len(piece))
        done = os.writev(1, [head, piece])
        if done < len(head) + len(piece):
            write_all(1, (head + piece)[done:])


def send_report(report: Json) -> None:
    text = json.dumps(report).encode()
    write_all(1, struct.pack(">II", 0, len(text)) + text)
