"""How every session store gives a turn to one worker (sessions.store.SessionStore.claim)."""

import pytest

from tests.contract.places import KEY, WORKERS, Place, at, many
from worker.errors import StoreError
from worker.sessions.store import Claim


def test_a_free_turn_is_claimed_once(place: Place) -> None:
    mine, yours = Claim("mine", "t1", 100.0), Claim("yours", "t2", 200.0)
    assert place.store.claim_turn(KEY, 0, mine, 0.0) is None
    assert place.store.claim_turn(KEY, 0, yours, 99.9) == mine
    assert place.store.claim_turn(KEY, 1, yours, 0.0) is None


def test_of_many_claims_at_once_exactly_one_wins_and_the_others_learn_whose_it_is(
    place: Place,
) -> None:
    stores = [place.store for _ in range(WORKERS)]
    mine = [Claim(f"worker-{number}", "t", 100.0) for number in range(WORKERS)]
    answers = many(lambda number: stores[number].claim_turn(KEY, 0, mine[number], 0.0))
    assert answers.count(None) == 1
    winner = mine[answers.index(None)]
    assert all(answer in (None, winner) for answer in answers)


def test_an_expired_claim_is_taken_over_by_exactly_one_of_many(place: Place) -> None:
    place.store.claim_turn(KEY, 0, Claim("dead", "t", 50.0), 0.0)
    stores = [place.store for _ in range(WORKERS)]
    mine = [Claim(f"worker-{number}", "t", 150.0) for number in range(WORKERS)]
    answers = many(lambda number: stores[number].claim_turn(KEY, 0, mine[number], 50.0))
    assert answers.count(None) == 1
    winner = mine[answers.index(None)]
    assert all(answer in (None, winner) for answer in answers)
    assert place.store.claim_turn(KEY, 0, Claim("late", "t", 200.0), 51.0) == winner


def test_a_holder_renews_its_claim(place: Place) -> None:
    place.store.claim_turn(KEY, 0, Claim("mine", "t", 50.0), 0.0)
    assert place.store.claim_turn(KEY, 0, Claim("mine", "t", 150.0), 40.0) is None
    held = place.store.claim_turn(KEY, 0, Claim("yours", "t", 200.0), 60.0)
    assert held == Claim("mine", "t", 150.0)


def test_the_same_owner_on_behalf_of_another_trigger_has_to_wait(place: Place) -> None:
    place.store.claim_turn(KEY, 0, Claim("mine", "t1", 50.0), 0.0)
    assert place.store.claim_turn(KEY, 0, Claim("mine", "t2", 50.0), 1.0) == Claim(
        "mine", "t1", 50.0
    )


def test_only_the_holder_releases(place: Place) -> None:
    mine, yours = Claim("mine", "t", 100.0), Claim("yours", "t", 100.0)
    place.store.claim_turn(KEY, 0, mine, 0.0)
    place.store.release_turn(KEY, 0, yours)
    place.store.release_turn(KEY, 1, mine)
    assert place.store.claim_turn(KEY, 0, yours, 1.0) == mine
    place.store.release_turn(KEY, 0, mine)
    assert at(0, "claim.json") not in place.names()
    assert place.store.claim_turn(KEY, 0, yours, 1.0) is None


def test_a_holder_that_lost_its_claim_cannot_release_the_new_one(place: Place) -> None:
    slow, heir = Claim("slow", "t", 10.0), Claim("heir", "t", 100.0)
    place.store.claim_turn(KEY, 0, slow, 0.0)
    place.store.claim_turn(KEY, 0, heir, 11.0)
    place.store.release_turn(KEY, 0, slow)
    assert place.store.claim_turn(KEY, 0, slow, 12.0) == heir


def test_a_renewed_claim_is_released_by_its_first_form(place: Place) -> None:
    place.store.claim_turn(KEY, 0, Claim("mine", "t", 10.0), 0.0)
    place.store.claim_turn(KEY, 0, Claim("mine", "t", 20.0), 5.0)
    place.store.release_turn(KEY, 0, Claim("mine", "t", 10.0))
    assert place.store.claim_turn(KEY, 0, Claim("yours", "t", 30.0), 6.0) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b'{"owner": 1, "trigger_id": "t", "until": 1}',
        b'{"owner": "a", "trigger_id": "t"}',
        b'{"owner": "a", "trigger_id": "t", "until": "1"}',
        b'{"owner": "a", "trigger_id": "t", "until": true}',
        b'{"owner": "a", "trigger_id": "t", "until": NaN}',
        b'{"owner": "a", "trigger_id": "t", "until": 1e999}',
        b'{"owner": "a", "trigger_id": "t", "until": 1' + b"0" * 400 + b"}",
        b"[" * 60_000,
        b" " * 70_000,
    ],
    ids=lambda content: repr(content[:60]),
)
def test_a_damaged_claim_is_an_error_that_names_it(place: Place, content: bytes) -> None:
    place.put(at(0, "claim.json"), content)
    with pytest.raises(StoreError, match=r"0000/claim\.json"):
        place.store.claim_turn(KEY, 0, Claim("a", "t", 1.0), 0.0)
    with pytest.raises(StoreError, match=r"0000/claim\.json"):
        place.store.release_turn(KEY, 0, Claim("a", "t", 1.0))
