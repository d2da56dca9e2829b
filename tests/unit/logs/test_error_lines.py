"""Which lines of a log tell of its failure, in the words of many tools."""

import pytest

from worker.logs.error_lines import select_error_lines

TELL = [
    "FAILED tests/test_pool.py::test_late - AssertionError: assert ['late']",
    "189: FAILED tests/test_pool.py::test_late - AssertionError: assert ['late']",
    "tests/test_pool.py:42: AssertionError",
    'File "/builds/team/service/app/sum.py", line 3, in total',
    "E       KeyError: 'a'",
    "ERROR: test_a (tests.test_sum.TestSum.test_a)",
    "FAIL\tgitlab.example.com/team/service/pkg/sum\t0.01s",
    "--- FAIL: TestLoad/isles (0.00s)",
    "# gitlab.example.com/team/service/pkg/sum",
    "    bundle_test.go:10: Load(x): expired",
    "src/sum.ts(12,5): error TS2322: Type",
    "FAIL src/sum.test.ts",
    " \u2715 adds (3 ms)",
    "  --> src/sum.rs:4:9",
    "[ERROR]   SumTest.adds:12 expected: <3> but was: <4>",
    "\tat com.x.Y.run(Y.java:12)",
    "SumTest > adds() FAILED",
    "Cannot find module './src/utils/sum' from 'src/app.ts'",
    "would reformat app/sum.py",
    "not ok 3 - adds",
    "make: *** [Makefile:12: test] Error 1",
    'Argument "0h" isn\'t numeric at /builds/team/service/lib/Sum.pm line 10.',
    "include/wire/frame.h:12:20: error: field has incomplete type",
]
DO_NOT = [
    "tests/test_report.py::test_summary PASSED                       [  3%]",
    "tests/test_tables_cache.py::test_second_read_is_served_from_memory ",
    "tests/test_errors.py::test_error_is_raised ",
    "[gw0] [ 12%] PASSED tests/test_sum.py::test_a",
    "tests/test_sum.py ....                                           [ 12%]",
    "app/sum.py          25      0      6      0   100%",
    " sum.py   |   85.71 |       50 |   33.33 |   85.71 | 12",
    "0.04s call     app/sum.py::test_total",
    "  /builds/team/service/app/sum.py:49: DeprecationWarning: 'fare' is ignored",
    "DEBUG    freight.pricing.quote:quote.py:23 quote SOUTH 4 kg -> 770",
    "2026-11-20 10:00:00,123 INFO app/sum.py:12 started",
    "PASS src/sum.test.ts",
    " \u2713 fails on an error (3 ms)",
    "ok 3 - src/sum.js fails on an error",
    "ok  \tgitlab.example.com/team/service/pkg/sum\t0.01s",
    "--- PASS: TestLoad (0.00s)",
    "test sum::tests::error ... ok",
    "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0 -- in com.x.SumTest",
    "Tests run: 3, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 1 s - in com.x.SumTest",
    "SumTest > fails() PASSED",
    "src/sum.c:12:5: warning: unused variable",
    "cc -Wall -c src/sum.c -o build/sum.o",
    "$ pytest tests/test_sum.py || echo failed",
    "app/sum.py: 0 errors",
]


@pytest.mark.parametrize("line", TELL)
def test_a_line_that_tells_of_a_failure_counts(line: str) -> None:
    assert select_error_lines(f"$ make test\n{line}\nbye") == line


@pytest.mark.parametrize("line", DO_NOT)
def test_a_line_that_tells_of_anything_else_does_not(line: str) -> None:
    assert select_error_lines(f"$ make test\n{line}\nbye") == ""


def test_what_pytest_and_rustc_warn_of_is_no_failure() -> None:
    pytest_warns = "=== warnings summary ===\ntests/test_a.py:3\n  x\n-- Docs: https://docs"
    assert select_error_lines(f"{pytest_warns}\nFAILED tests/test_b.py::test_c") == (
        "FAILED tests/test_b.py::test_c"
    )
    assert select_error_lines(
        "warning: unused\n --> src/sum.rs:4:9\nerror[E1]\n --> src/a.rs:1:2"
    ) == ("error[E1]\n --> src/a.rs:1:2")


def test_long_hostile_lines_are_read_in_no_time() -> None:
    for line in ("a/" * 9000, "a." * 9000 + "Error", "0 x" * 6000, " " * 18000, "-" * 18000):
        assert len(select_error_lines(line)) <= len(line)
