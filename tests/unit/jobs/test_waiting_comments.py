"""Comments that come twice, and those that wait for a run or find one that waits."""

import pytest

from tests.contexts import call
from tests.fakes import says
from tests.jobs import FINDING, Job, read_answer, read_reason, run_trigger
from tests.simulators.gitlab import GitLabSim, Note
from worker.conversation.context import Status
from worker.conversation.triggers import Replied, Trigger
from worker.errors import CIRCUIT_OPEN, Busy, ForgeError, ModelError, Postponed
from worker.sessions.store import Claim
from worker.turns.parts import Attempt, Finished
from worker.verdict.facts import parse_time

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("command", ["stop", "forget"])
def test_a_command_delivered_again_does_not_act_again(told: Job, command: str) -> None:
    note = told.write_comment(f"/sandpiper {command}")
    read_answer(told.run_comment(note))
    told.sim.push(told.scene.mr, {"a": b"1"})
    newer = told.sim.run_pipeline(told.scene.mr)
    told.script_answers(FINDING)
    assert isinstance(told.run_failed(newer), Finished)
    key = told.find_key(newer)
    with told.claim_elsewhere(key, 1):
        assert "answered already" in read_reason(told.run_comment(note))
    assert told.store.read_stop_reason(key, 1) == ""
    assert told.store.find_latest_turn(key) == 0


def test_forget_whose_answer_failed_is_true_when_it_is_tried_again(
    told: Job, sim: GitLabSim
) -> None:
    note = told.write_comment("/sandpiper forget")
    sim.fail_next("POST", "/notes$", 403)
    with pytest.raises(ForgeError):
        told.run_comment(note)
    assert "Nothing is stored of this merge request now" in read_answer(told.run_comment(note))


def test_an_answered_question_that_comes_again_gets_no_note_on_the_limit(told: Job) -> None:
    (root,) = told.list_notes()
    told.script_answers(says("One."), says("Two."))
    for question in ("1?", "2?"):
        note = told.write_comment(question, root.discussion_id)
        assert isinstance(told.run_comment(note, turns_per_day=2), Finished)
    assert "answered already" in read_reason(told.run_comment(note, turns_per_day=2))


def test_what_a_worker_held_that_died_after_its_commit_goes_with_whatever_comes_next(
    told: Job,
) -> None:
    (root,) = told.list_notes()
    note = told.write_comment("1?", root.discussion_id)
    key = told.find_key()

    def die_after_commit(turn: int) -> None:
        dead = Claim("dead/1", "its trigger", told.clock.now() + 1000)
        assert told.store.claim_turn(key, turn, dead, told.clock.now()) is None

    def is_free(turn: int) -> bool:
        return told.store.find_holder(key, turn, told.clock.now()) is None

    die_after_commit(0)
    told.script_answers(says("One."))
    assert isinstance(told.run_comment(note), Finished)
    assert is_free(0)
    die_after_commit(1)
    assert "answered already" in read_reason(told.run_comment(note))
    assert is_free(1)
    die_after_commit(1)
    assert not isinstance(told.run_failed(), Finished)
    assert is_free(1)


# --------------------------------------------------------------------------- what is at work


def postpone(at: Job, trigger: Trigger | None = None) -> None:
    """The first turn begins, and waits for its model."""
    at.script_answers(
        ModelError("the provider is not asked now", transient=True, kind=CIRCUIT_OPEN)
    )
    with pytest.raises(Postponed):
        run_trigger(trigger or at.make_trigger(), at.build_deps(), Attempt(may_postpone=True))


def test_forget_stops_a_first_turn_and_deletes_what_it_commits(at: Job) -> None:
    notes: list[Note] = []

    def forget(iteration: int) -> None:
        if iteration == 2:
            notes.append(at.write_comment("/sandpiper forget"))
            with pytest.raises(Busy, match="still at its first turn"):
                at.run_comment(notes[0])

    at.on_asking = forget
    at.script_answers(says("SECRET-OF-THE-TEAM", call()), says("", call("c2")), FINDING)
    ended = at.run_failed()
    assert isinstance(ended, Finished)
    assert ended.outcome.reason == "stopped on request"
    assert "Deleted" in read_answer(at.run_comment(notes[0]))
    stored = (path.read_bytes() for path in at.place.rglob("*") if path.is_file())
    assert not any(b"SECRET-OF-THE-TEAM" in each for each in stored)


