"""Who holds a turn, and who is dead, over every place that holds sessions (worker.queue.leases)."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.contract.places import KEY, PLACES, WORKERS, Place, at, folder_place, many, place_of
from tests.fakes import HandClock
from worker.errors import HandedOver, LeaseLost, StoreError, TurnTaken
from worker.queue.leases import Lease, Leases
from worker.sessions.folder import Folder
from worker.sessions.store import Claim, SessionStore
from worker.sessions.table import guard_store

LEASE, BEAT = 30.0, 8.0
graves: list[object] = []


class Careless(Folder):
    """Writes whether the condition holds or not, as some imitations of S3 do."""

    def create(self, name: str, content: bytes) -> bool:
        self.write(name, content)
        return True

    def replace(self, name: str, content: bytes, version: str) -> bool:
        self.write(name, content)
        return True


def careless(root: Path, redis_url: str) -> Place:
    """A careless store with its claims in Redis."""
    below = folder_place(root)
    return replace(below, open=lambda: guard_store(SessionStore(Careless(root, 10.0)), redis_url))


@pytest.fixture(params=[*PLACES, "careless"])
def place(request: pytest.FixtureRequest) -> Place:
    if request.param == "careless":
        root = request.getfixturevalue("tmp_path") / "store"
        return careless(root, request.getfixturevalue("redis_url"))
    return place_of(request.param, request)


@pytest.fixture(autouse=True)
def burials() -> Iterator[None]:
    yield
    graves.clear()


def test_a_careless_store_is_found_out_and_redis_makes_up_for_it(
    tmp_path: Path, redis_url: str
) -> None:
    alone = SessionStore(Careless(tmp_path / "store", 10.0))
    with pytest.raises(StoreError, match="ignores conditional writes"):
        alone.probe()
    place = careless(tmp_path / "store", redis_url)
    place.store.probe()
    stores = [place.store for _ in range(WORKERS)]

    def commit(number: int) -> bool:
        try:
            stores[number].commit_turn(KEY, 0, b"%d" % number)
        except TurnTaken:
            return False
        return True

    assert many(commit).count(True) == 1


def worker(place: Place, clock: HandClock | None = None, host: str = "w") -> Leases:
    """A worker whose heart beats only by hand: its thread waits for an hour."""
    leases = Leases(place.store, clock or HandClock(), host, beat=3600, lease=LEASE)
    leases.interval = BEAT
    return leases


def watch(leases: Leases, clock: HandClock, seconds: float) -> list[str]:
    """Look at the others every few seconds for so long; those found dead."""
    dead: list[str] = []
    for _ in range(int(seconds / BEAT) + 1):
        dead += leases.remove_dead_workers()
        clock.time += BEAT
    return dead


def dies(leases: Leases, turn: int = 0) -> Lease:
    """Take the turn, and never be heard of again."""
    taken = leases.claim_turn(KEY, turn, "t")
    held = taken.__enter__()
    # Nobody may close it either: the collector would.
    graves.append(taken)
    assert isinstance(held, Lease)
    return held


def test_one_of_many_workers_holds_the_turn_and_the_others_learn_who(place: Place) -> None:
    gate = threading.Barrier(WORKERS)

    def contend(number: int) -> Lease | Claim:
        with worker(place, host=f"w{number}").claim_turn(KEY, 0, f"t{number}") as held:
            gate.wait(60)
            return held

    held = many(contend)
    (winner,) = [each for each in held if isinstance(each, Lease)]
    assert all(each.owner == winner.claim.owner for each in held if isinstance(each, Claim))
    assert at(0, "claim.json") not in place.names()
    assert not [name for name in place.names() if name.startswith("workers/")]


def test_a_dead_workers_turn_is_taken_over_with_a_higher_fence(place: Place) -> None:
    dead = dies(worker(place))
    clock = HandClock()
    heir = worker(place, clock)
    with heir.claim_turn(KEY, 0, "other") as held:
        assert isinstance(held, Claim)
        assert held.owner == dead.claim.owner
    assert watch(heir, clock, LEASE + 2 * BEAT)
    with heir.claim_turn(KEY, 0, "t") as held:
        assert isinstance(held, Lease)
        assert held.is_takeover
        assert held.claim.fence == dead.claim.fence + 1


def test_a_worker_that_beats_lives_however_its_clock_runs(place: Place) -> None:
    late, early = HandClock(time=5.0), HandClock(time=36_005.0)
    slow, other = worker(place, late), worker(place, early)
    with slow.claim_turn(KEY, 0, "t") as held:
        assert isinstance(held, Lease)
        for _ in range(10):
            held.confirm_held()
            assert other.remove_dead_workers() == []
            early.time += BEAT
        with other.claim_turn(KEY, 0, "t") as theirs:
            assert isinstance(theirs, Claim)


def test_a_worker_that_was_taken_for_dead_finds_out_before_it_writes(place: Place) -> None:
    paused = HandClock()
    held = dies(worker(place, paused))
    held.check_held()
    clock = HandClock()
    assert watch(worker(place, clock), clock, LEASE + 2 * BEAT)
    with pytest.raises(LeaseLost, match="another worker has taken over"):
        held.confirm_held()
    with pytest.raises(LeaseLost):
        held.check_held()


def test_one_whose_heart_was_still_asks_before_it_keeps_a_step(place: Place) -> None:
    paused = HandClock()
    held = dies(worker(place, paused))
    clock = HandClock()
    assert watch(worker(place, clock), clock, LEASE + 2 * BEAT)
    paused.time += LEASE
    with pytest.raises(LeaseLost):
        held.check_held()


def test_a_store_that_was_away_makes_nobody_look_dead(place: Place) -> None:
    held = dies(worker(place))
    clock = HandClock()
    other = worker(place, clock)
    assert other.remove_dead_workers() == []
    clock.time += 10 * LEASE
    assert other.remove_dead_workers() == []
    held.confirm_held()
    assert watch(other, clock, LEASE - 2 * BEAT) == []


def test_a_worker_that_resigns_is_succeeded_at_once(place: Place) -> None:
    leaving = worker(place)
    held = dies(leaving)
    leaving.is_stopping = True
    with pytest.raises(HandedOver):
        held.raise_if_stopping()
    leaving.unregister()
    with worker(place).claim_turn(KEY, 0, "t") as theirs:
        assert isinstance(theirs, Lease)


def test_a_run_that_its_worker_did_not_wait_for_is_said_to_be_stopped_not_taken(
    place: Place,
) -> None:
    leaving = worker(place)
    held = dies(leaving)
    leaving.unregister()
    for check in (held.check_held, held.confirm_held):
        with pytest.raises(LeaseLost, match="it was stopped with this worker"):
            check()


def test_what_a_thread_left_behind_is_free_for_its_own_worker(place: Place) -> None:
    mine = worker(place)
    held = dies(mine, 0)
    mine.end_work(held.claim.owner)
    assert mine.find_holder(KEY, 0) is None
    with mine.claim_turn(KEY, 0, "t") as again:
        assert isinstance(again, Lease)


def test_of_many_heirs_one_takes_over(place: Place) -> None:
    dies(worker(place))
    clock = HandClock()
    watch(worker(place, clock), clock, LEASE + 2 * BEAT)
    gate = threading.Barrier(WORKERS)

    def inherit(number: int) -> Lease | Claim:
        with worker(place, host=f"h{number}").claim_turn(KEY, 0, "t") as held:
            gate.wait(60)
            return held

    assert sum(isinstance(each, Lease) for each in many(inherit)) == 1


class Interposed:
    """A store in which something happens just before a record is replaced."""

    def __init__(self, store: SessionStore, before: Callable[[], None]) -> None:
        self._store, self._before = store, before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @property
    def records(self) -> Any:
        return self

    def replace(self, name: str, content: bytes, version: str) -> bool:
        before, self._before = self._before, lambda: None
        before()
        return self._store.records.replace(name, content, version)

    def delete(self, name: str) -> None:
        self._store.records.delete(name)

    def read(self, name: str, limit: int) -> Any:
        return self._store.records.read(name, limit)

    def list_names(self, prefix: str) -> Iterator[str]:
        return self._store.records.list_names(prefix)


def test_a_heartbeat_at_the_last_moment_saves_the_worker(place: Place) -> None:
    held = dies(worker(place))
    clock = HandClock()
    other = Leases(cast(Any, Interposed(place.store, held.confirm_held)), clock, lease=LEASE)
    assert watch(other, clock, LEASE + BEAT) == []
    held.confirm_held()
    assert other.find_holder(KEY, 0) == held.claim
