"""One file out of a turn's `sandbox.tar.gz`, streamed. A sandbox has made it, so it is hostile."""

import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import IO, cast

from worker.errors import SandpiperError

MOST_READ = 2 << 30
"""Bytes of an archive that are unpacked to find a file and give it out."""

MOST_MEMBERS = 10_000
_MOST_HEADER = 64 * 1024
_CHUNK = 64 * 1024
_EXTENDED = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.GNUTYPE_SPARSE),
)
_PATH = re.compile(r"/tmp/((?:_out|data)/[^\0\n\r]{1,1000})")


class NoFile(SandpiperError):
    """There is no such file, or no way to it within the limits."""


def member(path: str) -> str | None:
    """The name in the archive of a path in the sandbox; None if no file can be there."""
    found = _PATH.fullmatch(path)
    if not found or any(part in ("", ".", "..") for part in found[1].split("/")):
        return None
    return found[1]


def extracted(chunks: Iterable[bytes], name: str) -> tuple[int, Iterator[bytes]]:
    """The size and the content of member `name`. Raises NoFile; `chunks` is read on the way."""
    try:
        source = cast(IO[bytes], _Unpacked(chunks))
        archive = tarfile.open(fileobj=source, mode="r|", tarinfo=_Careful)  # noqa: SIM115
        for number, found in enumerate(archive):
            if number >= MOST_MEMBERS:
                break
            plain = found.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not found.issparse()
            if plain and found.name.removeprefix("./").removeprefix("tmp/") == name:
                content = archive.extractfile(found)
                if content is not None:
                    return found.size, _content(content)
    except (tarfile.TarError, zlib.error, OSError, ValueError, EOFError) as error:
        raise NoFile(f"the archive cannot be read: {error}") from error
    raise NoFile(f"there is no {name} in the archive")


def _content(file: IO[bytes]) -> Iterator[bytes]:
    with closing(file):
        try:
            while chunk := file.read(_CHUNK):
                yield chunk
        except (tarfile.TarError, zlib.error, OSError, ValueError, EOFError) as error:
            raise NoFile(f"the archive breaks off: {error}") from error


class _Careful(tarfile.TarInfo):
    """A member whose header does not fill the memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "_Careful":
        found = super().frombuf(buf, encoding, errors)
        if found.type in _EXTENDED and found.size > _MOST_HEADER:
            raise tarfile.ReadError("a header is too large")
        return found


class _Unpacked:
    """What `chunks` are the gzip of, as a file that is read once."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._gzip = zlib.decompressobj(wbits=31)
        self._ready = b""
        self._read = 0

    def read(self, size: int) -> bytes:
        """The next bytes, at most `size`; fewer at the end only."""
        found = []
        while size > 0 and (part := self._next(size)):
            found.append(part)
            size -= len(part)
        return b"".join(found)

    def _next(self, size: int) -> bytes:
        part = b""
        while not part and not self._gzip.eof:
            source = self._gzip.unconsumed_tail or next(self._chunks, b"")
            part = self._gzip.decompress(source, size)
            if not part and not source:
                raise EOFError("it breaks off")
        self._read += len(part)
        if self._read > MOST_READ:
            raise EOFError("it is too large")
        return part
