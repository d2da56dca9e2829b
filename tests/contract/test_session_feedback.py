"""The votes on a turn's note are kept beside the turn (sessions.base.SessionStore)."""

import pytest

from tests.contract.places import KEY, Place, at, many
from worker.errors import StoreError


@pytest.fixture
def place(place: Place) -> Place:
    """A store with a committed turn."""
    place.store.commit_turn(KEY, 0, b"{}")
    return place


def one_more(stored: bytes | None) -> bytes:
    return str(int(stored or b"0") + 1).encode()


def test_feedback_is_changed_beside_the_turn_and_the_context_stays(place: Place) -> None:
    assert place.store.read_feedback(KEY, 0) is None
    place.store.change_feedback(KEY, 0, one_more)
    place.store.change_feedback(KEY, 0, one_more)
    place.store.change_feedback(KEY, 0, lambda stored: None)
    assert place.store.read_feedback(KEY, 0) == b"2"
    assert place.store.read_context(KEY, 0) == b"{}"
    assert at(0, "feedback.json") in place.names()
    assert place.store.find_latest_turn(KEY) == 0


def test_of_many_changes_at_once_none_is_lost(place: Place) -> None:
    def change(number: int) -> None:
        for _ in range(20):
            try:
                return place.store.change_feedback(KEY, 0, one_more)
            except StoreError as error:
                if not error.transient:
                    raise
        raise AssertionError("it never came through")

    ran = many(change)
    assert place.store.read_feedback(KEY, 0) == str(len(ran)).encode()


def test_a_turn_that_is_not_there_gets_none_and_it_goes_with_its_turn(place: Place) -> None:
    place.store.change_feedback(KEY, 1, one_more)
    assert place.store.read_feedback(KEY, 1) is None
    place.store.change_feedback(KEY, 0, one_more)
    place.store.commit_turn(KEY, 1, b"{}")
    place.store.erase_session(KEY, 1)
    assert place.store.read_feedback(KEY, 0) is None


def test_more_than_a_small_object_is_not_kept(place: Place) -> None:
    with pytest.raises(StoreError, match=r"feedback\.json"):
        place.store.change_feedback(KEY, 0, lambda stored: b"x" * 100_000)
