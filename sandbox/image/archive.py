"""`/tmp/_out` and `/tmp/data` as a gzip tarball: packed and unpacked inside the container.

The same files give the same bytes: sorted, without owner, mode or time. An archive to unpack is
hostile: only regular files and folders below `_out` and `data` are taken, under caps.
"""

# pathlib takes as long to import as all the rest together.
# ruff: noqa: PTH101, PTH103, PTH120, PTH123, PTH208

import contextlib
import gzip
import io
import os
import stat
import tarfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast

from sandbox.image.frames import FRAME, Json, Refused, Source, send

ROOT, TOPS = "/tmp", ("_out", "data")
DEPTH, NAME, PATH = 64, 255, 1024
LONG = 8192
PLAIN = tuple(bytes([kind]) for kind in b"\x0001234567")
FREE_RATIO = 256 << 20  # up to here any ratio is believed: `yes` packs 1000 to 1
SLACK = 1 << 20
BROKEN = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError, RecursionError)


class Caps:
    """Counts what passes, and refuses what is over a cap."""

    def __init__(self, request: Json) -> None:
        self.packed_cap: int = request["packed"]
        self.raw_cap: int = request["raw"]
        self.file_cap: int = request["file"]
        self.members_cap: int = request["members"]
        self.ratio: int = request["ratio"]
        self.packed = self.raw = self.members = 0

    def member(self, name: str, size: int) -> None:
        self.members += 1
        self.raw += size
        if self.members > self.members_cap:
            raise Refused("limit", f"more than {self.members_cap:,} files and folders")
        if size > self.file_cap:
            raise Refused("limit", f"{name[:200]!r} has {size:,} bytes, over {self.file_cap:,}")
        if self.raw > self.raw_cap:
            raise Refused("limit", f"more than {self.raw_cap:,} bytes unpacked")

    def pack(self, size: int) -> None:
        self.packed += size
        if self.packed > self.packed_cap:
            raise Refused("limit", f"more than {self.packed_cap:,} bytes packed")

    def check_ratio(self, slack: int) -> None:
        if self.raw > FREE_RATIO and self.raw > self.ratio * (self.packed + slack):
            raise Refused("limit", f"packed more than {self.ratio} to 1")


def fits(name: str) -> bool:
    parts = name.split("/")
    sizes = [len(os.fsencode(part)) for part in parts]
    return len(parts) <= DEPTH and max(sizes) <= NAME and sum(sizes) + len(parts) <= PATH


# --------------------------------------------------------------------------------------- packing


class Frames(io.RawIOBase):
    """A file that sends what is written to it."""

    def __init__(self, caps: Caps) -> None:
        self.caps = caps

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.caps.pack(len(data))
        send(bytes(data))
        return len(data)


def readable(path: str, mode: int) -> None:
    """Make our own file readable again, if a command took that away."""
    with contextlib.suppress(OSError):
        if mode & 0o500 != 0o500:
            os.chmod(path, mode | 0o500)


def walk(name: str) -> Iterator[tuple[str, os.stat_result]]:
    """Files and folders below `name`, sorted, parents first."""
    pending = [name]
    while pending:
        name = pending.pop()
        info = os.lstat(f"{ROOT}/{name}")
        if not (stat.S_ISDIR(info.st_mode) or stat.S_ISREG(info.st_mode)):
            continue
        if not fits(name):
            raise Refused("limit", f"{name[:200]!r} is too deep or too long")
        readable(f"{ROOT}/{name}", stat.S_IMODE(info.st_mode))
        yield name, info
        if stat.S_ISDIR(info.st_mode):
            below = sorted(os.listdir(f"{ROOT}/{name}"), key=os.fsencode, reverse=True)
            pending += [f"{name}/{entry}" for entry in below]


def header(name: str, info: os.stat_result) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    if stat.S_ISDIR(info.st_mode):
        member.type, member.mode = tarfile.DIRTYPE, 0o755
    else:
        member.size, member.mode = info.st_size, 0o644
    return member


