"""A failure's block stays together, and what tools add to any failure gives way to it."""

import pytest

from tests.unit.core.logs.test_excerpt import FAILURES, calm, log, texts
from worker.core.logs import trace
from worker.core.logs.excerpt import marks


@pytest.mark.parametrize("limit", [1_024, 4_096])
def test_no_line_is_left_out_alone(limit: int) -> None:
    """The mark of its gap would say less, and cost nearly as much."""
    block = [line for n in range(40) for line in (f"error: part {n:x} is lost", f"  at shelf {n}")]
    shown = trace.preview_log(log(*calm(900), *block, *calm(90, seed=3)), limit)
    places = [int(line.partition(":")[0]) for line in shown.split("\n") if line != "…"]
    alone = [at for at in places if at + 2 in places and at + 1 not in places]
    assert len(places) > 10
    assert len(alone) <= 1


def test_what_explains_a_failure_is_kept_twenty_lines_below_its_head() -> None:
    steps = [f"   part {n} of the cart" for n in range(22)]
    cleaned = log(*calm(900), "the cart failed:", *steps, "   shelf 7 holds 3", *calm(900, seed=2))
    assert "   shelf 7 holds 3" in texts(trace.preview_log(cleaned, 4_096))


ASIDES = {
    "maven": [
        "[ERROR] -> [Help 1]",
        "[ERROR] To see the full stack trace of the errors, re-run Maven with the -e switch.",
        "[ERROR] Re-run Maven using the -X switch to enable full debug logging.",
        "[ERROR] For more information about the errors and possible solutions, read the articles:",
        "[ERROR] [Help 1] http://cwiki.apache.org/confluence/display/MAVEN/MojoFailureException",
    ],
    "npm": [
        "npm ERR! This is probably not a problem with npm. There is likely more above.",
        "npm ERR! A complete log of this run can be found in:",
        "npm ERR!     /root/.npm/_logs/2025-03-01T10_00_00_000Z-debug.log",
    ],
    "configure": [
        "-- Performing Test HAVE_OFF64_T - Failed",
        "_configtest.c:1:24: fatal error: sys/endian.h: No such file or directory",
        "/builds/a/build/CMakeFiles/CMakeTmp/src.c:3:1: error: unknown type name 'off64_t'",
    ],
}


@pytest.mark.parametrize("asides", ASIDES.values(), ids=ASIDES)
def test_a_failure_comes_before_what_any_error_of_a_tool_ends_with(asides: list[str]) -> None:
    failures = [line for failure in FAILURES.values() for line in failure]
    cleaned = log(*calm(900), *asides * 4, *failures, *asides, "make: *** [test] Error 1")
    shown = texts(trace.preview_log(cleaned, 1_024))
    assert [line for line in shown if line in asides] == []


@pytest.mark.parametrize("before", ["#12 34.56 ", "[12:34:56] ", "web-1  | ", "##[error]"])
def test_what_a_tool_puts_before_each_line_hides_no_failure(before: str) -> None:
    for line in (
        "Traceback (most recent call last):",
        "CMake Error at CMakeLists.txt:9 (find_package):",
        "--- FAIL: TestTotal (0.00s)",
    ):
        assert {"opens", "fault"} & marks.marks(line) <= marks.marks(before + line)
        assert "opens" in marks.marks(before + line)
