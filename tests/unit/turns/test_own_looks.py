"""A note says nothing but what its target branch explains, and a later pipeline of the branch shows
that it does not: the failure is looked into by itself, once, and the same note says what is found.
"""

from pathlib import Path

import pytest

from tests.jobs import read_reason, run_trigger
from tests.simulators.gitlab import GitLabSim
from tests.steps import Killed
from tests.surveyed import CAUSE, RACE, At, concludes
from tests.unit.turns.test_incident_notes import (
    LINT,
    RED,
    SMALL,
    Dies,
    edits,
    fail,
    judge,
    land,
    note,
    request,
    run_main,
    tell,
    turn_red,
)
from worker.conversation.context import INCIDENT
from worker.conversation.triggers import Trigger
from worker.turns import incident_notes
from worker.turns.parts import Attempt, Finished

pytestmark = pytest.mark.slow

TAKEN_BACK = "**Not explained any more:** "


@pytest.fixture
def at(sim: GitLabSim, tmp_path: Path) -> At:
    made = At(sim, tmp_path)
    made.script_answers(*([concludes("caused by this change")] * 9))
    return made


def run(at: At, trigger: Trigger, **changes: object) -> object:
    return run_trigger(trigger, at.build_deps(**changes), Attempt())


def turn_out_flaky(at: At) -> Trigger:
    """Let a short note's incident be withdrawn; return what that begins."""
    sha = turn_red(at, clock=RACE)
    at.run_failed(fail(at))
    run_main(at, sha, clock=b"")  # the same commit passes
    (trigger,) = tell(at, judge(at))
    return trigger


def test_what_a_flake_explained_is_looked_into_once_in_the_same_note(at: At) -> None:
    trigger = turn_out_flaky(at)
    assert TAKEN_BACK + "the failure on `main` was a flake" in note(at)
    assert tell(at, judge(at)) == []
    assert at.model.requests == []
    assert isinstance(run(at, trigger), Finished)
    asked = len(at.model.requests)
    body = note(at)
    assert CAUSE in body
    assert not [each for each in (RED, TAKEN_BACK, SMALL, "Run again") if each in body]
    told = str(at.model.requests[0].messages[-1])
    assert "Newer pipelines of the branch show that it explains it no more" in told
    assert "the ferry clock did not tick" in told
    kept = request(at)
    assert (kept.is_short, kept.told_incidents, kept.told_text) == (False, (), "")
    before = edits(at)
    assert tell(at, judge(at)) == []
    assert "was looked at already" in read_reason(run(at, trigger))
    assert (edits(at), len(at.model.requests)) == (before, asked)


def test_what_stands_on_code_that_passes_is_looked_into(at: At) -> None:
    """The merge request is rebased onto the commit that mends `main`, whose pipeline goes on."""
    turn_red(at, clock=RACE)
    at.scene.mr.base_sha = mended = land(at, "mended")
    at.run_failed(fail(at))
    assert note(at).split("\n\n")[1].startswith(RED)
    run_main(at, mended, clock=b"")
    (trigger,) = tell(at, judge(at))
    assert TAKEN_BACK + "as newer pipelines of `main` show" in note(at)
    assert isinstance(run(at, trigger), Finished)
    assert CAUSE in note(at)
    assert TAKEN_BACK not in note(at)


def test_what_is_still_explained_is_left_out(at: At) -> None:
    turn_red(at, clock=RACE, lint=b"")
    sha = land(at, "lint")
    run_main(at, sha, clock=RACE, lint=LINT)
    judge(at)
    at.run_failed(fail(at, None, ("clock", RACE), ("lint", LINT)))
    assert SMALL in note(at)
    run_main(at, sha, clock=RACE, lint=b"")
    (trigger,) = tell(at, judge(at))
    assert "Nothing to do here for that part." in note(at)
    assert isinstance(run(at, trigger), Finished)
    told = str(at.model.requests[0].messages[-1])
    assert "Group 1: lint" in told
    assert "Group 2" not in told
    lines = note(at).split("\n\n")
    assert lines[1].startswith(RED)
    assert "`clock`" in lines[1]
    assert "`lint`" not in lines[1]
    assert not request(at).is_short


def test_what_is_explained_again_meanwhile_is_not_looked_into(at: At) -> None:
    trigger = turn_out_flaky(at)
    at.scene.mr.base_sha = worse = land(at, "worse")
    run_main(at, worse, clock=RACE)
    assert "were looked at" in read_reason(run(at, trigger))
    assert note(at).split("\n\n")[1].startswith(RED)
    assert request(at).is_short
    assert tell(at, judge(at)) == []


def test_people_who_delete_the_note_hear_no_more(at: At) -> None:
    trigger = turn_out_flaky(at)
    (own,) = at.list_notes()
    at.sim.delete(own)
    run(at, trigger)
    assert at.of(at.scene.mr) == []
    assert at.model.requests == []


def test_nobody_waits_for_it_a_day_later(at: At) -> None:
    sha = turn_red(at, clock=RACE)
    at.run_failed(fail(at))
    run_main(at, sha, clock=b"")
    at.clock.time = request(at).ended_at + 25 * 3600
    assert tell(at, judge(at)) == []
    assert TAKEN_BACK in note(at)


def test_what_somebody_has_had_looked_into_is_not_looked_into_again(at: At) -> None:
    sha = turn_red(at, clock=RACE)
    at.run_failed(fail(at))
    at.ask("/sandpiper analyze")
    assert len(at.model.requests) == 1
    assert not request(at).is_short
    run_main(at, sha, clock=b"")
    assert tell(at, judge(at)) == []
    assert len(at.model.requests) == 1


def test_a_worker_that_dies_meanwhile_leaves_one_note(at: At) -> None:
    trigger = turn_out_flaky(at)
    for write in ("write_checkpoint", "commit_turn"):
        dies = Dies(at.place, now=at.clock.now)
        dies.at_write = write
        with pytest.raises(Killed):
            run(at, trigger, sessions=dies)
    assert isinstance(run(at, trigger), Finished)
    assert CAUSE in note(at)
    assert RED not in note(at)


def test_without_a_queue_it_is_left_to_who_has_one(at: At) -> None:
    sha = turn_red(at, clock=RACE)
    at.run_failed(fail(at))
    run_main(at, sha, clock=b"")
    record = judge(at)
    incident_notes.tell_request(record, request(at), at.build_deps())
    assert RED in note(at)
    assert len(tell(at, record)) == 1


def test_what_fails_again_in_the_same_way_is_looked_into_if_nobody_has(at: At) -> None:
    sha = turn_red(at, clock=RACE)
    at.run_failed(fail(at))
    assert at.load_context().found_by == INCIDENT
    run_main(at, sha, clock=b"")
    judge(at)
    at.clock.sleep(100.0)
    assert isinstance(at.run_failed(fail(at)), Finished)
    assert len(at.model.requests) == 1
    assert CAUSE in note(at)
    assert "**Failed again in the same way" not in note(at)
