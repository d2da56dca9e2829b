"""Unpacks untrusted archives as streams, member by member, within caps, and never on the disk.

The directory of a zip is at its end, so the header before each member is read instead. Sizes in
these headers are not trusted: bytes are counted. (`zipfile` needs the whole file on the disk, and
reads its whole directory before any cap counts: 17 MB that say 400,000 members are 120 MB.)
"""

import re
import struct
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, cast

from worker.errors import SourceError
from worker.gitlab.read.redactions import Packed

_MAX_TOTAL = 512 * 1024 * 1024
"""Bytes of all files together, unpacked."""


MAX_FILES = 50_000


_MAX_RATIO = 100


_RATIO_FROM = 10 * 1024 * 1024
"""Unpacked bytes above which more than `_MAX_RATIO` times the packed size counts as a zip bomb."""


_PIECE = 1 << 18


class _SizeCaps:
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
        if self._total > _MAX_TOTAL:
            raise SourceError(f"{self._what}: more than {_MAX_TOTAL} bytes unpacked")
        if self._total > _RATIO_FROM and self._total > _MAX_RATIO * self._packed:
            raise SourceError(
                f"{self._what}: refused, it unpacks to over {_MAX_RATIO} times itself"
            )


class _ChunkReader:
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


def _inflate(
    pipe: _ChunkReader, wbits: int, wrong: str, caps: _SizeCaps, what: str
) -> Iterator[bytes]:
    """Yield the unpacked content of a deflated stream, in small pieces; what follows it stays in
    `pipe`. Raises SourceError, which says `wrong` of what is no such stream."""
    engine = zlib.decompressobj(wbits=wbits)
    while not engine.eof:
        rest = pipe.read_available()
        if not rest:
            raise SourceError(f"{what}: it broke off")
        while rest and not engine.eof:
            try:
                piece = engine.decompress(rest, _PIECE)
            except zlib.error as error:
                raise SourceError(f"{what}: {wrong}: {error}") from error
            caps.count_unpacked(len(piece))
            yield piece
            rest = engine.unconsumed_tail
    pipe.put_back(engine.unused_data)


_MAX_HEADER = 8 * 1024
"""Most bytes of an extended header, which holds a long name: some releases of Python search it in
quadratic time."""


_EXTENDED = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
)


def read_tar(packed: Iterator[bytes], what: str) -> Iterator[Packed]:
    """Yield the regular files of a tar.gz without its top folder. Raises SourceError."""
    caps = _SizeCaps(what)
    source = _ChunkReader(caps.count_packed(packed))

    def inflate() -> Iterator[bytes]:
        yield from _inflate(source, 31, "not a gzip file", caps, what)
        while source.read_available():
            pass

    def read_pieces(content: IO[bytes]) -> Iterator[bytes]:
        with _translate_tar_errors(what):
            while piece := content.read(_PIECE):
                yield piece

    pipe = _ChunkReader(inflate())
    with (
        _translate_tar_errors(what),
        tarfile.open(fileobj=cast(IO[bytes], pipe), mode="r|", tarinfo=_ShortHeader) as tar,
    ):
        for info in tar:
            if not info.isreg() or info.issparse():
                continue
            caps.count_file()
            content = tar.extractfile(info)
            if content is not None:
                name = info.name.partition("/")[2]
                yield Packed(name, read_pieces(content), bool(info.mode & 0o100))


@contextmanager
def _translate_tar_errors(what: str) -> Iterator[None]:
    """Turn what tarfile raises for a hostile or truncated archive into a SourceError."""
    try:
        yield
    except (tarfile.TarError, OSError, EOFError, ValueError, ArithmeticError) as error:
        raise SourceError(f"{what}: not a tar file: {error}") from error


