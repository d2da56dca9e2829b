"""What quotes are proven by is kept with the session (sessions.base.SessionStore)."""

import pytest

from tests.contract.places import KEY, Place, at
from worker.conversation.context import SessionKey
from worker.errors import StoreError, TurnTaken
from worker.sessions.store import MAX_CONTEXT


def test_evidence_of_a_turn_is_read_in_it_and_after_it(place: Place) -> None:
    assert place.store.read_evidence(KEY, 0) is None
    place.store.write_evidence(KEY, 0, b"one")
    place.store.write_evidence(KEY, 0, b"two")
    place.store.commit_turn(KEY, 0, b"{}")
    assert place.store.read_evidence(KEY, 0) == place.store.read_evidence(KEY, 2) == b"two"
    place.store.write_evidence(KEY, 2, b"three")
    assert place.store.read_evidence(KEY, 1) == b"two"
    assert place.store.read_evidence(KEY, 3) == b"three"
    assert at(0, "evidence.json") in place.names()
    other = SessionKey(KEY.project_id, KEY.mr_iid, "2" * 20)
    assert place.store.read_evidence(other, 3) is None


def test_evidence_of_a_committed_turn_never_changes(place: Place) -> None:
    place.store.write_evidence(KEY, 0, b"one")
    place.store.commit_turn(KEY, 0, b"{}")
    with pytest.raises(TurnTaken):
        place.store.write_evidence(KEY, 0, b"two")
    assert place.store.read_evidence(KEY, 0) == b"one"


def test_evidence_goes_with_its_turn(place: Place) -> None:
    place.store.write_evidence(KEY, 0, b"one")
    place.store.commit_turn(KEY, 0, b"{}")
    place.store.commit_turn(KEY, 1, b"{}")
    place.store.erase_session(KEY, 1)
    assert place.store.read_evidence(KEY, 1) is None


def test_more_than_an_object_may_have_is_not_kept(place: Place) -> None:
    with pytest.raises(StoreError, match=r"evidence\.json"):
        place.store.write_evidence(KEY, 0, b"x" * (MAX_CONTEXT + 1))
    assert place.store.read_evidence(KEY, 0) is None
