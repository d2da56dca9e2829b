"""The key of an error: the same in every run of it, another for every other error."""

import pytest

from worker.logs.failing_command import find_last_words, find_unfinished_test
from worker.logs.normal_form import normalise_line
from worker.logs.signature import find_exact_errors, make_signature

PYTEST = """\
…
1655: tests/test_windows.py:41: in test_merge
1658: E       AssertionError: assert [] == ['23:50']
1660: FAILED tests/test_windows.py::test_merge - AssertionError: assert [] == ['23:50']
1661: ======= 1 failed, 812 passed in 12.41s =======
1662: ERROR: Job failed: exit code 1
"""


def test_times_numbers_and_places_in_the_log_do_not_change_the_key() -> None:
    later = (
        PYTEST.replace("1658:", "2044:")
        .replace("1660:", "2046:")
        .replace("12.41s", "9.02s")
        .replace(":41:", ":57:")
        .replace("812 passed", "813 passed")
    )
    assert make_signature(PYTEST.split("\n")).key == make_signature(later.split("\n")).key != ""


def test_the_lines_may_come_without_their_numbers() -> None:
    bare = [line.partition(": ")[2] for line in PYTEST.split("\n")]
    assert make_signature(bare).key == make_signature(PYTEST.split("\n")).key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "2026-11-20T09:00:01.123Z ERROR connection to 10.1.2.3:5432 refused after 30s",
            "2026-11-21 17:12:44,001 ERROR connection to 10.9.8.7:6543 refused after 31s",
        ),
        (
            "fatal: cannot read /builds/group/app/.git/objects/3f2a9c1b7d",
            "fatal: cannot read /elsewhere/app/.git/objects/88aa01ff9e",
        ),
        (
            "Error: ENOENT: no such file or directory, open '/tmp/tmpk3x_9a2/settings.json'",
            "Error: ENOENT: no such file or directory, open '/tmp/tmpq8w1z/settings.json'",
        ),
        (
            "panic: runtime error: invalid memory address, goroutine 17 [running] 0xc000123abc",
            "panic: runtime error: invalid memory address, goroutine 4 [running] 0xc0009f0001",
        ),
        (
            "request 7f9c2ba4-e88f-11ea-adc1-0242ac120002 failed with HTTP 500",
            "request 01234567-89ab-4def-8123-456789abcdef failed with HTTP 500",
        ),
        (
            "13:41:20.961 [ledger-actor.default-dispatcher-5] ERROR Posting - the store is full",
            "14:02:03.112 [ledger-actor.default-dispatcher-17] ERROR Posting - the store is full",
        ),
        (
            "error: builder for '/nix/store/b7c8v4kq1zx2n5m9b7c8v4kq1zx2n5m9-vm-test.drv' failed",
            "error: builder for '/nix/store/hj3822rygn3asfa5a24kya74bqwlslvl-vm-test.drv' failed",
        ),
        (
            "\x1b[31;1mError: build of module core failed\x1b[0m",
            "Error: build of module core failed",
        ),
    ],
)
def test_the_same_error_of_another_run_has_the_same_form(one: str, other: str) -> None:
    assert normalise_line(one) == normalise_line(other)
    assert make_signature([one]).key == make_signature([other]).key != ""


def test_each_row_about_a_browser_test_has_the_same_key() -> None:
    test = "[chromium] › e2e/login.spec.ts:9:7 › login › keeps me"
    rows = (f"  ✘  16 {test} (30.1s)", f"✘ 4 {test} (retry #1) (9ms)", f"  2) {test} ──────", test)
    assert len({make_signature([each]).key for each in rows}) == 1
    assert make_signature(rows).others == ()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("E   KeyError: 'user'", "E   KeyError: 'group'"),
        ("FAILED tests/a.py::test_x - assert", "FAILED tests/b.py::test_x - assert"),
        ("error TS2304: Cannot find name 'x'.", "error TS2345: Cannot find name 'x'."),
        ("ERROR: registry answered HTTP 404 for it", "ERROR: registry answered HTTP 429 for it"),
        ("cc: error: utils/a.c: undefined", "cc: error: utils/b.c: undefined"),
        (
            "12:30:45 [db-1] ERROR: connection refused",
            "12:30:45 [cache-1] ERROR: connection refused",
        ),
        ("____ test_alpha ____\nE   KeyError: 'tide'", "____ test_beta ____\nE   KeyError: 'tide'"),
    ],
)
def test_different_errors_have_different_keys(one: str, other: str) -> None:
    assert make_signature(one.split("\n")).key != make_signature(other.split("\n")).key


