"""`/tmp/_out` and `/tmp/data` as a gzip tarball: packed and unpacked inside the container.

The same files give the same bytes: sorted, without owner, mode or time. An archive to unpack is
hostile: only regular files and folders below `_out` and `data` are taken, under caps.
"""

# pathlib takes as long to import as all the rest together.
# ruff: noqa: PTH101, PTH103, PTH120, PTH208

import contextlib
import os
import stat
from collections.abc import Iterator
from typing import IO

from sandbox.image import tar
from sandbox.image.frames import CHUNK, Json, Refused, Source, send, write_all
from sandbox.image.squeeze import packing, unpacking

ROOT, TOPS = "/tmp", ("_out", "data")
DEPTH, NAME, PATH = 64, 255, 1024
FREE_RATIO = 256 << 20  # up to here any ratio is believed: `yes` packs 1000 to 1
SLACK = 1 << 20


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


def add_file(file: IO[bytes], path: str, left: int) -> None:
    """`left` bytes of a file that a command may be changing: what it lacks is zeros."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError("no longer a file")
        end = tar.padding(left)
        while left:
            data = os.read(fd, min(left, CHUNK)) or bytes(min(left, CHUNK))
            file.write(data)
            left -= len(data)
        file.write(bytes(end))
    finally:
        os.close(fd)


def pack_all(file: IO[bytes], top: str, caps: Caps) -> None:
    for name, info in walk(top):
        folder = stat.S_ISDIR(info.st_mode)
        size = 0 if folder else info.st_size
        caps.member(name, size)
        file.write(tar.header(name, folder=folder, size=size))
        if not folder:
            add_file(file, f"{ROOT}/{name}", size)
        caps.check_ratio(slack=SLACK)


def do_pack(request: Json, _: Source) -> Json:
    """Send the archive. Refused("limit") past a cap."""
    caps = Caps(request)

    def forward(data: bytes) -> None:
        caps.pack(len(data))
        send(data)

    with packing(forward) as file:
        for top in TOPS:
            pack_all(file, top, caps)
        file.write(tar.END * 2)
    return {"members": caps.members, "bytes": caps.raw}


# ------------------------------------------------------------------------------------- unpacking


class Reader:
    """A hostile tar archive, header by header. Raises ValueError where it is none.

    What comes out of the decompressor is counted, headers included.
    """

    def __init__(self, file: IO[bytes], caps: Caps) -> None:
        self.file, self.caps = file, caps
        self.left = self.pad = 0
        self.total = caps.raw_cap + caps.members_cap * 4 * tar.BLOCK + SLACK

    def take(self, size: int) -> bytes:
        data = self.file.read(size)
        self.total -= len(data)
        if self.total < 0:
            raise Refused("limit", f"more than {self.caps.raw_cap:,} bytes unpacked")
        return data

    def need(self, size: int) -> bytes:
        data = self.take(size)
        if not data:
            raise ValueError("it ends early")
        return data

    def skip_rest(self) -> None:
        """gzip's checksum is at its end."""
        while self.take(CHUNK):
            pass

    def content(self) -> Iterator[bytes]:
        """What is left of the newest member's content."""
        while self.left:
            data = self.need(min(self.left, CHUNK))
            self.left -= len(data)
            yield data

    def header(self) -> tar.Member | None:
        """The next header, or None at the end."""
        for _ in self.content():
            pass
        while self.pad:
            self.pad -= len(self.need(self.pad))
        raw = self.need(tar.BLOCK)
        if raw == tar.END:
            return None
        member = tar.parse(raw.ljust(tar.BLOCK))
        self.left, self.pad = member.size, tar.padding(member.size)
        return member

    def members(self) -> Iterator[tar.Member]:
        """Extended headers and sparse maps may be huge and are never ours: Refused."""
        long_name = None
        while member := self.header():
            if member.kind in (tar.LONG_NAME, tar.LONG_LINK) and member.size <= tar.LONG:
                if member.kind == tar.LONG_NAME:
                    long_name = b"".join(self.content())
                continue
            if member.kind not in tar.PLAIN:
                raise Refused("corrupt", f"a member that was never saved so ({member.kind!r})")
            if long_name is not None:
                member.name, long_name = tar.text(long_name), None
            yield member


def wanted(member: tar.Member) -> str | None:
    """The member's clean name, or None if it is not for us."""
    parts = [part for part in member.name.split("/") if part not in ("", ".")]
    name = "/".join(parts)
    plain = member.kind in (tar.FILE, tar.FOLDER, b"\0", b"7")
    inside = bool(parts) and parts[0] in TOPS and ".." not in parts
    if plain and inside and not member.name.startswith("/") and fits(name):
        return name
    return None


def write(reader: Reader, member: tar.Member, path: str) -> None:
    folder = member.kind == tar.FOLDER
    if folder:
        os.makedirs(path, exist_ok=True)
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    try:
        fd = os.open(path, flags, 0o644)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        fd = os.open(path, flags, 0o644)
    try:
        for data in reader.content():
            write_all(fd, data)
    finally:
        os.close(fd)


def unpack_all(reader: Reader, caps: Caps) -> int:
    skipped = 0
    for member in reader.members():
        caps.member(member.name, member.size)
        name = wanted(member)
        if name is None:
            skipped += 1
            continue
        try:
            write(reader, member, f"{ROOT}/{name}")
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            skipped += 1  # a file and a folder of one name
        caps.check_ratio(slack=SLACK)
    return skipped


def do_unpack(request: Json, source: Source) -> Json:
    """Write the archive's files. Refused("limit") past a cap, Refused("corrupt") if it is none."""
    caps = Caps(request)
    try:
        with unpacking(source, caps.pack) as file:
            reader = Reader(file, caps)
            skipped = unpack_all(reader, caps)
            reader.skip_rest()
    except ValueError as error:
        raise Refused("corrupt", f"not a whole gzip tarball ({error})") from error
    return {"members": caps.members, "skipped": skipped, "bytes": caps.raw}
