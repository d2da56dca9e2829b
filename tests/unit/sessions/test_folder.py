import fcntl
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.unit.sessions import contender
from worker.conversation.context import SessionKey
from worker.errors import StoreError
from worker.sessions.folder import FolderStore
from worker.sessions.store import Claim

KEY = SessionKey(7, 42, "0123456789abcdef0123")
TURN = "sessions/7/42/0123456789abcdef0123/0000"
PROCESSES = 6


@contextmanager
def process(mode: str, root: Path, name: str) -> Iterator["subprocess.Popen[str]"]:
    """A contender that waits for a line; killed at the end if it still runs."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.unit.sessions.contender", mode, str(root), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    ) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == "ready\n"
            yield running
        finally:
            running.kill()


def start(running: "subprocess.Popen[str]") -> None:
    assert running.stdin is not None
    running.stdin.write("go\n")
    running.stdin.flush()


def won_by_processes(mode: str, root: Path) -> dict[str, list[int]]:
    with ExitStack() as stack:
        names = [f"worker-{number}" for number in range(PROCESSES)]
        crowd = [stack.enter_context(process(mode, root, name)) for name in names]
        for running in crowd:
            start(running)
        answers = [running.communicate(timeout=60)[0] for running in crowd]
        assert [running.returncode for running in crowd] == [0] * PROCESSES
    return {
        name: [int(turn) for turn in answer.split()]
        for name, answer in zip(names, answers, strict=True)
    }


@pytest.mark.slow
def test_of_many_processes_exactly_one_takes_over_each_expired_claim(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    for turn in range(contender.TURNS):
        store.claim_turn(KEY, turn, Claim("dead", "t", 10.0), 0.0)
    won = won_by_processes("claim", tmp_path)
    turns = sorted(turn for mine in won.values() for turn in mine)
    assert turns == list(range(contender.TURNS))
    for name, mine in won.items():
        for turn in mine:
            held = store.claim_turn(KEY, turn, Claim("late", "t", 99.0), 60.0)
            assert held == Claim(name, "t", 100.0)


@pytest.mark.slow
def test_of_many_processes_exactly_one_commits_each_turn(tmp_path: Path) -> None:
    won = won_by_processes("commit", tmp_path)
    turns = sorted(turn for mine in won.values() for turn in mine)
    assert turns == list(range(contender.TURNS))
    for name, mine in won.items():
        for turn in mine:
            assert FolderStore(tmp_path).read_context(KEY, turn) == name.encode() * 1000


@pytest.mark.slow
def test_processes_that_empty_the_same_folders_lose_nothing_and_leave_none(tmp_path: Path) -> None:
    records = FolderStore(tmp_path).records
    assert records.create(contender.COUNT, b"0")
    won = won_by_processes("empty", tmp_path)
    assert list(won.values()) == [list(range(contender.ROUNDS))] * PROCESSES
    counted = records.read(contender.COUNT, 9)
    assert counted is not None
    assert int(counted.content) == PROCESSES * contender.ROUNDS
    kept = {tmp_path / contender.COUNT, *(tmp_path / contender.COUNT).parents}
    assert set(tmp_path.rglob("*")) - kept == {tmp_path / "journal", tmp_path / "sessions"}


def test_an_object_that_others_delete_at_once_leaves_no_folder(tmp_path: Path) -> None:
    records = FolderStore(tmp_path).records
    assert not records.replace("journal/7/42/entry.json", b"x", "a version of nothing")
    assert list(tmp_path.iterdir()) == [tmp_path / "journal"]
    assert not list((tmp_path / "journal").iterdir())


def test_a_killed_writer_leaves_whole_objects_and_no_lock(tmp_path: Path) -> None:
    store = FolderStore(tmp_path, lock_seconds=2.0)
    seen: set[int] = set()
    with process("checkpoint", tmp_path, "victim") as running:
        start(running)
        deadline = time.monotonic() + 20
        while len(seen) < 20:
            assert time.monotonic() < deadline
            content = store.read_checkpoint(KEY, 0)
            if content is not None:
                assert len(content) == contender.SIZE
                assert len(set(content)) == 1
                seen.add(content[0])
    content = store.read_checkpoint(KEY, 0)
    assert content is not None
    assert len(content) == contender.SIZE
    assert store.claim_turn(KEY, 0, Claim("heir", "t", 10.0**9), 10.0**8) is None
    store.commit_turn(KEY, 0, b"{}")
    assert store.find_latest_turn(KEY) == 0
    assert list(store.list_sessions()) == [KEY]


def test_a_checkpoint_whose_writer_died_between_two_is_the_older_one(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.write_checkpoint(KEY, 0, b"older")
    # Where a killed writer can leave it: set aside, the newer one not yet in its place.
    (tmp_path / TURN / "checkpoint.json").rename(tmp_path / TURN / ".checkpoint.json.old")
    assert store.read_checkpoint(KEY, 0) == b"older"
    store.write_checkpoint(KEY, 0, b"newer")
    assert store.read_checkpoint(KEY, 0) == b"newer"
    assert [path.name for path in (tmp_path / TURN).iterdir()] == ["checkpoint.json"]


def test_a_commit_takes_a_checkpoint_that_was_set_aside_with_it(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.write_checkpoint(KEY, 0, b"older")
    (tmp_path / TURN / "checkpoint.json").rename(tmp_path / TURN / ".checkpoint.json.old")
    store.commit_turn(KEY, 0, b"{}")
    assert store.read_checkpoint(KEY, 0) is None


def test_an_aside_object_is_listed_and_goes_with_its_session(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.write_checkpoint(KEY, 0, b"the first")
    (tmp_path / TURN / "checkpoint.json").rename(tmp_path / TURN / ".checkpoint.json.old")
    assert list(store.records.list_names("sessions/")) == [f"{TURN}/checkpoint.json"]
    assert list(store.list_sessions()) == [KEY]
    store.remove_session(KEY)
    assert list(tmp_path.rglob("*")) == [tmp_path / "sessions"]


@pytest.mark.parametrize("way", ["remove_session", "erase_session"])
def test_what_a_killed_writer_left_unfinished_goes_with_its_turn(tmp_path: Path, way: str) -> None:
    store = FolderStore(tmp_path)
    for turn in (0, 1):
        store.commit_turn(KEY, turn, b"a turn")
    dead, alive = (tmp_path / TURN / f".{digit * 16}.tmp" for digit in "ab")
    for each in (dead, alive):
        each.write_bytes(b"what was said")
    os.utime(dead, (time.time() - 25,) * 2)
    if way == "remove":
        store.remove_session(KEY)
    else:
        store.erase_session(KEY, 1)
    assert (dead.exists(), alive.exists()) == (False, True)


def test_only_the_owner_may_read_what_is_stored(tmp_path: Path) -> None:
    root = tmp_path / "store"
    store = FolderStore(root)
    store.claim_turn(KEY, 0, Claim("a", "t", 1.0), 0.0)
    store.write_files(KEY, 0, [b"x"])
    store.write_checkpoint(KEY, 1, b"x")
    store.commit_turn(KEY, 0, b"{}")
    paths = [root, *root.rglob("*")]
    assert len(paths) > 8
    for path in paths:
        expected = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == expected, path


def test_no_scratch_is_left_after_any_write(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.claim_turn(KEY, 0, Claim("a", "t", 1.0), 0.0)
    store.claim_turn(KEY, 0, Claim("b", "t", 9.0), 2.0)
    store.write_checkpoint(KEY, 0, b"x")
    store.write_files(KEY, 0, [b"x"])
    store.commit_turn(KEY, 0, b"{}")
    with pytest.raises(StoreError):
        store.commit_turn(KEY, 0, b"{}")
    names = sorted(path.name for path in (tmp_path / TURN).iterdir())
    assert names == ["claim.json", "context.json", "sandbox.tar.gz"]


def test_a_turn_locked_by_a_hanging_process_is_given_up_in_time(tmp_path: Path) -> None:
    store = FolderStore(tmp_path, lock_seconds=0.05)
    store.claim_turn(KEY, 0, Claim("a", "t", 1.0), 0.0)
    with (tmp_path / TURN / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StoreError, match="locked by another process") as caught:
            store.claim_turn(KEY, 0, Claim("b", "t", 9.0), 2.0)
    assert caught.value.transient
    assert store.claim_turn(KEY, 0, Claim("b", "t", 9.0), 2.0) is None


def test_a_symbolic_link_in_the_place_of_an_object_is_not_followed(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "store")
    store.commit_turn(KEY, 0, b"{}")
    outside = tmp_path / "outside"
    outside.write_text("private")
    context = tmp_path / "store" / TURN / "context.json"
    context.unlink()
    context.symlink_to(outside)
    with pytest.raises(StoreError, match=r"context\.json"):
        store.read_context(KEY, 0)


@pytest.mark.parametrize("leaf", ["context.json", "checkpoint.json", "claim.json"])
def test_a_folder_in_the_place_of_an_object_is_an_error_that_names_it(
    tmp_path: Path, leaf: str
) -> None:
    store = FolderStore(tmp_path)
    (tmp_path / TURN / leaf).mkdir(parents=True)
    attempts: dict[str, Callable[[], object]] = {
        "context.json": lambda: store.read_context(KEY, 0),
        "checkpoint.json": lambda: store.write_checkpoint(KEY, 0, b"x"),
        "claim.json": lambda: store.claim_turn(KEY, 0, Claim("a", "t", 1.0), 0.0),
    }
    with pytest.raises(StoreError, match=f"{TURN}/{leaf}"):
        attempts[leaf]()


def test_a_store_whose_folder_was_removed_is_made_again(tmp_path: Path) -> None:
    root = tmp_path / "store"
    store = FolderStore(root)
    root.rmdir()
    assert store.find_latest_turn(KEY) is None
    store.commit_turn(KEY, 0, b"{}")
    assert store.read_context(KEY, 0) == b"{}"


@pytest.mark.parametrize("place", ["journal/7/1/", "index/", "workers/"])
def test_what_a_killed_writer_left_goes_when_its_folder_is_listed(
    tmp_path: Path, place: str
) -> None:
    records = FolderStore(tmp_path).records
    records.create(f"{place}object", b"1")
    left, fresh = tmp_path / place / ".0123456789abcdef.tmp", tmp_path / place / ".aa.tmp"
    for each in (left, fresh):
        each.write_bytes(b"half")
    os.utime(left, (time.time() - 60, time.time() - 60))
    assert list(records.list_names(place)) == [f"{place}object"]
    assert not left.exists()
    assert fresh.exists()
    assert not (tmp_path / place / ".lock").exists()
