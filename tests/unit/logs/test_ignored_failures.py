"""A test that passed when it was tried again, or an ignored task, is no failure of the job."""

import pytest

from worker.logs.error_lines import find_ignored
from worker.logs.failure_lines import read_failure_lines
from worker.logs.signature import make_signature

BAZEL = """\
(13:38:51) ERROR: /builds/mono/pricing/BUILD.bazel:3:11: Compiling pricing/curve.cc failed: (Exit 1)
pricing/curve.cc:3:10: fatal error: base/join.h: No such file or directory
(13:39:06) FAIL: //ingest:consumer_test (attempt 1 of 3) (see /root/.cache/test.log)
(13:39:06) INFO: From Testing //ingest:consumer_test:
==================== Test output for //ingest:consumer_test:
ingest/consumer_test.cc:88: Failure
[  FAILED  ] Consumer.Rebalances (2004 ms)
================================================================================
(13:39:07) [1,701 / 2,311] Testing //ingest:reader_test; 1s linux-sandbox
//ingest:consumer_test                         FLAKY, failed in 1 out of 2 in 2.1s
//pricing:curve_test                           FAILED TO BUILD
"""

PLAYWRIGHT = """\
  ✘  1 [chromium] › e2e/cart.spec.ts:4:7 › cart › adds a row (30.1s)
[WebServer] "GET /api/cart" 500
  ✓  2 [chromium] › e2e/cart.spec.ts:4:7 › cart › adds a row (retry #1) (1.2s)
  ✘  3 [chromium] › e2e/login.spec.ts:9:7 › login › keeps me (30.0s)
  ✘  4 [chromium] › e2e/login.spec.ts:9:7 › login › keeps me (retry #1) (30.0s)
  1) [chromium] › e2e/cart.spec.ts:4:7 › cart › adds a row ───────────────
    Error: the cart is empty
  2) [chromium] › e2e/login.spec.ts:9:7 › login › keeps me ───────────────
    Error: the page is blank
  1 failed
    [chromium] › e2e/login.spec.ts:9:7 › login › keeps me ───────────────
  1 flaky
    [chromium] › e2e/cart.spec.ts:4:7 › cart › adds a row ───────────────
  40 passed (1.7m)
"""

LOGIN = "login.spec.ts:9:7 › login › keeps me"

NEXTEST = """\
        PASS [   0.004s] shop-core tests::adds
  TRY 1 FAIL [   0.312s] shop-core net::reconnects
--- TRY 1 STDERR:        shop-core net::reconnects ---
thread 'net::reconnects' panicked at src/net.rs:40:9: no answer
  TRY 2 PASS [   0.101s] shop-core net::reconnects
        FAIL [   0.020s] shop-core tests::sums
--- STDERR:              shop-core tests::sums ---
thread 'tests::sums' panicked at src/sum.rs:12:9: 3 is not 4
------------
   FLAKY 2/3 [   0.101s] shop-core net::reconnects
"""

SUREFIRE = """\
[ERROR] com.acme.PoolTest.waits -- Time elapsed: 0.3 s <<< FAILURE!
java.lang.AssertionError: the pool is empty
[ERROR] com.acme.SumTest.adds -- Time elapsed: 0.1 s <<< FAILURE!
java.lang.AssertionError: 3 is not 4
[INFO] Results:
[WARNING] Flakes:
[WARNING] com.acme.PoolTest.waits
[ERROR]   Run 1: PoolTest.waits:12 the pool is empty
[INFO]   Run 2: PASS
[INFO]
[ERROR] Tests run: 31, Failures: 1, Errors: 0, Skipped: 0, Flakes: 1
"""
ANSIBLE = """\
TASK [edge : Look whether the old proxy runs] ****
fatal: [debian12]: FAILED! => {
    "msg": "non-zero return code",
}
...ignoring
TASK [edge : Start] ****
fatal: [debian12]: FAILED! => {
    "msg": "Could not find the requested service nginx: host",
}
PLAY RECAP ****
"""


