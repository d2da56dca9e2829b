"""What every session store must do, on a folder and on real S3."""

from collections.abc import Callable

import pytest

from tests.contract.places import KEY, WORKERS, Place, at, many
from worker.conversation.context import SessionKey
from worker.errors import StoreError, TurnTaken
from worker.sessions.store import MAX_CONTEXT, Claim

OTHER = SessionKey(7, 42, "0123fedcba9876543210")
FAR = SessionKey(70, 4, "fedcba98765432100123")


def test_a_turn_lies_where_the_design_says(place: Place) -> None:
    store = place.store
    store.write_files(KEY, 0, [b"tar"])
    store.commit_turn(KEY, 0, b"{}")
    assert place.names() == [
        f"index/{KEY.session_id}",
        "sessions/7/42/0123456789abcdef0123/0000/context.json",
        "sessions/7/42/0123456789abcdef0123/0000/sandbox.tar.gz",
    ]
    assert store.describe_location(KEY, 0).rstrip("/") == f"{place.where}/{at(0, '')}".rstrip("/")


def test_an_empty_store_knows_nothing(place: Place) -> None:
    store = place.store
    assert store.find_latest_turn(KEY) is None
    assert store.open_files(KEY, 0) is None
    assert store.read_checkpoint(KEY, 0) is None
    assert store.find_session(KEY.session_id) is None
    assert list(store.list_sessions()) == []
    store.release_turn(KEY, 0, Claim("a", "t", 1.0))


def test_a_commit_is_read_back_byte_for_byte_by_another_worker(place: Place) -> None:
    context = '{"text": "naïve ☃ \\u0000"}'.encode() * 1000
    place.store.commit_turn(KEY, 0, context)
    assert place.store.read_context(KEY, 0) == context
    assert place.store.find_latest_turn(KEY) == 0


def test_latest_is_the_highest_committed_turn(place: Place) -> None:
    store = place.store
    for turn in (0, 1, 2, 9, 10):
        store.commit_turn(KEY, turn, str(turn).encode())
    store.commit_turn(OTHER, 11, b"another session")
    store.write_files(KEY, 12, [b"uncommitted"])
    store.write_checkpoint(KEY, 12, b"uncommitted")
    store.claim_turn(KEY, 13, Claim("a", "t", 100.0), 0.0)
    assert store.find_latest_turn(KEY) == 10
    assert store.read_context(KEY, 9) == b"9"


def test_a_second_commit_of_a_turn_is_refused_and_changes_nothing(place: Place) -> None:
    place.store.commit_turn(KEY, 3, b"first")
    with pytest.raises(TurnTaken, match="another worker committed"):
        place.store.commit_turn(KEY, 3, b"second")
    with pytest.raises(TurnTaken):
        place.store.commit_turn(KEY, 3, b"first")
    assert place.store.read_context(KEY, 3) == b"first"


def test_of_many_commits_at_once_exactly_one_wins(place: Place) -> None:
    stores = [place.store for _ in range(WORKERS)]

    def commit(number: int) -> int | None:
        try:
            stores[number].commit_turn(KEY, 0, str(number).encode() * 1000)
        except TurnTaken:
            return None
        return number

    winners = [number for number in many(commit) if number is not None]
    assert len(winners) == 1
    assert place.store.read_context(KEY, 0) == str(winners[0]).encode() * 1000


def test_a_context_that_is_not_there_is_an_error_that_names_it(place: Place) -> None:
    place.store.commit_turn(KEY, 0, b"{}")
    with pytest.raises(StoreError, match=r"0001/context\.json.*not committed"):
        place.store.read_context(KEY, 1)


def test_a_context_that_vanished_uncommits_its_turn(place: Place) -> None:
    place.store.commit_turn(KEY, 0, b"zero")
    place.store.commit_turn(KEY, 1, b"one")
    place.remove(at(1, "context.json"))
    assert place.store.find_latest_turn(KEY) == 0


def test_a_context_over_the_cap_is_not_stored(place: Place) -> None:
    store, big = place.store, bytes(MAX_CONTEXT + 1)
    with pytest.raises(StoreError, match=str(MAX_CONTEXT)):
        store.commit_turn(KEY, 0, big)
    with pytest.raises(StoreError, match=str(MAX_CONTEXT)):
        store.write_checkpoint(KEY, 0, big)
    assert place.names() == []


def test_a_checkpoint_is_replaced_by_the_next_and_gone_after_the_commit(place: Place) -> None:
    store = place.store
    store.write_checkpoint(KEY, 0, b"one")
    store.write_checkpoint(KEY, 0, b"two")
    assert place.store.read_checkpoint(KEY, 0) == b"two"
    assert place.store.read_checkpoint(KEY, 1) is None
    assert place.store.find_latest_turn(KEY) is None
    store.commit_turn(KEY, 0, b"three")
    assert place.store.read_checkpoint(KEY, 0) is None
    assert at(0, "checkpoint.json") not in place.names()


def test_a_session_is_found_by_its_id_or_a_unique_beginning(place: Place) -> None:
    place.store.claim_turn(KEY, 0, Claim("a", "t", 1.0), 0.0)
    place.store.commit_turn(OTHER, 0, b"{}")
    place.store.commit_turn(FAR, 0, b"{}")
    store = place.store
    assert store.find_session(KEY.session_id) == KEY
    assert store.find_session("01234") == KEY
    assert store.find_session("0123f") == OTHER
    assert store.find_session("f") == FAR
    assert store.find_session("0124") is None
    with pytest.raises(StoreError, match="several session ids begin with 0123"):
        store.find_session("0123")


