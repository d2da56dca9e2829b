"""A trigger from the queue to its end: noted, begun by one, ended once."""

import json
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from tests.contexts import call
from tests.fakes import says
from tests.jobs import FINDING, Job
from tests.simulators.gitlab import GitLabSim
from worker.conversation.context import Status, Subject
from worker.conversation.events import Event, TriggerLeft, ignore_event
from worker.conversation.triggers import (
    BranchEnded,
    PipelineFailed,
    Replied,
    Trigger,
    trigger_id,
)
from worker.errors import NotFinished, SourceError, StoreError
from worker.jobs import delivery
from worker.queue.journal import Journal, State, name_entry
from worker.queue.leases import Leases
from worker.queue.recovery import Recovery
from worker.turns.parts import Finished

PATIENCE = 40.0


class Queue:
    """What was put on it, and what was promised for later."""

    def __init__(self) -> None:
        self.now: list[Trigger] = []
        self.later: list[tuple[Trigger, float]] = []

    def promise(self, trigger: Trigger, seconds: float) -> None:
        self.later.append((trigger, seconds))


@pytest.fixture
def queue() -> Queue:
    return Queue()


def perform(at: Job, trigger: Trigger, queue: Queue, **changes: object) -> None:
    delivery.deliver_trigger(trigger, at.build_deps(**changes), ignore_event, queue.promise)


def state(at: Job, trigger: Trigger) -> State | None:
    noted = at.build_deps().queue.journal.read_entry(name_entry(trigger))
    return noted.entry.state if noted else None


def another(at: Job) -> tuple[Leases, Journal]:
    leases = Leases(at.store, at.clock)
    return leases, Journal(at.store.records, leases, at.clock)


