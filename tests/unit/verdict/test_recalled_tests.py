"""What is known of the single tests that failed in a job, by the ledger and a report or a log."""

from dataclasses import replace

import pytest

from tests.unit.ledger.made import BEGIN, HOUR, make_day, make_failure, make_run
from worker.ledger.record import DayRecord, PipelineTests, RanOn, SuiteRun
from worker.verdict.recalled_tests import JobTests, RecalledTests, SurveyedJob

NOW = BEGIN + 4 * HOUR
JOB = SurveyedJob(900, "unit")


def recall(own: PipelineTests | None, *days: DayRecord, job: SurveyedJob = JOB) -> JobTests | None:
    return RecalledTests(days, own, 90, 0, NOW).find_jobs([job]).get(job.job_id)


def say(found: JobTests | None) -> list[str]:
    return ["".join(words) for words in found.describe()] if found else []


def test_the_report_of_the_pipeline_names_the_tests_that_failed() -> None:
    found = recall(make_run(90, "test_a test_b"), make_day(make_run(1, "test_a"), make_run(2)))
    assert found
    assert found.is_whole
    assert say(found) == [
        "test_a failed in 1 of 2 runs of its job in 1 day, on main",
        "test_b: no other failure in 2 runs of its job in 1 day",
    ]


def test_where_there_is_no_report_the_log_names_the_tests_that_have_failed_before() -> None:
    line = "FAILED tests/test_cart.py::TestCart::test_a - assert 3 == 4"
    job = replace(JOB, lines=["collected 3 items", line])
    days = make_day(make_run(1, "test_a"), make_run(2, "test_ab"), make_run(3, "test_a", job="e2e"))
    found = recall(None, days, job=job)
    assert found
    assert not found.is_whole
    assert say(found) == ["test_a failed in 1 of 2 runs of its job in 1 day, on main"]


@pytest.mark.parametrize(
    "own",
    [
        pytest.param(replace(make_run(90, "test_a"), left_out=1), id="more have failed"),
        pytest.param(
            make_run(90, "test_a", (SuiteRun("unit", 100, 2, newest_job=900),)),
            id="more are counted",
        ),
        pytest.param(
            make_run(90, "test_a", (SuiteRun("unit", 100, 1, newest_job=899),)),
            id="of an earlier run of the job",
        ),
    ],
)
def test_a_report_that_may_lack_a_failed_test_is_not_whole(own: PipelineTests) -> None:
    found = recall(own, make_day(make_run(1, "test_a")))
    assert found
    assert not found.is_whole


def test_a_test_that_has_run_again_since_does_not_fail_any_more() -> None:
    """Though the ledger knows it as one that has failed in this very pipeline."""
    suite = SuiteRun("unit", 100, 1, newest_job=901)
    own = replace(make_run(90, "test_b", (suite,)), updated_at="2026-11-29T09:59:00.000Z")
    found = recall(own, make_day(make_run(90, "test_a"), make_run(91)))
    assert found
    assert [each.life.test.name for each in found.failures] == ["test_b"]


@pytest.mark.parametrize(
    ("error", "is_own"),
    [
        ("FAILED tests/test_cart.py::TestCart::test_a - assert 3 == 4", True),
        ("E AssertionError: expected ③ but got ④", True),
        ("E AssertionError: expected 3 but got 5", False),
        ("FAILED tests/test_cart.py::TestCart::test_ab - assert 3 == 4", False),
        ("src/app.py:3:1: F821 undefined name", False),
        ("FAIL Required test coverage of 80% not reached", False),
    ],
)
def test_an_error_is_a_tests_own_if_it_names_it_or_repeats_its_message(
    error: str, is_own: bool
) -> None:
    failure = make_failure("test_a", text="AssertionError: expected 3 but got 4")
    found = recall(replace(make_run(90, "test_a"), failures=(failure,)))
    assert found
    assert found.owns(error) == is_own


def _of_request(*runs: PipelineTests) -> list[PipelineTests]:
    return [replace(each, mr_iid=5, ran_on=RanOn.REQUEST, ref="") for each in runs]


@pytest.mark.parametrize(
    ("runs", "told"),
    [
        pytest.param(
            [make_run(1, "test_a"), make_run(2), make_run(3)], "2 of the 4 runs", id="came and went"
        ),
        pytest.param([make_run(1), make_run(2)], "", id="passed before it was there"),
        pytest.param(
            [replace(make_run(1), sha=make_run(90).sha)], "1 of the 2 runs", id="on this commit"
        ),
        pytest.param([make_run(1, "test_a"), make_run(2, "test_a")], "", id="never passed"),
        pytest.param(
            [make_run(1, "test_a"), make_run(2, runs=(SuiteRun("unit", 99, 0, newest_job=20),))],
            "",
            id="a test fewer ran",
        ),
    ],
)
def test_a_changed_test_that_has_failed_and_passed_here_is_named(
    runs: list[PipelineTests], told: str
) -> None:
    own, *earlier = _of_request(make_run(90, "test_a"), *runs)
    recalled = RecalledTests((make_day(*earlier),), own, 90, 5, NOW)
    for added, is_told in (("def test_a() -> None:", bool(told)), ("def test_ab():", False)):
        said = say(recalled.find_jobs([JOB], added)[JOB.job_id])
        early = [each for each in said if "which this change adds or edits" in each]
        assert bool(early) == is_told
        assert all(told in each for each in early)
