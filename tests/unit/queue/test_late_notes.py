"""GitLab carries out a POST after its client has posted anew: one final note is left."""

import time
from collections.abc import Callable

import pytest

from tests.jobs import FINDING, Job
from tests.simulators.gitlab import GitLabSim
from worker.jobs.repair import heal_notes

pytestmark = pytest.mark.attack("odd answers")


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert is_so()


def assert_one_finding(at: Job) -> None:
    (note,) = at.list_notes()
    assert "A race in the test" in note.body


def test_a_second_placeholder_is_removed_when_the_turn_is_committed(
    at: Job, sim: GitLabSim
) -> None:
    at.on_asking = lambda iteration: wait_until(lambda: len(at.list_notes()) == 2)
    at.script_answers(FINDING)
    sim.carry_out_late("POST", "/notes$", 1.5)
    at.run_failed()
    assert_one_finding(at)


def test_a_placeholder_that_comes_after_the_commit_is_removed_by_the_sweep(
    at: Job, sim: GitLabSim
) -> None:
    at.script_answers(FINDING)
    sim.carry_out_late("POST", "/notes$", 4.0)
    at.run_failed()
    wait_until(lambda: len(at.list_notes()) == 2)
    assert list(heal_notes(at.build_deps(), 0.0, act=False))
    assert len(at.list_notes()) == 2
    assert list(heal_notes(at.build_deps(), 0.0))
    assert_one_finding(at)
    assert list(heal_notes(at.build_deps(), 0.0)) == []


def test_a_promise_that_gitlab_made_of_a_finding_again_is_not_the_one_that_stays(
    at: Job, sim: GitLabSim
) -> None:
    at.script_answers(FINDING)
    at.run_failed()
    (final,) = at.list_notes()
    marker = final.body.splitlines()[0]
    promise = "Sandpiper is finding out why; the finding will replace this note."
    sim.comment(at.scene.mr, at.scene.bot, f"{marker}\n\n{promise}")
    assert len(at.list_notes()) == 2
    assert list(heal_notes(at.build_deps(), 0.0))
    assert_one_finding(at)


def test_notes_of_a_turn_that_is_at_work_are_left_alone(at: Job, sim: GitLabSim) -> None:
    healed: list[str] = []
    at.on_asking = lambda iteration: healed.extend(heal_notes(at.build_deps(), 0.0))
    at.script_answers(FINDING)
    at.run_failed()
    assert healed == []
    assert_one_finding(at)
