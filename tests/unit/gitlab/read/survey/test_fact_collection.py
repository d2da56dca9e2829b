"""Facts that GitLab does not give, or that nobody looks for, leave the rest of a survey whole."""

from dataclasses import replace
from typing import Any

import pytest

from tests.simulators.gitlab import GitLabSim, Scene
from tests.unit.conftest import subject_of
from tests.worlds import branch_pipeline, child_pipeline, job_in
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.session_reader import Reader
from worker.gitlab.read.survey.fact_collection import LOGS
from worker.gitlab.read.survey.reader import collect_facts, read_survey
from worker.logs.failure_lines import MOST
from worker.verdict.facts import NOT_ASKED, Target, Unknown
from worker.verdict.verdict import Verdict


class Faulty(ReadClient):
    """A client with a bug."""

    def page(self, *asked: Any, **more: Any) -> Any:
        raise KeyError(asked)


def _open(sim: GitLabSim, scene: Scene, made: type[ReadClient] = ReadClient) -> Reader:
    client = made(sim.url, scene.read_token, timeout=(2.0, 2.0))
    return Reader.open(client, subject_of(sim, scene.mr, scene.pipeline), bytes)


def test_a_jobs_long_history_leaves_the_record_of_a_childs_job_whole(
    sim: GitLabSim, scene: Scene
) -> None:
    scene.pipeline.jobs.clear()
    job_in(sim, scene.pipeline, "other", "nightly")
    child_pipeline(sim, scene.pipeline, "same")
    for day, sha in enumerate([*(f"{number:040d}" for number in range(6)), scene.mr.base_sha]):
        pipeline = branch_pipeline(sim, scene.mr, sha)
        pipeline.created_at = f"2026-11-{14 + day}T09:00:00.000Z"
        child_pipeline(sim, pipeline, "same")
        if not day:
            job_in(sim, pipeline, "other", "nightly")
    groups = {group.job_names: group for group in read_survey(_open(sim, scene)).groups}
    assert groups["unit-tests"].hard_verdict == "already failing on the target branch"
    found = collect_facts(tuple(groups.values()), _open(sim, scene), NOT_ASKED)
    targets = {made.name: made.target for made in found}
    child = targets["deploy > unit-tests"]
    assert isinstance(child, Target)
    assert (len(child.runs), child.looked_at, child.unread) == (7, 7, 0)
    nightly = targets["nightly"]
    assert isinstance(nightly, Target)
    assert len(nightly.runs) == 1


def test_a_bug_costs_the_facts_and_not_the_survey(sim: GitLabSim, scene: Scene) -> None:
    reader = _open(sim, scene)
    groups = read_survey(reader).groups
    faulty = replace(reader, client=Faulty(sim.url, scene.read_token))
    (made,) = collect_facts(groups, faulty, NOT_ASKED)
    assert made.target == Unknown("KeyError in the survey")
    assert made.run.job_id == scene.job.id


def test_an_empty_log_is_read_once(sim: GitLabSim, scene: Scene) -> None:
    scene.job.trace = b""
    (group,) = read_survey(_open(sim, scene)).groups
    assert group.ruling is not None
    assert sum(seen.path.endswith(f"/{scene.job.id}/trace") for seen in sim.requests) == 1


def test_a_log_that_cannot_be_read_again_leaves_the_facts_whole(
    sim: GitLabSim, scene: Scene
) -> None:
    groups = read_survey(_open(sim, scene)).groups
    sim.fail_next("GET", rf"/jobs/{scene.job.id}$", 403, times=9)
    branch = branch_pipeline(sim, scene.mr, scene.mr.base_sha)
    job_in(sim, branch, "pass", scene.job.name)
    (made,) = collect_facts(groups, _open(sim, scene), NOT_ASKED)
    assert isinstance(made.target, Target)
    assert [run.status for run in made.target.runs] == ["success"]


def test_one_failed_test_more_counts_however_many_fail(sim: GitLabSim, scene: Scene) -> None:
    tests = [f"FAILED tests/test_{n:03}.py::test_it - assert {n} == 0" for n in range(1, 90)]
    scene.job.trace = "\n".join([*tests, "ERROR: Job failed: exit code 1", ""]).encode()
    job = job_in(sim, branch_pipeline(sim, scene.mr, scene.mr.base_sha), "same", scene.job.name)
    for there, settled in ((tests[:40] + tests[41:], ""), (tests, Verdict.TARGET)):
        job.trace = "\n".join([*there, "ERROR: Job failed: exit code 1", ""]).encode()
        (group,) = read_survey(_open(sim, scene)).groups
        assert group.hard_verdict == settled


@pytest.mark.slow
def test_a_log_that_may_list_too_many_failed_tests_tells_no_error(
    sim: GitLabSim, scene: Scene
) -> None:
    tests = [f"FAILED tests/test_sum.py::test_{n} - assert 1 == 0" for n in range(MOST + 1)]
    scene.job.trace = "\n".join([*tests, "ERROR: Job failed: exit code 1", ""]).encode()
    job = job_in(sim, branch_pipeline(sim, scene.mr, scene.mr.base_sha), "same", scene.job.name)
    job.trace = scene.job.trace
    (group,) = read_survey(_open(sim, scene)).groups
    assert group.hard_verdict == ""


def test_another_variant_that_fails_otherwise_there_is_not_taken_to_fail_alike(
    sim: GitLabSim, scene: Scene
) -> None:
    scene.pipeline.jobs.clear()
    for name in ("unit: [arm]", "unit: [x86]"):
        job_in(sim, scene.pipeline, "same", name)
    for _ in range(LOGS):
        nightly = branch_pipeline(sim, scene.mr, scene.mr.base_sha)
        job_in(sim, nightly, "same", "unit: [arm]")
        job_in(sim, nightly, "other", "unit: [x86]")
    (group,) = read_survey(_open(sim, scene)).groups
    assert group.hard_verdict == ""
