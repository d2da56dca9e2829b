"""Headers of tar archives in GNU's format: only what our own archives are made of."""

import os
import struct

BLOCK = 512
END = bytes(BLOCK)
FILE, FOLDER, LONG_NAME, LONG_LINK = b"0", b"5", b"L", b"K"
PLAIN = frozenset(bytes([kind]) for kind in b"\x0001234567")
SHORT = 100
LONG = 8192


class Member:
    """A header's name, kind (the type flag) and size in bytes."""

    __slots__ = ("kind", "name", "size")

    def __init__(self, name: str, kind: bytes, size: int) -> None:
        self.name, self.kind, self.size = name, kind, size


def padding(size: int) -> int:
    return -size % BLOCK


def number(value: int) -> bytes:
    """Octal in eleven digits, or GNU's base 256 for what needs more."""
    return b"%011o\0" % value if value < 8**11 else b"\x80" + value.to_bytes(11, "big")


def block(name: bytes, kind: bytes, size: int, mode: int) -> bytes:
    zero = b"0000000\0"
    head = struct.pack(
        "100s8s8s8s12s12s8sc100s8s", name, b"%07o\0" % mode, zero, zero,
        number(size), number(0), b" " * 8, kind, b"", b"ustar  \0",
    ).ljust(BLOCK, b"\0")  # fmt: skip
    return head[:148] + b"%06o\0 " % sum(head) + head[156:]


def header(name: str, *, folder: bool, size: int = 0) -> bytes:
    """Without owner, mode or time; a long name in a block of its own."""
    raw = os.fsencode(name) + b"/" * folder
    kind, mode = (FOLDER, 0o755) if folder else (FILE, 0o644)
    before = b""
    if len(raw) > SHORT:
        before = block(b"././@LongLink", LONG_NAME, len(raw) + 1, 0) + raw + b"\0"
        before += bytes(padding(len(raw) + 1))
    return before + block(raw[:SHORT], kind, size, mode)


def parse(raw: bytes) -> Member:
    """Raises ValueError for what is no header."""
    total = sum(raw) - sum(raw[148:156]) + 8 * ord(" ")
    if total != int(raw[148:156].split(b"\0")[0].strip() or b"0", 8):
        raise ValueError("a header with a wrong checksum")
    size = raw[124:136]
    if size[0] & 0x80:
        length = int.from_bytes(size[1:], "big") if size[0] == 0x80 else -1
    else:
        length = int(size.split(b"\0")[0].strip() or b"0", 8)
    if length < 0:
        raise ValueError("a header with a negative size")
    name, prefix = text(raw[:100]), text(raw[345:500])
    if prefix and raw[257:263] == b"ustar\0":
        name = f"{prefix}/{name}"
    return Member(name, raw[156:157], length)


def text(field: bytes) -> str:
    return os.fsdecode(field.split(b"\0", 1)[0])
