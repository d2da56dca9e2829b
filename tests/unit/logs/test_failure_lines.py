"""Which errors of a failed log a passed run prints too."""

import pytest

from worker.logs.failure_lines import FailureLines


@pytest.mark.parametrize(
    ("line", "passed", "is_usual"),
    [
        ("12: ERROR: row 5 refused after 31 ms", "ERROR: row 7 refused after 2 ms", True),
        ("ERROR: no such file: 'a.csv'", "ERROR: no such file: 'b.csv'", False),
        ("Valid: 12, Errors: 2, Skipped: 1", "Valid: 14, Errors: 0, Skipped: 1", False),
        (
            "FAILED tests/a.py::test_a[2] - assert 1",
            "FAILED tests/a.py::test_a[3] - assert 1",
            False,
        ),
        ("FAILED tests/a.py::test_a - assert 1", "FAILED tests/a.py::test_a - assert 1", True),
        ("cannot open /tmp/a1b2/x.sock: refused", "cannot open /tmp/c3d4/x.sock: refused", True),
        ("Restoring the cache", "Restoring the cache", False),
    ],
)
def test_an_error_is_usual_if_a_passed_run_has_it_with_other_numbers(
    line: str, passed: str, is_usual: bool
) -> None:
    lines = FailureLines((line, "E   KeyError: 'tide'"), ())
    usual = lines.find_usual(["$ make", passed])
    assert lines.drop_usual(usual).excerpt == lines.excerpt[is_usual:]
