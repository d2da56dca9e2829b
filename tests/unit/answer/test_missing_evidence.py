"""An answer that abstains says what is missing and what would keep it next time."""

import json

import pytest

from tests.contexts import called, context
from worker.answer.parse import USUAL, fill_missing_evidence, select_untold
from worker.conversation.messages import ToolResult, User
from worker.verdict.finding import Finding
from worker.verdict.verdict import Verdict

ABSTAINS = Finding(Verdict.ABSTAIN)


def after(**content: object) -> Finding:
    told = ToolResult("a", "gitlab_get_artifact", json.dumps(content))
    return fill_missing_evidence(ABSTAINS, context(User("event"), *called("a"), told))


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("404 (they expired at 2026-11-01)", "expire_in"),
        ("404 (it has kept none, or they were deleted)", "`artifacts: when: always`"),
        ("job 7 (lint) has no artifacts", "`artifacts: when: always`"),
        ("the log of job 7 (lint) was erased", "erase"),
        ("GitLab said 403 Forbidden", "read_api"),
        ("GitLab has no log for job 7 (failed)", "log"),
        ("the moon was full", USUAL),
    ],
)
def test_what_was_not_available_is_named_with_its_cure(reason: str, advice: str) -> None:
    found = after(unavailable=reason)
    assert found.missing_evidence == reason
    assert advice in found.next_time


def test_what_a_document_lacked_counts_too() -> None:
    missing = "no job of this pipeline has uploaded a test report that is still kept"
    found = after(results=[{"result": "x"}, {"missing": missing}])
    assert found.missing_evidence == missing
    assert "reports: junit" in found.next_time


def test_what_the_model_says_itself_stands_and_gets_the_cure_that_fits_it() -> None:
    said = Finding(Verdict.ABSTAIN, missing_evidence="the log was erased", next_time="keep it")
    assert fill_missing_evidence(said, context()) == said
    found = fill_missing_evidence(
        Finding(Verdict.ABSTAIN, missing_evidence="the log was erased"), context()
    )
    assert "erase" in found.next_time


def test_other_verdicts_are_left_alone() -> None:
    assert fill_missing_evidence(Finding(Verdict.FLAKY), context()) == Finding(Verdict.FLAKY)


def test_results_that_are_no_json_say_nothing() -> None:
    odd = ToolResult("a", "look", 'x "missing"')
    assert (
        fill_missing_evidence(ABSTAINS, context(User("event"), *called("a"), odd)).missing_evidence
        == ""
    )


def test_a_number_is_no_refusal() -> None:
    assert after(unavailable="the log of job 40312: it took too long").next_time == USUAL


def test_what_the_finding_says_is_missing_is_not_said_once_more() -> None:
    found = Finding(Verdict.ABSTAIN, missing_evidence="the log of job 7 was erased; and more")
    lines = ("gitlab_get_job_log: the log of job 7 was erased", "konflux: off")
    assert list(select_untold(lines, found)) == ["konflux: off"]
    assert list(select_untold(lines, None)) == list(lines)


def test_results_of_another_shape_say_nothing() -> None:
    for content in ('["unavailable"]', '{"results": [7, {"unavailable": 7}]}', '{"unavailable"'):
        odd = ToolResult("a", "look", content)
        assert (
            fill_missing_evidence(
                ABSTAINS, context(User("event"), *called("a"), odd)
            ).missing_evidence
            == ""
        )
