"""Between which commits a job broke."""

from dataclasses import replace

import pytest

from tests.unit.verdict.verdict_cases import BASE, NEW, OLD, SHA, facts, run, target
from worker.verdict.facts import CommitRange, Target, Unknown
from worker.verdict.verdict import dump_ruling, load_ruling, make_ruling

PASSED, FAILED = run(300, "success", sha="e" * 40), run(310, sha="e" * 40)


@pytest.mark.parametrize(
    ("there", "found"),
    [
        (target((NEW, "same"), (BASE, "same"), (OLD, "pass")), CommitRange(OLD, BASE, "main")),
        (target((NEW, "same"), (BASE, "pass")), CommitRange(BASE, NEW, "main")),
        (target((NEW, "same"), (BASE, "same")), None),
        (target((NEW, "same"), (BASE, "other"), (OLD, "pass")), None),
        (target((NEW, "pass"), (BASE, "same"), (OLD, "pass")), None),
        (replace(target((NEW, "same"), (OLD, "pass")), may_hide_newer_runs=True), None),
        (Unknown("not read"), None),
    ],
)
def test_the_target_branch_broke_between_its_last_pass_and_its_first_such_failure(
    there: Target | Unknown, found: CommitRange | None
) -> None:
    assert facts(target=there).find_range() == found


def test_the_merge_request_broke_since_its_last_run_if_that_passed() -> None:
    assert facts(earlier=(PASSED,)).find_range() == CommitRange("e" * 40, SHA)
    assert facts(earlier=(FAILED, PASSED)).find_range() is None
    assert facts(earlier=(replace(PASSED, sha=SHA),)).find_range() is None
    assert facts(earlier=Unknown("not read")).find_range() is None


def test_the_target_branch_comes_before_the_merge_request() -> None:
    both = facts(target=target((NEW, "same"), (OLD, "pass")), earlier=(PASSED,))
    assert both.find_range() == CommitRange(OLD, NEW, "main")


def test_a_flaky_job_did_not_break() -> None:
    flaky = facts(attempts=(run(501, "success"),), earlier=(PASSED,))
    assert make_ruling(flaky).ranges == ()


def test_ranges_are_stored() -> None:
    ruling = make_ruling(facts(earlier=(PASSED,)))
    assert ruling.ranges
    assert load_ruling(dump_ruling(ruling)) == ruling
    red = make_ruling(facts(target=target((NEW, "same"), (BASE, "same"), (OLD, "pass"))))
    assert red.target_job == 400
    assert load_ruling(dump_ruling(red)) == red
