"""Which tests have failed, by a log's lines."""

import time

import pytest

from worker.logs.failed_tests import MOST, list_failed_tests, select_failures


@pytest.mark.parametrize(
    ("line", "test"),
    [
        ("FAILED tests/test_a.py::test_b[x y] - assert 1 == 2", "tests/test_a.py::test_b[x y]"),
        ("FAILED tests/test_a.py::test_b", "tests/test_a.py::test_b"),
        ("ERROR tests/test_a.py::test_b - OSError: full", "tests/test_a.py::test_b"),
        ("FAILED tests/test_a.py::test_b[1 - 2] - assert [1] - y",
         "tests/test_a.py::test_b[1 - 2]"),
        ("FAILED tests/test_a.py::test_b[1] - assert x[1] - y", "tests/test_a.py::test_b[1]"),
        ("FAIL: test_b (tests.test_a.A.test_b)", "test_b (tests.test_a.A.test_b)"),
        ("[ERROR] com.x.ATest.b -- Time elapsed: 0.03 s <<< FAILURE!", "com.x.ATest.b"),
        ("ATest > b() FAILED", "ATest > b()"),
        ("rspec ./spec/a_spec.rb:12 # A b", "./spec/a_spec.rb:12"),
    ],
    ids=["parameters", "pytest", "error", "dash", "bracket", "unittest", "maven", "gradle",
         "rspec"],
)  # fmt: skip
def test_a_failed_test_is_listed_once(line: str, test: str) -> None:
    assert list_failed_tests([line, "hello", line]) == (test,)


@pytest.mark.parametrize(
    "line",
    [
        "[ERROR] Tests run: 6, Failures: 1, Errors: 0, Time elapsed: 0.1 s <<< FAILURE! -- in x.A",
        "tests/test_a.py::test_b PASSED [ 5%]",
        "ERROR: Job failed: exit code 1",
        "1 failed, 3 passed",
    ],
)
def test_what_names_no_failed_test_is_not_listed(line: str) -> None:
    assert list_failed_tests([line]) == ()


@pytest.mark.parametrize(
    "line",
    [
        "--- FAIL: TestOther (0.1s)",
        "FAIL src/x.test.js",
        "test sum::adds ... FAILED",
        "not ok 3 - adds",
        "[  FAILED  ] Sum.Adds (0 ms)",
        "\u2715 adds (3 ms)",
        "FAIL: test_b (tests.test_a.A.test_b) (n=1)",
        "ERROR: test_b (tests.test_a.A.test_b) [of n]",
        "FAILED docs/sum.rst::sum.rst",
        "FAILED my tests/test_a.py::test_c",
    ],
)
def test_none_is_listed_if_any_test_is_named_in_another_way(line: str) -> None:
    assert list_failed_tests(["FAILED tests/test_a.py::test_b - x", line]) == ()


def test_hostile_lines_are_read_in_no_time() -> None:
    for line in ("FAILED " + "a.py::" * 49 + "a" * 680, "[ERROR]   " + "a" * 9 + ".aaa" * 200):
        started = time.process_time()
        assert list_failed_tests([line] * 4000) == ()
        assert time.process_time() - started < 1


def test_too_many_tests_are_not_counted() -> None:
    assert list_failed_tests(f"FAILED a.py::test_{at}" for at in range(MOST + 1)) == ()


COUNTED: dict[str, tuple[set[str], int]] = {
    "a test of pytest's beside its details": (
        {"E KeyError: 'vat'", "FAILED tests/a.py::test_a - KeyError: 'vat'"}, 1,
    ),
    "tests of Go's with their messages": (
        {"--- FAIL: TestA (<n>)", "--- FAIL: TestA (<n>): a_test.go<place>: got 1", "panic: x",
         "--- FAIL: TestB (<n>)"}, 2,
    ),
    "a test of RSpec's, which is named in three ways": (
        {"<n>) Cart totals", "Failure/Error: expect(cart.total).to eq(42)",
         "Failure/Error: expect(cart.total).to eq(42): got: 41", "rspec ./a_spec.rb<place> # Cart"},
        1,
    ),
    "a test of Rust's": (
        {"---- cart::total stdout ----", "test cart::total ... FAILED",
         "thread 'cart::total' panicked at src/cart.rs<place>:"}, 1,
    ),
    "errors of a compiler": (
        {"src/a.c<place>: error: 'x' undeclared", "src/b.c<place>: error: 'y' undeclared",
         "collect2: error: ld returned 1 exit status"}, 2,
    ),
    "lines that may all tell of one failure": (
        {"StandardError: all later migrations canceled:", "PG::DiskFull: ERROR: no space left"}, 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("errors", "count"), COUNTED.values(), ids=COUNTED)
def test_as_many_failures_are_counted_as_a_person_would_count(errors: set[str], count: int) -> None:
    assert len(select_failures(errors)) == count
