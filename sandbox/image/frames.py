"""Frames between host and runner.

stdin:  one frame of JSON (the request), data frames, an empty frame
stdout: data frames, an empty frame, one frame of JSON (the report)

A frame is a big-endian 32-bit length and that many bytes. Nothing is written before the request
was read: the host may not be listening yet.
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
    """A verb's failure that the host should hear of: a code and a message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Source:
    """What the host sends. Raises EOFError where it stopped half-way."""

    def __init__(self, fd: int = 0) -> None:
        self.fd = fd
        self.ended = False

    def exact(self, size: int) -> bytes:
        parts = []
        while size:
            data = os.read(self.fd, min(size, CHUNK))
            if not data:
                raise EOFError
            parts.append(data)
            size -= len(data)
        return b"".join(parts)

    def frame(self) -> bytes:
        (size,) = struct.unpack(">I", self.exact(4))
        return self.exact(size)

    def data(self) -> Iterator[bytes]:
        """The data frames that are left."""
        while not self.ended:
            data = self.frame()
            self.ended = not data
            if data:
                yield data

    def drain(self) -> None:
        """Read to the end: a host that still sends would never read the report."""
        for _ in self.data():
            pass


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def send(data: bytes) -> None:
    for start in range(0, len(data), FRAME):
        piece = data[start : start + FRAME]
        write_all(1, struct.pack(">I", len(piece)) + piece)


def finish(report: Json) -> None:
    text = json.dumps(report).encode()
    write_all(1, struct.pack(">II", 0, len(text)) + text)
