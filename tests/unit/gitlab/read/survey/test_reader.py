"""What failed, read from GitLab once before the model is asked."""

import time

import pytest

from tests.fakes import masking
from tests.simulators.gitlab import CommitStatus, DiffFile, GitLabSim, Scene
from tests.unit.conftest import subject_of, zipped
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.session_reader import Reader
from worker.gitlab.read.survey.failing_jobs import describe_other_jobs
from worker.gitlab.read.survey.reader import LEAST, MOST_LOGS, read_survey
from worker.gitlab.read.wire import Job, Runner
from worker.lab.gitlab.state import Bridge, Pipeline
from worker.safety.redact import Redaction
from worker.verdict.jobs import dump_survey, load_survey
from worker.verdict.survey_text import tell_diff, tell_survey

RACE = b"""\
Executing "step_script" stage of the job script
$ pytest -q
E   KeyError: 'tide'
FAILED tests/test_tide.py::test_high - KeyError: 'tide'
ERROR: Job failed: exit code 1
"""
LINT = b"""\
Executing "step_script" stage of the job script
$ ruff check
src/app.py:9:1: error: F401 'os' imported but unused
ERROR: Job failed: exit code 1
"""


def opened(sim: GitLabSim, scene: Scene, pipeline: Pipeline) -> Reader:
    client = ReadClient(sim.url, scene.read_token, timeout=(2.0, 2.0))
    return Reader.open(client, subject_of(sim, scene.mr, pipeline), Redaction)


def matrix(sim: GitLabSim, pipeline: Pipeline, count: int, trace: bytes = RACE) -> None:
    for number in range(count):
        name = f"unit: [3.{number}, linux]"
        sim.add_job(pipeline, name, status="failed", trace=b"line\n" * number + trace)


def test_artifacts_of_a_failed_job_are_told(sim: GitLabSim, scene: Scene) -> None:
    pipeline = sim.run_pipeline(scene.mr)
    failed = sim.add_job(pipeline, "lint", status="failed", trace=LINT)
    failed.archive = zipped({"report.txt": b"2 errors\n"})
    made = read_survey(opened(sim, scene, pipeline))
    assert made.groups[0].jobs[0].kept_bytes == len(failed.archive)
    assert "it kept artifacts (1 KB)" in tell_survey(made)


def test_a_matrix_with_one_error_is_one_group(sim: GitLabSim, scene: Scene) -> None:
    pipeline = sim.run_pipeline(scene.mr)
    matrix(sim, pipeline, 12)
    sim.add_job(pipeline, "lint", status="failed", trace=LINT)
    sim.add_job(pipeline, "links", status="failed", trace=RACE, allow_failure=True)
    made = read_survey(opened(sim, scene, pipeline))
    assert [group.job_names for group in made.groups] == ["unit (12 of 12 variants)", "lint"]
    assert [group.jobs[0].reason for group in made.groups] == ["script_failure"] * 2
    assert "KeyError: 'tide'" in made.groups[0].jobs[0].excerpt
    assert made.changed_paths == ("app/sum.py",)
    assert made.whole
    assert {job.end for job in made.jobs} == {()}


def test_no_more_logs_are_read_than_a_dozen_and_every_family_has_one(
    sim: GitLabSim, scene: Scene
) -> None:
    pipeline = sim.run_pipeline(scene.mr)
    matrix(sim, pipeline, 20)
    sim.add_job(pipeline, "lint", status="failed", trace=LINT)
    first = len(sim.requests)
    made = read_survey(opened(sim, scene, pipeline))
    ours = {f"/jobs/{job.job_id}/trace" for job in made.jobs}
    read = [seen.path for seen in sim.requests[first:] if seen.path.endswith(tuple(ours))]
    assert len(read) == MOST_LOGS
    assert [len(group.jobs) for group in made.groups] == [20, 1]
    assert made.whole
    assert any("only 12 logs" in each for each in made.gaps)


def test_a_retried_job_counts_by_its_newest_attempt(sim: GitLabSim, scene: Scene) -> None:
    pipeline = sim.run_pipeline(scene.mr)
    sim.add_job(pipeline, "flaky", status="failed", trace=RACE)
    sim.add_job(pipeline, "flaky", status="success", trace=b"fine\n")
    sim.add_job(pipeline, "lint", status="failed", trace=LINT)
    made = read_survey(opened(sim, scene, pipeline))
    assert [group.job_names for group in made.groups] == ["lint"]


