"""Archives from strangers: zips as GitLab's runners write them, bombs, and paths that lead away."""

import gzip
import io
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator

import pytest

from tests.unit.conftest import zipped
from worker.errors import SourceError
from worker.gitlab.read import redactions, unpacking
from worker.gitlab.read.redactions import Packed, Redactions, make_safe_path, repack

PLAIN = Redactions(bytes)

FILES = {"a.txt": b"one\n" * 1000, "deep/er/b.bin": bytes(range(256)) * 300, "empty": b""}


def pieces(data: bytes, step: int = 1000) -> Iterator[bytes]:
    return (data[at : at + step] for at in range(0, len(data), step))


def read(data: bytes, step: int = 1000) -> dict[str, bytes]:
    return {
        each.name: b"".join(each.chunks) for each in unpacking.read_zip(pieces(data, step), "it")
    }


def streamed(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip written without seeking, with sizes after each member."""

    class OneWay(io.RawIOBase):
        def __init__(self) -> None:
            self.data = bytearray()

        def writable(self) -> bool:
            return True

        def write(self, piece: object) -> int:
            self.data += bytes(piece)  # type: ignore[call-overload]
            return len(bytes(piece))  # type: ignore[call-overload]

    target = OneWay()
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return bytes(target.data)


@pytest.mark.parametrize("step", [1, 7, 1000, 10**7])
@pytest.mark.parametrize(
    "data",
    [
        zipped(FILES),
        zipped(FILES, zipfile.ZIP_STORED),
        streamed(FILES),
        streamed(FILES, zipfile.ZIP_STORED),
    ],
    ids=["deflated", "stored", "streamed", "streamed as stored"],
)
def test_a_zip_is_read_as_it_comes(data: bytes, step: int) -> None:
    assert read(data, step) == FILES


def stored(content: bytes, wide: bool, after: bytes = b"PK\x01\x02" + b"rest" * 6) -> bytes:
    """A symbolic link as gitlab-runner writes one: stored, its size only told after it."""
    sizes = struct.pack("<IQQ" if wide else "<III", zlib.crc32(content), *(len(content),) * 2)
    header = struct.pack("<HHHHHIIIHH", 20, 8, 0, 0, 0, 0, 0, 0, 1, 0)
    return b"PK\x03\x04" + header + b"x" + content + b"PK\x07\x08" + sizes + after


MARKS = b"PK\x07\x08" * 3000
SIZES = b"ab" + b"PK\x07\x08" + struct.pack("<III", 7, 2, 2) + b"PK\x01\x02 and so on"


@pytest.mark.parametrize("step", [1, 100_000])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("content", [b"", b"a.txt", MARKS, SIZES, b"PK\x07" * 5000])
def test_a_stored_stream_ends_only_at_its_own_sizes(content: bytes, wide: bool, step: int) -> None:
    last = streamed({"z": b"last"})
    assert read(stored(content, wide, last), step) == {"x": content, "z": b"last"}


def test_a_stored_stream_without_its_sizes_is_named() -> None:
    with pytest.raises(SourceError, match="the end of 'x' in it is not found"):
        read(stored(b"a" * 9000, False)[:5000])


def test_members_that_nobody_reads_are_passed_over() -> None:
    names = [each.name for each in unpacking.read_zip(pieces(streamed(FILES)), "it")]
    assert names == list(FILES)


def bare(name: bytes, packed: bytes, flags: int, after: bytes) -> bytes:
    header = struct.pack("<HHHHHIIIHH", 20, flags, 8, 0, 0, 0, 0, 0, len(name), 0)
    return b"PK\x03\x04" + header + name + packed + after + b"PK\x01\x02rest"


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("marked", [False, True])
def test_sizes_after_a_member_come_in_four_forms(wide: bool, marked: bool) -> None:
    engine = zlib.compressobj(wbits=-15)
    packed = engine.compress(b"hello") + engine.flush()
    sizes = struct.pack("<IQQ" if wide else "<III", zlib.crc32(b"hello"), len(packed), 5)
    data = bare(b"x", packed, 8, (b"PK\x07\x08" if marked else b"") + sizes)
    assert read(data, 3) == {"x": b"hello"}


BROKEN = [
    (b"", "not a zip file"),
    (b"<html>404</html>", "not a zip file"),
    (zipped(FILES)[:500], "broke off"),
    (zipped(FILES, zipfile.ZIP_STORED)[:500], "broke off"),
    (bare(b"x", b"\xff\xff\xff", 0, b""), "damaged"),
    (bare(b"x", b"\x03\x00", 1, b""), "encrypted"),
    (bare(b"x", b"\x03\x00", 8, b"no sizes here, nor a mark"), "damaged after a member"),
    (zipped({"a": b"a" * 100}, zipfile.ZIP_BZIP2), "cannot be read as a stream"),
]


@pytest.mark.parametrize(("data", "why"), BROKEN)
def test_a_zip_that_is_none_or_damaged_says_so(data: bytes, why: str) -> None:
    with pytest.raises(SourceError, match=why):
        read(data)


def test_a_zip_bomb_is_refused_long_before_its_end() -> None:
    bomb = zipped({f"{number}": b"\0" * 50_000_000 for number in range(2)})
    with pytest.raises(SourceError, match="over 100 times itself"):
        read(bomb)


@pytest.mark.slow
def test_too_many_members_are_refused() -> None:
    one = bare(b"x", b"\x03\x00", 0, b"").removesuffix(b"PK\x01\x02rest")
    with pytest.raises(SourceError, match="more than 50000 files"):
        read(one * (unpacking.MAX_FILES + 1), 1 << 14)


PATHS = [
    ("a/b.txt", "a/b.txt"),
    ("./a//b", "a/b"),
    ("/etc/passwd", None),
    ("../x", None),
    ("a/../../x", None),
    ("a\\..\\x", None),
    ("a\0b", None),
    ("a\nb", None),
    ("", None),
    (".", None),
    ("x" * 256, None),
    ("/".join("a" * 65), None),
    ("é" * 100, "é" * 100),
]


@pytest.mark.parametrize(("name", "kept"), PATHS)
def test_a_name_stays_inside_or_is_refused(name: str, kept: str | None) -> None:
    assert make_safe_path(name) == kept


def contents(packed: Iterator[bytes]) -> dict[str, tuple[bytes, int]]:
    found = {}
    with tarfile.open(fileobj=io.BytesIO(b"".join(packed)), mode="r:gz") as tar:
        for info in tar:
            assert info.isreg()
            assert (info.uid, info.mtime) == (0, 0)
            content = tar.extractfile(info)
            assert content is not None
            found[info.name] = (content.read(), info.mode)
    return found


def test_files_are_packed_anew_redacted_and_what_is_left_out_is_named() -> None:
    long = "d/" * 60 + "x" * 200
    files = [
        Packed("a.txt", iter([b"key=", b"hunter22\n"])),
        Packed("run.sh", iter([b"#!/bin/sh\n"]), executable=True),
        Packed("../out", iter([b"x"])),
        Packed("big", iter([b"\0" * redactions.MAX_FILE, b"x"])),
        Packed(long, iter([b"deep"])),
    ]
    clean = Redactions(lambda data: data.replace(b"hunter22", b"[redacted]"))
    found = contents(repack(files, clean))
    assert found["a.txt"] == (b"key=[redacted]\n", 0o644)
    assert found["run.sh"] == (b"#!/bin/sh\n", 0o755)
    assert found[long][0] == b"deep"
    assert found[redactions.NOTICE][0].decode().splitlines() == [
        "'../out': not a plain relative path",
        "'big': larger than 16 MiB",
    ]
    assert len(found) == 4


def test_the_same_files_give_the_same_bytes() -> None:
    def packed() -> bytes:
        return b"".join(repack((Packed(n, iter([d])) for n, d in FILES.items()), PLAIN))

    assert packed() == packed()


def tarball(*infos: tuple[tarfile.TarInfo, bytes]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as tar:
        for info, content in infos:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return target.getvalue()


def link(name: str, target: str, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def test_only_regular_files_of_a_source_archive_are_taken_and_its_top_folder_goes() -> None:
    data = tarball(
        (tarfile.TarInfo("p-main-1/a.py"), b"a = 1\n"),
        (link("p-main-1/etc", "/etc", tarfile.SYMTYPE), b""),
        (link("p-main-1/hard", "p-main-1/a.py", tarfile.LNKTYPE), b""),
        (link("p-main-1/pipe", "", tarfile.FIFOTYPE), b""),
        (tarfile.TarInfo("p-main-1/../../b.py"), b"b"),
    )
    found = contents(repack(unpacking.read_tar(pieces(data), "it"), PLAIN))
    assert list(found) == ["a.py", redactions.NOTICE]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"<html>", "not a gzip file"),
        (gzip.compress(b"x" * 1000, mtime=0), "not a tar file"),
        (tarball((tarfile.TarInfo("p/a"), bytes(range(256)) * 100))[:300], "broke off"),
        (tarball((tarfile.TarInfo("p/a"), b"\0" * 50_000_000)), "over 100 times itself"),
    ],
)
def test_an_archive_that_is_none_or_a_bomb_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(SourceError, match=why):
        list(unpacking.read_tar(pieces(data), "it"))


@pytest.mark.parametrize(("flags", "method"), [(1, 8), (0, 12), (8, 0)])
def test_a_name_of_64_kb_is_not_repeated_whole_in_an_error(flags: int, method: int) -> None:
    name = b"x" * 65_000
    head = struct.pack("<4s5H3I2H", b"PK\3\4", 20, flags, method, 0, 0, 0, 5, 5, len(name), 0)
    with pytest.raises(SourceError) as error:
        read(head + name + b"12345")
    assert len(str(error.value)) < 500