class _ShortHeader(tarfile.TarInfo):
    """A member; raises ReadError for an extended header over `_MAX_HEADER` bytes."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "_ShortHeader":
        found = super().frombuf(buf, encoding, errors)
        if found.type in _EXTENDED and found.size > _MAX_HEADER:
            raise tarfile.ReadError(f"a header over {_MAX_HEADER} bytes")
        return found


_LOCAL, _CENTRAL, _END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
_DESCRIPTOR, _END64 = b"PK\x07\x08", b"PK\x06\x06"
_NEXT = (_LOCAL, _CENTRAL, _END, _END64)
_HEADER = struct.Struct("<HHHHHIIIHH")
_ENCRYPTED, _STREAMED, _UTF8 = 0x1, 0x8, 0x800
_STORED, _DEFLATED = 0, 8
_STEP = 1 << 12
_AHEAD = 28
_MARK = rb"PK(?:\x03\x04|\x01\x02|\x05\x06|\x06\x06)"
_SIZES = re.compile(rb"PK\x07\x08(?=.{12}" + _MARK + rb"|.{20}" + _MARK + rb")", re.DOTALL)
"""What may be the sizes after a member, in 32 or 64 bits: with what follows, `_AHEAD` bytes."""


@dataclass(frozen=True, slots=True)
class _Header:
    name: str
    flags: int
    method: int
    packed: int


def read_zip(chunks: Iterable[bytes], what: str) -> Iterator[Packed]:
    """Yield the files of a zip, in its order, without folders.

    Raises SourceError for what is not a zip, is truncated or encrypted, or exceeds a cap.
    """
    caps = _SizeCaps(what)
    pipe = _ChunkReader(caps.count_packed(chunks))
    while (mark := pipe.read(4)) == _LOCAL:
        header = _read_header(pipe, what)
        content = _read_content(header, pipe, caps, what)
        if not header.name.endswith("/"):
            caps.count_file()
            yield Packed(header.name, content)
        for _ in content:
            pass
    if mark not in (_CENTRAL, _END, _END64):
        raise SourceError(f"{what}: not a zip file, or it broke off")
    while pipe.read_available():
        pass


def _read_header(pipe: _ChunkReader, what: str) -> _Header:
    raw = pipe.read(_HEADER.size)
    if len(raw) < _HEADER.size:
        raise SourceError(f"{what}: it broke off")
    _, flags, method, _, _, _, packed, unpacked, name_size, extra_size = _HEADER.unpack(raw)
    name = pipe.read(name_size).decode("utf-8" if flags & _UTF8 else "cp437", "replace")
    extra = pipe.read(extra_size)
    if packed == 0xFFFFFFFF:
        packed = _read_zip64_size(extra, unpacked == 0xFFFFFFFF)
    if flags & _ENCRYPTED:
        raise SourceError(f"{what}: {name[:200]!r} in it is encrypted")
    return _Header(name, flags, method, packed)


def _read_zip64_size(extra: bytes, both: bool) -> int:
    """Read the packed size from extra field 1; with `both` the unpacked size precedes it."""
    while len(extra) >= 4:
        kind, size = struct.unpack_from("<HH", extra)
        field, extra = extra[4 : 4 + size], extra[4 + size :]
        if kind == 1 and len(field) >= 8 * (1 + both):
            found: int = struct.unpack_from("<Q", field, 8 * both)[0]
            return found
    return 0xFFFFFFFF


def _read_content(
    header: _Header, pipe: _ChunkReader, caps: _SizeCaps, what: str
) -> Iterator[bytes]:
    if header.method == _DEFLATED:
        yield from _inflate(pipe, -15, "damaged", caps, what)
    elif header.method == _STORED and header.flags & _STREAMED:
        yield from _read_stored_stream(header.name, pipe, caps, what)
    elif header.method == _STORED:
        left = header.packed
        while left > 0:
            piece = pipe.read(min(left, _PIECE))
            if not piece:
                raise SourceError(f"{what}: it broke off")
            left -= len(piece)
            caps.count_unpacked(len(piece))
            yield piece
    else:
        raise SourceError(
            f"{what}: {header.name[:200]!r} in it is packed in a way that cannot be read as a "
            f"stream (method {header.method}): ask for single files"
        )
    if header.flags & _STREAMED:
        _skip_descriptor(pipe, what)


def _read_stored_stream(
    name: str, pipe: _ChunkReader, caps: _SizeCaps, what: str
) -> Iterator[bytes]:
    """Yield a member whose size follows it, as gitlab-runner writes symbolic links.

    It ends where the next sizes and checksum are those of what was read.
    """
    size, crc, held = 0, 0, b""
    while more := pipe.read(_STEP):
        held += more
        at, is_end = _find_end(held, size, crc)
        piece, held = held[:at], held[at:]
        size, crc = size + at, zlib.crc32(piece, crc)
        caps.count_unpacked(at)
        yield piece
        if is_end:
            pipe.put_back(held)
            return
    raise SourceError(f"{what}: the end of {name[:200]!r} in it is not found: ask for single files")


def _find_end(held: bytes, size: int, crc: int) -> tuple[int, bool]:
    """Return where in `held` the member ends, and True; or how far it surely goes on, and False.

    `size` and `crc` are of its bytes before `held`.
    """
    done = 0
    for found in _SIZES.finditer(held):
        at = found.start()
        crc, done = zlib.crc32(held[done:at], crc), at
        ahead, own = held[at : at + _AHEAD], (crc, size + at, size + at)
        narrow = ahead[16:20] in _NEXT and struct.unpack_from("<III", ahead, 4) == own
        if narrow or (ahead[24:28] in _NEXT and struct.unpack_from("<IQQ", ahead, 4) == own):
            return at, True
    return max(0, len(held) - _AHEAD + 1), False


def _skip_descriptor(pipe: _ChunkReader, what: str) -> None:
    """Skip the sizes after a member: with or without a signature, in 32 or 64 bits."""
    ahead = pipe.read(28)
    for size in (16, 24) if ahead.startswith(_DESCRIPTOR) else (12, 20):
        if ahead[size : size + 4] in _NEXT:
            pipe.put_back(ahead[size:])
            return
    raise SourceError(f"{what}: damaged after a member")
