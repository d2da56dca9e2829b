"""A worker dies while it deals with a red branch, at any step: afterwards there is one incident,
one note each, one analysis, one issue, and no job has run twice."""

import queue
import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.flow.mortal import parts
from tests.parts import change_parts
from tests.played_branches import ASKED, Branch, Death, kill
from tests.steps import Killed
from worker.conversation.triggers import BranchEnded, Trigger
from worker.errors import Busy
from worker.incidents.record import IncidentState
from worker.jobs.missed_branches import begin_missed_branches

pytestmark = pytest.mark.slow


def survive(branch: Branch, death: Death, until: str) -> None:
    """Let the workers deal with all triggers; one dies on the way, and its trigger comes again."""
    dying = parts(branch.deps, death)  # type: ignore[arg-type]
    for trigger in branch.go_on(until):
        try:
            branch.run(trigger, dying)
        except Killed:
            branch.run(trigger)
    assert death.left <= 0, "nobody died"


def assert_nothing_is_left(branch: Branch, until: str) -> None:
    """All events again, and a sweep, change nothing in GitLab, and ask no model."""
    written, asked = branch.count_writes(), branch.model.asked
    for pipeline in (102, 103):
        branch.run(BranchEnded(branch.project, pipeline, "", "main"))
    assert not [
        each.what
        for each in begin_missed_branches(branch.deps, 0.0, 9, lambda trigger: None)
        if each.was_begun
    ]
    assert (branch.count_writes(), branch.model.asked) == (written, asked)
    assert branch.sim.unexpected_requests == []


@pytest.mark.parametrize(
    ("point", "nth"),
    [
        ("after the branch is read", 1),
        ("after the branch is stored", 1),
        ("after the branch is stored", 2),
        ("after the branch is stored", 3),
        ("in a model call", 1),
        ("after the commit", 1),
        ("after the issue", 1),
        ("after the issue", 2),
        ("after the issue", 3),
        ("after the edit", 1),
        ("after the edit", 2),
    ],
)
def test_a_worker_that_dies_leaves_one_of_everything(landed: Branch, point: str, nth: int) -> None:
    survive(landed, Death(point, nth), "40m")
    assert landed.incident.state is IncidentState.CLOSED
    assert landed.incident.session_id
    assert landed.incident.told_requests == (21, 22)
    assert {iid: "**Green again:**" in body for iid, body in landed.notes.items()} == {
        21: True,
        22: True,
    }
    assert landed.analyses == 1
    assert landed.model.asked == ASKED + (point == "in a model call")
    assert landed.issues == ["closed"]
    assert landed.sim.retried == []
    assert_nothing_is_left(landed, "40m")


@pytest.mark.parametrize(
    ("point", "nth", "ran"),
    [
        ("before a run again", 1, 1),
        ("before a run again", 2, 1),
        ("after a run again", 1, 2),
        ("after the branch is stored", 3, 2),
        ("after the edit", 1, 2),
    ],
)
def test_no_job_is_run_again_twice_whenever_its_worker_dies(
    drifted: Branch, point: str, nth: int, ran: int
) -> None:
    survive(drifted, Death(point, nth), "40m")
    assert drifted.incident.state is IncidentState.CLOSED
    again = [job.pipeline.mr.iid for job in drifted.sim.retried if job.pipeline.mr]
    assert len(again) == len(set(again)) == ran
    assert len(drifted.notes) == 2
    assert drifted.analyses == 1
    assert drifted.issues == ["closed"]
    assert_nothing_is_left(drifted, "40m")


def test_a_witness_that_dies_once_it_has_opened_the_incident_has_it_looked_into(
    drifted: Branch,
) -> None:
    _, red, first = drifted.play("24m")
    drifted.run(red)
    assert drifted.incident.state is IncidentState.SUSPECTED
    kill(drifted, first, "after the branch is stored")
    assert drifted.incident.is_open
    assert drifted.analyses == 0
    drifted.run(first)
    assert drifted.incident.session_id
    assert "**Already failing on `main`**" in drifted.notes[21]


@pytest.mark.parametrize("story", ["landed", "drifted"])
def test_many_workers_at_once_do_everything_once(
    story: str, request: pytest.FixtureRequest
) -> None:
    """Each event comes to three of them, in any order."""
    branch: Branch = request.getfixturevalue(story)
    chance = random.Random(7)
    for until in ("16m", "24m", "25m", "40m"):
        triggers = [*branch.play(until)] * WORKERS
        chance.shuffle(triggers)
        work_at_once(branch, triggers)
    assert branch.incident.state is IncidentState.CLOSED
    assert branch.incident.session_id
    assert {iid: "**Green again:**" in body for iid, body in branch.notes.items()} == {
        21: True,
        22: True,
    }
    assert (branch.analyses, branch.model.asked) == (1, ASKED)
    assert {*branch.issues} == {"closed"}
    again = [job.pipeline.mr.iid for job in branch.sim.retried if job.pipeline.mr]
    assert sorted(again) == ([21, 22] if story == "drifted" else [])


WORKERS = 3


def work_at_once(branch: Branch, triggers: list[Trigger]) -> None:
    """Let so many workers deal with the triggers; who is kept waiting tries again."""
    waiting = queue.SimpleQueue[Trigger]()
    for each in triggers:
        waiting.put(each)

    def work(number: int) -> None:
        deps = change_parts(branch.deps, owner=f"worker-{number}")
        while not waiting.empty():
            try:
                trigger = waiting.get_nowait()
            except queue.Empty:
                return
            for _ in range(100):
                try:
                    branch.run(trigger, deps)
                    break
                except Busy:
                    time.sleep(0.05)
            else:
                pytest.fail("it is kept waiting for ever")

    with ThreadPoolExecutor(WORKERS) as workers:
        for done in [workers.submit(work, number) for number in range(WORKERS)]:
            done.result()