@pytest.mark.parametrize("asked", [False, True])
def test_forget_ends_a_first_turn_that_waits_for_its_model(at: Job, *, asked: bool) -> None:
    trigger: Trigger = at.make_trigger()
    if asked:
        note = at.write_comment("/sandpiper analyze")
        trigger = Replied(at.scene.project.id, at.scene.mr.iid, note.discussion_id, note.id)
    postpone(at, trigger)
    assert "Deleted" in read_answer(at.ask("/sandpiper forget"))
    root = at.list_notes()[0]
    assert "Stopped on request" in root.body
    assert at.store.read_checkpoint(at.find_key(), 0) is None
    at.script_answers()
    assert "already" in read_reason(
        run_trigger(trigger, at.build_deps(), Attempt(may_postpone=True))
    )
    assert at.list_notes()[0].body == root.body
    assert "was deleted" in read_answer(at.ask("/sandpiper status"))


@pytest.mark.parametrize("way", ["analyze", "pipeline"])
def test_after_forget_a_new_request_or_pipeline_is_looked_at(at: Job, way: str) -> None:
    postpone(at)
    read_answer(at.ask("/sandpiper forget"))
    at.script_answers(FINDING)
    again = at.sim.run_pipeline(at.scene.mr) if way == "pipeline" else None
    ended = at.run_failed(again) if again else at.ask("/sandpiper analyze")
    assert isinstance(ended, Finished)
    assert ended.outcome.status is Status.DONE
    assert ended.key == at.find_key(again)


def test_a_reply_to_a_session_that_is_not_stored_any_more_is_told_so(told: Job) -> None:
    (root,) = told.list_notes()
    told.store.remove_session(told.find_key())
    assert "not stored any more" in read_answer(told.ask("Why?", root.discussion_id))


def ask_in_time(at: Job) -> Note:
    """Write a reply to the note on the run; our clock is moved to GitLab's."""
    (root,) = at.list_notes()
    asked = at.write_comment("Why?", root.discussion_id)
    at.clock.sleep((parse_time(asked.created_at) or 0.0) - at.clock.now())
    return asked


@pytest.mark.parametrize("passed", [130.0, -10 * 365 * 86_400.0], ids=["late", "ahead of its time"])
def test_a_reply_to_a_run_that_nobody_continues_is_told_so(at: Job, passed: float) -> None:
    postpone(at)
    asked = ask_in_time(at)
    with pytest.raises(Busy):
        at.run_comment(asked)
    at.clock.sleep(passed)
    assert "nothing is at work on it now" in read_answer(at.run_comment(asked))


def test_a_reply_to_a_run_that_another_worker_continues_is_answered(at: Job) -> None:
    postpone(at)
    asked = ask_in_time(at)
    with pytest.raises(Busy):
        at.run_comment(asked)
    at.script_answers(FINDING, says("Because."))
    assert isinstance(at.run_failed(), Finished)
    assert isinstance(at.run_comment(asked), Finished)
    assert "Because." in at.list_notes()[-1].body


def test_status_tells_of_a_run_that_waits_for_its_model_and_stop_ends_it(at: Job) -> None:
    postpone(at)
    assert (
        read_answer(at.ask("/sandpiper status"))
        == "A run has begun and is not finished; nothing is at work on it now."
    )
    assert read_answer(at.ask("/sandpiper stop")) == "Stopping after the present step."
    at.script_answers(FINDING)
    ended = at.run_failed()
    assert isinstance(ended, Finished)
    assert ended.outcome.reason == "stopped on request"
    assert read_answer(at.ask("/sandpiper stop")) == "Nothing is running."


def test_status_and_stop_know_of_an_answer_that_waits_for_its_model(told: Job) -> None:
    (root,) = told.list_notes()
    note = told.write_comment("Why?", root.discussion_id)
    reply = Replied(told.scene.project.id, told.scene.mr.iid, note.discussion_id, note.id)
    told.script_answers(ModelError("not asked now", transient=True, kind=CIRCUIT_OPEN))
    with pytest.raises(Postponed):
        run_trigger(reply, told.build_deps(), Attempt(may_postpone=True))
    assert "nothing is at work on it now" in read_answer(told.ask("/sandpiper status"))
    assert read_answer(told.ask("/sandpiper stop")) == "Stopping after the present step."


def test_stop_is_heard_however_often_the_thread_was_answered(told: Job) -> None:
    (root,) = told.list_notes()
    for _ in range(2):
        told.ask("/sandpiper status", root.discussion_id)
    note = told.write_comment("/sandpiper stop", root.discussion_id)
    assert read_answer(told.run_comment(note, turns_per_day=1)) == "Nothing is running."
