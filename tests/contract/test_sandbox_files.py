"""Files in and out of every sandbox, one by one and as an archive."""

import gzip
import io
import random
import tarfile
import tracemalloc
from collections.abc import Iterator

import pytest

from sandbox.background import PoolableDriver
from sandbox.base import (
    DATA,
    OUT,
    Driver,
    ExecResult,
    Sandbox,
    SandboxError,
    SandboxLimit,
)
from sandbox.framed import FramedSandbox
from sandbox.spec import ContainerSpec
from tests.sandboxes import Kind

ODD = ["a b", "new\nline", "q\"uote's", "-rf", "$(id)", "ünï/漢字", "x" * 255, ".hidden", "a\\b"]


@pytest.fixture(scope="session")
def driver(any_driver: PoolableDriver) -> PoolableDriver:
    """Each kind in turn."""
    return any_driver


@pytest.fixture
def sandbox(any_sandbox: FramedSandbox) -> FramedSandbox:
    """Of each kind in turn."""
    return any_sandbox


@pytest.fixture(scope="module")
def shared(any_driver: PoolableDriver) -> Iterator[FramedSandbox]:
    """Of each kind in turn, one for all tests that do not look around."""
    with any_driver.start("shared") as running:
        yield running


def run(sandbox: Sandbox, command: str) -> ExecResult:
    return sandbox.exec(command, timeout=60, number=1)