def add(tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
    if member.isdir():
        tar.addfile(member)
        return
    fd = os.open(f"{ROOT}/{member.name}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(fd, "rb") as file:
        tar.addfile(member, file)


def pack_all(tar: tarfile.TarFile, top: str, caps: Caps) -> None:
    for name, info in walk(top):
        member = header(name, info)
        caps.member(name, member.size)
        add(tar, member)
        tar.members.clear()  # type: ignore[attr-defined]
        caps.check_ratio(slack=0)


def do_pack(request: Json, _: Source) -> Json:
    """Send the archive. Refused("limit") past a cap."""
    caps = Caps(request)
    sink = io.BufferedWriter(cast(io.RawIOBase, Frames(caps)), FRAME)
    with (
        gzip.GzipFile("", "wb", 1, cast(BinaryIO, sink), mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.GNU_FORMAT, bufsize=FRAME) as tar,
    ):
        for top in TOPS:
            pack_all(tar, top, caps)
    sink.flush()
    return {"members": caps.members, "bytes": caps.raw}


# ------------------------------------------------------------------------------------- unpacking


class Arriving(io.RawIOBase):
    """The frames from the host as a file; what arrives is counted."""

    def __init__(self, source: Source, caps: Caps) -> None:
        self.frames, self.caps, self.left = source.data(), caps, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if not self.left:
            self.left = next(self.frames, b"")
            self.caps.pack(len(self.left))
        size = min(len(buffer), len(self.left))
        buffer[:size] = self.left[:size]
        self.left = self.left[size:]
        return size


class Bounded(io.RawIOBase):
    """What comes out of the decompressor, headers included, up to a cap."""

    def __init__(self, file: gzip.GzipFile, caps: Caps) -> None:
        self.file, self.caps = file, caps
        self.left = caps.raw_cap + caps.members_cap * 2048 + SLACK

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self.file.read(size)
        self.left -= len(data)
        if self.left < 0:
            raise Refused("limit", f"more than {self.caps.raw_cap:,} bytes unpacked")
        return data


class Member(tarfile.TarInfo):
    """A header, refused before tarfile reads what it says of itself into memory.

    Extended headers and sparse maps may have any size; an archive of ours has neither.
    """

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        """tarfile's own entry point for subclasses: called for each header, before its data."""
        long = self.type in (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
        if self.size < 0 or (long and self.size > LONG) or not (long or self.type in PLAIN):
            raise Refused("corrupt", f"a member that was never saved so ({self.type!r})")
        member: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        return member


def wanted(member: tarfile.TarInfo) -> str | None:
    """The member's clean name, or None if it is not for us."""
    parts = [part for part in member.name.split("/") if part not in ("", ".")]
    name = "/".join(parts)
    plain = member.isdir() or member.isreg()
    inside = bool(parts) and parts[0] in TOPS and ".." not in parts
    if plain and inside and "\0" not in name and not member.name.startswith("/") and fits(name):
        return name
    return None


def write(tar: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
    os.makedirs(path if member.isdir() else os.path.dirname(path), exist_ok=True)
    source = None if member.isdir() else tar.extractfile(member)
    if source is None:
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with source, open(os.open(path, flags, 0o644), "wb") as file:
        while data := source.read(FRAME):
            file.write(data)


def unpack_all(tar: tarfile.TarFile, caps: Caps) -> int:
    skipped = 0
    for member in tar:
        tar.members.clear()  # type: ignore[attr-defined]
        caps.member(member.name, max(0, member.size))
        name = wanted(member)
        if name is None:
            skipped += 1
            continue
        try:
            write(tar, member, f"{ROOT}/{name}")
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            skipped += 1  # a file and a folder of one name
        caps.check_ratio(slack=SLACK)
    return skipped


def do_unpack(request: Json, source: Source) -> Json:
    """Write the archive's files. Refused("limit") past a cap, Refused("corrupt") if it is none."""
    caps = Caps(request)
    try:
        with gzip.GzipFile(fileobj=io.BufferedReader(Arriving(source, caps), FRAME)) as packed:
            bounded = Bounded(packed, caps)
            file = cast(BinaryIO, bounded)
            with tarfile.open(fileobj=file, mode="r|", bufsize=FRAME, tarinfo=Member) as tar:
                skipped = unpack_all(tar, caps)
            while bounded.read(FRAME):
                pass  # the checksum is at the end
    except BROKEN as error:
        raise Refused("corrupt", f"not a whole gzip tarball ({type(error).__name__})") from error
    return {"members": caps.members, "skipped": skipped, "bytes": caps.raw}
