"""What advice says of a retry."""

import pytest

from worker.answer.parse import advises_against_retry, advises_retry


@pytest.mark.parametrize(
    ("advice", "against"),
    [
        ("Give the tests a fixed clock. A retry does not help.", True),
        ("Don't retry: it fails each day from 26 November on.", True),
        ("Set a later date; re-running won't help.", True),
        ("Retry the job.", False),
        ("Retry the job. If a retry does not help, tell whoever keeps the runners.", False),
        ("Retry the job; it does not depend on this change.", False),
        ("Wait for the port. The job does not need a retry.", False),
        ("Use it:\n```\n# a retry does not help\n```", False),
        ("", False),
    ],
)
def test_only_a_plain_statement_counts(advice: str, against: bool) -> None:
    assert advises_against_retry(advice) is against


@pytest.mark.parametrize(
    ("advice", "retries"),
    [
        ("Retry the job; if it fails again, ask the owners of ledger.", True),
        ("**Please re-run** the pipeline.", True),
        ("Simply restart it, it is flaky.", True),
        ("Retry the job once main is mended.", False),
        ("Retry with a fixed clock.", False),
        ("Retry does not help; mend line 3.", False),
        ("Mend line 3 on main, then retry the job.", False),
        ("Ask the owners of ledger. Retry the job.", False),
        ("", False),
    ],
)
def test_advice_that_begins_with_a_retry_is_told_from_one_that_ends_with_it(
    advice: str, retries: bool
) -> None:
    assert advises_retry(advice) is retries
