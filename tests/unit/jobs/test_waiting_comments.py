"""Comments that come twice, and those that wait for a run or find one that waits."""

import pytest

from tests.contexts import call
from tests.fakes import says
from tests.jobs import FINDING, Job, reason, run_trigger, text
from worker.core.conversation.context import Status
from worker.core.triggers import Replied, Trigger
from worker.demo.gitlab import GitLabSim, Note
from worker.errors import CIRCUIT_OPEN, ForgeError, ModelError, Postponed
from worker.turns.parts import Run
from worker.turns.results import Busy, Finished

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("command", ["stop", "forget"])
def test_a_command_delivered_again_does_not_act_again(told: Job, command: str) -> None:
    note = told.comment(f"/sandpiper {command}")
    text(told.heard(note))
    told.sim.push(told.scene.mr, {"a": b"1"})
    newer = told.sim.run_pipeline(told.scene.mr)
    told.answers(FINDING)
    assert isinstance(told.failed(newer), Finished)
    key = told.key(newer)
    with told.elsewhere(key, 1):
        assert "answered already" in reason(told.heard(note))
    assert told.store.read_stop_reason(key, 1) == ""
    assert told.store.find_latest_turn(key) == 0


def test_forget_whose_answer_failed_is_true_when_it_is_tried_again(
    told: Job, sim: GitLabSim
) -> None:
    note = told.comment("/sandpiper forget")
    sim.fail_next("POST", "/notes$", 403)
    with pytest.raises(ForgeError):
        told.heard(note)
    assert "Nothing is stored of this merge request now" in text(told.heard(note))


def test_an_answered_question_that_comes_again_gets_no_note_on_the_limit(told: Job) -> None:
    (root,) = told.own()
    told.answers(says("One."), says("Two."))
    for question in ("1?", "2?"):
        note = told.comment(question, root.discussion_id)
        assert isinstance(told.heard(note, turns_per_day=2), Finished)
    assert "answered already" in reason(told.heard(note, turns_per_day=2))


# --------------------------------------------------------------------------- what is at work


def postpone(at: Job, trigger: Trigger | None = None) -> None:
    """The first turn begins, and waits for its model."""
    at.answers(ModelError("the provider is not asked now", transient=True, kind=CIRCUIT_OPEN))
    with pytest.raises(Postponed):
        run_trigger(trigger or at.trigger(), at.deps(), Run(patient=True))


def test_forget_stops_a_first_turn_and_deletes_what_it_commits(at: Job) -> None:
    notes: list[Note] = []

    def forget(iteration: int) -> None:
        if iteration == 2:
            notes.append(at.comment("/sandpiper forget"))
            with pytest.raises(Busy, match="still at its first turn"):
                at.heard(notes[0])

    at.on_asking = forget
    at.answers(says("SECRET-OF-THE-TEAM", call()), says("", call("c2")), FINDING)
    ended = at.failed()
    assert isinstance(ended, Finished)
    assert ended.outcome.reason == "stopped on request"
    assert "Deleted" in text(at.heard(notes[0]))
    stored = (path.read_bytes() for path in at.place.rglob("*") if path.is_file())
    assert not any(b"SECRET-OF-THE-TEAM" in each for each in stored)


@pytest.mark.parametrize("asked", [False, True])
def test_forget_ends_a_first_turn_that_waits_for_its_model(at: Job, *, asked: bool) -> None:
    trigger: Trigger = at.trigger()
    if asked:
        note = at.comment("/sandpiper analyze")
        trigger = Replied(at.scene.project.id, at.scene.mr.iid, note.discussion_id, note.id)
    postpone(at, trigger)
    assert "Deleted" in text(at.says("/sandpiper forget"))
    root = at.own()[0]
    assert "Stopped on request" in root.body
    assert at.store.read_checkpoint(at.key(), 0) is None
    at.answers()
    assert "already" in reason(run_trigger(trigger, at.deps(), Run(patient=True)))
    assert at.own()[0].body == root.body
    assert "was deleted" in text(at.says("/sandpiper status"))


@pytest.mark.parametrize("way", ["analyze", "pipeline"])
def test_after_forget_a_new_request_or_pipeline_is_looked_at(at: Job, way: str) -> None:
    postpone(at)
    text(at.says("/sandpiper forget"))
    at.answers(FINDING)
    again = at.sim.run_pipeline(at.scene.mr) if way == "pipeline" else None
    ended = at.failed(again) if again else at.says("/sandpiper analyze")
    assert isinstance(ended, Finished)
    assert ended.outcome.status is Status.DONE
    assert ended.key == at.key(again)


def test_a_reply_to_a_session_that_is_not_stored_any_more_is_told_so(told: Job) -> None:
    (root,) = told.own()
    told.store.remove_session(told.key())
    assert "not stored any more" in text(told.says("Why?", root.discussion_id))


def test_a_reply_to_a_run_that_waits_for_its_model_is_told_so(at: Job) -> None:
    postpone(at)
    (root,) = at.own()
    assert "nothing is at work on it now" in text(at.says("Why?", root.discussion_id))


def test_status_tells_of_a_run_that_waits_for_its_model_and_stop_ends_it(at: Job) -> None:
    postpone(at)
    assert (
        text(at.says("/sandpiper status"))
        == "A run has begun and is not finished; nothing is at work on it now."
    )
    assert text(at.says("/sandpiper stop")) == "Stopping after the present step."
    at.answers(FINDING)
    ended = at.failed()
    assert isinstance(ended, Finished)
    assert ended.outcome.reason == "stopped on request"
    assert text(at.says("/sandpiper stop")) == "Nothing is running."


def test_status_and_stop_know_of_an_answer_that_waits_for_its_model(told: Job) -> None:
    (root,) = told.own()
    note = told.comment("Why?", root.discussion_id)
    reply = Replied(told.scene.project.id, told.scene.mr.iid, note.discussion_id, note.id)
    told.answers(ModelError("not asked now", transient=True, kind=CIRCUIT_OPEN))
    with pytest.raises(Postponed):
        run_trigger(reply, told.deps(), Run(patient=True))
    assert "nothing is at work on it now" in text(told.says("/sandpiper status"))
    assert text(told.says("/sandpiper stop")) == "Stopping after the present step."


def test_stop_is_heard_however_often_the_thread_was_answered(told: Job) -> None:
    (root,) = told.own()
    for _ in range(2):
        told.says("/sandpiper status", root.discussion_id)
    note = told.comment("/sandpiper stop", root.discussion_id)
    assert text(told.heard(note, turns_per_day=1)) == "Nothing is running."
