"""Which triggers may begin, and which wait for others of their project or for a model."""

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.fakes import HandClock
from tests.jobs import FINDING, Job
from worker.conversation.context import Status
from worker.conversation.events import ignore_event
from worker.conversation.triggers import BranchEnded, PipelineFailed, Replied, Trigger, trigger_id
from worker.errors import CIRCUIT_OPEN, ModelError, StoreError
from worker.jobs import delivery
from worker.queue.journal import Entry, Journal, State, name_entry
from worker.queue.leases import LEASE, Leases
from worker.queue.project_slots import MOST_READ, ProjectSlots
from worker.queue.recovery import Recovery
from worker.sessions.folder import FolderStore
from worker.sessions.folder_lock import LOCK

OPEN = ModelError("the provider is not asked now", transient=True, kind=CIRCUIT_OPEN)


def failure(pipeline: int, mr: int = 1, project: int = 7) -> PipelineFailed:
    return PipelineFailed(project, pipeline, "a" * 40, "branch", mr, project)


@dataclass
class Worker:
    """One worker's view of a store, and what it has put on the queue."""

    store: FolderStore
    clock: HandClock
    cap: int = 2
    most_read: int = MOST_READ
    queued: list[tuple[Trigger, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.leases = Leases(self.store, self.clock)
        self.journal = Journal(self.store.records, self.leases, self.clock)
        self.gate = ProjectSlots(
            self.store.records, self.journal, self.leases, self.queue, self.cap, self.most_read
        )

    def queue(self, trigger: Trigger, since: float) -> None:
        self.queued.append((trigger, since))

    def begin(self, trigger: Trigger, owner: str) -> Entry:
        return self.journal.take_trigger(trigger, owner)

    def tries(self, trigger: Trigger) -> bool:
        """Whether it may begin now; a run that begins ends at once."""
        with self.at_work(trigger) as free:
            if free:
                self.journal.remove_trigger(trigger)
            return free

    @contextmanager
    def at_work(self, trigger: Trigger) -> Iterator[bool]:
        """A run of the trigger, if it may begin now."""
        with (
            self.leases.register_work() as (owner, _),
            self.gate.hold_slot(self.begin(trigger, owner)) as free,
        ):
            yield free

    def state(self, trigger: Trigger) -> State | None:
        noted = self.journal.read_entry(name_entry(trigger))
        return noted.entry.state if noted else None


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    return Worker(FolderStore(tmp_path), HandClock())


def test_what_is_over_the_cap_is_held_and_queued_again_when_a_run_ends(worker: Worker) -> None:
    with worker.at_work(failure(1, 1)) as first:
        with worker.at_work(failure(2, 2)) as second:
            worker.clock.time += 5
            third = worker.tries(failure(3, 3))
            assert (first, second, third) == (True, True, False)
            assert worker.state(failure(3, 3)) is State.HELD
            worker.clock.time += 5
            assert worker.queued == []
        assert worker.queued == [(failure(3, 3), 1005.0)]
    assert len(worker.queued) == 1
    assert worker.tries(failure(3, 3))


def test_another_project_and_a_comment_are_let_in(worker: Worker) -> None:
    worker = replace(worker, cap=1)
    with worker.at_work(failure(1)):
        assert worker.tries(failure(2, 1, project=8))
        assert worker.tries(Replied(7, 1, "thread", 5))
        assert not worker.tries(failure(3, 2))


def test_who_waits_longest_goes_first_and_with_its_newest_pipeline(worker: Worker) -> None:
    worker = replace(worker, cap=1)
    held = [failure(2, 1), failure(3, 1), failure(4, 2), failure(5, 0), failure(6, 0)]
    with worker.at_work(failure(1, 9)):
        assert not any([worker.tries(trigger) for trigger in held])
        worker.journal.remove_trigger(failure(1, 9))
    for _ in held:
        worker.tries(worker.queued[-1][0])
    order = [trigger.pipeline_id for trigger, _ in worker.queued]  # type: ignore[union-attr]
    assert order == [3, 2, 4, 5, 6]


def test_slots_of_a_dead_worker_are_free_and_the_rescuer_lets_the_next_one_in(
    tmp_path: Path,
) -> None:
    clock = HandClock()
    dead, alive = (Worker(FolderStore(tmp_path), clock, cap=1) for _ in range(2))
    owner, _ = dead.leases.begin_work()
    with dead.gate.hold_slot(dead.begin(failure(1), owner)):
        assert not alive.tries(failure(2, 2))
        rescuer = Recovery(
            *(alive.journal, alive.leases, lambda trigger: None, clock), admit=alive.gate.queue_held
        )
        for _ in range(3):
            rescuer.run_once()
        assert alive.queued == []
        clock.time += LEASE
        for _ in range(6):
            clock.time += 8
            rescuer.run_once()
            if alive.queued:
                break
        assert [trigger for trigger, _ in alive.queued] == [failure(2, 2)]
        assert alive.tries(failure(2, 2))


def test_a_storm_on_many_threads_never_has_more_than_the_cap_at_work(worker: Worker) -> None:
    most, at_work, lock = 0, 0, threading.Lock()

    def run(number: int) -> None:
        nonlocal most, at_work
        with worker.at_work(failure(number, number)) as free:
            if not free:
                return
            with lock:
                at_work += 1
                most = max(most, at_work)
            threading.Event().wait(0.005)
            with lock:
                at_work -= 1
            worker.journal.remove_trigger(failure(number, number))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(1, 17)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    while worker.queued:
        run(worker.queued.pop()[0].pipeline_id)  # type: ignore[union-attr]
    assert 1 <= most <= worker.cap
    assert list(worker.journal.list_names()) == []


def test_a_slot_that_the_store_does_not_give_counts_as_nobodys_death(tmp_path: Path) -> None:
    worker = Worker(FolderStore(tmp_path, lock_seconds=0.05), HandClock())
    assert worker.tries(failure(1, 1))
    # A frozen process keeps the lock.
    frozen = os.open(tmp_path / "slots" / LOCK, os.O_RDWR | os.O_CREAT)
    fcntl.flock(frozen, fcntl.LOCK_EX)
    for _ in range(4):
        with pytest.raises(StoreError, match="stays locked"):
            worker.tries(failure(2, 2))
    os.close(frozen)
    noted = worker.journal.read_entry(name_entry(failure(2, 2)))
    assert noted is not None
    assert (noted.entry.state, noted.entry.owner, noted.entry.deaths) == (State.OPEN, "", 0)
    assert worker.tries(failure(2, 2))


def test_parked_failures_do_not_keep_a_later_one_from_being_read(worker: Worker) -> None:
    worker = replace(worker, cap=1, most_read=3)
    for number in range(1, 8):
        with worker.leases.register_work() as (owner, _):
            worker.journal.park_entry(worker.begin(failure(number, number), owner), "refused")
    with worker.at_work(failure(50, 50)):
        assert not worker.tries(failure(60, 60))
        assert not worker.tries(failure(70, 70))
        worker.journal.remove_trigger(failure(50, 50))
    for _ in range(4):
        worker.gate.queue_held(7)
    assert [trigger for trigger, _ in worker.queued[:1]] == [failure(60, 60)]


def test_a_parked_failure_that_is_retried_and_held_is_read_again(worker: Worker) -> None:
    worker = replace(worker, cap=1, most_read=3)
    for number in range(1, 5):
        with worker.leases.register_work() as (owner, _):
            worker.journal.park_entry(worker.begin(failure(number, number), owner), "refused")
    worker.gate.queue_held(7)
    assert worker.journal.retry_parked(trigger_id(failure(2, 2))) == failure(2, 2)
    with worker.at_work(failure(50, 50)):
        assert not worker.tries(failure(2, 2))
        worker.journal.remove_trigger(failure(50, 50))
    worker.gate.queue_held(7)
    assert [trigger for trigger, _ in worker.queued] == [failure(2, 2)]


def test_a_damaged_record_of_slots_costs_no_trigger(worker: Worker) -> None:
    for content in (b"{", b"[]", b'{"owners": 5}', b'{"owners": [5]}'):
        worker.store.records.delete("slots/7.json")
        worker.store.records.create("slots/7.json", content)
        assert worker.tries(failure(1))


# ------------------------------------------------------------------------ no model answers now


def test_a_run_waits_for_a_provider_that_is_down_and_then_goes_on(at: Job) -> None:
    later: list[tuple[Trigger, float]] = []
    at.script_answers(OPEN, FINDING)
    bodies = []
    for _ in range(2):
        delivery.deliver_trigger(
            at.make_trigger(), at.build_deps(), ignore_event, lambda *told: later.append(told)
        )
        bodies.append(at.list_notes()[0].body)
        at.clock.time += 1000
    assert "no model answers now" in bodies[0]
    assert [seconds for _, seconds in later] == [2.0]
    (note,) = at.list_notes()
    assert "A race" in note.body
    outcome = at.load_context().outcome
    assert outcome is not None
    assert outcome.status is Status.DONE
    assert list(at.build_deps().queue.journal.list_names()) == []


def test_a_provider_that_stays_down_is_told_of_at_last(at: Job) -> None:
    at.script_answers(*[OPEN] * (delivery.PATIENT_TRIES + 1))
    for _ in range(delivery.PATIENT_TRIES + 1):
        assert at.list_sessions() == []
        delivery.deliver_trigger(
            at.make_trigger(), at.build_deps(), ignore_event, lambda *told: None
        )
        at.clock.time += 60
    (note,) = at.list_notes()
    assert "not asked now" in note.body
    assert list(at.build_deps().queue.journal.list_names()) == []


# -------------------------------------------------------------------------------- a branch's looks


def ended(pipeline: int, project: int = 7) -> BranchEnded:
    return BranchEnded(project, pipeline, "a" * 40, "main")


@contextmanager
def looking(worker: Worker, trigger: BranchEnded) -> Iterator[bool]:
    """A run of a branch's trigger; yields whether it may pay."""
    with (
        worker.leases.register_work() as (owner, _),
        worker.gate.hold_branch_slot(worker.begin(trigger, owner)) as may_pay,
    ):
        yield may_pay


def test_a_branch_waits_for_no_merge_request_and_takes_no_slot_of_theirs(worker: Worker) -> None:
    worker = replace(worker, cap=1)
    with worker.at_work(failure(1)):
        assert not any([worker.tries(failure(number, number)) for number in range(2, 9)])
        with looking(worker, ended(100)) as may_pay:
            assert may_pay
            assert worker.state(ended(100)) is State.OPEN
    assert len(worker.queued) == 1
    with looking(worker, ended(101)):
        assert worker.tries(failure(9, 9))


def test_one_analysis_of_a_projects_branches_is_paid_at_a_time_and_looks_go_on(
    worker: Worker, tmp_path: Path
) -> None:
    other = Worker(FolderStore(tmp_path), worker.clock)
    with looking(worker, ended(1)) as first, looking(other, ended(2)) as second:
        assert (first, second) == (True, False)
        assert worker.state(ended(2)) is State.OPEN
        with looking(other, ended(3, project=8)) as elsewhere:
            assert elsewhere
    with looking(other, ended(2)) as again:
        assert again


def test_a_branchs_slot_of_a_dead_worker_is_free(tmp_path: Path) -> None:
    clock = HandClock()
    dead, alive = (Worker(FolderStore(tmp_path), clock) for _ in range(2))
    owner, _ = dead.leases.begin_work()
    with dead.gate.hold_branch_slot(dead.begin(ended(1), owner)) as first:
        assert first
        with looking(alive, ended(2)) as second:
            assert not second
        for _ in range(6):
            clock.time += LEASE
            with looking(alive, ended(2)) as third:
                pass
        assert third


def test_a_branchs_slot_that_the_store_does_not_give_counts_as_nobodys_death(
    tmp_path: Path,
) -> None:
    worker = Worker(FolderStore(tmp_path, lock_seconds=0.05), HandClock())
    with looking(worker, ended(1)):
        pass
    frozen = os.open(tmp_path / "slots" / LOCK, os.O_RDWR | os.O_CREAT)
    fcntl.flock(frozen, fcntl.LOCK_EX)
    for _ in range(4):
        with pytest.raises(StoreError, match="stays locked"), looking(worker, ended(2)):
            pass
    os.close(frozen)
    noted = worker.journal.read_entry(name_entry(ended(2)))
    assert noted is not None
    assert (noted.entry.deaths, noted.entry.owner) == (0, "")


def test_a_branchs_trigger_of_a_dead_worker_is_queued_again_and_takes_no_held_ones_place(
    tmp_path: Path,
) -> None:
    clock, queued = HandClock(), list[Trigger]()
    dead, alive = (Worker(FolderStore(tmp_path), clock, cap=1) for _ in range(2))
    owner, _ = dead.leases.begin_work()
    dead.begin(ended(1), owner)
    with alive.at_work(failure(1)):
        assert not alive.tries(failure(2, 2))
        rescuer = Recovery(
            *(alive.journal, alive.leases, queued.append, clock), admit=alive.gate.queue_held
        )
        for _ in range(12):
            clock.time += 8
            rescuer.run_once()
        assert queued == [ended(1)]
        assert alive.queued == []
        with looking(alive, ended(1)) as may_pay:
            assert may_pay
    assert [trigger for trigger, _ in alive.queued] == [failure(2, 2)]
