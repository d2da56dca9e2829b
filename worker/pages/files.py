"""Streams one file of a turn's `sandbox.tar.gz`, which is untrusted: a sandbox made it.

The archive reader is the one that also unpacks archives for replies; it refuses anything that our
own archives never contain.
"""

import io
import re
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, cast

from sandbox.image.archive import Caps, Reader, get_clean_name
from sandbox.image.frames import Refused
from worker.errors import SandpiperError

SECONDS = 30.0
"""Seconds to search the archive for a file."""

LIMITS = {
    "packed": 512 << 20,
    "raw": 1 << 30,
    "file": 256 << 20,
    "members": 10_000,
    "ratio": 200,
}
"""Limits on reading an archive, in bytes and members: no more than a sandbox may pack."""

_CHUNK = 64 * 1024
_PATH = re.compile(r"/tmp/((?:_out|data)/[^\0\n\r]{1,1000})")


class NoFile(SandpiperError):
    """There is no such file, or it cannot be reached within the limits."""


def parse_member_name(path: str) -> str | None:
    """Return the name in the archive for a path in the sandbox; None for an impossible path."""
    found = _PATH.fullmatch(path)
    if not found or any(part in ("", ".", "..") for part in found[1].split("/")):
        return None
    return found[1]


def open_member(
    chunks: Iterable[bytes], name: str, seconds: float = SECONDS
) -> tuple[int, Iterator[bytes]]:
    """Return the size and the content of member `name`, reading `chunks`. Raises NoFile."""
    caps = Caps(LIMITS)
    source = _DecompressedStream(chunks, caps, time.monotonic() + seconds)
    file = io.BufferedReader(cast(io.RawIOBase, source), _CHUNK)
    reader = Reader(cast(IO[bytes], file), caps)
    with _translate_errors():
        for found in reader.read_members():
            caps.check_ratio()
            caps.count_member(found.name, found.size)
            if not found.isdir() and get_clean_name(found) == name:
                source.until = float("inf")  # from here on the client sets the pace
                return found.size, _read_content(reader)
    raise NoFile(f"there is no {name} in the archive")


def _read_content(reader: Reader) -> Iterator[bytes]:
    with _translate_errors():
        while reader.bytes_left:
            chunk = reader.read_required(min(reader.bytes_left, _CHUNK))
            reader.bytes_left -= len(chunk)
            yield chunk


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except (Refused, zlib.error, OSError, ValueError) as error:
        raise NoFile(f"the archive cannot be read: {error}") from error


class _DecompressedStream(io.RawIOBase):
    """The decompressed content of `chunks`. Raises ValueError at `until` (monotonic seconds)."""

    def __init__(self, chunks: Iterable[bytes], caps: Caps, until: float) -> None:
        self.until = until
        self._chunks = iter(chunks)
        self._caps = caps
        self._gzip = zlib.decompressobj(wbits=31)

    def readable(self) -> bool:
        """See RawIOBase."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """See RawIOBase."""
        part = b""
        while not part and not self._gzip.eof:
            if time.monotonic() > self.until:
                raise ValueError("it takes too long")
            part = self._gzip.decompress(self._read_source(), len(buffer))
        buffer[: len(part)] = part
        return len(part)

    def _read_source(self) -> bytes:
        if self._gzip.unconsumed_tail:
            return self._gzip.unconsumed_tail
        chunk = next(self._chunks, b"")
        if not chunk:
            raise ValueError("it breaks off")
        self._caps.count_packed(len(chunk))
        return chunk
