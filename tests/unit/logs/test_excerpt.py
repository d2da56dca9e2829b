"""The excerpt of a failed job's log holds the lines that explain the failure."""

import random
import re
import time
import tracemalloc
from collections.abc import Iterator

import pytest

from worker.logs import line_marks, trace
from worker.logs.ecosystems import CLOSES, OPENS
from worker.logs.excerpt import preview_log, preview_trace, scan

FAILURES = {
    "pytest": [
        "=================== FAILURES ===================",
        "__________________ test_total __________________",
        "    def test_total():",
        ">       assert total([1, 2]) == 4",
        "E       assert 3 == 4",
        "tests/test_total.py:7: AssertionError",
    ],
    "jest": [
        "  ● cart › adds up",
        "    expect(received).toBe(expected)",
        "    Expected: 4",
        "    Received: 3",
        "      at Object.<anonymous> (src/cart.test.js:9:20)",
    ],
    "maven": [
        "[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 0 <<< FAILURE! - in a.CartTest",
        "[ERROR] a.CartTest.addsUp  Time elapsed: 0.01 s  <<< FAILURE!",
        "java.lang.AssertionError: expected:<4> but was:<3>",
    ],
    "gradle": [
        "* What went wrong:",
        "Execution failed for task ':compileJava'.",
        "> Could not resolve all files for configuration ':compileClasspath'.",
    ],
    "go": [
        "--- FAIL: TestTotal (0.00s)",
        "    total_test.go:12: got 3, want 4",
    ],
    "cargo": [
        "error[E0308]: mismatched types",
        "  --> src/lib.rs:4:9",
        "   |         ^^^^ expected `u8`, found `&str`",
    ],
    "cmake": [
        "CMake Error at CMakeLists.txt:9 (find_package):",
        '  Could not find a package configuration file provided by "Sums"',
    ],
    "rspec": [
        "Failures:",
        "  1) Cart adds up",
        "     Failure/Error: expect(cart.total).to eq 4",
        "       expected: 4",
        "            got: 3",
    ],
    "phpunit": [
        "There was 1 failure:",
        "1) CartTest::testAddsUp",
        "Failed asserting that 3 matches expected 4.",
    ],
    "ExUnit": [
        "  1) test adds up (CartTest)",
        "     test/cart_test.exs:5",
        "     Assertion with == failed",
    ],
    "ScalaTest": [
        "[info] - adds up *** FAILED ***",
        "[info]   3 did not equal 4 (CartSpec.scala:9)",
    ],
    "GHC": [
        "src/Cart.hs:7:12: error:",
        "    • Couldn't match expected type ‘Int’ with actual type ‘[Char]’",
    ],
    "TeX": ["! Undefined control sequence.", "l.41 \\totl"],
    "xcodebuild": [
        "/src/CartTests.swift:9: error: -[CartTests testAddsUp] : XCTAssertEqual failed"
    ],
    "MSBuild": ["Cart.cs(7,9): error CS0103: The name 'totl' does not exist [/src/Cart.csproj]"],
    "TAP": ["not ok 3 - adds up", "#   Failed test 'adds up'", "#          got: '3'"],
    "Docker": ['ERROR: failed to solve: process "/bin/sh -c make" did not complete: exit code: 2'],
    "clojure.test": ["FAIL in (adds-up) (cart_test.clj:7)", "expected: (= 4 (total [1 2]))"],
}


def calm(count: int, seed: int = 1) -> list[str]:
    """Lines of a build in which all goes well; no two are the same."""
    seeded = random.Random(seed)
    words = ["reads", "writes", "links", "checks", "copies", "packs", "moves", "sorts"]
    return [
        f"step {number}: {seeded.choice(words)} part_{seeded.randrange(10**6)} in {number} ms"
        for number in range(count)
    ]


def log(*lines: str) -> bytes:
    return "\n".join([*lines, ""]).encode()


def texts(shown: str) -> list[str]:
    return [line.partition(": ")[2] for line in shown.split("\n")]


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("after", [5, 1_500])
def test_a_failure_is_shown_whole_however_much_follows(failure: list[str], after: int) -> None:
    cleaned = log(*calm(3_000), *failure, *calm(after, seed=2))
    assert [line for line in failure if line not in texts(preview_log(cleaned))] == []


