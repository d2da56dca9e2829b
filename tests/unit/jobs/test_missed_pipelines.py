"""What a sweep hands on, and that it may come again."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.jobs import FINDING, Job, run_trigger
from tests.simulators.gitlab import GitLabSim
from worker.conversation.triggers import PipelineFailed
from worker.errors import QueueError
from worker.jobs.repair import Swept, begin_missed_pipelines
from worker.turns.parts import Finished


@pytest.fixture
def sim() -> Iterator[GitLabSim]:
    with GitLabSim() as running:
        yield running
        assert running.unexpected_requests == []
        assert "POST" not in {seen.method for seen in running.requests if seen.token == "read"}


class Sweeps:
    """Sweeps of one world, and what they have begun."""

    def __init__(self, at: Job) -> None:
        self.at = at
        self.begun: list[PipelineFailed] = []

    def __call__(self, most: int = 100) -> list[Swept]:
        return list(begin_missed_pipelines(self.at.build_deps(), 0.0, most, self.begun.append))


@pytest.fixture
def sweeps(at: Job) -> Sweeps:
    return Sweeps(at)


def test_a_lost_webhook_is_made_good(at: Job, sweeps: Sweeps) -> None:
    (swept,) = sweeps()
    assert (swept.was_begun, sweeps.begun) == (True, [at.make_trigger(dated=True)])
    at.script_answers(FINDING)
    assert isinstance(run_trigger(sweeps.begun[0], at.build_deps()), Finished)
    (again,) = sweeps()
    known = f"this failure of pipeline {at.scene.pipeline.id} was looked at already"
    assert (again.was_begun, again.reason) == (False, known)
    assert len(sweeps.begun) == 1


def test_what_is_at_work_is_left_to_it(at: Job, sweeps: Sweeps) -> None:
    with at.claim_elsewhere(at.find_key()):
        assert [each.reason for each in sweeps()] == ["it is being looked at"]
    assert sweeps()[0].was_begun


def test_what_the_desk_would_leave_alone_is_left_alone(at: Job, sweeps: Sweeps) -> None:
    at.scene.mr.author.bot = True
    (swept,) = sweeps()
    assert "is by a bot" in swept.reason
    assert sweeps.begun == []


def test_a_sweep_is_bounded(at: Job, sim: GitLabSim, sweeps: Sweeps) -> None:
    for number in range(5):
        mr = sim.open_merge_request(
            at.scene.project, at.scene.developer, title="T", branch=f"b{number}"
        )
        sim.run_pipeline(mr)
    assert len(sweeps(most=3)) == 3
    assert len(sweeps.begun) == 3


@pytest.mark.parametrize("names_merge_request", [True, False])
def test_what_the_journal_has_takes_no_place_of_a_lost_one(
    at: Job, sim: GitLabSim, sweeps: Sweeps, *, names_merge_request: bool
) -> None:
    mr = sim.open_merge_request(at.scene.project, at.scene.developer, title="T", branch="b")
    trigger = at.make_trigger(sim.run_pipeline(mr))
    if not names_merge_request:
        trigger = replace(trigger, mr_iid=0, mr_project_id=0)
    at.build_deps().queue.journal.add_trigger(trigger)
    known, lost = sweeps(most=1)
    assert known.reason == "its trigger is in the journal"
    assert lost.was_begun
    assert sweeps.begun == [at.make_trigger(dated=True)]


@pytest.mark.parametrize("way", ["retry", "new pipeline"])
def test_a_second_failure_of_a_commit_is_begun_once(
    at: Job, sim: GitLabSim, sweeps: Sweeps, way: str
) -> None:
    at.script_answers(FINDING, FINDING)
    assert isinstance(at.run_failed(), Finished)
    if way == "retry":
        sim.retry_job(at.scene.job)
    else:
        sim.run_pipeline(at.scene.mr)
    (swept,) = sweeps()
    assert swept.was_begun
    (trigger,) = sweeps.begun
    assert isinstance(run_trigger(trigger, at.build_deps()), Finished)
    (again,) = sweeps()
    assert "was looked at" in again.reason
    assert len(at.list_sessions()) == len(at.list_notes()) == 1


def test_what_cannot_be_read_is_said_and_the_rest_is_swept(
    at: Job, sim: GitLabSim, sweeps: Sweeps
) -> None:
    mr = sim.open_merge_request(at.scene.project, at.scene.developer, title="T", branch="b")
    newer = sim.run_pipeline(mr)
    sim.fail_next("GET", f"/pipelines/{newer.id}", 403)
    first, second = sweeps()
    assert not first.was_begun
    assert "pipeline" in first.reason
    assert second.was_begun


def test_a_broker_that_is_down_ends_the_sweep_with_its_error(at: Job) -> None:
    def begin(found: PipelineFailed) -> None:
        raise QueueError("down", transient=True)

    with pytest.raises(QueueError):
        list(begin_missed_pipelines(at.build_deps(), 0.0, 5, begin))
