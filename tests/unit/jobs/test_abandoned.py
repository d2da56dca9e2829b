"""What a sweep finds begun and left: it is begun again once, or told of."""

from dataclasses import replace

import pytest

from tests.contexts import call
from tests.fakes import says
from tests.jobs import FINDING, Job, run_trigger
from worker.conversation.triggers import PipelineFailed, Replied, Trigger
from worker.errors import NotFinished
from worker.jobs import repair
from worker.jobs.repair import STALE, Swept
from worker.queue.journal import Journal
from worker.queue.leases import Leases
from worker.turns.parts import Attempt, Finished


def sweep(at: Job, *, act: bool = True) -> tuple[list[Trigger], list[Swept]]:
    begun: list[Trigger] = []
    found = list(repair.resume_abandoned(at.build_deps(), begun.append, act=act))
    return begun, found


def cut_off(at: Job, run: Trigger) -> None:
    """The run ends after its first step, and no trigger is left of it."""

    def end(iteration: int) -> None:
        at.leases.is_stopping = True

    at.on_asking = end
    at.script_answers(says("", call()))
    with pytest.raises(NotFinished):
        run_trigger(run, at.build_deps(), Attempt(at._watch))
    at.leases.is_stopping = False
    at.on_asking = lambda iteration: None


def test_a_trigger_of_a_worker_that_is_gone_is_begun_again_once(at: Job) -> None:
    leases = Leases(at.store, at.clock)
    Journal(at.store.records, leases, at.clock).take_trigger(
        at.make_trigger(), leases.begin_work()[0]
    )
    assert sweep(at)[0] == []
    leases.unregister()
    assert sweep(at, act=False)[0] == []
    assert len(sweep(at, act=False)[1]) == 1
    assert sweep(at)[0] == [at.make_trigger()]
    assert sweep(at)[0] == []


def test_a_trigger_that_may_still_be_on_the_queue_is_left_to_it(at: Job) -> None:
    at.build_deps().queue.journal.add_trigger(at.make_trigger())
    assert sweep(at)[0] == []
    at.clock.time += STALE + 1
    assert sweep(at)[0] == [at.make_trigger()]


def test_an_unfinished_analysis_without_a_trigger_goes_on_from_its_checkpoint(at: Job) -> None:
    cut_off(at, at.make_trigger())
    ((begun,), _) = sweep(at)
    assert isinstance(begun, PipelineFailed)
    at.script_answers(FINDING)
    assert isinstance(run_trigger(begun, at.build_deps(), Attempt(at._watch)), Finished)
    assert len(at.list_notes()) == 1
    assert at.load_context().turn_usage.iterations == 2
    assert sweep(at) == ([], [])


def test_an_unfinished_analysis_of_a_branch_pipeline_is_left_to_its_trigger(at: Job) -> None:
    unnamed = replace(at.make_trigger(), mr_iid=0, mr_project_id=0)
    cut_off(at, unnamed)
    at.build_deps().queue.journal.add_trigger(unnamed)
    assert sweep(at) == ([], [])


def test_an_unfinished_answer_goes_on_for_the_comment_that_asked(at: Job) -> None:
    at.script_answers(FINDING)
    at.run_failed()
    (root,) = at.list_notes()
    note = at.write_comment("Why?", root.discussion_id)
    mr = at.scene.mr
    asked = Replied(mr.project.id, mr.iid, note.discussion_id, note.id)
    cut_off(at, asked)
    assert sweep(at)[0] == [asked]
    at.script_answers(says("So."))
    assert isinstance(run_trigger(asked, at.build_deps(), Attempt(at._watch)), Finished)


def test_what_is_at_work_is_left_to_it_and_what_is_damaged_is_told_of(at: Job) -> None:
    cut_off(at, at.make_trigger())
    (key,) = at.store.list_sessions()
    with at.claim_elsewhere(key):
        assert sweep(at) == ([], [])
    at.store.write_checkpoint(key, 0, b"{")
    begun, (found,) = sweep(at)
    assert begun == []
    assert "cannot be read" in found.reason
