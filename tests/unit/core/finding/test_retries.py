"""What advice says of a retry."""

import pytest

from worker.core.finding.retries import advises_against_retry


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