def test_the_jobs_that_failed_and_may_that_were_retried_and_that_passed_are_named(
    sim: GitLabSim, scene: Scene
) -> None:
    pipeline = sim.run_pipeline(scene.mr)
    sim.add_job(pipeline, "build", status="success", trace=b"fine\n")
    first = sim.add_job(pipeline, "flaky", status="failed", trace=RACE)
    again = sim.add_job(pipeline, "flaky", status="success", trace=b"fine\n")
    twice = sim.add_job(pipeline, "unit: [3.10]", status="failed", trace=RACE)
    red = sim.add_job(pipeline, "unit: [3.10]", status="failed", trace=RACE)
    green = sim.add_job(pipeline, "unit: [3.12]", status="success", trace=b"fine\n")
    links = sim.add_job(pipeline, "links", status="failed", trace=RACE, allow_failure=True)
    made = read_survey(opened(sim, scene, pipeline))
    allowed, retried, passed = made.others
    assert allowed == f"Failed, but is allowed to: job {links.id} (links)"
    assert retried == (
        f"Failed and was retried: job {first.id} (flaky), script_failure, then job {again.id} "
        f"passed; job {twice.id} (unit: [3.10]), script_failure, then job {red.id} failed again"
    )
    assert passed.startswith(f"Passed: job {green.id} (unit: [3.12]); job ")
    assert "(build)" in passed


def test_jobs_that_did_not_run_and_a_runner_on_which_all_failed_are_named() -> None:
    full, other = Runner(id=3, description="shared-3"), Runner(id=7, description="shared-7")
    jobs = [
        *(Job(id=at, name=f"red{at}", status="failed", runner=full) for at in (1, 2)),
        *(Job(id=at, name=f"green{at}", status="success", runner=other) for at in (3, 4)),
        Job(id=5, name="deploy", status="skipped"),
    ]
    passed, skipped, runner = describe_other_jobs(jobs)
    assert passed.startswith("Passed: ")
    assert skipped == "Did not run: job 5 (deploy)"
    assert runner == "All 2 failed jobs ran on shared-3, and no job that passed did"
    assert (
        len(describe_other_jobs([*jobs, jobs[2].model_copy(update={"id": 6, "runner": full})])) == 2
    )
    assert len(describe_other_jobs(jobs[1:])) == 2
    unknown = jobs[1].model_copy(update={"id": 7, "name": "red7", "runner": None})
    assert len(describe_other_jobs([*jobs, unknown])) == 2


@pytest.mark.parametrize("kind", ["merge", "train"])
def test_of_merged_results_it_is_told_what_they_are_and_what_to_read(
    sim: GitLabSim, scene: Scene, kind: str
) -> None:
    pipeline = sim.run_pipeline(scene.mr, kind=kind)
    sim.add_job(pipeline, "unit", status="failed", trace=RACE)
    (said,) = read_survey(opened(sim, scene, pipeline)).others
    assert said.startswith(
        f"Merged results: the pipeline ran on refs/merge-requests/{scene.mr.iid}/{kind}, a merge "
    )
    assert f"read with ref={scene.mr.sha} (head_sha, the change's newest commit) or ref=main" in (
        said
    )


def test_a_job_below_that_failed_and_may_is_named(sim: GitLabSim, scene: Scene) -> None:
    pipeline = sim.run_pipeline(scene.mr)
    child = sim.run_pipeline(scene.mr, kind="child")
    links = sim.add_job(child, "links", status="failed", trace=RACE, allow_failure=True)
    sim.add_job(child, "deep", status="failed", trace=RACE)
    pipeline.bridges += [Bridge(1, "start", "failed", child)]
    made = read_survey(opened(sim, scene, pipeline))
    assert made.others == (f"Failed below, but is allowed to: job {links.id} (links)",)


def test_it_is_told_which_log_is_saved_beside_that_of_a_failed_job(
    sim: GitLabSim, scene: Scene
) -> None:
    before = sim.run_pipeline(scene.mr, status="success", kind="branch", project=scene.project)
    before.ref = scene.mr.target_branch
    green = sim.add_job(before, "unit", trace=b"$ pytest -q\nall passed\n")
    pipeline = sim.run_pipeline(scene.mr)
    sim.add_job(pipeline, "unit", status="failed", trace=RACE)
    sim.add_job(pipeline, "new", status="failed", trace=LINT)
    made = read_survey(opened(sim, scene, pipeline))
    assert {job.name: job.green for job in made.jobs} == {"unit": green.id, "new": 0}


