"""How every session store passes on a wish to stop, and forgets."""

import pytest

from tests.contract.places import KEY, WORKERS, Place, at, many
from worker.conversation.context import SessionKey
from worker.errors import StoreError
from worker.sessions.store import Claim

OTHER = SessionKey(7, 42, "0123fedcba9876543210")
NEXT_DOOR = SessionKey(7, 420, "abcdabcdabcdabcdabcd")


def test_a_turn_is_held_until_its_claim_ends(place: Place) -> None:
    claim = Claim("mine", "t", 100.0)
    assert place.store.find_holder(KEY, 0, 0.0) is None
    place.store.claim_turn(KEY, 0, claim, 0.0)
    assert place.store.find_holder(KEY, 0, 99.9) == claim
    assert place.store.find_holder(KEY, 0, 100.0) is None
    assert place.store.find_holder(KEY, 1, 0.0) is None
    place.store.release_turn(KEY, 0, claim)
    assert place.store.find_holder(KEY, 0, 0.0) is None


def test_a_damaged_claim_has_no_holder_but_an_error(place: Place) -> None:
    place.put(at(0, "claim.json"), b"{")
    with pytest.raises(StoreError, match=r"claim\.json"):
        place.store.find_holder(KEY, 0, 0.0)


def test_a_wish_to_stop_reaches_whoever_works_on_the_turn(place: Place) -> None:
    assert place.store.read_stop_reason(KEY, 0) == ""
    place.store.request_stop(KEY, 0, "superseded by pipeline 9 ☃")
    assert place.store.read_stop_reason(KEY, 0) == "superseded by pipeline 9 ☃"
    assert place.store.read_stop_reason(KEY, 1) == ""
    assert place.store.read_stop_reason(OTHER, 0) == ""


def test_the_first_reason_to_stop_stands_also_of_many_at_once(place: Place) -> None:
    many(lambda number: place.store.request_stop(KEY, 0, f"reason {number % WORKERS}"))
    first = place.store.read_stop_reason(KEY, 0)
    assert first.startswith("reason ")
    place.store.request_stop(KEY, 0, "later")
    assert place.store.read_stop_reason(KEY, 0) == first


def test_a_reason_is_cut_and_a_damaged_one_is_read_all_the_same(place: Place) -> None:
    place.store.request_stop(KEY, 0, "x" * 5000)
    assert place.store.read_stop_reason(KEY, 0) == "x" * 1000
    place.put(at(1, "stop.json"), b"\xff\xfe")
    assert place.store.read_stop_reason(KEY, 1)


def test_a_committed_turn_has_nothing_left_to_stop(place: Place) -> None:
    place.store.request_stop(KEY, 0, "why")
    place.store.commit_turn(KEY, 0, b"{}")
    assert place.store.read_stop_reason(KEY, 0) == ""
    assert at(0, "stop.json") not in place.names()


def test_the_sessions_of_one_merge_request_are_listed_apart(place: Place) -> None:
    for key in (KEY, OTHER, NEXT_DOOR):
        place.store.commit_turn(key, 0, b"{}")
    assert set(place.store.list_sessions(7, 42)) == {KEY, OTHER}
    assert list(place.store.list_sessions(7, 420)) == [NEXT_DOOR]
    assert list(place.store.list_sessions(7, 4)) == []
    assert len(list(place.store.list_sessions())) == 3


def test_what_is_erased_is_gone_and_the_rest_stays(place: Place) -> None:
    store = place.store
    for turn in (0, 1, 2):
        store.write_files(KEY, turn, [b"tar"])
        store.commit_turn(KEY, turn, b"{}")
    store.commit_turn(OTHER, 0, b"{}")
    store.erase_session(KEY, 2)
    assert [name for name in place.names() if KEY.session_id in name] == [
        f"index/{KEY.session_id}",
        at(2, "context.json"),
    ]
    assert store.find_latest_turn(KEY) == 2
    assert store.find_latest_turn(OTHER) == 0
    assert store.find_session(KEY.session_id) == KEY
    store.erase_session(KEY, 2)


def test_nothing_is_erased_before_something_stands_in_its_place(place: Place) -> None:
    place.store.commit_turn(KEY, 0, b"{}")
    with pytest.raises(StoreError, match="nothing was erased"):
        place.store.erase_session(KEY, 1)
    assert place.store.find_latest_turn(KEY) == 0
