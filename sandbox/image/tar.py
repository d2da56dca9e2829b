"""Reads and writes headers of tar archives in GNU's format, as far as our archives need it."""

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


def encode_number(value: int) -> bytes:
    """Encode a number in eleven octal digits, or in GNU's base 256 if it needs more."""
    return b"%011o\0" % value if value < 8**11 else b"\x80" + value.to_bytes(11, "big")


def make_block(name: bytes, kind: bytes, size: int, mode: int) -> bytes:
    zero = b"0000000\0"
    head = struct.pack(
        "100s8s8s8s12s12s8sc100s8s", name, b"%07o\0" % mode, zero, zero,
        encode_number(size), encode_number(0), b" " * 8, kind, b"", b"ustar  \0",
    ).ljust(BLOCK, b"\0")  # fmt: skip
    return head[:148] + b"%06o\0 " % sum(head) + head[156:]


def make_header(name: str, *, folder: bool, size: int = 0) -> bytes:
    """Make a header without owner, mode or time; a long name gets a block of its own."""
    raw = os.fsencode(name) + b"/" * folder
    kind, mode = (FOLDER, 0o755) if folder else (FILE, 0o644)
    before = b""
    if len(raw) > SHORT:
        before = make_block(b"././@LongLink", LONG_NAME, len(raw) + 1, 0) + raw + b"\0"
        before += bytes(padding(len(raw) + 1))
    return before + make_block(raw[:SHORT], kind, size, mode)


def parse_header(raw: bytes) -> Member:
    """Parse a header. Raises ValueError if it is none."""
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
    name, prefix = decode_text(raw[:100]), decode_text(raw[345:500])
    if prefix and raw[257:263] == b"ustar\0":
        name = f"{prefix}/{name}"
    return Member(name, raw[156:157], length)


def decode_text(field: bytes) -> str:
    return os.fsdecode(field.split(b"\0", 1)[0])