def test_jobs_of_child_pipelines_belong_to_it(sim: GitLabSim, scene: Scene) -> None:
    pipeline = sim.run_pipeline(scene.mr)
    child = sim.run_pipeline(scene.mr, kind="child")
    sim.add_job(child, "deep", status="failed", trace=RACE)
    pipeline.bridges += [Bridge(1, "start", "failed", child), Bridge(2, "other", "failed")]
    made = read_survey(opened(sim, scene, pipeline))
    assert {group.job_names for group in made.groups} == {"deep", "other"}


def test_what_a_pipeline_that_may_fail_has_started_may_fail_too(
    sim: GitLabSim, scene: Scene
) -> None:
    pipeline = sim.run_pipeline(scene.mr)
    child, grandchild = (sim.run_pipeline(scene.mr, kind="child") for _ in range(2))
    sim.add_job(grandchild, "soak", status="failed", trace=RACE)
    child.bridges += [Bridge(2, "start", "failed", grandchild), Bridge(3, "other", "failed")]
    pipeline.bridges += [Bridge(1, "canary", "failed", child, allow_failure=True)]
    assert read_survey(opened(sim, scene, pipeline)).jobs == ()
    pipeline.bridges[0].allow_failure = False
    made = read_survey(opened(sim, scene, pipeline))
    assert {job.name for job in made.jobs} == {"soak", "other"}


def test_what_other_systems_report_as_failed_is_a_group_each(sim: GitLabSim, scene: Scene) -> None:
    pipeline = sim.run_pipeline(scene.mr)
    job = sim.add_job(pipeline, "lint", status="failed", trace=LINT)
    pipeline.bridges += [Bridge(1, "start", "failed")]
    at, page = "2026-11-20T09:00:00Z", "https://ui.example/ns/t/pipelinerun/app-x7k2p"
    scene.project.statuses[pipeline.sha] = [
        CommitStatus("lint", "failed", at, target_url=job.web_url),
        CommitStatus("start", "failed", at),
        CommitStatus("of another pipeline", "failed", at, target_url=f"{sim.url}/g/p/-/jobs/9"),
        CommitStatus("konflux/app", "failed", at, "runner_system_failure", page),
        CommitStatus("konflux/e2e", "failed", at, "1 of 9\ntasks failed", "javascript:alert(1)"),
        CommitStatus("coverage", "failed", at, allow_failure=True),
        CommitStatus("scanner", "success", at),
    ]
    made = read_survey(opened(sim, scene, pipeline))
    assert [(each.job_names, each.external) for each in made.groups] == [
        ("start", False), ("lint", False), ("konflux/app", True), ("konflux/e2e", True)
    ]  # fmt: skip
    app, e2e = made.groups[2:]
    assert (app.text, app.key, app.rule_match, app.ruling) == (
        "runner_system_failure",
        "",
        None,
        None,
    )
    assert (app.jobs[0].url, e2e.jobs[0].url) == (page, "")
    assert made.whole
    text = tell_survey(made)
    assert f"Group 3: konflux/app\nreported on the commit by another system: {page}\n" in text
    assert "reported on the commit by another system\nerror: 1 of 9 tasks failed" in text
    assert load_survey(dump_survey(made)) == made


def test_a_pipeline_of_outside_reports_alone_has_groups(sim: GitLabSim, scene: Scene) -> None:
    pipeline = sim.run_pipeline(scene.mr)
    scene.project.statuses[pipeline.sha] = [CommitStatus("konflux/app", "failed", "", "x", "")]
    (group,) = read_survey(opened(sim, scene, pipeline)).groups
    assert (group.job_names, group.external) == ("konflux/app", True)


def test_a_pipeline_without_jobs_tells_what_is_wrong_with_its_configuration(
    sim: GitLabSim, scene: Scene
) -> None:
    pipeline = sim.run_pipeline(scene.mr, yaml_errors="jobs:build config contains unknown keys: x")
    (group,) = read_survey(opened(sim, scene, pipeline)).groups
    assert group.rule_match is not None
    assert not group.rule_match.certain
    assert "unknown keys: x" in group.rule_match.cause


