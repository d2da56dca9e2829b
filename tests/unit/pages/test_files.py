"""Files out of a turn's archive, which a sandbox has made."""

import asyncio
import contextlib
import gzip
import io
import random
import tarfile
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import httpx
import pytest
from starlette.applications import Starlette

from sandbox.image.archive import make_header
from tests.contexts import context
from tests.unit.pages.pages import KEY, OTHER, TOKEN, Site, archive
from worker.conversation.context import SessionKey
from worker.pages import stored
from worker.sessions.folder import FolderStore

OPERATOR = {"authorization": f"Bearer {TOKEN}"}

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


@pytest.mark.attack("archives")
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
        with pytest.raises(stored.NoFile):
            stored.open_member([content], "data/a b&c.log" if len(content) == 300 else "_out/1.txt")
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


def header(name: str, kind: bytes, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.USTAR_FORMAT)


def blocks(content: bytes) -> bytes:
    return content + bytes(-len(content) % 512)


WANTED = header("_out/1.txt", tarfile.REGTYPE, 3) + blocks(b"one") + bytes(1024)
# Python's own reader takes time that grows with the square of the digits (CVE-2024-6232).
DIGITS = header("x", tarfile.XHDTYPE, 60_000) + blocks(b"1" * 60_000)
CRAFTED = {
    "slow extended headers": DIGITS * 5 + WANTED,
    "slow global headers": DIGITS.replace(b"\0x", b"\0g") * 5 + WANTED,
    "a global header": header("x", tarfile.XGLTYPE, 512) + blocks(b"20 path=_out/1.txt\n") + WANTED,
    "a sparse file": header("_out/0.txt", tarfile.GNUTYPE_SPARSE, 0) + WANTED,
    "a volume": header("x", b"V", 0) + WANTED,
    "a long name without end": header("x", tarfile.GNUTYPE_LONGNAME, 1 << 20) + bytes(1 << 20),
    "too many members": header("_out/0", tarfile.REGTYPE, 0) * 20_000 + WANTED,
    "too large a file": header("_out/0", tarfile.REGTYPE, 300 << 20) + bytes(1 << 20),
    "a negative size": header("_out/0", tarfile.REGTYPE, 0)[:124] + b"\xff" * 12 + bytes(376),
    "a wrong checksum": b"_out/1.txt" + bytes(502) + WANTED,
}


@pytest.mark.attack("archives")
@pytest.mark.parametrize("crafted", CRAFTED.values(), ids=CRAFTED)
def test_what_a_sandbox_never_packs_is_refused_soon(crafted: bytes) -> None:
    packed = gzip.compress(crafted)
    started = time.thread_time()
    with pytest.raises(stored.NoFile):
        stored.open_member([packed], "_out/1.txt")
    assert time.thread_time() - started < 2.0


@pytest.mark.slow
@pytest.mark.attack("archives")
def test_a_bomb_is_not_unpacked_to_its_end() -> None:
    packer, packed = zlib.compressobj(wbits=31), b""
    for number in range(2):
        packed += packer.compress(header(f"_out/0{number}", tarfile.REGTYPE, 200 << 20))
        packed += b"".join(packer.compress(bytes(1 << 20)) for _ in range(200))
    packed += packer.compress(WANTED) + packer.flush()
    with pytest.raises(stored.NoFile, match="packed more than 200 to 1"):
        stored.open_member([packed], "_out/1.txt")


@pytest.mark.attack("archives")
def test_a_file_is_not_looked_for_without_end() -> None:
    def endless() -> Iterator[bytes]:
        packer = zlib.compressobj(wbits=31)
        while True:
            yield packer.compress(header("_out/0", tarfile.REGTYPE, 0)) + packer.flush(2)

    with pytest.raises(stored.NoFile, match="takes too long"):
        stored.open_member(endless(), "_out/1.txt", seconds=0.0)


@pytest.mark.attack("archives")
def test_changed_archives_give_the_file_or_nothing(
    attack_inputs: int, record_property: Callable[[str, object], None]
) -> None:
    chance = random.Random(4)
    plain = packed_by_runner()
    for _ in range(attack_inputs):
        changed = bytearray(plain)
        for _ in range(chance.randrange(1, 8)):
            changed[chance.randrange(len(changed))] = chance.choice((0, 32, 48, 55, 103, 120, 255))
        with contextlib.suppress(stored.NoFile):
            size, content = stored.open_member([gzip.compress(changed, 1)], "data/log")
            assert sum(map(len, content)) == size <= len(plain)
    record_property("tried", attack_inputs)


def packed_by_runner() -> bytes:
    """What our own packing makes of two files, one of them with a long name."""
    long = "data/" + "n" * 120
    parts = [
        make_header("_out", folder=True),
        make_header(long, folder=False, size=700) + blocks(b"x" * 700),
        make_header("data/log", folder=False, size=5) + blocks(b"right"),
    ]
    return b"".join([*parts, bytes(1024)])


@pytest.mark.parametrize("name", ["data/log", "data/" + "n" * 120])
def test_what_our_own_packing_makes_is_read(name: str) -> None:
    size, content = stored.open_member([gzip.compress(packed_by_runner())], name)
    assert size == len(b"".join(content)) == (5 if name == "data/log" else 700)


class StuckStore(FolderStore):
    """A store whose archives do not come until `free` is set."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.free, self.stuck = threading.Event(), threading.Semaphore(0)

    @contextlib.contextmanager
    def open_files(self, key: SessionKey, turn: int) -> Iterator[Iterator[bytes]]:
        """See SessionStore."""

        def chunks() -> Iterator[bytes]:
            self.stuck.release()
            assert self.free.wait(60)
            yield archive(FILES)

        yield chunks()


@pytest.mark.attack("archives")
def test_archives_keep_no_page_waiting(site: Site) -> None:
    store = StuckStore(site.root)
    site.store = store
    app = Starlette(routes=site.pages.make_routes())
    page = f"/sessions/{KEY.session_id}"
    query = {"turn": "0", "path": "/tmp/_out/1.txt", "sig": site.sign()}

    async def talk() -> list[int]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://pages") as client:
            downloads = [
                asyncio.ensure_future(client.get(f"{page}/files", params=query)) for _ in range(5)
            ]
            for _ in range(2):
                assert await anyio.to_thread.run_sync(store.stuck.acquire, True, 30)
            async with asyncio.timeout(20):
                shown = await client.get("/sessions", headers=OPERATOR)
            store.free.set()
            return [
                shown.status_code,
                *[each.status_code for each in await asyncio.gather(*downloads)],
            ]

    assert anyio.run(talk) == [200] * 6
