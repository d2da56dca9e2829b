"""What is known of the single tests that failed in a job, by the ledger and a report or a log."""

from dataclasses import replace

import pytest

from tests.unit.ledger.made import BEGIN, HOUR, make_day, make_failure, make_run
from worker.ledger.record import DayRecord, PipelineTests, SuiteRun
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
