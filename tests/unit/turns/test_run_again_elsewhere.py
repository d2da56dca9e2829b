"""The commit fails again where its pipeline is not a plain one, or its note not for all."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import says
from tests.jobs import read_reason, run_trigger
from tests.simulators.gitlab import Access, Bridge, GitLabSim, Pipeline
from tests.surveyed import RACE, At, concludes
from tests.unit.turns.test_run_again import REAL, finished, label, newest_job, retry
from worker.turns.day_budget import DayBudget
from worker.turns.parts import Finished, Skipped
from worker.turns.session import BEGAN_IN_PUBLIC
from worker.verdict.aftermath import Label
from worker.verdict.grouping import Difference, compare_failures
from worker.verdict.jobs import FailingJob, Group, RuleMatch, Survey

pytestmark = pytest.mark.slow


@pytest.fixture
def at(sim: GitLabSim, tmp_path: Path) -> At:
    made = At(sim, tmp_path)
    made.script_answers(concludes("flaky"), concludes("caused by this change"))
    return made


def with_child(at: At) -> tuple[Pipeline, Pipeline]:
    """A pipeline whose child fails."""
    parent = at.sim.run_pipeline(at.scene.mr)
    child = at.sim.run_pipeline(at.scene.mr, kind="child")
    at.sim.add_job(child, "clock", status="failed", trace=RACE)
    parent.bridges.append(Bridge(1, "deploy", "failed", child))
    return parent, child


@pytest.mark.parametrize(("trace", "asked"), [(RACE, 1), (REAL, 2)])
def test_a_job_of_a_child_pipeline_that_is_run_again_counts(
    at: At, trace: bytes, asked: int
) -> None:
    parent, child = with_child(at)
    finished(at.run_failed(parent))
    at.sim.retry_job(newest_job(child), trace=trace)
    at.sim.end_pipeline(parent)
    assert finished(at.run_failed(parent)).turn == 1
    assert len(at.model.requests) == asked


@pytest.mark.parametrize(("trace", "asked"), [(RACE, 1), (REAL, 2)])
def test_a_members_fork_is_looked_at_again_like_any_other(at: At, trace: bytes, asked: int) -> None:
    fork = at.sim.add_project("mara/service", parent=at.scene.project, public=True)
    at.sim.add_member(fork, at.scene.developer, Access.OWNER)
    at.sim.add_member(fork, at.scene.bot, Access.REPORTER)
    mr = at.sim.open_merge_request(
        at.scene.project, at.scene.developer, title="F", branch="f", source=fork
    )
    pipeline = at.flake(mr)
    finished(at.run_failed(pipeline))
    finished(at.run_failed(retry(at, pipeline, trace)))
    assert len(at.model.requests) == asked
    (body,) = at.of(mr)
    assert f"[pipeline {pipeline.id}]({mr.web_url}/pipelines)" in body


def test_what_a_job_asked_for_before_the_end_is_not_told_again_by_the_end(at: At) -> None:
    pipeline = at.flake(at.scene.mr)
    pipeline.status = "running"
    asking = replace(at.make_trigger(pipeline), by_job=True)
    finished(run_trigger(asking, at.build_deps()))
    at.sim.end_pipeline(pipeline)
    assert "were looked at" in read_reason(at.run_failed(pipeline))
    (body,) = at.of(at.scene.mr)
    assert "again" not in body
    at.sim.add_job(pipeline, "late", status="failed", trace=REAL)
    at.sim.end_pipeline(pipeline)
    finished(at.run_failed(pipeline))
    assert len(at.model.requests) == 2


@pytest.mark.attack("binding")
@pytest.mark.parametrize("trace", [RACE, REAL])
def test_an_internal_note_stays_the_one_note_and_internal(at: At, trace: bytes) -> None:
    at.scene.project.public, at.scene.project.public_jobs = True, False
    pipeline = at.flake(at.scene.mr)
    finished(at.run_failed(pipeline))
    finished(at.run_failed(retry(at, pipeline, trace)))
    (note,) = at.list_notes()
    assert note.internal
    assert "again" in note.body


@pytest.mark.attack("binding")
@pytest.mark.parametrize("trace", [RACE, REAL])
def test_nothing_is_added_to_a_public_note_of_logs_that_are_for_members_by_now(
    at: At, trace: bytes
) -> None:
    at.scene.project.public = True
    pipeline = at.flake(at.scene.mr)
    finished(at.run_failed(pipeline))
    (before,) = at.of(at.scene.mr)
    at.scene.project.public_jobs = False
    assert read_reason(at.run_failed(retry(at, pipeline, trace))) == BEGAN_IN_PUBLIC
    assert at.of(at.scene.mr) == [before]


@pytest.mark.attack("costs")
def test_a_project_whose_day_is_paid_up_is_told_once_and_looks_at_nothing_again(at: At) -> None:
    spent = DayBudget(at.store.records, at.clock, 0.001)
    pipeline = at.flake(at.scene.mr)
    finished(at.run_failed(pipeline, budget=spent))
    finished(at.run_failed(retry(at, pipeline, REAL), budget=spent))
    assert len(at.model.requests) == 1
    (told,) = at.of(at.scene.mr)
    assert "daily" in told or "day" in told
    other = b"E   KeyError: 'another'\n" + REAL.replace(b"boat", b"bus")
    assert isinstance(at.run_failed(retry(at, pipeline, other), budget=spent), Skipped)
    assert at.of(at.scene.mr) == [told]


@pytest.mark.parametrize("mended", [True, False])
def test_a_new_commit_has_a_note_of_its_own_and_folds_the_one_note(at: At, mended: bool) -> None:
    pipeline = at.flake(at.scene.mr)
    finished(at.run_failed(pipeline))
    finished(at.run_failed(retry(at, pipeline, REAL)))
    at.sim.push(at.scene.mr, {"a": b"1"})
    if mended:
        at.run_passed(at.sim.run_pipeline(at.scene.mr, status="success"))
        (body,) = at.of(at.scene.mr)
        assert "**Fixed by [pipeline " in body.split("\n")[2]
        return
    at.script_answers(concludes("caused by this change"))
    assert isinstance(at.run_failed(at.flake(at.scene.mr, REAL)), Finished)
    first, _ = at.of(at.scene.mr)
    assert "**Superseded by [a newer note](" in first.split("\n")[2]


def test_a_pass_before_another_failure_judges_the_verdict_before_it_alone(at: At) -> None:
    at.script_answers(concludes("flaky"), concludes("infrastructure"))
    pipeline = at.flake(at.scene.mr)
    finished(at.run_failed(pipeline))
    at.clock.time += 100
    at.sim.retry_job(newest_job(pipeline), status="success")
    at.run_passed(pipeline)
    at.clock.time += 100
    finished(at.run_failed(at.flake(at.scene.mr, REAL)))
    assert [label(at, turn)[0] for turn in (0, 1)] == [Label.CONFIRMED, Label.OPEN]
    finished(at.run_failed(at.flake(at.scene.mr, REAL)))
    assert [label(at, turn)[0] for turn in (0, 1)] == [Label.CONFIRMED, Label.CONTRADICTED]


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("trace", [RACE, REAL])
def test_a_question_between_a_broken_look_and_the_next_one_loses_nothing(
    at: At, trace: bytes
) -> None:
    pipeline = at.flake(at.scene.mr)
    finished(at.run_failed(pipeline))
    (note,) = at.list_notes()
    before = note.body.partition("\n")[2].strip()

    def die(iteration: int) -> None:
        raise Killed

    at.on_asking = die
    with pytest.raises(Killed):
        at.run_failed(retry(at, pipeline, REAL))
    at.on_asking = lambda iteration: None
    at.clock.time += 10_000
    at.script_answers(says("Soon."), concludes("caused by this change"))
    finished(at.ask("When?", note.discussion_id))
    if trace is RACE:
        retry(at, pipeline, RACE)
    finished(at.run_failed(pipeline))
    assert "will replace this note" not in note.body
    assert note.body.count(before) == 1
    expected = "Failed again in the same way" if trace is RACE else "Run again:"
    assert expected in note.body


# ------------------------------------------------------------------------------------- compared

JOB = FailingJob(1, "unit", reason="script_failure", read=True)
AGAIN = replace(JOB, job_id=2)
SYSTEM = replace(JOB, reason="runner_system_failure")
KEYED = Group("0123456789abcdef", "E   boom", (JOB,))
RULE = RuleMatch("stuck", "infrastructure", "c", "d")
EXTERNAL = replace(JOB, job_id=0, external=True, excerpt="license: denied")


def group(key: str = KEYED.key, *jobs: FailingJob, rule: RuleMatch | None = None) -> Survey:
    return Survey((Group(key, "E   boom", jobs or (AGAIN,), rule_match=rule),))


@pytest.mark.parametrize(
    ("before", "now", "same_pipeline", "difference"),
    [
        (Survey((KEYED,)), group(), True, Difference.SAME_WAY),
        (Survey((KEYED,)), group(), False, Difference.SAME_WAY),
        (Survey((KEYED,)), Survey((KEYED,)), True, Difference.NONE),
        (Survey((KEYED,)), group("fedcba9876543210"), True, Difference.OTHER),
        (Survey((KEYED,)), group(KEYED.key, replace(AGAIN, name="other")), True, Difference.OTHER),
        (Survey((KEYED,)), group(KEYED.key, AGAIN, replace(JOB, job_id=3)), True, Difference.OTHER),
        (Survey((KEYED,)), group(KEYED.key, replace(SYSTEM, job_id=2)), True, Difference.OTHER),
        # Without an error, only GitLab's own reason or a rule tells failures apart.
        (group("", JOB), group("", AGAIN), True, Difference.OTHER),
        (group("", SYSTEM), group("", replace(SYSTEM, job_id=2)), True, Difference.SAME_WAY),
        (group("", JOB, rule=RULE), group("", AGAIN, rule=RULE), True, Difference.SAME_WAY),
        (group("", JOB, rule=RULE), group("", AGAIN), True, Difference.OTHER),
        # What another system said of the commit is the same status in each pipeline.
        (group("", EXTERNAL), group("", EXTERNAL), False, Difference.SAME_WAY),
        (group("", EXTERNAL), group("", EXTERNAL), True, Difference.NONE),
        # A broken configuration.
        (Survey((Group("", "bad yaml", ()),)), Survey((Group("", "bad yaml", ()),)), False,
         Difference.SAME_WAY),
        (None, group(), True, Difference.OTHER),
        (Survey(), group(), True, Difference.OTHER),
        (group(), Survey(), True, Difference.OTHER),
        (Survey(), Survey(), True, Difference.OTHER),
    ],
)  # fmt: skip
def test_a_failure_is_the_same_where_its_jobs_and_their_errors_are(
    before: Survey | None, now: Survey, same_pipeline: bool, difference: Difference
) -> None:
    assert compare_failures(before, now, same_pipeline=same_pipeline) is difference
