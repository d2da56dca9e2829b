"""Packs `/tmp/_out` and `/tmp/data` as a gzip tarball and unpacks it, inside the container.

The same files give the same bytes: sorted, without owner, mode or time. An archive to unpack is
hostile: only regular files and folders below `_out` and `data` are extracted, up to the caps.
"""

# pathlib takes as long to import as all the rest together.
# ruff: noqa: PTH101, PTH103, PTH120, PTH208

import contextlib
import os
import stat
from collections.abc import Iterator
from typing import IO

from sandbox.image import tar
from sandbox.image.frames import CHUNK, Json, Refused, Source, send_data, write_all
from sandbox.image.squeeze import compress_stream, decompress_stream

ROOT, TOPS = "/tmp", ("_out", "data")
DEPTH, NAME, PATH = 64, 255, 1024
FREE_RATIO = 256 << 20  # up to this size any ratio is allowed: `yes` packs 1000 to 1
SLACK = 1 << 20


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
        if self.unpacked_size > FREE_RATIO and self.unpacked_size > self.ratio * (
            self.packed_size + SLACK
        ):
            raise Refused("limit", f"packed more than {self.ratio} to 1")


def is_name_within_caps(name: str) -> bool:
    parts = name.split("/")
    sizes = [len(os.fsencode(part)) for part in parts]
    return len(parts) <= DEPTH and max(sizes) <= NAME and sum(sizes) + len(parts) <= PATH


# --------------------------------------------------------------------------------------- packing


def make_readable(path: str, mode: int) -> None:
    """Make our own file readable again if a command changed its mode."""
    with contextlib.suppress(OSError):
        if mode & 0o500 != 0o500:
            os.chmod(path, mode | 0o500)


def walk_tree(name: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield files and folders below `name`, sorted, parents first."""
    pending = [name]
    while pending:
        name = pending.pop()
        try:
            info = os.lstat(f"{ROOT}/{name}")
        except FileNotFoundError:
            continue  # a command may remove even the top folders
        if not (stat.S_ISDIR(info.st_mode) or stat.S_ISREG(info.st_mode)):
            continue
        if not is_name_within_caps(name):
            raise Refused("limit", f"{name[:200]!r} is too deep or too long")
        make_readable(f"{ROOT}/{name}", stat.S_IMODE(info.st_mode))
        yield name, info
        if stat.S_ISDIR(info.st_mode):
            below = sorted(os.listdir(f"{ROOT}/{name}"), key=os.fsencode, reverse=True)
            pending += [f"{name}/{entry}" for entry in below]


def add_file(file: IO[bytes], path: str, left: int) -> None:
    """Add `left` bytes of a file. If the file shrinks meanwhile, zeros fill the rest."""
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
    for name, info in walk_tree(top):
        folder = stat.S_ISDIR(info.st_mode)
        size = 0 if folder else info.st_size
        caps.count_member(name, size)
        file.write(tar.make_header(name, folder=folder, size=size))
        if not folder:
            add_file(file, f"{ROOT}/{name}", size)
        caps.check_ratio()


def do_pack(request: Json, _: Source) -> Json:
    """Send the archive. Raises Refused("limit") when a cap is exceeded."""
    caps = Caps(request)

    def forward(data: bytes) -> None:
        caps.count_packed(len(data))
        send_data(data)

    with compress_stream(forward) as file:
        for top in TOPS:
            pack_all(file, top, caps)
        file.write(tar.END * 2)
    return {"members": caps.member_count, "bytes": caps.unpacked_size}


# ------------------------------------------------------------------------------------- unpacking


class Reader:
    """Reads a hostile tar archive header by header. Raises ValueError if it is no tar archive.

    All decompressed bytes are counted, headers included.
    """

    def __init__(self, file: IO[bytes], caps: Caps) -> None:
        self.file, self.caps = file, caps
        self.bytes_left = self.pad = 0
        self.total = caps.raw_cap + caps.members_cap * 4 * tar.BLOCK + SLACK

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

    def skip_rest(self) -> None:
        """Read to the end, where gzip's checksum is."""
        while self.read_some(CHUNK):
            pass

    def read_content(self) -> Iterator[bytes]:
        """Yield the rest of the current member's content."""
        while self.bytes_left:
            data = self.read_required(min(self.bytes_left, CHUNK))
            self.bytes_left -= len(data)
            yield data

    def read_header(self) -> tar.Member | None:
        """Read the next header; None at the end."""
        for _ in self.read_content():
            pass
        while self.pad:
            self.pad -= len(self.read_required(self.pad))
        raw = self.read_required(tar.BLOCK)
        if raw == tar.END:
            return None
        member = tar.parse_header(raw.ljust(tar.BLOCK))
        self.bytes_left, self.pad = member.size, tar.padding(member.size)
        return member

    def read_members(self) -> Iterator[tar.Member]:
        """Yield the members. Raises Refused for kinds other than `tar.PLAIN` and GNU's long names.

        Extended headers and sparse maps, for example, may be huge.
        """
        long_name = None
        while member := self.read_header():
            if member.kind in (tar.LONG_NAME, tar.LONG_LINK) and member.size <= tar.LONG:
                if member.kind == tar.LONG_NAME:
                    long_name = b"".join(self.read_content())
                continue
            if member.kind not in tar.PLAIN:
                raise Refused("corrupt", f"a member that was never saved so ({member.kind!r})")
            if long_name is not None:
                member.name, long_name = tar.decode_text(long_name), None
            yield member


def get_clean_name(member: tar.Member) -> str | None:
    """Return the member's normalised name, or None if it is not to be unpacked."""
    parts = [part for part in member.name.split("/") if part not in ("", ".")]
    name = "/".join(parts)
    plain = member.kind in (tar.FILE, tar.FOLDER, b"\0", b"7")
    inside = bool(parts) and parts[0] in TOPS and ".." not in parts
    if plain and inside and not member.name.startswith("/") and is_name_within_caps(name):
        return name
    return None


def write_member(reader: Reader, member: tar.Member, path: str) -> None:
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
        for data in reader.read_content():
            write_all(fd, data)
    finally:
        os.close(fd)


def unpack_all(reader: Reader, caps: Caps) -> int:
    skipped = 0
    for member in reader.read_members():
        caps.count_member(member.name, member.size)
        name = get_clean_name(member)
        if name is None:
            skipped += 1
            continue
        try:
            write_member(reader, member, f"{ROOT}/{name}")
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            skipped += 1  # a file and a folder have the same name
        caps.check_ratio()
    return skipped


def do_unpack(request: Json, source: Source) -> Json:
    """Unpack the archive. Raises Refused: "limit" over a cap, "corrupt" if it is no archive."""
    caps = Caps(request)
    try:
        with decompress_stream(source, caps.count_packed) as file:
            reader = Reader(file, caps)
            skipped = unpack_all(reader, caps)
            reader.skip_rest()
    except ValueError as error:
        raise Refused("corrupt", f"not a whole gzip tarball ({error})") from error
    return {"members": caps.member_count, "skipped": skipped, "bytes": caps.unpacked_size}
