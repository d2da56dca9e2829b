"""The verdict of a finding, once GitLab's record has been held against it."""

from dataclasses import replace

from tests.unit.core.failure.verdict_cases import PASSED_LATER, facts
from worker.core.failure.jobs import FailingJob, Group, Survey
from worker.core.failure.verdict import Verdict, make_ruling
from worker.core.finding import Finding
from worker.turns.triage import list_failed_jobs, settle_verdict

JOB = FailingJob(500, "unit-tests", excerpt="12: E   assert 3 == 4", read=True)
FLAKY = Group("k", "E   assert 3 == 4", (JOB,), ruling=make_ruling(facts(attempts=(PASSED_LATER,))))
PLAIN = Group("l", "E   other", (replace(JOB, job_id=501, name="lint"),))
BLAMED = Finding(verdict=Verdict.CHANGE, cause="a line")


def test_the_record_takes_the_models_place_and_the_rest_of_the_finding_stays() -> None:
    made = settle_verdict(BLAMED, Survey((FLAKY,)))
    assert made.verdict is Verdict.FLAKY
    assert (made.cause, made.rulings) == ("a line", (FLAKY.ruling,))
    assert made.final_verdict is not None
    assert made.final_verdict.model is Verdict.CHANGE


def test_an_error_without_a_ruling_and_jobs_that_were_not_seen_are_the_models_to_judge() -> None:
    assert settle_verdict(BLAMED, Survey((FLAKY, PLAIN))).verdict is Verdict.CHANGE
    assert settle_verdict(BLAMED, Survey((FLAKY,), whole=False)).verdict is Verdict.CHANGE


def test_a_job_of_an_error_without_a_ruling_is_a_failed_one() -> None:
    outside = Group("m", "other", (replace(JOB, job_id=502, external=True),))
    made = settle_verdict(BLAMED, Survey((FLAKY, PLAIN, outside)))
    assert [ruling.jobs for ruling in made.rulings] == [(500,), (501,), ()]


def test_without_a_record_nothing_changes() -> None:
    assert settle_verdict(BLAMED, None) == BLAMED
    assert settle_verdict(BLAMED, Survey((PLAIN,))) == BLAMED


def test_a_doubt_about_the_quotes_goes_when_the_record_decides() -> None:
    doubted = Finding(verdict=Verdict.UNKNOWN, doubt="None of its quotes could be proven.")
    assert settle_verdict(doubted, Survey((FLAKY,))).doubt == ""
    green = replace(FLAKY, ruling=make_ruling(facts()))
    assert settle_verdict(doubted, Survey((green,))).doubt == doubted.doubt


def test_a_note_without_a_finding_says_what_the_record_proves() -> None:
    (told,) = list_failed_jobs(Survey((FLAKY,)))
    assert told.reason.startswith('settled as "flaky": unit-tests failed in job 500')