def test_every_mark_has_a_weight() -> None:
    assert line_marks.sum_marks(line_marks.WEIGHTS)


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_all_marks_are_known(failure: list[str]) -> None:
    for line in failure:
        assert line_marks.find_marks(line) <= set(line_marks.WEIGHTS)


def test_the_formats_can_be_joined_and_each_stands_there_once() -> None:
    assert [form for form in OPENS + CLOSES if re.compile(form).groups] == []
    assert len(set(OPENS)) + len(set(CLOSES)) == len(OPENS) + len(CLOSES)


def test_what_a_green_run_says_too_gives_way_to_what_is_new() -> None:
    noise = [f"ERROR: probe of {name} failed: connection refused" for name in "abcdefgh"] * 20
    before, after = calm(1_000, seed=3), calm(1_000, seed=4)
    passed = log(*before, *noise, *after)
    failed = log(*before[:500], "the totals are off by 2", *before[500:], *noise, *after)
    assert "the totals are off by 2" not in texts(preview_log(failed, 1_000))
    assert "the totals are off by 2" in texts(preview_trace([failed], 1_000, [passed]))


def test_a_log_of_blanks_is_a_gap() -> None:
    assert preview_log(b" \n" * 5_000) == "…"


def test_times_hashes_and_counts_are_not_new() -> None:
    def run(stamp: str, sha: str, count: int) -> list[str]:
        return [
            f"error log of {stamp}: commit {sha} in /tmp/build-{sha}/src has {count} notes #{part}"
            for part in range(300)
        ]

    passed = log(*run("10:01:02", "0fa4c1d", 12))
    failed = log(*run("11:31:59", "9be01aa", 7), "cannot link cart", *calm(200))
    shown = texts(preview_trace([failed], 700, [passed]))
    assert "cannot link cart" in shown
    assert not any("error log" in line for line in shown)


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    yield from (data[at : at + size] for at in range(0, len(data), size))


@pytest.mark.parametrize("size", [1_000, 4_096, 1 << 20])
def test_a_log_in_pieces_gives_the_same_excerpt(size: int) -> None:
    raw = log(*calm(30_000), *FAILURES["pytest"], *calm(4_000, seed=5))
    assert preview_trace(pieces(raw, size)) == preview_log(trace.clean_trace(raw))


@pytest.mark.parametrize("size", [7, 100, 5_000])
def test_a_trace_in_pieces_is_cleaned_as_a_whole_one(size: int) -> None:
    stamp = "2025-03-01T10:00:00.000001Z 01O"
    lines = [f"{stamp} \x1b[31mpart {number}\x1b[0m of" for number in range(30_000)]
    raw = f"\n{stamp}+ 30000\n".join(lines).encode()
    raw += b"\n" + f"{stamp} section_start:1:a\r\x1b[0Khead\n".encode()
    if size < 100:
        raw = raw[-20_000:]
        raw = raw[raw.find(b"\n2025") + 1 :]
    assert b"".join(trace.clean_pieces(pieces(raw, size))) == trace.clean_trace(raw)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_log() -> None:
    def peak(count: int) -> int:
        part = log(*calm(8_000), *FAILURES["go"])
        tracemalloc.start()
        preview_trace(part for _ in range(count))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert peak(24) < 1.5 * peak(8)


def test_a_hostile_log_takes_linear_time() -> None:
    hostile = [
        b"error: " + b"_" * 8_000 + b"\n",
        b"error " + b"- " * 4_000 + b"\n",
        b"fail " + b"a/" * 4_000 + b"\n",
        b" " * 8_000 + b"error\n",
        b"=" * 150 + b"error " * 25 + b"\n",
        b" " * 290 + b"^~ error\n",
        b"error " + b"\xe2\x97\x8f" * 2_600 + b"\n",
    ]
    started = time.process_time()
    for number, line in enumerate(hostile):
        preview_log(b"".join(line[:-1] + b"%d %d\n" % (number, at) for at in range(1_000)))
    assert time.process_time() - started < 20


