"""Headers of tar archives, beside Python's own."""

import io
import tarfile

import pytest

from sandbox.image import archive

NAMES = ["data/x", "data/" + "n" * 95, "data/" + "n" * 96, "data/" + "ü" * 200, "_out/new\nline"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("folder", "size"), [(True, 0), (False, 0), (False, 1234)])
def test_python_reads_what_is_written(name: str, folder: bool, size: int) -> None:
    raw = (
        archive.make_header(name, folder=folder, size=size)
        + bytes(size + -size % tarfile.BLOCKSIZE)
        + archive.END * 2
    )
    with tarfile.open(fileobj=io.BytesIO(raw), mode="r:") as opened:
        (member,) = opened.getmembers()
    assert (member.name, member.isdir(), member.isreg()) == (name, folder, not folder)
    assert (member.size, member.mode) == (size, 0o755 if folder else 0o644)
    assert (member.uid, member.gid, member.mtime, member.uname) == (0, 0, 0, "")


@pytest.mark.parametrize("size", [0, 1, 511, 8**11 - 1, 8**11, 1 << 40])
def test_what_python_writes_is_read(size: int) -> None:
    info = tarfile.TarInfo("data/x")
    info.size = size
    for form in (tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT):
        if form == tarfile.USTAR_FORMAT and size >= 8**11:
            continue
        member = archive.parse_header(info.tobuf(form))
        assert (member.name, member.type, member.size) == ("data/x", tarfile.REGTYPE, size)


def test_a_prefix_is_part_of_the_name() -> None:
    info = tarfile.TarInfo("p" * 120 + "/" + "n" * 90)
    assert archive.parse_header(info.tobuf(tarfile.USTAR_FORMAT)).name == info.name


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: b"X" + raw[1:],
        lambda raw: raw[:148] + b"abcdefgh" + raw[156:],
        lambda raw: bytes(range(256)) * 2,
        lambda raw: raw[:124] + b"\xff" + raw[125:],
    ],
)
def test_what_is_no_header_is_refused(change: object) -> None:
    assert callable(change)
    with pytest.raises(ValueError):
        archive.parse_header(change(tarfile.TarInfo("data/x").tobuf()))


def test_a_negative_size_is_refused() -> None:
    info = tarfile.TarInfo("data/x")
    info.size = -1
    with pytest.raises(ValueError, match="negative"):
        archive.parse_header(info.tobuf(tarfile.GNU_FORMAT))
