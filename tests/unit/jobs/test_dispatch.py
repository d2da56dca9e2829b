"""One run for each commit, and none that nobody wants any more."""

import pytest

from tests.contexts import call
from tests.fakes import SetClock, says
from tests.jobs import FINDING, START, Job
from tests.simulators.gitlab import GitLabSim
from worker.conversation.context import Status
from worker.conversation.events import Asking
from worker.errors import Busy, ModelError, StoreError
from worker.settings.runs import LedgerSettings
from worker.turns.parts import Finished
from worker.turns.session import CHECK_SECONDS


def test_an_analysis_does_not_depend_on_the_list_of_pipelines(at: Job, sim: GitLabSim) -> None:
    sim.fail_next("GET", r"/merge_requests/\d+/pipelines", 403, times=5)
    at.script_answers(FINDING)
    assert isinstance(at.run_failed(), Finished)


def test_a_new_commit_is_looked_at(at: Job, sim: GitLabSim) -> None:
    at.script_answers(FINDING, FINDING)
    at.run_failed()
    sim.push(at.scene.mr, {"a": b"1"})
    assert isinstance(at.run_failed(sim.run_pipeline(at.scene.mr)), Finished)
    assert len(at.list_notes()) == 2


def test_a_second_pipeline_is_looked_at_where_the_first_could_not_be(
    at: Job, sim: GitLabSim
) -> None:
    at.script_answers(ModelError("the model is down"), FINDING)
    at.run_failed()
    again = at.run_failed(sim.run_pipeline(at.scene.mr))
    assert isinstance(again, Finished)
    assert again.outcome.status is Status.DONE


def test_a_second_pipeline_waits_for_the_first_to_be_told(at: Job, sim: GitLabSim) -> None:
    first = at.find_key(at.scene.pipeline)
    again = sim.run_pipeline(at.scene.mr)
    with at.claim_elsewhere(first), pytest.raises(Busy):
        at.run_failed(again)
    at.script_answers(FINDING)
    assert isinstance(at.run_failed(again), Finished)


def test_a_damaged_session_of_the_same_commit_is_an_error_that_names_it(
    at: Job, sim: GitLabSim
) -> None:
    at.store.commit_turn(at.find_key(at.scene.pipeline), 0, b"{}")
    with pytest.raises(StoreError, match="0000"):
        at.run_failed(sim.run_pipeline(at.scene.mr))


def test_a_run_that_is_superseded_ends_with_a_plain_reason(at: Job, sim: GitLabSim) -> None:
    def push(iteration: int) -> None:
        if iteration == 1:
            sim.push(at.scene.mr, {"a": b"1"})
            sim.run_pipeline(at.scene.mr, status="running")
            at.clock.time += CHECK_SECONDS

    at.on_asking = push
    at.script_answers(says("", call()), FINDING)
    ended = at.run_failed()
    assert isinstance(ended, Finished)
    newer = at.scene.mr.head_pipeline
    assert newer is not None
    assert ended.outcome.reason == f"superseded by pipeline {newer.id}"
    assert len(at.model.requests) == 1
    (note,) = at.list_notes()
    assert f"uperseded by [pipeline {newer.id}](" in note.body


def test_gitlab_is_not_asked_at_every_step_whether_the_run_still_matters(
    at: Job, sim: GitLabSim
) -> None:
    before = 0

    def count(iteration: int) -> None:
        nonlocal before
        at.clock.time += 1
        before = before or len(sim.requests)

    at.on_asking = count
    at.script_answers(*[says("", call(f"c{number}")) for number in range(10)], FINDING)
    at.run_failed(ledger_settings=LedgerSettings(days=0))
    during = [seen.path for seen in sim.requests[before:] if seen.method == "GET"]
    (last_look,) = during  # for copies of the note, after the commit
    assert last_look.endswith("/notes")


def test_what_a_human_asked_for_is_finished_whatever_is_pushed(at: Job, sim: GitLabSim) -> None:
    def push(iteration: int) -> None:
        sim.push(at.scene.mr, {"a": b"1"})
        sim.run_pipeline(at.scene.mr, status="running")
        at.clock.time += CHECK_SECONDS

    at.on_asking = push
    at.script_answers(says("", call()), FINDING)
    ended = at.ask("/sandpiper analyze")
    assert isinstance(ended, Finished)
    assert ended.outcome.status is Status.DONE


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
def test_a_clock_that_is_set_while_a_run_is_at_work_neither_ends_nor_prolongs_it(
    at: Job, jump: float
) -> None:
    clock = SetClock(START)

    def set_clock(iteration: int) -> None:
        clock.time += 5.0
        if iteration == 2:
            clock.ahead = jump

    at.on_asking = set_clock
    at.script_answers(*[says("", call("look"))] * 3, FINDING)
    ended = at.run_failed(clock=clock)
    assert isinstance(ended, Finished)
    assert ended.outcome.status is Status.DONE
    assert at.load_context().seconds == pytest.approx(20.0)
    assert [each for each in at.events if isinstance(each, Asking) and each.notice] == []