def test_a_trigger_that_ended_leaves_no_record(
    at: Job, queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    at.script_answers(FINDING)
    caplog.set_level("INFO", "sandpiper.queue")
    perform(at, at.make_trigger(), queue)
    assert [line for line in caplog.messages if line.endswith(" begins")] == [
        f"trigger {trigger_id(at.make_trigger())} begins"
    ]
    assert len(at.list_notes()) == 1
    assert list(at.build_deps().queue.journal.list_names()) == []
    assert queue.later == []


def test_what_another_worker_has_begun_is_not_begun_again(at: Job, queue: Queue) -> None:
    leases, journal = another(at)
    with leases.register_work() as (owner, _):
        journal.take_trigger(at.make_trigger(), owner)
        perform(at, at.make_trigger(), queue)
    assert at.list_notes() == []


def test_a_message_for_what_is_at_work_tells_the_watcher_that_no_job_ran(
    at: Job, queue: Queue
) -> None:
    seen: list[Event] = []
    leases, journal = another(at)
    with leases.register_work() as (owner, _):
        journal.take_trigger(at.make_trigger(), owner)
        delivery.deliver_trigger(at.make_trigger(), at.build_deps(), seen.append, queue.promise)
    at.script_answers(FINDING)
    delivery.deliver_trigger(at.make_trigger(), at.build_deps(), seen.append, queue.promise)
    left = [each for each in seen if isinstance(each, TriggerLeft)]
    assert left == [
        TriggerLeft(at.make_trigger(), "skipped", ran=False),
        TriggerLeft(at.make_trigger(), "done", ran=True),
    ]


class Refusing:
    """A reader that gives nothing."""

    def __init__(self, *, transient: bool) -> None:
        self._error = SourceError("GitLab does not say", transient=transient)

    def remember_answers(self) -> AbstractContextManager[None]:
        return nullcontext()

    def find_failure(self, trigger: PipelineFailed) -> tuple[Subject, float] | str:
        raise self._error


def test_a_passing_error_is_tried_again_later(at: Job, queue: Queue) -> None:
    for _ in range(2):
        perform(at, at.make_trigger(), queue, reader=Refusing(transient=True))
        assert state(at, at.make_trigger()) is State.WAITING
    assert [seconds for _, seconds in queue.later] == [2.0, 4.0]
    at.script_answers(FINDING)
    perform(at, at.make_trigger(), queue)
    assert len(at.list_notes()) == 1
    assert state(at, at.make_trigger()) is None


def test_a_lasting_error_is_parked_with_its_reason(at: Job, queue: Queue) -> None:
    perform(at, at.make_trigger(), queue, reader=Refusing(transient=False))
    (parked,) = at.build_deps().queue.journal.find_parked()
    assert parked.entry.reason == "GitLab does not say"
    assert queue.later == []


def test_a_dead_workers_trigger_is_queued_again_by_one_of_many(at: Job, queue: Queue) -> None:
    dead, journal = another(at)
    owner, _ = dead.begin_work()
    journal.take_trigger(at.make_trigger(), owner)
    dead.unregister()
    rescuers = [
        Recovery(journal_of, leases, queue.now.append, at.clock, PATIENCE)
        for leases, journal_of in (another(at) for _ in range(4))
    ]
    assert sum(rescuer.run_once() for rescuer in rescuers) == 1
    assert queue.now == [at.make_trigger()]
    assert sum(rescuer.run_once() for rescuer in rescuers) == 0


def test_what_nobody_takes_is_queued_again_after_a_growing_while(at: Job, queue: Queue) -> None:
    leases, journal = another(at)
    journal.add_trigger(at.make_trigger())
    rescuer = Recovery(journal, leases, queue.now.append, at.clock, PATIENCE)
    counts = []
    for _ in range(3):
        before = len(queue.now)
        for _ in range(10):
            rescuer.run_once()
            at.clock.time += PATIENCE / 8
        counts.append(len(queue.now) - before)
    assert counts == [1, 0, 1]


def test_what_the_broker_may_still_have_is_not_queued_again_for_long(at: Job, queue: Queue) -> None:
    leases, journal = another(at)
    journal.add_trigger(at.make_trigger())
    messages = [1]
    rescuer = Recovery(
        *(journal, leases, queue.now.append, at.clock, PATIENCE), count_waiting=lambda: messages[0]
    )
    rescuer.run_once()
    at.clock.time += 60 * PATIENCE
    assert rescuer.run_once() == 0
    messages[0] = 0
    assert rescuer.run_once() == 1
    messages[0] = 1
    at.clock.time += 1
    rescuer.run_once()
    at.clock.time += 64 * PATIENCE
    assert rescuer.run_once() == 1


def test_a_fresh_queue_in_memory_gets_what_the_last_one_had(at: Job, queue: Queue) -> None:
    leases, journal = another(at)
    journal.add_trigger(at.make_trigger())
    Recovery(journal, leases, queue.now.append, at.clock, PATIENCE).run_once(first=True)
    assert queue.now == [at.make_trigger()]


def test_what_outlived_three_workers_is_told_of_and_parked(at: Job, queue: Queue) -> None:
    for _ in range(3):
        leases, journal = another(at)
        journal.take_trigger(at.make_trigger(), leases.begin_work()[0])
        leases.unregister()
    perform(at, at.make_trigger(), queue)
    (note,) = at.list_notes()
    assert "3 workers died" in note.body
    outcome = at.load_context().outcome
    assert outcome is not None
    assert outcome.status is Status.FAILED
    assert state(at, at.make_trigger()) is State.PARKED
    perform(at, at.make_trigger(), queue)
    assert len(at.list_notes()) == 1


@pytest.mark.parametrize(("others", "deaths"), [(0, 3), (1, 6), (3, 8), (30, 8)])
def test_what_died_with_others_is_given_up_later_than_what_died_alone(
    at: Job, queue: Queue, others: int, deaths: int
) -> None:
    suspect = at.make_trigger()
    for death in range(deaths):
        assert not _has_to_give_up(at, suspect), death
        leases, journal = another(at)
        journal.take_trigger(suspect, leases.begin_work()[0])
        for number in range(others):
            beside = replace(suspect, pipeline_id=1000 * (death + 1) + number)
            journal.take_trigger(beside, leases.begin_work()[0])
        leases.unregister()
        leases, journal = another(at)
        Recovery(journal, leases, queue.now.append, at.clock, PATIENCE).run_once()
        leases.unregister()
    assert _has_to_give_up(at, suspect)


def _has_to_give_up(at: Job, trigger: PipelineFailed) -> bool:
    stored = at.build_deps().queue.journal.read_entry(name_entry(trigger))
    return stored is not None and stored.entry.has_to_give_up()


def test_what_breaks_three_runs_by_an_error_nobody_foresaw_is_parked_with_its_name(
    at: Job, queue: Queue
) -> None:
    class Poisoned:
        def remember_answers(self) -> AbstractContextManager[None]:
            raise ZeroDivisionError("not for strangers")

    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            perform(at, at.make_trigger(), queue, reader=Poisoned())
    perform(at, at.make_trigger(), queue)
    (note,) = at.list_notes()
    told = "3 runs broke off, at least one by an unforeseen error (ZeroDivisionError)"
    assert told in note.body
    assert "not for strangers" not in note.body
    assert [one.entry.reason for one in at.build_deps().queue.journal.find_parked()] == [
        f"given up: {told}"
    ]


def test_an_entry_of_a_newer_worker_is_left_alone(at: Job, queue: Queue) -> None:
    journal, records, name = (
        at.build_deps().queue.journal,
        at.store.records,
        name_entry(at.make_trigger()),
    )
    journal.add_trigger(at.make_trigger())
    written = records.read(name, 65536)
    assert written is not None
    newer = json.loads(written.content) | {"schema": 2}
    newer["trigger"] |= {"attempt": 1}
    assert records.replace(name, json.dumps(newer).encode(), written.version)
    assert Recovery(journal, at.leases, queue.now.append, at.clock).run_once() == 0
    with pytest.raises(StoreError, match="a newer worker has it"):
        perform(at, at.make_trigger(), queue)
    kept = records.read(name, 65536)
    assert kept is not None
    assert json.loads(kept.content) == newer


def test_a_parked_trigger_is_found_by_the_beginning_of_its_id(at: Job, queue: Queue) -> None:
    journal = at.build_deps().queue.journal
    with at.leases.register_work() as (owner, _):
        entry = journal.take_trigger(at.make_trigger(), owner)
        journal.park_entry(entry, "it was refused")
    assert [one.entry.reason for one in journal.find_parked()] == ["it was refused"]
    assert journal.retry_parked("zzz") is None
    assert (
        journal.retry_parked(name_entry(at.make_trigger()).partition("-")[2][:6])
        == at.make_trigger()
    )
    at.script_answers(FINDING)
    perform(at, at.make_trigger(), queue)
    assert len(at.list_notes()) == 1


def test_a_trigger_that_was_parked_for_an_error_begins_afresh_when_it_comes_again(
    at: Job, queue: Queue
) -> None:
    perform(at, at.make_trigger(), queue, reader=Refusing(transient=False))
    assert state(at, at.make_trigger()) is State.PARKED
    at.build_deps().queue.journal.add_trigger(at.make_trigger())
    at.script_answers(FINDING)
    perform(at, at.make_trigger(), queue)
    assert len(at.list_notes()) == 1
    assert state(at, at.make_trigger()) is None


def test_a_trigger_that_workers_died_of_stays_parked_when_it_comes_again(
    at: Job, queue: Queue
) -> None:
    for _ in range(3):
        leases, journal = another(at)
        journal.take_trigger(at.make_trigger(), leases.begin_work()[0])
        leases.unregister()
    perform(at, at.make_trigger(), queue)
    at.build_deps().queue.journal.add_trigger(at.make_trigger())
    assert state(at, at.make_trigger()) is State.PARKED


def test_a_deleted_comment_and_a_pipeline_that_is_gone_are_not_parked(
    at: Job, sim: GitLabSim, queue: Queue
) -> None:
    note = at.write_comment("/sandpiper status")
    sim.delete(note)
    mr = at.scene.mr
    told = Replied(mr.project.id, mr.iid, note.discussion_id, note.id)
    for trigger in (told, replace(at.make_trigger(), pipeline_id=424242)):
        perform(at, trigger, queue)
        while queue.later:  # one answer is no proof, if the project was served
            assert state(at, trigger) is State.WAITING
            at.clock.time += queue.later.pop()[1]
            perform(at, trigger, queue)
        assert state(at, trigger) is None
    assert at.list_notes() == []


def test_two_replies_in_one_second_become_two_turns_in_order(at: Job, queue: Queue) -> None:
    at.script_answers(FINDING, says("first"), says("second"))
    perform(at, at.make_trigger(), queue)
    (root,) = at.list_notes()
    notes = [at.write_comment(text, root.discussion_id) for text in ("One?", "Two?")]
    mr = at.scene.mr
    one, two = (Replied(mr.project.id, mr.iid, each.discussion_id, each.id) for each in notes)
    journal = at.build_deps().queue.journal
    journal.add_trigger(one)
    journal.add_trigger(two)
    perform(at, two, queue)
    assert state(at, two) is State.WAITING
    perform(at, one, queue)
    perform(at, two, queue)
    assert at.load_context().turn == 2
    assert [
        note.body.count("first") + 2 * note.body.count("second") for note in at.list_notes()[1:]
    ] == [
        1,
        2,
    ]
    assert list(journal.list_names()) == []
    noted = [seconds for _, seconds in queue.later]
    assert noted == [delivery.BUSY_WAIT]


def test_a_reply_that_waits_long_for_its_session_looks_less_often(at: Job, queue: Queue) -> None:
    at.script_answers(FINDING)
    perform(at, at.make_trigger(), queue)
    note = at.write_comment("Why?", at.list_notes()[0].discussion_id)
    mr = at.scene.mr
    reply = Replied(mr.project.id, mr.iid, note.discussion_id, note.id)
    for _ in range(3):
        with at.claim_elsewhere(at.find_key(), 1):
            perform(at, reply, queue)
        at.clock.time += 100
    longest = delivery.LONGEST_BUSY_WAIT
    assert [seconds for _, seconds in queue.later] == [delivery.BUSY_WAIT, 10.0, longest]


def test_a_reply_does_not_go_on_with_another_ones_unfinished_turn(at: Job) -> None:
    at.script_answers(FINDING)
    at.run_failed()
    (root,) = at.list_notes()
    first, second = (at.write_comment(text, root.discussion_id) for text in ("One?", "Two?"))

    def end(iteration: int) -> None:
        at.leases.is_stopping = True

    at.on_asking = end
    at.script_answers(says("", call()))
    with pytest.raises(NotFinished):
        at.run_comment(first)
    at.leases.is_stopping = False
    at.on_asking = lambda iteration: None
    at.script_answers(says("to the second"), says("to the first"))
    assert isinstance(at.run_comment(second), Finished)
    assert "Two?" in str(at.model.requests[-1].messages[-1])
    assert isinstance(at.run_comment(first), Finished)
    assert at.load_context().answered_notes == (second.id, first.id)


@pytest.mark.parametrize("damage", [b"{", b"", b'{"schema": 99}'])
def test_a_turn_that_cannot_be_read_is_told_of_and_the_rest_goes_on(at: Job, damage: bytes) -> None:
    at.script_answers(FINDING, says("first"), says("second"))
    at.run_failed()
    (root,) = at.list_notes()
    at.ask("One?", root.discussion_id)
    (key,) = at.list_sessions()
    path = Path(at.store.describe_location(key, 1)) / "context.json"
    path.write_bytes(damage)
    ended = at.ask("Two?", root.discussion_id)
    assert isinstance(ended, Finished)
    assert ended.turn == 2
    assert "turn 1 of this conversation cannot be read" in str(at.model.requests[-1].messages[-1])
    assert "turn 1 of this conversation cannot be read" in ended.body
    assert "A race" in str(at.model.requests[-1].messages)


def test_a_session_of_which_nothing_can_be_read_begins_anew(at: Job) -> None:
    at.script_answers(FINDING, says("anew"))
    at.run_failed()
    (root,) = at.list_notes()
    (key,) = at.list_sessions()
    (Path(at.store.describe_location(key, 0)) / "context.json").write_bytes(b"torn")
    ended = at.ask("Why?", root.discussion_id)
    assert isinstance(ended, Finished)
    assert ended.turn == 1
    assert "begins anew" in ended.body
    assert "anew" in ended.body


def test_a_branch_that_is_not_watched_is_left_alone_and_leaves_no_record(
    at: Job, queue: Queue
) -> None:
    scene, told = at.scene, list[Event]()
    made = at.sim.add_pipeline(
        *(scene.project, scene.developer), ref="side", sha="a" * 40, source="push", status="failed"
    )
    trigger = BranchEnded(scene.project.id, made.id, made.sha, "side", 60)
    delivery.deliver_trigger(trigger, at.build_deps(), told.append, queue.promise)
    (left,) = [each for each in told if isinstance(each, TriggerLeft)]
    assert (left.outcome, left.ran) == ("skipped", True)
    assert state(at, trigger) is None
    assert (queue.later, at.list_notes()) == ([], [])