@pytest.mark.parametrize("start", ["", "xyz", "../index", "0123*", "0123/", "0" * 65, "0123\n"])
def test_what_is_no_id_finds_nothing(place: Place, start: str) -> None:
    place.store.commit_turn(KEY, 0, b"{}")
    assert place.store.find_session(start) is None


@pytest.mark.parametrize("content", [b"", b"7", b"7/42/", b"../../x", b"7/-1", b"07/42", b"7/42\n"])
def test_a_damaged_index_entry_is_an_error_that_names_it(place: Place, content: bytes) -> None:
    place.put(f"index/{KEY.session_id}", content)
    with pytest.raises(StoreError, match=f"index/{KEY.session_id} is damaged"):
        place.store.find_session(KEY.session_id)


def test_every_session_is_listed_once_whatever_else_lies_about(place: Place) -> None:
    store = place.store
    for turn in range(3):
        store.write_files(KEY, turn, [b"x"])
        store.commit_turn(KEY, turn, b"{}")
    store.write_checkpoint(FAR, 0, b"unfinished")
    store.commit_turn(OTHER, 0, b"{}")
    for stray in ("README.txt", "sessions/x/y", "sessions/7/42/not-hex/0000/context.json"):
        place.put(stray, b"stray")
    assert list(place.store.list_sessions()) == [KEY, OTHER, FAR]


HOSTILE = [
    SessionKey(7, 42, ""),
    SessionKey(7, 42, "abc"),
    SessionKey(7, 42, "../../../../etc/passwd"),
    SessionKey(7, 42, "0123456789ABCDEF0123"),
    SessionKey(7, 42, "0123456789abcdef012/"),
    SessionKey(7, 42, "0123456789abcdef0123\n"),
    SessionKey(7, 42, "٠١٢٣٤٥٦٧"),
    SessionKey(7, 42, "a" * 65),
    SessionKey(0, 42, KEY.session_id),
    SessionKey(7, -1, KEY.session_id),
    SessionKey(10**19, 42, KEY.session_id),
]


@pytest.mark.parametrize("key", HOSTILE, ids=repr)
def test_a_hostile_key_touches_nothing(place: Place, key: SessionKey) -> None:
    store, claim = place.store, Claim("a", "t", 1.0)
    attempts: list[Callable[[], object]] = [
        lambda: store.find_latest_turn(key),
        lambda: store.read_context(key, 0),
        lambda: store.open_files(key, 0),
        lambda: store.write_files(key, 0, [b"x"]),
        lambda: store.commit_turn(key, 0, b"x"),
        lambda: store.claim_turn(key, 0, claim, 0.0),
        lambda: store.release_turn(key, 0, claim),
        lambda: store.write_checkpoint(key, 0, b"x"),
        lambda: store.read_checkpoint(key, 0),
        lambda: store.describe_location(key, 0),
    ]
    for attempt in attempts:
        with pytest.raises(StoreError, match="not a session's key"):
            attempt()
    assert place.names() == []


@pytest.mark.parametrize("turn", [-1, 10_000])
def test_a_turn_beyond_the_layout_is_refused(place: Place, turn: int) -> None:
    with pytest.raises(StoreError, match="turns 0 to 9999"):
        place.store.commit_turn(KEY, turn, b"x")
    assert place.names() == []


def test_the_probe_finds_a_sound_store_sound_and_leaves_nothing_behind(place: Place) -> None:
    place.store.probe()
    assert place.names() == []


@pytest.mark.attack("pages")
def test_of_many_processes_that_begin_at_once_all_have_the_same_key(place: Place) -> None:
    stores = [place.store for _ in range(WORKERS)]
    found = many(lambda number: stores[number].read_installation_key())
    assert len(set(found)) == 1
    assert place.store.read_installation_key() == found[0]
    assert place.names() == ["keys/installation"]


def test_two_stores_have_two_keys_and_a_damaged_one_is_not_replaced(place: Place) -> None:
    first = place.store.read_installation_key()
    place.remove("keys/installation")
    assert place.store.read_installation_key() != first
    place.put("keys/installation", first.encode()[:-1])
    with pytest.raises(StoreError, match="no key of 64 hex digits") as caught:
        place.store.read_installation_key()
    assert caught.value.transient
    place.put("keys/installation", first.encode())
    assert place.store.read_installation_key() == first


def test_a_branchs_session_lies_beside_those_of_merge_requests(place: Place) -> None:
    store, branch = place.store, SessionKey(7, 0, "0123456789abcdef0123", "branch-main")
    other = SessionKey(7, 0, OTHER.session_id, "branch-main.2")
    for key in (branch, other, FAR):
        assert store.claim_turn(key, 0, Claim("a", "t", 100.0), 0.0) is None
        store.write_checkpoint(key, 0, b"{}")
        store.commit_turn(key, 0, key.place.encode())
    assert "sessions/7/branch-main/0123456789abcdef0123/0000/context.json" in place.names()
    assert store.read_context(branch, 0) == b"branch-main"
    assert store.find_session(branch.session_id) == branch
    assert set(store.list_sessions()) == {branch, other, FAR}
    assert set(store.list_sessions(7)) == {branch, other}
    assert list(store.list_sessions(7, branch="branch-main")) == [branch]
    assert list(store.list_sessions(7, 42)) == []
    store.remove_session(branch)
    assert store.find_session(branch.session_id) is None
    assert set(store.list_sessions()) == {other, FAR}
