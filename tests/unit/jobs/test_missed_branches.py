"""Which watched branches a sweep looks at, and that it may come again."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

import pytest

from tests.jobs import Job
from tests.simulators.gitlab import Access, GitLabSim, Pipeline
from worker.conversation.triggers import BranchEnded
from worker.errors import QueueError
from worker.gitlab.ports import EndedRun
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.branch_ends import MOST_BRANCHES
from worker.gitlab.read.gitlab_reader import GitLabReader
from worker.incidents.record import BranchPipeline, BranchRecord, Incident, IncidentState
from worker.jobs.missed_branches import begin_missed_branches, find_missed
from worker.jobs.repair import Swept
from worker.settings.runs import IncidentSettings
from worker.turns.parts import Deps

DEFAULT = ("default",)
KNOWN, GREEN = "its pipelines are known", "nothing is known of it, and it is green"


@pytest.fixture
def sim() -> Iterator[GitLabSim]:
    with GitLabSim() as running:
        yield running
        assert running.unexpected_requests == []
        assert {seen.method for seen in running.requests} <= {"GET"}
        assert {seen.token for seen in running.requests} <= {"read"}


class Sweeps:
    """Sweeps of one world, what they have begun, and what was known before."""

    def __init__(self, at: Job, sim: GitLabSim) -> None:
        self.at, self.sim = at, sim
        self.begun: list[BranchEnded] = []

    def __call__(
        self, watched: tuple[str, ...] = DEFAULT, most: int = 100, since: float = 0.0
    ) -> list[Swept]:
        return list(begin_missed_branches(self.deps(watched), since, most, self.begun.append))

    def deps(self, watched: tuple[str, ...] = DEFAULT) -> Deps:
        return self.at.build_deps(incident_settings=IncidentSettings(branches=watched))

    def end(
        self, status: str = "failed", ref: str = "main", source: str = "push", sha: str = "a" * 40
    ) -> Pipeline:
        """A branch's pipeline that has ended."""
        scene = self.at.scene
        return self.sim.add_pipeline(
            scene.project, scene.developer, ref=ref, sha=sha, source=source, status=status
        )

    def know(
        self,
        *pipelines: Pipeline,
        branch: str = "main",
        is_red: bool = False,
        waiting: tuple[int, ...] = (),
    ) -> None:
        """Let these have been looked at."""
        kept = tuple(
            BranchPipeline(each.id, each.sha, each.source, 1.0, 2.0, (), "", each.created_at)
            for each in pipelines
        )
        project = self.at.scene.project
        incidents = (Incident("one", IncidentState.OPEN, ()),) if is_red else ()
        record = BranchRecord(project.id, project.path, branch, (), kept, incidents)
        record = replace(record, waiting_cars=waiting)
        store = self.at.build_deps().storage.incidents
        assert store.change_branch(project.id, branch, lambda before: record) == record

    def numbers(self) -> list[int]:
        return [each.pipeline_id for each in self.begun]


@pytest.fixture
def sweeps(at: Job, sim: GitLabSim) -> Sweeps:
    return Sweeps(at, sim)


def test_a_lost_end_of_the_default_branch_is_made_good(sweeps: Sweeps) -> None:
    first = sweeps.end()
    (swept,) = sweeps()
    project = sweeps.at.scene.project.id
    assert swept == Swept(f"pipeline {first.id} of branch main of project {project}")
    assert sweeps.begun == [BranchEnded(project, first.id, first.sha, "main")]
    sweeps.know(first)
    (again,) = sweeps()
    assert again == Swept(f"branch main of project {project}", KNOWN)
    second, third = sweeps.end("success"), sweeps.end("failed", source="schedule")
    assert sweeps()[0].was_begun
    sweeps.know(first, third)
    assert sweeps()[0].was_begun
    sweeps.know(first, second, third)
    assert not sweeps()[0].was_begun
    assert sweeps.numbers() == [first.id, third.id, second.id]