def archive(*members: tarfile.TarInfo, content: bytes = b"x") -> bytes:
    """A gzip tarball of `members`; regular files get `content`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=tarfile.GNU_FORMAT) as tar:
        for member in members:
            if member.isreg():
                member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, 0o4777
    return info


def tree(sandbox: Sandbox) -> list[str]:
    """What lies under /tmp, as type and path."""
    return sorted(run(sandbox, r"find . -mindepth 1 -printf '%y %p\n'").stdout.preview.split("\n"))[
        1:
    ]


@pytest.fixture
def started(driver: Driver) -> Iterator[list[Sandbox]]:
    """Append what was started; it is closed afterwards."""
    running: list[Sandbox] = []
    yield running
    for sandbox in running:
        sandbox.close()


@pytest.mark.parametrize("name", ODD)
def test_a_file_comes_out_as_it_went_in(shared: Sandbox, name: str) -> None:
    content = bytes(range(256)) * 10
    path = f"{DATA}/deep/er/{name}"
    assert shared.put(path, [content[:7], b"", content[7:]]) == len(content)
    assert shared.get(path, limit=10_000) == content


def test_twenty_megabytes_pass(sandbox: Sandbox) -> None:
    content = random.Random(1).randbytes(20 << 20)
    assert sandbox.put("/tmp/big", [content]) == len(content)
    assert sandbox.get("/tmp/big", limit=len(content)) == content


def test_an_empty_file_is_a_file(shared: Sandbox) -> None:
    assert shared.put("/tmp/empty", []) == 0
    assert shared.get("/tmp/empty", limit=10) == b""


def test_put_replaces(shared: Sandbox) -> None:
    shared.put("/tmp/file", [b"long content"])
    shared.put("/tmp/file", [b"short"])
    assert shared.get("/tmp/file", limit=100) == b"short"


@pytest.mark.parametrize(
    "path",
    [
        *("", "/", "/tmp", "/tmp/", "tmp/x", "x", "/etc/passwd", "/tmp/../etc/x", "/tmpx/y"),
        *("/tmp/a/../b", "/tmp/a\0b", "/tmp/folder/", "/tmp/" + "x" * 256, "/tmp/\ud800"),
    ],
)
def test_put_refuses_what_is_not_under_tmp(shared: Sandbox, path: str) -> None:
    with pytest.raises(ValueError):
        shared.put(path, [b"x"])


@pytest.mark.parametrize("path", ["/tmp/folder", "/tmp/file/below"])
def test_put_refuses_a_place_that_is_taken(shared: Sandbox, path: str) -> None:
    run(shared, "mkdir -p folder; touch file folder/file")
    with pytest.raises(ValueError, match=path):
        shared.put(path, [b"x"])


def test_a_file_over_the_cap_is_refused_and_nothing_stays(
    kind: Kind, container_spec: ContainerSpec
) -> None:
    capped = ContainerSpec(image=container_spec.image, memory="512m", put_cap=100_000)
    with kind(capped).start("capped") as sandbox:
        with pytest.raises(SandboxLimit, match="more than 100,000 bytes"):
            sandbox.put(f"{DATA}/x", (b"x" * 1000 for _ in range(101)))
        assert "data/x" not in " ".join(tree(sandbox))


def test_a_file_that_does_not_fit_is_refused_and_nothing_stays(sandbox: Sandbox) -> None:
    run(sandbox, "head -c 2G /dev/zero > big")
    with pytest.raises(SandboxLimit, match="No space left"):
        sandbox.put(f"{DATA}/x", (bytes(1 << 20) for _ in range(30)))
    assert "f ./data/x" not in tree(sandbox)


def test_a_source_that_fails_leaves_nothing(sandbox: Sandbox) -> None:
    def failing() -> Iterator[bytes]:
        yield b"half"
        raise ConnectionError("the source broke off")

    with pytest.raises(ConnectionError, match="broke off"):
        sandbox.put(f"{DATA}/x", failing())
    run(sandbox, "until ! ls -A data | grep -q .; do sleep 0.02; done")
    assert tree(sandbox) == ["d ./_out", "d ./data"]


def test_get_gives_the_first_bytes(shared: Sandbox) -> None:
    shared.put("/tmp/file", [b"0123456789"])
    assert shared.get("/tmp/file", limit=4) == b"0123"
    assert shared.get("/tmp/file", limit=0) == b""


@pytest.mark.parametrize(
    "path", ["/tmp/none", "/tmp", "/tmp/fifo", "/dev/zero", "/tmp/loop", "/tmp/a\0b", "", "\ud800"]
)
def test_get_reads_regular_files_only(shared: Sandbox, path: str) -> None:
    run(shared, "mkfifo fifo; ln -sfT loop loop")
    with pytest.raises(FileNotFoundError):
        shared.get(path, limit=10)


def test_what_is_exported_is_restored(
    driver: Driver, sandbox: Sandbox, started: list[Sandbox]
) -> None:
    for name in ODD:
        sandbox.put(f"{DATA}/{name}", [name.encode()])
    run(sandbox, f"mkdir {DATA}/empty; seq 1 100000; echo elsewhere > /tmp/elsewhere")
    saved = list(sandbox.export())
    started.append(driver.start("again", saved))
    for name in ODD:
        assert started[0].get(f"{DATA}/{name}", limit=1000) == name.encode()
    assert started[0].get(f"{OUT}/1.txt", limit=10) == b"1\n2\n3\n4\n5\n"
    assert run(started[0], "ls -d data/empty elsewhere").stdout.preview == "data/empty\n"
    run(started[0], "echo more >> data/a\\ b && chmod 755 data/a\\ b")
    assert b"".join(started[0].export()) != b"".join(saved)


def test_the_same_files_give_the_same_bytes(
    driver: Driver, sandbox: Sandbox, started: list[Sandbox]
) -> None:
    started.append(driver.start("other"))
    run(sandbox, "cd data; mkdir d; echo 1 > b; echo 2 > a; echo 3 > d/c; chmod 0 a d")
    run(started[0], "cd data; umask 77; mkdir d; echo 3 > d/c; echo 2 > a; sleep 1.1; echo 1 > b")
    first = b"".join(sandbox.export())
    assert first == b"".join(started[0].export()) == b"".join(sandbox.export())
    with tarfile.open(fileobj=io.BytesIO(first)) as tar:
        assert tar.getnames() == ["_out", "data", "data/a", "data/b", "data/d", "data/d/c"]
        assert {(m.uid, m.gid, m.mtime, m.uname) for m in tar} == {(0, 0, 0, "")}


def test_only_regular_files_and_folders_are_exported(sandbox: Sandbox) -> None:
    run(
        sandbox,
        "cd data; echo x > file; ln -s /etc/passwd link; ln -s /etc links; mkfifo fifo; "
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'; ln file hard",
    )
    with tarfile.open(fileobj=io.BytesIO(b"".join(sandbox.export()))) as tar:
        assert tar.getnames() == ["_out", "data", "data/file", "data/hard"]
        assert all(m.isreg() or m.isdir() for m in tar)


@pytest.mark.parametrize(("removed", "left"), [("data", OUT), ("_out", DATA)])
def test_a_folder_that_a_command_removed_costs_no_other_files(
    driver: Driver, sandbox: Sandbox, started: list[Sandbox], removed: str, left: str
) -> None:
    for folder in (OUT, DATA):
        sandbox.put(f"{folder}/kept", [b"kept"])
    run(sandbox, f"rm -rf /tmp/{removed}")
    started.append(driver.start("again", list(sandbox.export())))
    assert started[0].get(f"{left}/kept", limit=9) == b"kept"
    assert run(started[0], "ls -d _out data").stdout.preview == "_out\ndata\n"


def test_deep_trees_long_names_and_sparse_files_are_saved_and_restored(
    driver: Driver, sandbox: Sandbox, started: list[Sandbox]
) -> None:
    make = "mkdir -p $(printf 'd%.0s/' {1..60}); cd d/d/d; echo deep > $(printf 'x%.0s' {1..200})"
    run(sandbox, f"cd data; {make}; truncate -s 50M sparse; echo end >> sparse")
    started.append(driver.start("deep", sandbox.export()))
    look = "find data | wc -c; md5sum data/d/d/d/sparse; cat data/d/d/d/xx*"
    expected = run(sandbox, look).stdout.preview
    assert "deep" in expected
    assert run(started[0], look).stdout.preview == expected


def test_a_hundred_megabytes_pass_both_ways_in_constant_memory(
    driver: Driver, sandbox: Sandbox, started: list[Sandbox]
) -> None:
    run(sandbox, "head -c 30M /dev/urandom > data/noise; yes | head -c 70M > data/yes")
    tracemalloc.start()
    try:
        chunks = iter(sandbox.export())
        started.append(driver.start("again", chunks))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20
    look = "cat data/noise data/yes | md5sum"
    assert run(started[0], look).stdout.preview == run(sandbox, look).stdout.preview


def test_an_export_that_is_left_half_way_does_not_disturb_the_next(sandbox: Sandbox) -> None:
    run(sandbox, "head -c 5M /dev/urandom > data/noise")
    chunks = sandbox.export()
    next(iter(chunks))
    del chunks
    assert run(sandbox, "echo fine").stdout.preview == "fine\n"
    with tarfile.open(fileobj=io.BytesIO(b"".join(sandbox.export()))) as tar:
        assert tar.getmember("data/noise").size == 5 << 20


def test_ten_thousand_files_are_saved_and_restored(
    driver: Driver, sandbox: Sandbox, started: list[Sandbox]
) -> None:
    run(sandbox, "cd data; seq -f '%05g' 1 10000 | xargs touch")
    started.append(driver.start("many", sandbox.export()))
    assert run(started[0], "ls data | wc -l").stdout.preview == "10000\n"


@pytest.mark.parametrize(
    ("caps", "make", "told"),
    [
        (
            {"archive_cap": 50_000},
            "head -c 100000 /dev/urandom > x",
            "1 left out: 'data/x': more than 50,000 bytes packed with its 100,000",
        ),
        (
            {"unpacked_cap": 50_000},
            "head -c 60000 /dev/zero > x",
            "1 left out: 'data/x': more than 50,000 bytes unpacked with its 60,000",
        ),
        (
            {"put_cap": 50_000},
            "truncate -s 1T x w",
            "2 left out: 'data/w': 1,099,511,627,776 bytes, over 50,000; 'data/x': 1,099,511,",
        ),
        (
            {"members_cap": 100},
            "seq 1 100 | xargs touch",
            "1 left out: 'data/97': more than 100 files and folders, with what follows",
        ),
        ({}, "mkdir -p $(printf 'd/%.0s' {1..70}); touch x", "too deep or too long"),
        ({}, "truncate -s 250M x; truncate -s 200M w", "'data/x': packed more than 200 to 1"),
    ],
)
def test_what_is_over_a_cap_is_left_out_and_said_and_the_rest_is_kept(
    kind: Kind, container_spec: ContainerSpec, caps: dict[str, int], make: str, told: str
) -> None:
    spec = ContainerSpec(image=container_spec.image, memory="1g", **caps)  # type: ignore[arg-type]
    said: list[str] = []
    with kind(spec).start("capped") as sandbox:
        assert run(sandbox, f"cd data; echo kept > 0; {make}; echo kept > z").exit_code == 0
        saved = list(sandbox.export(said.append))
    (words,) = said
    assert told in words
    with kind(spec).start("again", saved) as sandbox:
        assert sandbox.get(f"{DATA}/0", limit=9) == b"kept\n"
        if "members_cap" not in caps:
            assert sandbox.get(f"{DATA}/z", limit=9) == b"kept\n"


def test_names_that_are_taken_do_not_keep_a_file_out(sandbox: Sandbox) -> None:
    """A command cannot guess under which name a file is written before it gets its own."""
    run(sandbox, "cd data; touch .sandpiper-{1..40000}; mkdir .sandpiper; chmod 0 .sandpiper")
    assert sandbox.put(f"{DATA}/x", [b"new"]) == 3
    assert sandbox.get(f"{DATA}/x", limit=9) == b"new"


def test_a_file_that_cannot_be_read_costs_no_other(
    driver: Driver, sandbox: Sandbox, started: list[Sandbox]
) -> None:
    run(sandbox, "cd data; echo kept > b; mkdir a; echo x > a/x; chmod 0 a/x a")
    started.append(driver.start("again", list(sandbox.export())))
    assert started[0].get(f"{DATA}/b", limit=9) == b"kept\n"


@pytest.mark.parametrize(
    "hostile",
    [
        member("../escaped"),
        member("/tmp/escaped"),
        member("data/../../tmp/escaped"),
        member("escaped"),
        member("_out2/escaped"),
        member("data/escaped", tarfile.SYMTYPE, "/etc/passwd"),
        member("data/escaped", tarfile.LNKTYPE, "/etc/passwd"),
        member("data/escaped", tarfile.CHRTYPE),
        member("data/escaped", tarfile.FIFOTYPE),
        member("data/" + "d/" * 70 + "escaped"),
        member("data/" + "e" * 300),
    ],
    ids=lambda info: f"{info.type!r} {info.name[:30]}",
)
def test_a_hostile_member_is_skipped_and_the_rest_restored(
    driver: Driver, started: list[Sandbox], hostile: tarfile.TarInfo
) -> None:
    started.append(driver.start("hostile", [archive(hostile, member("data/good"))]))
    assert tree(started[0]) == ["d ./_out", "d ./data", "f ./data/good"]
    assert run(started[0], "stat -c %a data/good").stdout.preview == "644\n"


def test_a_link_is_not_followed_by_a_later_member(driver: Driver, started: list[Sandbox]) -> None:
    link = member("data/link", tarfile.SYMTYPE, "/tmp")
    started.append(driver.start("link", [archive(link, member("data/link/escaped"))]))
    assert tree(started[0]) == ["d ./_out", "d ./data", "d ./data/link", "f ./data/link/escaped"]


@pytest.mark.parametrize(
    ("saved", "message"),
    [
        ([b"PK\3\4" + bytes(99)], "not a whole gzip tarball"),
        ([b"no gzip at all"], "not a whole gzip tarball"),
        ([], "not a whole gzip tarball"),
        ([gzip.compress(b"no tar at all" * 100)], "not a whole gzip tarball"),
        ([archive(member("data/x"), content=bytes(9999))[:-20]], "not a whole gzip tarball"),
    ],
)
def test_a_broken_archive_is_refused_in_plain_words(
    driver: Driver, saved: list[bytes], message: str
) -> None:
    with pytest.raises(SandboxError, match=message):
        driver.start("broken", saved)


def test_a_bomb_is_refused(driver: Driver) -> None:
    bomb = [gzip.compress(bytes(1 << 20), 1)] * 2000
    header = tarfile.TarInfo("data/zeros")
    header.size = 2000 << 20
    with pytest.raises(SandboxLimit, match="bytes, over"):
        driver.start("bomb", [gzip.compress(header.tobuf()), *bomb])
    extended = tarfile.TarInfo("data/header")
    extended.type, extended.size = tarfile.XHDTYPE, 2000 << 20
    with pytest.raises(SandboxError, match="never saved so"):
        driver.start("bomb", [gzip.compress(extended.tobuf()), *bomb])


def test_an_archive_over_the_cap_is_refused_unread(
    kind: Kind, container_spec: ContainerSpec
) -> None:
    capped = ContainerSpec(image=container_spec.image, memory="512m", archive_cap=1 << 20)
    noise = random.Random(1).randbytes(1 << 16)
    with pytest.raises(SandboxLimit, match="more than 1,048,576 bytes"):
        kind(capped).start("capped", (noise for _ in range(17)))