def test_lines_that_any_failure_has_tell_nothing() -> None:
    mere = [
        "…",
        "1: ERROR: Job failed: exit code 1",
        "2: make: *** [Makefile:12: test] Error 2",
        "3: Cleaning up project directory and file based variables",
        "4: 3 failed, 12 passed in 1.2s",
        "5: ===== FAILURES =====",
        "6: npm ERR! code ELIFECYCLE",
        "7: make: Target 'all' not remade because of errors.",
        "8: make[2]: Target 'tools' not remade because of errors.",
    ]
    assert make_signature(mere).key == ""
    assert make_signature([]).key == ""


@pytest.mark.parametrize(
    "line",
    [
        "✖ 7 problems (2 errors, 5 warnings)",
        "Tests: 1 failed, 3 skipped, 12 passed",
        "27 tests completed, 1 failed, 2 skipped",
    ],
)
def test_a_line_that_only_counts_tells_nothing(line: str) -> None:
    assert make_signature([line]).key == ""


@pytest.mark.parametrize(
    "line",
    [
        "✕ skips (3 ms)",
        "● Todo › pending",
        "FAILED tests/test_todo.py::test_done",
        "--- FAIL: TestSkip",
    ],
)
def test_a_failed_test_may_be_named_like_a_count(line: str) -> None:
    assert make_signature([line]).key != ""


def test_a_colon_in_a_tests_name_is_no_message() -> None:
    lines = ["5: ● cart : adds an item", "6: ● cart : removes an item"]
    assert make_signature(lines).others == ("● cart : removes an item",)


def test_the_text_is_the_most_telling_line_as_it_stands() -> None:
    assert make_signature(PYTEST.split("\n")).text.startswith(("E  ", "E Assert", "FAILED tests/"))


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (
            [
                "29: include/frame.h:12:20: error: field ‘kind’ has incomplete type",
                "41: src/frame.c:6:10: error: ‘DATA’ undeclared (first use); did you mean ‘MAX’?",
                "71: make: *** [Makefile:12: build/frame.o] Error 1",
                "86: make: Target 'all' not remade because of errors.",
            ],
            "include/frame.h:12:20: error: field ‘kind’ has incomplete type",
        ),
        (
            [
                "19: F401 [*] `json` imported but unused",
                "20:  --> labels/batch.py:2:8",
                "33: UP035 [*] Import from `collections.abc` instead: `Iterable`",
                "68: Found 3 errors.",
            ],
            "F401 [*] `json` imported but unused",
        ),
        (
            [
                '21: Argument "0h05" isn\'t numeric in addition (+) at lib/Duration.pm line 10.',
                "23: #   Failed test '0h05'",
                "25: #          got: '0'",
                "26: #     expected: '5'",
                "31: not ok 2 - 0h05",
            ],
            'not ok 2 - 0h05: Argument "0h05" isn\'t numeric in addition (+) at lib/Duration.pm'
            " line 10.",
        ),
        (
            ["25: #          got: '0'", "26: #     expected: '5'", "31: not ok 2 - five minutes"],
            "not ok 2 - five minutes: got: '0', expected: '5'",
        ),
        (
            ["9: not ok 1 - adds up", "10:   ---", "11:   error: 'Expected 4, got 3'"],
            "not ok 1 - adds up: error: 'Expected 4, got 3'",
        ),
    ],
    ids=["compiler", "ruff", "perl", "TAP", "node"],
)
def test_the_text_is_the_error_that_explains(lines: list[str], text: str) -> None:
    assert make_signature(lines).text == text