@pytest.mark.parametrize(
    ("log", "retried", "error"),
    [
        (BAZEL, {3, 4, 5, 6, 7, 10}, "pricing/curve.cc:3:10: fatal error: base/join.h"),
        (PLAYWRIGHT, {1, 6, 7, 13}, "login › keeps me: Error: the page is blank"),
        (NEXTEST, {2, 3, 4, 10}, "thread 'tests::sums' panicked"),
        (ANSIBLE, {2, 3, 4, 5}, "fatal: [debian12]: FAILED! => {"),
        (SUREFIRE, {1, 2, 7, 8, 9}, "com.acme.SumTest.adds -- Time elapsed: 0.1 s"),
    ],
    ids=["bazel", "playwright", "nextest", "ansible", "surefire"],
)
def test_its_lines_are_left_out(log: str, retried: set[int], error: str) -> None:
    assert find_ignored(log.encode()) == retried
    numbered = "\n".join(f"{at}: {line}" for at, line in enumerate(log.split("\n"), 1))
    text = read_failure_lines(log.encode(), numbered).write_text()
    assert error in make_signature(text.split("\n")).text


def test_a_test_that_fails_each_time_stays() -> None:
    assert find_ignored(PLAYWRIGHT.replace("1 flaky", "2 failed").encode()) == set()
    assert find_ignored(NEXTEST.partition("   FLAKY")[0].encode()) == set()
    assert find_ignored(b"") == set()


@pytest.mark.parametrize(
    "log",
    [
        PLAYWRIGHT.replace(
            "cart.spec.ts:4:7 › cart › adds a row", "login.spec.ts:9:7 › login › keeps me"
        ),
        BAZEL + "//ingest:consumer_test    FAILED in 3 out of 3 in 2.1s\n",
        NEXTEST + "        FAIL [   0.020s] shop-core net::reconnects\n",
        PLAYWRIGHT + "Error: 1 flaky test, and --fail-on-flaky-tests\n",
        "[INFO] failOnFlakeCount is 1\n" + SUREFIRE,
    ],
    ids=["failed too", "failed in another run", "failed at last", "flaky fails", "flakes fail"],
)
def test_one_that_failed_for_good_as_well_is_not_ignored(log: str) -> None:
    assert find_ignored(log.encode()) == set()


def test_what_comes_after_it_is_not_ignored() -> None:
    after = "$ ./deploy.sh\nError: the token has expired\nERROR: Job failed: exit code 1\n"
    log = BAZEL.replace("=" * 80 + "\n", "").replace("(13:39:07) [1,701", "[1,701") + after
    lines = log.split("\n")
    assert lines.index("Error: the token has expired") + 1 not in find_ignored(log.encode())


def test_where_nothing_else_failed_it_is_the_failure() -> None:
    only = (
        PLAYWRIGHT.partition("  ✘  3")[0] + "  1 flaky\n" + PLAYWRIGHT.partition("  1 flaky\n")[2]
    )
    assert find_ignored(only.encode())
    numbered = "\n".join(f"{at}: {line}" for at, line in enumerate(only.split("\n"), 1))
    text = read_failure_lines(only.encode(), numbered).write_text()
    assert "cart › adds a row" in make_signature(text.split("\n")).text


def test_a_key_does_not_depend_on_which_details_of_a_listed_test_are_shown() -> None:
    summary = "ERROR tests/test_sum.py::test_sum - KeyError: 'tide'"
    heading = "______ ERROR at setup of test_sum ______"
    assert make_signature([heading, "…", summary]).key == make_signature([summary]).key


def test_a_key_covers_failed_tests_that_the_excerpt_leaves_out() -> None:
    tests = [f"FAILED tests/test_sum.py::test_{at} - KeyError: 'tide'" for at in range(141)]

    def read(shown: int, of: list[str]) -> str:
        excerpt = f"{shown + 1}: {of[shown]}\n…"
        text = read_failure_lines("\n".join(of).encode(), excerpt).write_text()
        return make_signature(text.split("\n")).key

    assert read(3, tests) == read(90, tests)
    assert read(3, tests) != read(3, tests[:-1])
    only = "ERROR: the disk is full"
    assert read_failure_lines(f"{only}\n{tests[0]}".encode(), f"1: {only}").write_text() == (
        f"1: {only}"
    )
