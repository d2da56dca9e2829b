"""Packs `/tmp/_out` and `/tmp/data` as a gzip tarball and unpacks it, inside the container.

The same files give the same bytes: sorted, without owner, mode or time. An archive to unpack is
hostile: only regular files and folders below `_out` and `data` are extracted, up to the caps.
"""

# pathlib takes as long to import as all the rest together.
# ruff: noqa: PTH101, PTH103, PTH120, PTH208

import contextlib
import os
import stat
import tarfile
from collections.abc import Iterator
from tarfile import BLOCKSIZE, TarInfo
from typing import IO

from sandbox.image.frames import CHUNK, Json, Refused, Source, send_data, write_all
from sandbox.image.squeeze import compress_stream, decompress_stream
from sandbox.image.users import Users

ROOT, TOPS = "/tmp", ("_out", "data")
DEPTH, NAME, PATH = 64, 255, 1024
FREE_RATIO = 256 << 20  # up to this size any ratio is allowed: `yes` packs 1000 to 1
SLACK = 1 << 20
UNDERWAY = 4 << 20  # bytes that the compressor and its pipes may hold
NAMED, WORDS = 20, 200  # how many of the files that were left out are named, and how long a name is


END = bytes(BLOCKSIZE)
LONG_NAMES = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
LONG = 8192
PLAIN = frozenset(bytes([kind]) for kind in b"\x0001234567")
TEXT = ("utf-8", "surrogateescape")


class Caps:
    """Counts members and bytes. Methods raise Refused("limit") when a cap is exceeded."""

    def __init__(self, request: Json) -> None:
        self.packed_cap: int = request["packed"]
        self.raw_cap: int = request["raw"]
        self.file_cap: int = request["file"]
        self.members_cap: int = request["members"]
        self.ratio: int = request["ratio"]
        self.packed_size = self.unpacked_size = self.member_count = 0

    def count_member(self, name: str, size: int) -> None:
        self.member_count += 1
        self.unpacked_size += size
        if self.member_count > self.members_cap:
            raise Refused("limit", f"more than {self.members_cap:,} files and folders")
        if size > self.file_cap:
            raise Refused("limit", f"{name[:200]!r} has {size:,} bytes, over {self.file_cap:,}")
        if self.unpacked_size > self.raw_cap:
            raise Refused("limit", f"more than {self.raw_cap:,} bytes unpacked")

    def count_packed(self, size: int) -> None:
        self.packed_size += size
        if self.packed_size > self.packed_cap:
            raise Refused("limit", f"more than {self.packed_cap:,} bytes packed")

    def check_ratio(self) -> None:
        if self.is_over_ratio(self.unpacked_size):
            raise Refused("limit", f"packed more than {self.ratio} to 1")

    def is_over_ratio(self, unpacked: int) -> bool:
        return unpacked > FREE_RATIO and unpacked > self.ratio * (self.packed_size + SLACK)

    def find_obstacle(self, size: int) -> str:
        """Return why a file of this size must not be packed too; "" if nothing is in its way.

        How far it can be compressed is not known beforehand: neither may its whole size exceed the
        cap on packed bytes, nor none of it the ratio.
        """
        if size > self.file_cap:
            return f"{size:,} bytes, over {self.file_cap:,}"
        unpacked = self.unpacked_size + size
        if unpacked > self.raw_cap:
            return f"more than {self.raw_cap:,} bytes unpacked with its {size:,}"
        packed = self.packed_size + size + min(UNDERWAY, self.packed_cap // 16)
        if packed > self.packed_cap:
            return f"more than {self.packed_cap:,} bytes packed with its {size:,}"
        return f"packed more than {self.ratio} to 1" if self.is_over_ratio(unpacked) else ""


def make_header(name: str, *, folder: bool, size: int = 0) -> bytes:
    """Make a header without owner, mode or time; a long name gets a block of its own."""
    info = TarInfo(name)
    info.type, info.mode = (tarfile.DIRTYPE, 0o755) if folder else (tarfile.REGTYPE, 0o644)
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT, *TEXT)