def test_every_word_of_trouble_is_found_also_within_others_and_far_into_a_log() -> None:
    words = [word for word, _ in scan.STEMS]
    lines = [f"part {chr(97 + at % 26) * (at // 26 + 1)} of it" for at in range(9_000)]
    for at, word in enumerate(words):
        lines[at * 100] = f"{word.decode()} here {at}"
    log = "\n".join(lines) + "\n"
    pass_over = scan.Scan()
    pass_over.feed(log.encode())
    assert set(range(0, 100 * len(words), 100)) <= set(pass_over.make_result().hits)


RUNNER = [
    "Running with gitlab-runner 17.4.0 (b92ee590)",
    'Preparing the "docker" executor',
    "Starting service postgres:16 ...",
    "*** WARNING: Service runner-t3st-project-7-concurrent-0-abc-postgres-0 probably didn't start"
    " properly.",
    "Health check error:",
    'service "runner-t3st-project-7-concurrent-0-abc-postgres-0-wait-for-service" timeout',
    "Health check container logs:",
    "2025-03-01T10:00:01.000000000Z waiting for TCP connection to 172.17.0.2 on [5432]...",
    "Service container logs:",
    "2025-03-01T10:00:02.000000000Z Database is uninitialized and superuser password is not set",
    "*********",
    'Executing "step_script" stage of the job script',
    "$ make test",
]


@pytest.mark.parametrize("limit", [1_024, 4_096])
def test_what_the_runner_could_not_start_is_shown_beside_the_failure(limit: int) -> None:
    failed = ["psycopg2.OperationalError: could not connect to server", "make: *** [test] Error 1"]
    shown = texts(preview_log(log(*RUNNER, *calm(3_000), *FAILURES["pytest"], *failed), limit))
    assert RUNNER[3] in shown
    assert RUNNER[4] in shown
    assert RUNNER[9].partition(" ")[2] in shown
    assert failed[0] in shown


@pytest.mark.parametrize("limit", [1_024, 4_096])
def test_why_a_service_did_not_start_is_shown_in_its_own_words(limit: int) -> None:
    said = [
        "2025-03-01T10:00:02.000000000Z ERROR: Elasticsearch did not exit normally, check its log",
        "2025-03-01T10:00:02.100000000Z bootstrap check failure [1] of [1]: max virtual memory "
        "areas vm.max_map_count [65530] is too low, increase to at least [262144]; for more "
        "information see [https://www.elastic.co/docs/deploy-manage/deploy/self-managed/checks]",
    ]
    runner = [*RUNNER[:9], *said, *RUNNER[10:]]
    failed = ["ConnectionError: getaddrinfo ENOTFOUND elasticsearch", "Tests:  2 failed, 2 total"]
    many = [line for kind in ("jest", "pytest") for line in FAILURES[kind]]
    shown = texts(preview_log(log(*runner, *calm(90), *many, *failed), limit))
    assert any("vm.max_map_count [65530] is too low" in line for line in shown)
    assert failed[0] in shown