def test_a_failed_test_is_not_explained_by_the_next_one() -> None:
    bare, other = "9: FAILED tests/test_b.py::test_load", "10: FAILED tests/test_b.py::test_sum"
    assert make_signature([bare, other]).text == "FAILED tests/test_b.py::test_load"
    assert make_signature([bare, "…", "it is late"]).text == "FAILED tests/test_b.py::test_load"
    said = make_signature([bare, f"{other} - it is late"])
    assert said.text == "FAILED tests/test_b.py::test_sum - it is late"
    assert said.others == ("tests/test_b.py::test_load",)
    package = ["9: --- FAIL: TestA (0.00s)", "10: FAIL", "11: FAIL\texample.com/ferry/dock\t0.01s"]
    assert make_signature(package).text == "--- FAIL: TestA (0.00s)"
    parts = ["9: --- FAIL: TestA (0.00s)", "10:     --- FAIL: TestA/b (0.00s)"]
    assert make_signature(parts).text.endswith("TestA/b (0.00s)")


TWO_TESTS = [
    '21: Argument "23h20" isn\'t numeric in addition (+) at lib/Duration.pm line 10.',
    "22: not ok 280 - 23h15",
    '23: Argument "23h25" isn\'t numeric in addition (+) at lib/Duration.pm line 10.',
    "24: #   Failed test '23h20'",
    "25: #   at t/10-duration.t line 22.",
    "26: #          got: '1380'",
    "27: not ok 281 - 23h20",
    "…",
    "40: curl: (22) The requested URL returned error: 503",
]


def test_a_failed_test_is_not_explained_by_its_neighbours_messages() -> None:
    lines = [
        *("1: #   Failed test '23h15'", "2: #          got: '1380'", "3: #     expected: '1395'"),
        *TWO_TESTS,
    ]
    assert make_signature(lines).text == "not ok 280 - 23h15: got: '1380', expected: '1395'"
    made = make_signature(TWO_TESTS[2:])
    assert made.text == (
        'not ok 281 - 23h20: Argument "23h25" isn\'t numeric in addition (+) at lib/Duration.pm'
        " line 10."
    )
    silent = make_signature(["1: not ok 279 - 23h10", "…", *TWO_TESTS[2:]])
    assert silent.text == made.text
    assert silent.others[1] == "not ok 279 - 23h10"


@pytest.mark.parametrize(
    ("lines", "others"),
    [
        (
            [
                "9: FAILED tests/test_a.py::test_hostile - assert 'a - b' == 'c'",
                "10: FAILED tests/test_b.py::test_links[ x] - AssertionError: assert 1 == 2",
                "11: FAILED tests/test_b.py::test_other",
            ],
            ("tests/test_b.py::test_links[ x]", "tests/test_b.py::test_other"),
        ),
        (TWO_TESTS, ("curl: (22) The requested URL returned error: 503", "not ok 280 - 23h15")),
        (
            ["5:     ✕ adds two (3 ms)", "6:     ✕ takes two (2 ms)", "9:   ● sums › adds two"],
            ("✕ takes two",),
        ),
        (["7: --- FAIL: TestLoad (0.00s)", "8:     --- FAIL: TestLoad/isles (0.00s)"],
         ("TestLoad/isles",)),
        (["1: not ok 1 - five minutes", "2: not ok 2 - six minutes"], ("not ok 2 - six minutes",)),
        (["7: curl: (22) The requested URL returned error: 503"], ()),
        (["7: E   AssertionError: assert 1 == 2"], ()),
    ],
    ids=["pytest", "TAP", "jest", "go", "bare TAP", "no test", "one error"],
)  # fmt: skip
def test_every_failed_test_is_named_once(lines: list[str], others: tuple[str, ...]) -> None:
    assert make_signature(lines).others == others


def test_a_hostile_line_costs_no_more_than_its_first_part() -> None:
    for line in ("/a" * 50_000, "a1" * 50_000, "error: " + "0:" * 50_000, "/tmp/" * 20_000):
        assert len(normalise_line(line)) <= 800


