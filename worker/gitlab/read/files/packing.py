"""Packs untrusted files for the sandbox in one tar.gz: names made safe, sizes capped, redacted.

Nothing is unpacked on the host's disk; one file at a time is held in memory.
"""

import tarfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from worker.errors import SourceError
from worker.gitlab.read.job_logs.redactor import Redactions
from worker.safety.redacted_values import Redacted, assume_redacted

MAX_FILE = 16 * 1024 * 1024
MAX_TOTAL = 512 * 1024 * 1024
"""Bytes of all files together, unpacked."""

MAX_FILES = 50_000
MAX_RATIO = 100
RATIO_FROM = 10 * 1024 * 1024
"""Unpacked bytes above which more than `MAX_RATIO` times the packed size counts as a zip bomb."""

NOTICE = "SANDPIPER-LEFT-OUT.txt"
_MAX_NOTICES = 1000
_BLOCK = 512


@dataclass(frozen=True, slots=True)
class Packed:
    """A file of an archive. Read `chunks` before asking for the next file, or not at all."""

    name: str
    chunks: Iterator[bytes]
    executable: bool = False


class Budget:
    """Counts what one archive unpacks to. Raises SourceError past a cap."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._files = 0
        self._packed = 0
        self._total = 0

    def count_packed(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Count the archive's own bytes, and pass them on."""
        for chunk in chunks:
            self._packed += len(chunk)
            yield chunk

    def count_file(self) -> None:
        """Count one more file."""
        self._files += 1
        if self._files > MAX_FILES:
            raise SourceError(f"{self._what}: more than {MAX_FILES} files")

    def count_unpacked(self, size: int) -> None:
        """Count `size` more unpacked bytes."""
        self._total += size
        if self._total > MAX_TOTAL:
            raise SourceError(f"{self._what}: more than {MAX_TOTAL} bytes unpacked")
        if self._total > RATIO_FROM and self._total > MAX_RATIO * self._packed:
            raise SourceError(f"{self._what}: refused, it unpacks to over {MAX_RATIO} times itself")


def make_safe_path(name: str) -> str | None:
    """Return `name` as a plain relative path, or None if it is not safe as one."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    bad = (
        not parts
        or ".." in parts
        or name.startswith("/")
        or "\\" in name
        or not name.isprintable()
        or len(parts) > 64
        or len(name.encode(errors="replace")) > 1024
        or any(len(part.encode(errors="replace")) > 255 for part in parts)
    )
    return None if bad else "/".join(parts)


def inflate(chunks: Iterable[bytes], budget: Budget, what: str) -> Iterator[bytes]:
    """Yield the unpacked content of a gzip stream, in small pieces. Raises SourceError."""
    engine = zlib.decompressobj(wbits=31)
    for chunk in budget.count_packed(chunks):
        rest = chunk
        while rest and not engine.eof:
            try:
                piece = engine.decompress(rest, 1 << 18)
            except zlib.error as error:
                raise SourceError(f"{what}: not a gzip file: {error}") from error
            budget.count_unpacked(len(piece))
            yield piece
            rest = engine.unconsumed_tail
    if not engine.eof:
        raise SourceError(f"{what}: it broke off")


def repack(files: Iterable[Packed], redact: Redactions) -> Iterator[Redacted]:
    """Pack the files as a tar.gz, redacted, names too; the same files give the same bytes.

    A last member, `NOTICE`, names the files that were left out. Raises what `files` raises.
    """
    return map(assume_redacted, _pack_files(files, redact))


def _pack_files(files: Iterable[Packed], redact: Redactions) -> Iterator[bytes]:
    engine = zlib.compressobj(1, zlib.DEFLATED, 31)
    notices: list[str] = []
    for file in files:
        name = make_safe_path(file.name)
        data = _join_chunks(file.chunks) if name else None
        if name is None or data is None:
            why = "larger than 16 MiB" if name else "not a plain relative path"
            notices.append(f"{file.name[:500]!r}: {why}\n")
            continue
        shown = redact(name.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")
        yield from _pack_member(engine, shown, redact(data), file.executable)
    if notices:
        more = len(notices) - _MAX_NOTICES
        text = "".join(notices[:_MAX_NOTICES]) + (f"and {more} more\n" if more > 0 else "")
        yield from _pack_member(engine, NOTICE, redact(text.encode(errors="replace")), False)
    yield engine.compress(b"\0" * 2 * _BLOCK) + engine.flush()


def _join_chunks(chunks: Iterator[bytes]) -> bytes | None:
    data = bytearray()
    for chunk in chunks:
        data += chunk
        if len(data) > MAX_FILE:
            return None
    return bytes(data)


def _pack_member(
    engine: "zlib._Compress", name: str, data: bytes, executable: bool
) -> Iterator[bytes]:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o755 if executable else 0o644
    header = info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
    yield engine.compress(header)
    yield engine.compress(data + b"\0" * (-len(data) % _BLOCK))


class ChunkReader:
    """Chunks as a file that can only be read forwards."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = bytearray()

    def read(self, size: int) -> bytes:
        """Return exactly `size` bytes, fewer at the end."""
        while len(self._rest) < size:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            self._rest += chunk
        found = bytes(self._rest[:size])
        del self._rest[:size]
        return found

    def read_available(self) -> bytes:
        """Return the bytes that are buffered, or else the next chunk; b"" at the end."""
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return b""
            self._rest += chunk
        return self.read(len(self._rest))

    def put_back(self, data: bytes) -> None:
        """Put back `data`, so that it is read again."""
        self._rest[:0] = data