def test_what_gitlab_refuses_is_named_and_leaves_the_rest(sim: GitLabSim, scene: Scene) -> None:
    pipeline = sim.run_pipeline(scene.mr)
    matrix(sim, pipeline, 2)
    other = sim.add_job(pipeline, "lint", status="failed", trace=LINT)
    other.erased = True
    sim.fail_next("GET", r"/diffs", 403, times=9)
    made = read_survey(opened(sim, scene, pipeline))
    assert [group.job_names for group in made.groups] == ["unit (2 of 2 variants)", "lint"]
    assert made.changed_paths is None
    assert not made.whole
    assert any("was erased" in each for each in made.gaps)


def test_without_an_answer_there_is_a_survey_of_nothing(sim: GitLabSim, scene: Scene) -> None:
    pipeline = sim.run_pipeline(scene.mr)
    matrix(sim, pipeline, 2)
    sim.fail_next("GET", r"", 403, times=99)
    made = read_survey(opened(sim, scene, pipeline))
    assert made.groups == ()
    assert made.gaps
    assert not made.whole


def test_a_log_that_hangs_is_left_out_in_time(sim: GitLabSim, scene: Scene) -> None:
    pipeline = sim.run_pipeline(scene.mr)
    matrix(sim, pipeline, 1)
    hung = sim.add_job(pipeline, "lint", status="failed", trace=LINT)
    sim.fail_next("GET", rf"/jobs/{hung.id}/trace", 500, delay=3.0)
    begun = time.monotonic()
    made = read_survey(opened(sim, scene, pipeline), seconds=1.0)
    assert time.monotonic() - begun < 3.0 + LEAST
    assert {group.job_names for group in made.groups} == {"unit: [3.0, linux]", "lint"}
    assert any(f"job {hung.id}" in each for each in made.gaps)
    assert not made.whole


def test_no_secret_of_a_job_name_or_a_log_is_kept(sim: GitLabSim, scene: Scene) -> None:
    pipeline = sim.run_pipeline(scene.mr)
    sim.add_job(pipeline, "s3cret", status="failed", trace=RACE.replace(b"tide", b"s3cret"))
    client = ReadClient(sim.url, scene.read_token, timeout=(2.0, 2.0))
    subject = subject_of(sim, scene.mr, pipeline)
    reader = Reader.open(client, subject, masking(b"s3cret", "x"))
    (group,) = read_survey(reader).groups
    assert "s3cret" not in repr(group)


def test_a_job_that_ran_is_not_said_to_have_found_no_runner(sim: GitLabSim, scene: Scene) -> None:
    pipeline = sim.run_pipeline(scene.mr)
    hung, _, waited = (
        sim.add_job(
            pipeline, name, status="failed", trace=trace, failure_reason="stuck_or_timeout_failure"
        )
        for name, trace in (("e2e", RACE[:60]), ("silent", b""), ("deploy", b""))
    )
    waited.started_at = None
    for each in (hung, waited):
        sim.fail_next("GET", rf"/jobs/{each.id}/trace", 404, times=9)
    made = read_survey(opened(sim, scene, pipeline))
    ruled = {job.name: group.rule_match for group in made.groups for job in group.jobs}
    assert {name: match.rule for name, match in ruled.items() if match and match.certain} == {
        "deploy": "stuck"
    }
    assert {match.rule for match in ruled.values() if match and not match.certain} == {
        "runner-lost"
    }
    assert load_survey(dump_survey(made)) == made


def test_a_diff_of_up_to_eight_kilobytes_is_shown_whole_and_said_to_be(
    sim: GitLabSim, scene: Scene
) -> None:
    pipeline = sim.run_pipeline(scene.mr)
    sim.add_job(pipeline, "unit", status="failed", trace=RACE)
    for size, start in ((7_600, "all of it"), (8_200, "as far as it fits here")):
        hunk = "@@ -1,0 +1,100 @@\n" + f"+{'x' * (size // 100 - 2)}\n" * 99 + "+the_end\n"
        scene.mr.diffs[:] = [DiffFile("app/sum.py", hunk)]
        made = read_survey(opened(sim, scene, pipeline), shown=4096)
        told = tell_diff(made)
        assert told.startswith(f"The merge request's diff, {start}:")
        assert ("  100 +the_end" in told) == made.is_diff_whole == (start == "all of it")