@pytest.mark.parametrize(
    ("line", "part", "instead", "same"),
    [
        ("E   assert 211 == 213", "211", "209", False),
        ("FAILED tests/test_a.py::test_x[3] - assert 0", "[3]", "[5]", False),
        ("src/tax.c:41:5: error: unknown type name 'money'", "41:5", "38:7", True),
        ("--- FAIL: TestSum (0.35s)", "0.35s", "1.20s", True),
        ("E   TimeoutError: no answer in 30.2 s", "30.2", "31", True),
        ("E   OSError: /tmp/tmpa1b2c3/out is gone", "tmpa1b2c3", "tmpx9y8z7", True),
        ("src/app.ts(12,5): error TS2345: Argument of type 'A'", "12", "14", True),
        ("src/app.ts(12,5): error TS2345: Argument of type 'A'", "2345", "2322", False),
        ("E   KeyError: 'a' at 2026-11-20 10:00:00", "20 10:00", "21 11:30", True),
    ],
)
def test_two_runs_have_the_very_same_error(line: str, part: str, instead: str, same: bool) -> None:
    found = find_exact_errors([line])
    assert found
    assert (found.keys() == find_exact_errors([line.replace(part, instead)]).keys()) is same
    assert set(found.values()) == {line}


@pytest.mark.parametrize(
    "line",
    [
        "tests/test_pool.py::test_an_error_does_not_end_a_worker PASSED [ 35%]",
        "tests/test_pool.py::test_error[a b - failed] PASSED",
        "[gw1] [ 35%] PASSED tests/test_pool.py::test_an_error_is_raised",
        "PASSED tests/test_pool.py::test_fatal_error - error: x",
        "--- PASS: TestFatalError (0.00s)",
        "=== RUN   TestError/fatal:_cannot_open",
        "ok  \texample.com/ferry/internal/errors\t0.012s",
        "ok  \texample.com/ferry/internal/errors\t(cached)",
        "\u2713 error: cannot open is told (3 ms)",
        "\u2714 fails with Error: boom (3 ms)",
        "PASS src/errors.test.ts",
        "test errors::fatal_error_is_raised ... ok",
        " 3/12 Test  #3: fatal_error_cannot_open ..........   Passed    0.02 sec",
        "[       OK ] Errors.FatalErrorCannotOpen (0 ms)",
        "[ RUN      ] Errors.FatalErrorCannotOpen",
        "ok 3 - error: cannot open",
        "ErrorsTest > fatal error cannot open() PASSED",
        "Passed Ferry.ErrorTests.Fatal_error_cannot_open [3 ms]",
        "Passed Ferry.ErrorTests.Fatal_error_cannot_open(x: 1) [< 1 ms]",
        "[185:0x76c5fd0] 45206 ms: Mark-Compact 2034.1 (2090.7) -> 2031.6 (2091.9) MB, 912.20 / "
        "0.00 ms (average mu = 0.108, current mu = 0.024) allocation failure; scavenge might not "
        "succeed",
        "=ERROR REPORT==== 26-Nov-2026::19:52:44.690741 ===",
    ],
)
def test_a_line_that_tells_of_no_failure_is_no_error(line: str) -> None:
    assert make_signature([f"9: {line}"]).key == ""
    assert find_exact_errors([line]) == {}


@pytest.mark.parametrize(
    "line",
    [
        "FAILED tests/test_a.py::test_b - AssertionError: expected FAILED but was PASSED",
        "--- FAIL: TestPassed (0.00s)",
        "not ok 3 - it passed",
        "[  FAILED  ] Errors.IsOk (0 ms): error: it is not ok",
        "test errors::dock_is_ok ... FAILED",
        "Passed arguments: Error: cannot find module 'x'",
        "PASSED: fatal error: foo.h: No such file or directory",
        "Passed value is bad: ValueError: invalid literal",
        "PASSED TypeError: cannot read properties of undefined",
    ],
)
def test_an_error_that_speaks_of_passing_is_an_error(line: str) -> None:
    assert make_signature([line]).key != ""