def test_a_pipeline_whose_jobs_ran_again_is_looked_at_again(sweeps: Sweeps) -> None:
    first = sweeps.end()
    sweeps.know(first)
    first.status, first.finished_at = "success", "2026-11-20T23:00:00.000Z"
    assert sweeps()[0].was_begun


@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        ([("success", "push")], GREEN),
        ([("failed", "push"), ("success", "push")], GREEN),
        ([("success", "push"), ("failed", "push")], ""),
        ([("success", "push"), ("failed", "schedule")], ""),
        ([("manual", "push")], ""),
        ([("failed", "push"), ("running", "push")], ""),
        ([("running", "push")], None),
        ([("canceled", "push")], None),
        ([("skipped", "push")], None),
        ([("failed", "parent_pipeline")], None),
        ([("failed", "ondemand_dast_scan")], None),
        ([("failed", "security_orchestration_policy")], None),
        ([], None),
    ],
)
def test_what_of_an_unknown_branch_is_looked_at(
    sweeps: Sweeps, ends: list[tuple[str, str]], reason: str | None
) -> None:
    for status, source in ends:
        sweeps.end(status, source=source)
    assert [each.reason for each in sweeps()] == ([] if reason is None else [reason])
    assert len(sweeps.begun) == (reason == "")


def test_a_merge_request_from_the_branch_is_not_the_branch(sweeps: Sweeps, at: Job) -> None:
    at.scene.mr.source_branch = "main"
    sweeps.sim.run_pipeline(at.scene.mr)
    sweeps.sim.run_pipeline(at.scene.mr, kind="merge")
    assert sweeps() == []


@pytest.mark.parametrize(
    ("watched", "found"),
    [
        ((), set[str]()),
        (DEFAULT, {"main"}),
        (("next",), {"next"}),
        (("default", "next"), {"main", "next"}),
        (("release/*",), {"release/1", "release/2"}),
        (("*",), {"main", "next", "release/1", "release/2"}),
        (("gone",), set[str]()),
    ],
)
def test_the_watched_branches_are_looked_at_and_no_others(
    sweeps: Sweeps, watched: tuple[str, ...], found: set[str]
) -> None:
    for ref in ("main", "next", "release/1", "release/2"):
        sweeps.end(ref=ref)
    assert all(each.was_begun for each in sweeps(watched))
    assert {each.ref for each in sweeps.begun} == found
    if not watched:
        assert sweeps.sim.requests == []


def test_pipelines_that_were_not_touched_for_long_are_left_alone(sweeps: Sweeps) -> None:
    made = sweeps.end()
    at = datetime.fromisoformat(made.created_at).timestamp()
    assert sweeps(since=at + 1) == []
    assert len(sweeps(since=at)) == 1


def test_a_red_branch_is_looked_at_in_any_case(sweeps: Sweeps) -> None:
    made = sweeps.end()
    sweeps.know(made, is_red=True)
    late = datetime.fromisoformat(made.created_at).timestamp() + 9e6
    (swept,) = sweeps(since=late)
    assert swept.was_begun
    assert sweeps.numbers() == [made.id]
    newer = sweeps.end()
    (swept,) = sweeps()
    assert sweeps.numbers() == [made.id, newer.id]
    assert sweeps(watched=()) == []


def test_a_branch_whose_train_somebody_waits_for_is_looked_at_in_any_case(sweeps: Sweeps) -> None:
    first = sweeps.end("success")
    sweeps.know(waiting=(41,))  # what it waits for is the branch's own run
    assert [each.was_begun for each in sweeps()] == [True]
    sweeps.know(first, waiting=(41,))  # or that of a car in front
    assert [each.was_begun for each in sweeps()] == [False, True]
    sweeps.know(first)
    assert [each.was_begun for each in sweeps()] == [False]


