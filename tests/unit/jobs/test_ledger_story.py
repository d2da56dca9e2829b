"""A test that fails, and passes when its job runs again, from the webhook to the ledger: over the
simulated GitLab and a folder."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.jobs import FINDING, Job, run_trigger
from tests.simulators.gitlab import GitLabSim, Pipeline
from worker.conversation.triggers import BranchEnded
from worker.jobs.ledger import record_turn
from worker.jobs.missed_tests import record_missed
from worker.ledger.record import PipelineTests, RanOn
from worker.sessions.layout import name_day
from worker.turns.parts import Finished

SEATS: dict[str, Any] = {"name": "test_seats", "classname": "tests.Ferry", "status": "success"}
FAILED = SEATS | {"status": "failed", "system_output": "AssertionError: expected 12, got 13"}
OTHERS = [SEATS | {"name": f"test_{number}"} for number in range(9)]


@pytest.fixture
def sim() -> Iterator[GitLabSim]:
    with GitLabSim() as running:
        yield running
        assert running.unexpected_requests == []


class Told:
    """The ledger of one project, whose jobs report tests."""

    def __init__(self, at: Job, sim: GitLabSim) -> None:
        self.at, self.sim = at, sim
        self.pass_time(0)

    def pass_time(self, minutes: float) -> None:
        now = datetime.fromisoformat(self.sim.advance_clock()) + timedelta(minutes=minutes)
        self.sim.set_clock(now)
        self.at.clock.time = now.timestamp()

    def end_job(self, run: Pipeline, seats: dict[str, Any]) -> None:
        """Let the pipeline's job end, for the first time or again, and with it the pipeline."""
        run.status = seats["status"]
        self.sim.add_job(run, "unit", status=run.status).tests = [seats, *OTHERS]
        run.finished_at = self.sim.advance_clock()
        self.pass_time(15)

    def sweep(self) -> list[str]:
        """Sweep; return what was recorded."""
        return [each.what for each in record_missed(self.at.build_deps(), 0.0) if each.was_begun]

    def look(self) -> list[PipelineTests]:
        days = self.at.build_deps().storage.ledger.read_days(self.at.scene.project.id, 0.0)
        return [each for day in days for each in day.pipelines if each.suites]

    def count_asked(self) -> int:
        return len([each for each in self.sim.requests if "/test_report" in each.path])


@pytest.fixture
def told(at: Job, sim: GitLabSim) -> Told:
    return Told(at, sim)


def test_a_flaky_test_is_recorded_by_its_turn_and_what_became_of_it_by_the_sweep(
    told: Told, at: Job
) -> None:
    run = at.scene.pipeline
    told.end_job(run, FAILED)
    at.script_answers(FINDING)
    assert isinstance(at.run_failed(), Finished)
    (found,) = told.look()
    assert (found.pipeline_id, found.ran_on, found.mr_iid) == (run.id, RanOn.REQUEST, 1)
    (failure,) = found.failures
    assert (failure.test.name, failure.job, failure.has_passed) == ("test_seats", "unit", False)
    assert "expected 12, got 13" in failure.text
    assert (found.suites[0].tests, found.suites[0].failed) == (10, 1)

    told.sweep()
    assert told.look() == [found]
    told.end_job(run, SEATS)
    told.pass_time(0)
    project, developer = at.scene.project, at.scene.developer
    main = told.sim.add_pipeline(
        project, developer, ref="main", sha="a" * 40, source="push", status="running"
    )
    told.end_job(main, SEATS)
    day = name_day(at.clock.time)
    assert told.sweep() == [f"tests of {at.scene.project.path} on {day}: 2 pipelines"]
    again, passed = told.look()
    assert again.failures[0].has_passed
    assert again.suites[0].runs == 2
    assert (passed.ran_on, passed.failures, passed.suites[0].tests) == (RanOn.DEFAULT, (), 10)

    asked = told.count_asked()
    assert told.sweep() == []
    assert told.count_asked() == asked


def test_what_is_forgotten_is_not_read_again(told: Told, at: Job) -> None:
    told.end_job(at.scene.pipeline, FAILED)
    at.script_answers(FINDING)
    at.run_failed()
    told.sweep()
    at.ask("/sandpiper forget")
    assert told.look() == []
    asked = told.count_asked()
    assert told.sweep() == []
    assert told.look() == []
    assert told.count_asked() == asked


def test_a_turn_ends_as_ever_where_gitlab_shows_no_tests(told: Told, at: Job) -> None:
    told.end_job(at.scene.pipeline, FAILED)
    told.sim.fail_next("GET", "/test_report", 500, times=9)
    at.script_answers(FINDING)
    assert isinstance(at.run_failed(), Finished)
    assert told.look() == []
    told.sim.clear_faults()
    told.sweep()
    assert len(told.look()) == 1


def test_the_look_at_a_watched_branch_records_its_pipeline(told: Told, at: Job) -> None:
    project, developer = at.scene.project, at.scene.developer
    sha = project.refs["main"]
    main = told.sim.add_pipeline(
        project, developer, ref="main", sha=sha, source="push", status="running"
    )
    told.end_job(main, SEATS)
    run_trigger(BranchEnded(project.id, main.id, sha, "main"), at.build_deps())
    (found,) = told.look()
    assert (found.pipeline_id, found.ran_on, found.ref) == (main.id, RanOn.DEFAULT, "main")


def test_a_fork_s_pipeline_is_not_the_project_s(told: Told, at: Job) -> None:
    told.end_job(at.scene.pipeline, FAILED)
    at.script_answers(FINDING)
    ended = at.run_failed()
    assert isinstance(ended, Finished)
    deps, asked = at.build_deps(), told.count_asked()
    subject = at.load_context().subject
    record_turn(ended, replace(subject, pipeline_project_id=subject.project_id + 1), deps)
    assert told.count_asked() == asked
    record_turn(ended, subject, deps)
    assert told.count_asked() > asked