@pytest.mark.parametrize(
    ("lines", "test"),
    [
        (["a/test_x.py::test_a PASSED  [ 5%]", "a/test_x.py::test_b ", "--- live log call ---",
          "WARNING  monitor 20 jobs wait"], "a/test_x.py::test_b"),
        (["a/test_x.py::test_a ", "hello", "PASSED   [ 5%]", "a/test_x.py::test_b "],
         "a/test_x.py::test_b"),
        (["a/test_x.py::test_a ", "a/test_x.py::test_b ", "[gw1] [ 5%] PASSED a/test_x.py::test_b"],
         "a/test_x.py::test_a"),
        (["=== RUN   TestA", "--- PASS: TestA (0.00s)", "=== RUN   TestB", "=== RUN   TestB/c"],
         "TestB/c"),
        (["test a::b ... ok", "test a::c has been running for over 60 seconds"], "a::c"),
        (["[ RUN      ] A.b", "[       OK ] A.b (0 ms)", "[ RUN      ] A.c"], "A.c"),
        (["test_a (tests.test_x.X.test_a) ... ok", "test_b (tests.test_x.X.test_b) ... "],
         "test_b (tests.test_x.X.test_b)"),
        (["[INFO] Running com.x.ATest", "[INFO] Tests run: 3, Failures: 0 -- in com.x.ATest",
          "[INFO] Running com.x.BTest"], "com.x.BTest"),
        (["ATest > a() STARTED", "ATest > a() PASSED", "ATest > b() STARTED"], "ATest > b()"),
        (["      Start  3: dock", " 3/9 Test  #3: dock ...   Passed 0.02 sec", "    Start  4: ebb"],
         "ebb"),
        (["a/test_x.py::test_a PASSED  [ 5%]", "$ sleep 9999"], ""),
        ([f"a/test_x.py::test_{number}" for number in range(99)], ""),
    ],
    ids=["pytest", "live", "xdist", "go", "cargo", "gtest", "unittest", "maven", "gradle", "ctest",
         "none", "list"],
)  # fmt: skip
def test_the_test_that_a_time_limit_ended_is_found(lines: list[str], test: str) -> None:
    assert find_unfinished_test(lines) == test


