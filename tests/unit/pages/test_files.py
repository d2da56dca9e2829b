"""Files out of a turn's archive, which a sandbox has made."""

import gzip
import io
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.contexts import context
from tests.unit.pages.pages import KEY, OTHER, Site, archive
from worker.pages import files

FILES = {"_out/1.txt": b"one\n" * 100_000, "data/a b&c.log": b"<script>", "secret": b"no"} | {
    "_out/../secret": b"no",
    "_out//1.txt": b"no",
}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site(tmp_path)
    site.keep(context(), files=FILES)
    return site


def get(site: Site, path: str, turn: str = "0", sig: str = "") -> tuple[int, bytes, str]:
    query = {"turn": turn, "path": path, "sig": sig or site.sign()}
    answer = site.client.get(f"/sessions/{KEY.session_id}/files", params=query)
    return answer.status_code, answer.content, answer.headers["content-type"]


def test_a_file_is_given_as_it_is_and_never_as_a_page(site: Site) -> None:
    assert get(site, "/tmp/_out/1.txt") == (
        200,
        FILES["_out/1.txt"],
        "text/plain; charset=utf-8",
    )
    query = {"turn": "0", "path": "/tmp/data/a b&c.log", "sig": site.sign()}
    answer = site.client.get(f"/sessions/{KEY.session_id}/files", params=query)
    assert answer.content == b"<script>"
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == 'attachment; filename="a-b-c.log"'
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'; sandbox")


@pytest.mark.parametrize(
    "path",
    [
        *(
            "",
            "/tmp/_out/",
            "/tmp/secret",
            "/tmp/_out/../secret",
            "/tmp/_out/./1.txt",
            "_out/1.txt",
        ),
        *("/tmp/_out//1.txt", "/etc/passwd", "/tmp/data/\x00", "/tmp/_out/2.txt", "/tmp/data/../"),
    ],
)
def test_what_is_no_file_of_the_sandbox_is_not_there(site: Site, path: str) -> None:
    assert get(site, path)[0] == 404


@pytest.mark.parametrize("turn", ["1", "", "-1", "00000", "x", "9999"])
def test_another_turn_has_no_such_file(site: Site, turn: str) -> None:
    assert get(site, "/tmp/_out/1.txt", turn)[0] == 404


def test_files_need_the_session_s_own_signature(site: Site) -> None:
    for signature in ("x", site.sign(OTHER), site.sign(seconds=-1)):
        assert get(site, "/tmp/_out/1.txt", sig=signature)[0] == 404
    assert site.opened == 0


def packed(add: Callable[[tarfile.TarFile], None], form: int = tarfile.PAX_FORMAT) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=form) as tar:
        add(tar)
    return gzip.compress(made.getvalue(), 1)


def link(tar: tarfile.TarFile) -> None:
    member = tarfile.TarInfo("_out/1.txt")
    member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
    tar.addfile(member)


def long_header(tar: tarfile.TarFile) -> None:
    member = tarfile.TarInfo("_out/1.txt")
    member.pax_headers = {"comment": "x" * 30_000_000}
    tar.addfile(member)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no gzip",
        gzip.compress(b"no tar"),
        archive(FILES)[:300],
        packed(link),
        packed(long_header),
    ],
    ids=["nothing", "no gzip", "no tar", "half", "a link", "a header that fills the memory"],
)
def test_a_hostile_archive_gives_nothing_and_takes_little(content: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(files.NoFile):
            files.extracted([content], "data/a b&c.log" if len(content) == 300 else "_out/1.txt")
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()
