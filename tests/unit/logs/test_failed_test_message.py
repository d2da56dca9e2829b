"""Two failures of one test are one failure only if the lines below the test's name say the same."""

from collections.abc import Callable, Sequence

import pytest

from worker.logs.failed_tests import MOST_TESTS, find_messages
from worker.logs.line_kinds import strip_line


def _go(said: str, line: int = 14) -> list[str]:
    return [f"--- FAIL: TestSum (0.{line}s)", f"    sum_test.go:{line}: {said}", "FAIL"]


def _cargo(said: str, line: int = 14) -> list[str]:
    return ["---- tide::sum stdout ----",
            f"thread 'tide::sum' (8{line}) panicked at a.rs:{line}:9:", said,
            "note: run with `RUST_BACKTRACE=1`"]  # fmt: skip


def _jest(said: str, line: int = 14) -> list[str]:
    return ["  ● tide › sum", "", "    expect(received).toBe(expected)", "", "    Expected: 3",
            f"    Received: {said}",
            f"      at Object.<anonymous> (tide.test.ts:{line}:21)"]  # fmt: skip


def _maven(said: str, line: int = 14) -> list[str]:
    return [f"[ERROR] a.TideTest.sum  Time elapsed: 0.{line} s  <<< FAILURE!", said,
            f"\tat a.TideTest.sum(TideTest.java:{line})", "[INFO] ",
            "[ERROR] Failures: "]  # fmt: skip


def _gradle(said: str, line: int = 14) -> list[str]:
    return ["TideTest > sum() FAILED", f"    {said} at TideTest.java:{line}", "",
            f"{line} tests completed, 1 failed"]  # fmt: skip


def _testdox(said: str, line: int = 14) -> list[str]:
    return [" ✘ Sum", "   ┐", f"   ├ {said}", "   │", f"   ╵ /builds/a/tide/SumTest.php:{line}"]


def _phpunit(said: str, line: int = 14) -> list[str]:
    return [f"{line}) SumTest::testSum", said, "", f"/builds/a/tide/SumTest.php:{line}", ""]


def _dotnet(said: str, line: int = 14) -> list[str]:
    return [f"[xUnit.net 00:00:00.{line}]     A.TideTests.Sum [FAIL]",
            f"[xUnit.net 00:00:00.{line}]       {said}", "Stack Trace:"]  # fmt: skip


def _rspec(said: str, line: int = 14) -> list[str]:
    return ["     Failure/Error: expect(tide.sum).to eq(3)", "", f"       {said}",
            f"     # ./spec/tide_spec.rb:{line}:in `block'"]  # fmt: skip


TOOLS = (_go, _cargo, _jest, _maven, _gradle, _testdox, _phpunit, _dotnet, _rspec)


def _find(lines: Sequence[str]) -> set[str]:
    return set(find_messages(map(strip_line, lines), lines))


@pytest.mark.parametrize("write", TOOLS)
def test_another_message_is_another_failure(write: Callable[..., list[str]]) -> None:
    one, again, other = write("low tide"), write("low tide", 57), write("no dock")
    assert _find(one)
    assert _find(one) == _find(again)
    assert not _find(one) & _find(other)


@pytest.mark.parametrize(
    "lines",
    [
        ["✕ adds (5 ms)", "✓ takes (3 ms)", "✓ sums (9 ms)"],
        ["--- FAIL: TestLoad (0.00s)", "    --- FAIL: TestLoad/isles (0.00s)", "FAIL"],
        ["FAILED a/test_a.py::test_b", "==== 1 failed in 0.3s ===="],
        ["FAILED a/test_a.py::test_b - KeyError: 'tide'", "FAILED a/test_a.py::test_c"],
        ["rspec ./spec/tide_spec.rb:12 # Tide sums", "Finished in 2 seconds"],
        ["not ok 3 - sums", "ok 4 - adds"],
    ],
)
def test_the_next_result_is_no_message(lines: list[str]) -> None:
    assert _find(lines) == set()


def test_only_the_first_lines_and_those_with_values_are_a_message() -> None:
    noise = [f"    listening on {number}" for number in (4, 5, 6)]
    lines = ["--- FAIL: TestSum (0.1s)", "    low tide", "    no dock", *noise, "    want: 3"]
    assert _find(lines) == {"--- FAIL: TestSum (<n>): low tide; no dock; want: 3"}


def test_a_message_is_given_in_the_logs_own_words() -> None:
    lines = _go("low tide")
    said = find_messages(lines, lines)
    assert [*said.values()] == ["--- FAIL: TestSum (0.14s): sum_test.go:14: low tide"]


def test_a_log_of_very_many_tests_is_read_in_bounds() -> None:
    names = [f"--- FAIL: Test{number} (0.1s)" for number in range(3 * MOST_TESTS)]
    lines = [line for name in names for line in (name, "  low tide " + "x" * 9000)]
    found = find_messages(names, lines)
    assert len(found) == MOST_TESTS
    assert max(map(len, found)) < 900
    late = ["--- FAIL: TestNone (0.1s)"] * 100_000 + _go("low tide")
    assert _find(late) == set()


def test_the_message_of_a_browser_test_is_in_its_block() -> None:
    test = "[chromium] › e2e/login.spec.ts:9:7 › login › keeps me"
    rows = [f"  ✘  4 {test} (30.0s)", '[WebServer] "GET /api/session" 200 17 - 4 ms']
    block = [f"  1) {test} ──────", "    Error: the page is blank", "      at login.spec.ts:9:7"]
    (told,) = find_messages([test], [*rows, *block]).values()
    assert told == f"{test}: Error: the page is blank"
    assert find_messages([test], rows) == {}
