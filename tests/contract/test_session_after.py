"""What became of a turn's pipeline is kept beside the turn (sessions.base.SessionStore)."""

import pytest

from tests.contract.places import KEY, Place, at, many
from worker.conversation.context import SessionKey
from worker.errors import StoreError


def test_what_became_of_a_pipeline_is_kept_beside_its_turn(place: Place) -> None:
    place.store.commit_turn(KEY, 0, b"{}")
    assert place.store.read_aftermath(KEY, 0) is None
    place.store.write_aftermath(KEY, 0, b'{"became": "fixed"}')
    assert place.store.read_aftermath(KEY, 0) == b'{"became": "fixed"}'
    assert place.store.read_aftermath(KEY, 1) is None
    assert at(0, "after.json") in place.names()
    assert place.store.find_latest_turn(KEY) == 0


def test_what_was_kept_first_stands_also_of_many_at_once(place: Place) -> None:
    many(lambda number: place.store.write_aftermath(KEY, 0, str(number).encode()))
    first = place.store.read_aftermath(KEY, 0)
    place.store.write_aftermath(KEY, 0, b"later")
    assert place.store.read_aftermath(KEY, 0) == first


def test_more_than_a_small_object_is_not_kept(place: Place) -> None:
    with pytest.raises(StoreError, match=r"after\.json"):
        place.store.write_aftermath(KEY, 0, b"x" * 100_000)
    assert place.store.read_aftermath(KEY, 0) is None


def test_it_goes_with_its_turn(place: Place) -> None:
    place.store.commit_turn(KEY, 0, b"{}")
    place.store.write_aftermath(KEY, 0, b"{}")
    place.store.commit_turn(KEY, 1, b"{}")
    place.store.erase_session(KEY, 1)
    assert place.store.read_aftermath(KEY, 0) is None


def test_the_sessions_of_one_project_are_told_apart(place: Place) -> None:
    near = [KEY, SessionKey(7, 421, "1" * 20)]
    far = SessionKey(70, 42, "2" * 20)
    for key in (*near, far):
        place.store.commit_turn(key, 0, b"{}")
    assert sorted(place.store.list_sessions(7), key=lambda key: key.mr_iid) == near
    assert list(place.store.list_sessions(70)) == [far]
    assert list(place.store.list_sessions(8)) == []