@pytest.mark.parametrize("before", [60, 700, 2_300, 7_000])
def test_an_exception_far_into_a_long_line_is_shown(before: int) -> None:
    line = "x" + " y" * (before // 2) + " TypeError: cart is not a function" + " z" * 300
    shown = preview_log(log(*calm(2_000), line, *calm(400, seed=2)), 1_024)
    assert "TypeError: cart is not a function" in shown


def test_a_line_that_begins_with_a_long_path_keeps_the_file_and_line_of_its_error() -> None:
    file = "/builds/shop/cart" + "/vendor/parts" * 9 + "/lib/net/protocol.rb:46"
    line = f"{file}:in `connect': returned=1 peer=10.1.2.3:443 state=error: unexpected eof"
    shown = preview_log(log(*calm(2_000), line, *calm(400, seed=2)), 1_024)
    assert "[cut] " in shown
    assert "/protocol.rb:46:in `connect'" in shown


@pytest.mark.parametrize("middle", [30, 400, 5_000])
@pytest.mark.parametrize(
    "end",
    [
        "a.framework: errSecInternalComponent",
        "libcart.a(cart.o): undefined reference to `sum'",
        "part.cs(3,9): error CS1002: expected ;",
    ],
)
def test_a_shortened_line_keeps_its_end_and_says_so(middle: int, end: str) -> None:
    line = "error: the parts do not fit together" + " and again" * middle + f" {end}"
    shown = texts(preview_log(log(*calm(2_000), line), 1_024))
    head, _, tail = next(text for text in shown if text.startswith("error: ")).partition(" [cut] ")
    assert line.startswith(head)
    assert tail
    assert line.endswith(tail)
    assert end.rpartition(": ")[2] in tail


@pytest.mark.parametrize("count", [20, 9_000])
def test_of_a_passed_job_the_end_is_shown(count: int) -> None:
    run = [*calm(count), "3 passed", "Cleaning up project directory and file based variables"]
    shown = preview_log(log('Executing "step_script" stage of the job script', *run, PASSED))
    lines = [line for line in shown.split("\n") if line != "…"]
    assert [line.partition(": ")[2] for line in lines] == [run[-3], "3 passed", PASSED]


PASSED = "Job succeeded"

GOES_WELL = (
    "=== RUN   TestPart{n}",
    "--- PASS: TestPart{n} (0.00s)",
    "ok      example.org/cart/part{n}  0.01s",
    "2025-03-01 10:00:00 DEBUG  part {n} asserts that the error is None",
    "TRACE part {n}: request failed over to none",
    "  ✓ part {n} does not fail",
    "[INFO] Downloading from central: https://repo.example.org/error{n}.jar",
    " {n}% of the failed parts fetched",
    "    fails on part {n} if it must:           OK",
    "    fails on part {n} if it must: OK (0.03s)",
)


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("kind", GOES_WELL)
def test_what_goes_well_is_at_most_a_tenth_of_what_is_shown(failure: list[str], kind: str) -> None:
    well = [kind.format(n=number) for number in range(600)]
    shown = texts(preview_log(log(*calm(50), *well, *failure, *well[:20])))
    assert set(failure) <= set(shown)
    assert sum(text in well for text in shown) <= len(shown) / 10


TALLIES = (
    "=========== 3 failed, 120 passed, 2 skipped in 3.20s ===========",
    "FAILED (failures=1, errors=2)",
    "FAIL\texample.org/cart\t0.012s",
    "Tests:       1 failed, 20 passed, 21 total",
    " Test Files  1 failed | 3 passed (4)",
    "  3 failing",
    "# fail 2",
    "[ERROR] Tests run: 20, Failures: 1, Errors: 0, Skipped: 0",
    "12 tests completed, 1 failed",
    "test result: FAILED. 11 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out",
    "Tests: 189, Assertions: 291, Failures: 1, Skipped: 3.",
    "12 examples, 1 failure",
    "5 runs, 7 assertions, 1 failures, 0 errors, 0 skips",
    "Failed!  - Failed:     1, Passed:     3, Skipped:     0, Total:     4",
    " 1 FAILED TEST",
    "50% tests passed, 1 tests failed out of 2",
    "3 doctests, 5 tests, 1 failure",
    "*** 2 TESTS FAILED ***",
    "[info] Tests: succeeded 30, failed 2, canceled 0, ignored 0, pending 0",
)


@pytest.mark.parametrize("tally", TALLIES)
@pytest.mark.parametrize("limit", [1_024, 4_096])
def test_the_count_of_failed_tests_is_always_shown(tally: str, limit: int) -> None:
    failures = [
        line for n in range(60) for line in (*FAILURES["pytest"], f"E  AssertionError: {n}")
    ]
    shown = texts(preview_log(log(*calm(900), *failures, tally, *calm(300, seed=5)), limit))
    assert tally in shown


@pytest.mark.parametrize("before", [0, 2_300])
def test_an_exception_that_repeats_is_shown_beside_one_that_is_seen_once(before: int) -> None:
    repeated = "x " * (before // 2) + "TypeError: cart.total is not a function"
    many = [line for n in range(40) for line in (*calm(30, seed=n), repeated)]
    once = "ReferenceError: the shelf is not defined"
    shown = preview_log(log(*calm(200), once, *many, *calm(400, seed=99)), 1_024)
    assert "TypeError: cart.total is not a function" in shown


@pytest.mark.parametrize(
    "line",
    [
        "NameError: name 'DEBUG' is not defined",
        "[3/9] error: the crate is not there",
        " 50% tests passed, 1 tests failed out of 2",
    ],
)
def test_a_failure_that_looks_like_progress_is_shown(line: str) -> None:
    assert line in texts(preview_log(log(*calm(900), line, *calm(300, seed=5)), 1_024))
