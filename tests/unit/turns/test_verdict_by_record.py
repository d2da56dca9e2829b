"""The verdict of a finding, once GitLab's record has been held against it."""

from dataclasses import replace

import pytest

from tests.unit.verdict.verdict_cases import PASSED_LATER, facts
from worker.answer.failed_jobs import list_with_reasons
from worker.turns.report import mark_view, settle_verdict
from worker.verdict.facts import LastPass
from worker.verdict.finding import Evidence, Finding, JobLog
from worker.verdict.jobs import FailingJob, Group, RuleMatch, Survey
from worker.verdict.proofs import make_ruling
from worker.verdict.verdict import Verdict

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
    (told,) = list_with_reasons(Survey((FLAKY,)))
    assert told.reason.startswith('settled as "flaky": unit-tests failed in job 500')


NETWORK = Evidence(JobLog(501), 7, "curl: (7) Failed to connect to mirror port 443")
KILLED = Evidence(JobLog(501), 7, "run.sh: line 183: 57 Killed python -m tiles")
PLAINLY = Evidence(JobLog(501), 7, "E   assert 3 == 4")
ALONE = replace(PLAIN, ruling=make_ruling(facts()))
DRIFTED = LastPass(PASSED_LATER, ("ruff 1.0 → 1.1",))
RULED = RuleMatch("mirror-away", Verdict.INFRASTRUCTURE, "away", "Retry.", certain=False)
F, N = Verdict.FLAKY, Verdict.INFRASTRUCTURE


@pytest.mark.parametrize(
    ("verdict", "group", "quote", "is_view"),
    [
        (F, PLAIN, PLAINLY, True),
        (F, ALONE, PLAINLY, True),
        (N, ALONE, PLAINLY, True),
        (N, ALONE, KILLED, True),
        (F, ALONE, NETWORK, True),
        (N, ALONE, replace(NETWORK, lacks="it is only context"), True),
        (F, replace(ALONE, rule_match=RULED), PLAINLY, True),
        (F, replace(PLAIN, ruling=make_ruling(facts(last_pass=DRIFTED))), PLAINLY, True),
        (Verdict.CHANGE, ALONE, PLAINLY, False),
        (Verdict.UNKNOWN, ALONE, PLAINLY, False),
        (F, FLAKY, PLAINLY, False),
        (N, ALONE, NETWORK, False),
        (N, replace(ALONE, rule_match=RULED), PLAINLY, False),
        (N, replace(PLAIN, ruling=make_ruling(facts(last_pass=DRIFTED))), PLAINLY, False),
        (N, replace(PLAIN, jobs=(replace(JOB, reason="runner_system_failure"),)), PLAINLY, False),
    ],
)
def test_a_cause_from_outside_that_nothing_speaks_for_is_the_models_view(
    verdict: Verdict, group: Group, quote: Evidence, is_view: bool
) -> None:
    found = Finding(verdict, evidence=(quote,))
    assert mark_view(found, Survey((group,))).is_view is is_view


def test_without_a_record_a_cause_from_outside_is_the_models_view() -> None:
    assert mark_view(Finding(F), None).is_view