@pytest.mark.parametrize(
    ("one", "again"),
    [
        ("thread 'tests::ebb' (22034) panicked at src/lib.rs:9:5:",
         "thread 'tests::ebb' (171) panicked at src/lib.rs:9:5:"),
        ("thread 'tests::ebb' (22034) panicked at src/lib.rs:9:5:",
         "thread 'tests::ebb' panicked at src/lib.rs:9:5:"),
        ("==311==ERROR: AddressSanitizer: heap-use-after-free on address 0x602000000010",
         "==27==ERROR: AddressSanitizer: heap-use-after-free on address 0x603000000a40"),
        ("E1124 15:30:43.123456 22034 ferry.cc:10] Error: cannot dock",
         "E1125 06:11:02.000931 310 ferry.cc:10] Error: cannot dock"),
        ("(node:4711) Error: Cannot find module 'tide'",
         "(node:62) Error: Cannot find module 'tide'"),
        ("Error: process #PID<0.217.0> has exited", "Error: process #PID<0.98.0> has exited"),
        ("run.sh: line 3: 12345 Segmentation fault (core dumped) ./ferry: error",
         "run.sh: line 3: 88 Segmentation fault (core dumped) ./ferry: error"),
        ("E   TimeoutError: worker (pid=4242) did not answer",
         "E   TimeoutError: worker (pid=77) did not answer"),
        ("E   OSError: cannot bind to port: 40123", "E   OSError: cannot bind to port: 51877"),
        ("Error: listen EADDRINUSE: address already in use :::40123",
         "Error: listen EADDRINUSE: address already in use :::38011"),
        ("Error: connect ECONNREFUSED 127.0.0.1:40101",
         "Error: connect ECONNREFUSED 127.0.0.1:38011"),
        ("E   RuntimeError: cannot join <Thread(Thread-3 (run), started daemon 140213998)>",
         "E   RuntimeError: cannot join <Thread(Thread-12 (run), started daemon 139622011)>"),
        ("panic: it failed in goroutine 17 [running]", "panic: it failed in goroutine 4 [running]"),
        ("java.lang.IllegalStateException: closed: com.x.Ferry@1b2c3d",
         "java.lang.IllegalStateException: closed: com.x.Ferry@7f01a"),
        ("E   TypeError: <Ferry object at 0x7f4c25294380> is closed",
         "E   TypeError: <Ferry object at 0x7f9911a3c010> is closed"),
        ("E   FileNotFoundError: '/tmp/pytest-of-root/pytest-3/test_a0/x.db'",
         "E   FileNotFoundError: '/tmp/pytest-of-root/pytest-41/test_a0/x.db'"),
        ("Error: open /tmp/TestDock2117401/001/x.db: no such file",
         "Error: open /tmp/TestDock99120/001/x.db: no such file"),
        ("--- FAIL: TestDock (0.35s): Error: no answer after 1m2.5s",
         "--- FAIL: TestDock (1.20s): Error: no answer after 1m3s"),
        ("Error: seed: 120331 fails", "Error: seed: 7 fails"),
        ("/usr/bin/bash: line 171:    83 Killed        ./gradlew --no-daemon build",
         "/usr/bin/bash: line 171:  1284 Killed        ./gradlew --no-daemon build"),
        ("1) CartTest::testTotal", "12) CartTest::testTotal"),
        ("Failed Ferry.TideTests.High(x: 1) [< 1 ms]", "Failed Ferry.TideTests.High(x: 1) [12 ms]"),
        ("✕ should dock (5 ms)", "✕ should dock (1203 ms)"),
        ("Error: 10.0.0.7:5432 cannot be reached", "Error: 10.0.4.9:5432 cannot be reached"),
        ("E   assert <Ferry object at 0x7f4c25294380> is None",
         "E   assert <Ferry object at 0x7f9911a3c010> is None"),
        ("[ERROR] a.TideTest.shouldDock  Time elapsed: 0.002 s  <<< FAILURE!",
         "[ERROR] a.TideTest.shouldDock  Time elapsed: 1.9 s  <<< FAILURE!"),
        ("/scripts-501-500014/step_script: line 203:    68 Killed  pytest -v",
         "/scripts-501-500013/step_script: line 203:   112 Killed  pytest -v"),
        ("59/66 Test #59: RegistryTest.Resets .........***Failed    0.52 sec",
         "61/62 Test #61: RegistryTest.Resets .........***Failed   12.03 sec"),
        ("** Reason for termination ==\n** {badmatch,26-Nov-2026::19:52:44.690741,error}",
         "** Reason for termination ==\n** {badmatch,21-Nov-2026::20:54:44.926243,error}"),
        ("ERROR: 3 errors and 2 warnings in the ferry's plan",
         "ERROR: 4 errors and 1 warnings in the ferry's plan"),
    ],
)  # fmt: skip
def test_ids_ports_and_times_of_a_run_are_no_part_of_its_errors(one: str, again: str) -> None:
    assert find_exact_errors([one]).keys() == find_exact_errors([again]).keys() != set()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("E   assert port('a') == 8080", "E   assert port('a') == 8081"),
        ("E   KeyError: 'tide@5'", "E   KeyError: 'tide@6'"),
        ("E   ValueError: 12 killed", "E   ValueError: 13 killed"),
        ("E   assert '1.2.3' == '1.2.4'", "E   assert '1.2.3' == '1.2.5'"),
        ("E   AssertionError: expected process 2, got process 3",
         "E   AssertionError: expected process 2, got process 4"),
        ("E   AssertionError: expected process 20000, got process 30000",
         "E   AssertionError: expected process 20000, got process 40000"),
        ("E   assert port=80", "E   assert port=443"),
        ("E   assert port=18080", "E   assert port=18443"),
        ("Error: cannot bind to port=80", "Error: cannot bind to port=443"),
        ("E   assert seed=1", "E   assert seed=2"),
        ("Error: thread-1 waits for thread-2", "Error: thread-1 waits for thread-3"),
        ("E   assert timeout == 1m30s", "E   assert timeout == 5m30s"),
        ("Error: pkg@12345 not found", "Error: pkg@54321 not found"),
        ("E   assert Ferry@1b2c3d is None", "E   assert Ferry@7f01a is None"),
        ("E   assert x==5==y", "E   assert x==6==y"),
        ("curl: (22) The requested URL returned error: 404",
         "curl: (22) The requested URL returned error: 503"),
        ("E   KeyError: 7", "E   KeyError: 8"),
        ("E   assert 0x1f == 0x20", "E   assert 0x1e == 0x20"),
        ("E   assert 412ms < 300ms", "E   assert 301ms < 300ms"),
        ("E   assert '10:30' == '11:00'", "E   assert '10:45' == '11:00'"),
        ("E   assert '2026-11-20' == '2026-11-21'", "E   assert '2026-11-25' == '2026-11-21'"),
        ("E   assert '10.0.0.1' == '10.0.0.2'", "E   assert '10.0.0.3' == '10.0.0.2'"),
        ("E   assert 'a1b2c3d4e5' == ''", "E   assert 'a1b2c3d4e6' == ''"),
        ("E   assert (1,2) == (3,4)", "E   assert (1,5) == (3,4)"),
        ("E   AssertionError: expected 3 files, got 2 tests",
         "E   AssertionError: expected 3 files, got 7 tests"),
        ("ERROR: coverage 89.95% is below 90%", "ERROR: coverage 88.10% is below 90%"),
        ("dial tcp 10.0.0.7:6379: connect: connection refused",
         "dial tcp 10.0.0.7:5432: connect: connection refused"),
        ("ERROR: connect to redis:6379 refused", "ERROR: connect to redis:6380 refused"),
        ("ERROR: GET http://api:8080/health failed", "ERROR: GET http://api:9090/health failed"),
        ("ERROR: psql: server at \"db\", port 5432 refused",
         "ERROR: psql: server at \"db\", port 6432 refused"),
        ("ERROR: image team/ferry:17 not found", "ERROR: image team/ferry:18 not found"),
        ("ERROR: tide==1.2.3.4 not found", "ERROR: tide==1.2.3.5 not found"),
        ("ERROR: migration 42 failed", "ERROR: migration 43 failed"),
    ],
)  # fmt: skip
def test_values_are_a_part_of_an_error(one: str, other: str) -> None:
    assert find_exact_errors([one]).keys() != find_exact_errors([other]).keys()


def test_the_last_words_of_a_script_say_where_it_hung() -> None:
    runners = ["WARNING: step_script could not run to completion because the timeout was exceeded",
               "ERROR: Job failed: execution took longer than 1h0m0s seconds"]  # fmt: skip
    said = ["$ pytest", "tests/test_a.py::test_sync", "waiting for the lock after 3000 s"]
    again = ["$ pytest", "tests/test_a.py::test_sync", "waiting for the lock after 2990 s"]
    other = ["$ pytest", "tests/test_a.py::test_mail", "waiting for the lock after 3000 s"]
    where = find_last_words([*said, *runners])
    assert where.keys() == find_last_words([*again, "", *runners]).keys()
    assert where.keys() != find_last_words([*other, *runners]).keys()
    assert "at the end: waiting for the lock after 3000 s" in where.values()
    assert find_last_words(["$ make", "$ pytest", *runners]) == find_last_words(runners) == {}
    prepared = ["Checking out 1c10088a as detached HEAD (ref is main)...",
                'Executing "step_script" stage of the job script']  # fmt: skip
    assert find_last_words([*prepared, *said, *runners]) == where
    assert find_last_words([*prepared, "$ make unit", *runners]) == {}