def test_what_is_in_the_journal_is_left_to_it(sweeps: Sweeps, at: Job) -> None:
    made = sweeps.end()
    trigger = BranchEnded(at.scene.project.id, made.id, made.sha, "main", 1_795_000_000)
    at.build_deps().queue.journal.add_trigger(trigger)
    assert [each.reason for each in sweeps()] == ["its trigger is in the journal"]
    assert sweeps.begun == []


def test_a_sweep_is_bounded(sweeps: Sweeps, sim: GitLabSim) -> None:
    for number in range(MOST_BRANCHES + 5):
        sweeps.end(ref=f"release/{number}")
    assert len(sweeps(("release/*",), most=3)) == 3
    before = len(sim.requests)
    *found, gap = sweeps(("release/*",))
    assert len(found) == MOST_BRANCHES
    assert gap.is_gap
    assert f"only {MOST_BRANCHES} of {MOST_BRANCHES + 5}" in gap.reason
    assert len(sim.requests) - before <= MOST_BRANCHES + 4


def test_only_served_projects_are_swept(at: Job, sim: GitLabSim, sweeps: Sweeps) -> None:
    other = sim.add_project("team/other")
    sim.add_member(other, at.scene.bot, Access.REPORTER)
    sim.add_pipeline(
        other, at.scene.developer, ref="main", sha="b" * 40, source="push", status="failed"
    )
    made = sweeps.end()
    assert len(sweeps()) == 2
    client = ReadClient(sim.url, at.scene.read_token)
    at.reader = GitLabReader(
        client, sim.url, (at.scene.project.path,), 30, sleep=lambda seconds: None
    )
    sweeps.begun.clear()
    assert len(sweeps()) == 1
    assert sweeps.numbers() == [made.id]


def test_what_cannot_be_read_is_said_and_the_rest_is_swept(sweeps: Sweeps, sim: GitLabSim) -> None:
    for ref in ("main", "next"):
        sweeps.end(ref=ref)
    sim.fail_next("GET", "/pipelines", 403)
    first, second = sweeps(("default", "next"))
    assert first.is_gap
    assert second.was_begun
    assert [each.ref for each in sweeps.begun] == ["next"]


def test_a_broker_that_is_down_ends_the_sweep_with_its_error(sweeps: Sweeps) -> None:
    def begin(found: BranchEnded) -> None:
        raise QueueError("down", transient=True)

    sweeps.end()
    with pytest.raises(QueueError):
        list(begin_missed_branches(sweeps.deps(), 0.0, 5, begin))


RUN = EndedRun(7, "main", 12, "a" * 40, has_passed=False, updated_at="t2")


@pytest.mark.parametrize(
    ("known", "runs", "found"),
    [
        ({12: "t2"}, {12: "t2"}, None),
        ({12: "t1"}, {12: "t2"}, 12),
        ({12: ""}, {12: "t2"}, None),
        ({12: "t1"}, {12: ""}, None),
        ({11: "t1"}, {12: "t2", 11: "t1"}, 12),
        ({12: "t2"}, {12: "t2", 11: "t1"}, None),
        ({10: "t0", 12: "t2"}, {12: "t2", 11: "t1", 10: "t0"}, 11),
        ({10: "t0", 12: "t2"}, {12: "t2", 9: "t9"}, None),
        ({10: "t0", 12: "t2"}, {12: "t2", 10: "t9"}, 10),
    ],
)
def test_a_run_is_missed_if_it_is_not_known_as_it_is(
    known: dict[int, str], runs: dict[int, str], found: int | None
) -> None:
    record = BranchRecord(
        7,
        "team/app",
        "main",
        pipelines=tuple(
            BranchPipeline(number, "a" * 40, "push", 1.0, 2.0, (), "", text)
            for number, text in known.items()
        ),
    )
    listed = [replace(RUN, pipeline_id=number, updated_at=text) for number, text in runs.items()]
    missed = find_missed(listed, record)
    assert (missed if isinstance(missed, str) else missed.pipeline_id) == (found or KNOWN)