def parse_header(raw: bytes) -> TarInfo:
    """Parse a header alone, with nothing of what follows. Raises ValueError if it is none."""
    try:
        info = TarInfo.frombuf(raw, *TEXT)
    except tarfile.TarError as error:
        raise ValueError(str(error)) from error
    if info.size < 0:
        raise ValueError("a header with a negative size")
    return info


def _is_name_within_caps(name: str) -> bool:
    parts = name.split("/")
    sizes = [len(os.fsencode(part)) for part in parts]
    return len(parts) <= DEPTH and max(sizes) <= NAME and sum(sizes) + len(parts) <= PATH


# --------------------------------------------------------------------------------------- packing


class _Packing:
    """Packs files and folders, and notes what it leaves out: one bad file costs no other."""

    def __init__(self, file: IO[bytes], caps: Caps) -> None:
        self.file, self.caps = file, caps
        self.left_out = 0
        self.names: list[str] = []

    def leave_out(self, name: str, why: str) -> None:
        self.left_out += 1
        if len(self.names) < NAMED:
            self.names.append(f"{name[:WORDS]!r}: {why}")

    def pack_tree(self, top: str) -> None:
        """Pack what is below `top`, sorted, parents first."""
        pending = [top]
        while pending:
            name = pending.pop()
            try:
                info = os.lstat(f"{ROOT}/{name}")
                if not (stat.S_ISDIR(info.st_mode) or stat.S_ISREG(info.st_mode)):
                    continue
                if not _is_name_within_caps(name):
                    self.leave_out(name, "too deep or too long")
                    continue
                if self.caps.member_count >= self.caps.members_cap:
                    most = self.caps.members_cap
                    self.leave_out(name, f"more than {most:,} files and folders, with what follows")
                    return
                mode = stat.S_IMODE(info.st_mode)
                with contextlib.suppress(OSError):
                    if mode & 0o500 != 0o500:  # a command has changed it
                        os.chmod(f"{ROOT}/{name}", mode | 0o500)
                if stat.S_ISDIR(info.st_mode):
                    below = sorted(os.listdir(f"{ROOT}/{name}"), key=os.fsencode, reverse=True)
                    pending += [f"{name}/{entry}" for entry in below]
                    self.caps.count_member(name, 0)
                    self.file.write(make_header(name, folder=True))
                else:
                    self.pack_file(name)
            except FileNotFoundError:
                continue  # a command may remove even the top folders
            except PermissionError as error:
                self.leave_out(name, str(error.strerror))

    def pack_file(self, name: str) -> None:
        """Pack a file, unless a cap is in its way. If it shrinks meanwhile, zeros fill the rest."""
        fd = os.open(f"{ROOT}/{name}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode):
                raise OSError("no longer a file")
            if why := self.caps.find_obstacle(info.st_size):
                self.leave_out(name, why)
                return
            self.caps.count_member(name, info.st_size)
            self.file.write(make_header(name, folder=False, size=info.st_size))
            left = info.st_size
            while left:
                data = os.read(fd, min(left, CHUNK)) or bytes(min(left, CHUNK))
                self.file.write(data)
                left -= len(data)
            self.file.write(bytes(-info.st_size % BLOCKSIZE))
        finally:
            os.close(fd)


def do_pack(request: Json, _: Source, users: Users) -> Json:
    """Send the archive, and report what is not in it: how many files, and some of them by name.

    Raises Refused("limit") if the packed bytes exceed their cap all the same.
    """
    caps = Caps(request)

    def forward(data: bytes) -> None:
        caps.count_packed(len(data))
        send_data(data)

    with compress_stream(forward, users) as file:
        packing = _Packing(file, caps)
        for top in TOPS:
            packing.pack_tree(top)
        file.write(END * 2)
    return {
        "members": caps.member_count,
        "bytes": caps.unpacked_size,
        "left_out": packing.left_out,
        "names": packing.names,
    }


# ------------------------------------------------------------------------------------- unpacking


class Reader:
    """Reads a hostile tar archive header by header. Raises ValueError if it is no tar archive.

    All decompressed bytes are counted, headers included.
    """

    def __init__(self, file: IO[bytes], caps: Caps) -> None:
        self.file, self.caps = file, caps
        self.bytes_left = self.pad = 0
        self.total = caps.raw_cap + caps.members_cap * 4 * BLOCKSIZE + SLACK

    def read_some(self, size: int) -> bytes:
        data = self.file.read(size)
        self.total -= len(data)
        if self.total < 0:
            raise Refused("limit", f"more than {self.caps.raw_cap:,} bytes unpacked")
        return data

    def read_required(self, size: int) -> bytes:
        data = self.read_some(size)
        if not data:
            raise ValueError("it ends early")
        return data

    def read_content(self) -> Iterator[bytes]:
        """Yield the rest of the current member's content."""
        while self.bytes_left:
            data = self.read_required(min(self.bytes_left, CHUNK))
            self.bytes_left -= len(data)
            yield data

    def read_header(self) -> TarInfo | None:
        """Read the next header; None at the end."""
        for _ in self.read_content():
            pass
        while self.pad:
            self.pad -= len(self.read_required(self.pad))
        raw = self.read_required(BLOCKSIZE)
        if raw == END:
            return None
        member = parse_header(raw.ljust(BLOCKSIZE))
        self.bytes_left, self.pad = member.size, -member.size % BLOCKSIZE
        return member

    def read_members(self) -> Iterator[TarInfo]:
        """Yield the members. Raises Refused for kinds other than PLAIN and GNU's long names.

        Extended headers and sparse maps, for example, may be huge.
        """
        long_name = None
        while member := self.read_header():
            if member.type in LONG_NAMES and member.size <= LONG:
                if member.type == tarfile.GNUTYPE_LONGNAME:
                    long_name = b"".join(self.read_content())
                continue
            if member.type not in PLAIN:
                raise Refused("corrupt", f"a member that was never saved so ({member.type!r})")
            if long_name is not None:
                member.name, long_name = long_name.split(b"\0", 1)[0].decode(*TEXT), None
            yield member


def get_clean_name(member: TarInfo) -> str | None:
    """Return the member's normalised name, or None if it is not to be unpacked."""
    parts = [part for part in member.name.split("/") if part not in ("", ".")]
    name = "/".join(parts)
    plain = member.isreg() or member.isdir()
    inside = bool(parts) and parts[0] in TOPS and ".." not in parts
    if plain and inside and not member.name.startswith("/") and _is_name_within_caps(name):
        return name
    return None


def _write_member(reader: Reader, member: TarInfo, path: str) -> None:
    if member.isdir():
        os.makedirs(path, exist_ok=True)
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    try:
        fd = os.open(path, flags, 0o644)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        fd = os.open(path, flags, 0o644)
    try:
        for data in reader.read_content():
            write_all(fd, data)
    finally:
        os.close(fd)


def do_unpack(request: Json, source: Source, users: Users) -> Json:
    """Unpack the archive. Raises Refused: "limit" over a cap, "corrupt" if it is no archive."""
    caps, skipped = Caps(request), 0
    try:
        with decompress_stream(source, caps.count_packed, users) as file:
            reader = Reader(file, caps)
            for member in reader.read_members():
                caps.count_member(member.name, member.size)
                name = get_clean_name(member)
                if name is None:
                    skipped += 1
                    continue
                try:
                    _write_member(reader, member, f"{ROOT}/{name}")
                except (FileExistsError, NotADirectoryError, IsADirectoryError):
                    skipped += 1  # a file and a folder have the same name
                caps.check_ratio()
            while reader.read_some(CHUNK):  # to the end, where gzip's checksum is
                pass
    except ValueError as error:
        raise Refused("corrupt", f"not a whole gzip tarball ({error})") from error
    return {"members": caps.member_count, "skipped": skipped, "bytes": caps.unpacked_size}
