"""What the signature says of a failure: why it failed, in the words of the tool that knows."""

import pytest

from worker.logs.signature import find_errors, find_exact_errors, make_signature

TESTDOX = """\
ERROR: ledger.csv:3: FAILED to parse ';'
Receipt
 \u2718 Cash is rounded in sweden
   \u2510
   \u251c TypeError: Money::round(): Argument #2 ($step) must be of type int, array given
   \u2502
   \u2575 /builds/kassa/receipts/src/Money.php:6
   \u2534
 \u2718 Ends with the footer
   \u2510
   \u251c Failed asserting that two strings are identical.
   \u250a ---\u00b7Expected
   \u2534
Tests: 14, Assertions: 12, Errors: 1, Failures: 1.
"""
PHPUNIT = """\
ERROR: ledger.csv:3: FAILED to parse ';'
FATAL [terminal T3] payment of 2500 failed, giving up
There were 2 errors:

1) Kassa\\Tests\\ReceiptTest::testCash with data set "se" (1, 100)
TypeError: Money::round(): Argument #2 ($step) must be of type int, array given

2) Kassa\\Tests\\ReceiptTest::testFooter
Failed asserting that two strings are identical.

ERRORS!
Tests: 14, Assertions: 12, Errors: 2.
"""
EXUNIT = """\
  1) test quotes one piece to DE (Parcel.RouterTest)
     test/parcel/router_test.exs:7
     Assertion with == failed
     code:  assert Router.quote(%{country: "DE"}) == {:ok, 890}
     left:  {:error, :unknown_zone}
     right: {:ok, 890}
     stacktrace:
       test/parcel/router_test.exs:9: (test)
"""
RAISED = """\
  2) test weighs (Parcel.RouterTest)
     test/parcel/router_test.exs:17
     ** (KeyError) key :grams not found in: %{}
     code: Router.weigh(%{})
"""
XUNIT = """\
[xUnit.net 00:00:00.20]     Ferry.TideTests.High(x: 1) [FAIL]
[xUnit.net 00:00:00.20]       System.TypeLoadException : Tide is broken.
  Failed Ferry.TideTests.High(x: 1) [12 ms]
  Error Message:
   System.TypeLoadException : Tide is broken.
"""
NUNIT = """\
  Failed High [12 ms]
  Error Message:
   System.TypeLoadException : Tide is broken.
"""
CLONE = """\
Cloning into '/builds/sonde/firmware/vendor/data'...
remote: Enumerating objects: 5, done.
remote: Authentication by CI/CD job token not allowed from sonde/firmware to sonde/data.
fatal: unable to access 'https://gitlab.example.org/sonde/data.git/': error: 403
Failed to clone 'vendor/data' a second time, aborting
"""
HELM = (
    'Error: looks like "https://charts.corp.example" is not a valid chart repository or cannot be '
    'reached: Get "https://charts.corp.example/index.yaml": tls: failed to verify certificate: '
    "x509: certificate has expired or is not yet valid: current time 2026-11-20T09:02:40Z is after "
    "2026-11-19T23:59:59Z"
)
ESLINT = """\
Oops! Something went wrong! :(
ESLint: 10.15.0
ESLint couldn't find an eslint.config.* file.
From ESLint v9.0.0, the default configuration file is now eslint.config.*.
"""
BAZEL = """\
(13:38:51) ERROR: /builds/mono/pricing/BUILD.bazel:3:11: Compiling pricing/curve.cc failed: (Exit 1)
pricing/curve.cc:3:10: fatal error: base/join.h: No such file or directory
(13:39:38) ERROR: Build did NOT complete successfully
//pricing:curve_test   FAILED TO BUILD
"""
ANDROID = """\
> Task :app:lintRelease FAILED
Lint found 2 errors, 4 warnings. First failure:
/builds/app/src/main/res/values/strings.xml:5: Error: "share" is not translated in "de" [Missing]
    <string name="share">Share this trip</string>
FAILURE: Build failed with an exception.
> Lint found errors in the project; aborting build.
"""
PLAYWRIGHT = """\
  ✘  4 [chromium] › e2e/login.spec.ts:9:7 › login › keeps me (30.0s)
[WebServer] "GET /api/session" 200
  1) [chromium] › e2e/login.spec.ts:9:7 › login › keeps me ───────────────
    Error: the page is blank
  1 failed
    [chromium] › e2e/login.spec.ts:9:7 › login › keeps me ───────────────
"""
FLUTTER = """\
00:11 +7: /builds/app/test/links_test.dart: opens a broken link (5)
══╡ EXCEPTION CAUGHT BY FLUTTER TEST FRAMEWORK ╞════════════════════
00:13 +8 -1: /builds/app/test/banner_test.dart: shows the last sync [E]
00:14 +9 -1: /builds/app/test/links_test.dart: keeps a broken link (6)
00:15 +9 -1: Some tests failed.
"""
PHPSTAN = """\
 ------ -------------------------------------------
  Line   src/Import/Importer.php
 ------ -------------------------------------------
  12     Method App\\Import\\Importer::rows() has no
         value type.
         🪪  missingType.iterableValue
  :40    Undefined variable: $row
 ------ -------------------------------------------
 [ERROR] Found 2 errors
"""
SPHINX = """\
src/orbit/tle.py:docstring of orbit.tle.Tle.age:1: WARNING: Cannot resolve the name 'Epoch'
build finished with problems, 1 warning (with warnings treated as errors).
  docs: FAIL code 1 (38.41=setup[31.20]+cmd[1.02,6.19] seconds)
  evaluation failed :( (38.66 seconds)
"""
KUBECONFORM = """\
apps/api/hpa.yaml - HorizontalPodAutoscaler api is valid
apps/web/hpa.yaml - HorizontalPodAutoscaler web is invalid: missing properties: 'target'
Summary: 2 resources found in 2 files - Valid: 1, Invalid: 1, Errors: 0, Skipped: 0
"""
VITEST = """\
 FAIL  components/Cart.test.tsx > Cart > shows the total
AssertionError: expected '0.00' to be '24.00' // Object.is equality
 FAIL  lib/price.test.ts > tells the currency
AssertionError: expected 'a' to be 'b' // Object.is equality
"""
CTEST = """\
19/31 Test #19: test_link ...............***Failed    0.60 sec
=================================================================
==859==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x602000003330
The following tests FAILED:
\t 19 - test_link (Failed)
"""
NIX = """\
building '/nix/store/hj3822rygn3asfa5a24kya74bqwlslvl-vm-test-run-failover.drv'...
error: builder for '/nix/store/b7c8v4kq1zx2n5m9b7c8v4kq1zx2n5m9-vm.drv' failed with exit code 1;
       last 25 log lines:
       > test script failed
error: some checks failed
"""


@pytest.mark.parametrize(
    ("log", "text"),
    [
        (FLUTTER, "/builds/app/test/banner_test.dart: shows the last sync [E]"),
        (
            PHPSTAN,
            "src/Import/Importer.php:12: error: Method App\\Import\\Importer::rows() has no value "
            "type.",
        ),
        (
            SPHINX,
            "src/orbit/tle.py:1: error: Cannot resolve the name 'Epoch' (docstring of "
            "orbit.tle.Tle.age)",
        ),
        (
            KUBECONFORM,
            "apps/web/hpa.yaml - HorizontalPodAutoscaler web is invalid: missing properties: "
            "'target'",
        ),
        (
            VITEST,
            "FAIL components/Cart.test.tsx > Cart > shows the total: AssertionError: expected "
            "'0.00' to be '24.00' // Object.is equality",
        ),
        (
            CTEST,
            "19/31 Test #19: test_link ...............***Failed 0.60 sec: ==859==ERROR: "
            "AddressSanitizer: heap-buffer-overflow on address 0x602000003330",
        ),
        (
            BAZEL,
            "pricing/curve.cc:3:10: fatal error: base/join.h: No such file or directory",
        ),
        (
            ANDROID,
            '/builds/app/src/main/res/values/strings.xml:5: Error: "share" is not translated in '
            '"de" [Missing]',
        ),
        (
            PLAYWRIGHT,
            "[chromium] › e2e/login.spec.ts:9:7 › login › keeps me: Error: the page is blank",
        ),
        (
            NIX,
            "error: builder for '/nix/store/b7c8v4kq1zx2n5m9b7c8v4kq1zx2n5m9-vm.drv' failed "
            "with exit code 1;",
        ),
        (
            TESTDOX,
            "\u2718 Cash is rounded in sweden: TypeError: Money::round(): Argument #2 ($step) must "
            "be of type int, array given",
        ),
        (
            PHPUNIT,
            '1) Kassa\\Tests\\ReceiptTest::testCash with data set "se" (1, 100): TypeError: '
            "Money::round(): Argument #2 ($step) must be of type int, array given",
        ),
        (
            EXUNIT,
            "1) test quotes one piece to DE (Parcel.RouterTest): left: {:error, :unknown_zone}, "
            "right: {:ok, 890}",
        ),
        (
            RAISED,
            "2) test weighs (Parcel.RouterTest): ** (KeyError) key :grams not found in: %{}",
        ),
        (
            XUNIT,
            "Ferry.TideTests.High(x: 1) [FAIL]: System.TypeLoadException : Tide is broken.",
        ),
        (NUNIT, "Failed High [12 ms]: System.TypeLoadException : Tide is broken."),
        (
            CLONE,
            "remote: Authentication by CI/CD job token not allowed from sonde/firmware to "
            "sonde/data.",
        ),
        (HELM, HELM),
        (ESLINT, "ESLint couldn't find an eslint.config.* file."),
    ],
)
def test_the_text_says_what_failed_and_why(log: str, text: str) -> None:
    found = make_signature(log.split("\n"))
    assert found.text == text
    assert found.key


@pytest.mark.parametrize("log", [TESTDOX, PHPUNIT])
def test_every_failed_test_of_phpunits_is_named_and_an_error_of_the_run(log: str) -> None:
    (other,) = make_signature(log.split("\n")).others
    said = find_exact_errors(log.split("\n")).values()
    assert other in said
    assert any(each.startswith("TypeError: ") for each in said)
    assert not any(each.startswith("Tests: ") for each in said)


@pytest.mark.parametrize("log", [XUNIT, NUNIT])
def test_the_heading_of_a_message_is_no_error(log: str) -> None:
    assert "Error Message:" not in find_exact_errors(log.split("\n")).values()


def test_a_condition_that_ansible_waits_for_is_no_error() -> None:
    waits = "FAILED - RETRYING: [localhost]: Wait for the instance ({} retries left)."
    failed = "CRITICAL default \u279c idempotence: Test failed because of these tasks:"
    log = [
        waits.format(300),
        waits.format(299),
        failed,
        task := "*  => baseline : Set the message of the day",
        "ERROR    default \u279c idempotence: Executed: Failed",
        "ERROR    default \u279c scenario: Executed: Failed",
    ]
    assert make_signature(log).text == failed
    assert set(find_exact_errors(log).values()) == {failed, task}


def test_how_a_test_in_a_list_of_jest_failed_is_told_by_its_details() -> None:
    log = [
        "84: FAIL test/checkout.test.ts",
        "85:   computeSubtotal",
        "87:     \u2715 adds the lines (4 ms)",
        "88:   isFreeShipping",
        "89:     \u2713 needs 50 euros (1 ms)",
        "90:   \u25cf computeSubtotal \u203a adds the lines",
        "91:     expect(received).toBe(expected) // Object.is equality",
        "92:     Expected: 5150",
    ]
    told = make_signature(log).text
    assert told.endswith(": expect(received).toBe(expected) // Object.is equality")
    assert "isFreeShipping" not in told


def test_the_message_of_an_exception_may_begin_on_the_next_line() -> None:
    log = [
        "[ERROR] com.example.VoucherTest.accepts -- Time elapsed: 0.071 s <<< FAILURE!",
        "org.opentest4j.AssertionFailedError:",
        "Expecting value to be true but was false",
        "\tat com.example.VoucherTest.accepts(VoucherTest.java:24)",
    ]
    assert make_signature(log).text.endswith(
        "org.opentest4j.AssertionFailedError: Expecting value to be true but was false"
    )


def test_a_failed_test_in_pytests_list_is_the_one_of_its_summary() -> None:
    rows = [f"tests/test_sum.py::test_{at} FAILED [ {at}%]" for at in range(10, 13)]
    summary = [f"FAILED tests/test_sum.py::test_{at} - KeyError: 'tide'" for at in range(10, 13)]
    assert make_signature([*rows, *summary]).key == make_signature(summary).key
    assert make_signature(rows).key != ""
    two = "".join(PHPSTAN.splitlines(keepends=True))
    assert len(find_errors(two.split("\n"))) == 2


def test_a_crash_of_a_worker_comes_before_the_tests_that_failed_because_of_it() -> None:
    lines = [
        "____________________ tests/test_parse.py ____________________",
        "worker 'gw2' crashed while running 'tests/test_parse.py::test_big_feed[rss]'",
        "FAILED tests/test_parse.py::test_big_feed[rss]",
        "FAILED tests/test_fetch.py::test_fetch - httpx.ConnectError: [Errno 111] refused",
    ]
    told = make_signature(lines)
    assert told.text == "FAILED tests/test_parse.py::test_big_feed[rss]: worker 'gw2' crashed"
    assert told.others == ("tests/test_fetch.py::test_fetch",)


WAITED = "Error: Timed out waiting for: http://localhost:4173"
RAISED_FIRST = "Error: ENOSPC: System limit for number of file watchers reached, watch 'fp'"
BUS = "[pid=7][err] [7:7:1120/090112.9:ERROR:bus.cc(407)] Failed to connect: No such file"
DISPLAY = "[pid=7][err] [7:7:1120/090112.967:ERROR:x11.cc(240)] Missing X server or $DISPLAY"
EXITS = (
    "[pid=7][err] [7:7:1120/090112.968:ERROR:env.cc(255)] The platform failed to start. Exiting."
)
GLOG = "E1120 09:01:12.966712    4121 lease.cc:240] cannot renew the lease: not found"
DIED = "E1120 09:01:13.966712    4121 store.cc:12] cannot open the store: permission denied"
MAVEN = "[ERROR] Failed to execute goal on project shop: Could not resolve dependencies for shop:1"
ANSWERED = (
    "[ERROR] \tCould not transfer artifact a:b:jar:2 from/to corp (https://n/): status code: 502"
)


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ([RAISED_FIRST, "    at watch (fs.js:2)", "Node.js v20", WAITED], RAISED_FIRST),
        ([BUS, DISPLAY, EXITS], DISPLAY),
        ([GLOG, DIED], DIED),
        ([MAVEN, "[ERROR] dependency: a:b:jar:2 (compile)", ANSWERED], ANSWERED),
        # Near misses: nothing explains the line, or what stands there is of another message.
        (["fatal: No names found, cannot describe anything.", WAITED], WAITED),
        ([WAITED, "Error: Timed out waiting for: http://localhost:9"], WAITED),
        ([BUS, EXITS], BUS),
        ([GLOG, "error: the store is not there"], "error: the store is not there"),
        ([MAVEN, "[ERROR] dependency: a:b:jar:2 (compile)"], MAVEN),
        ([MAVEN, ANSWERED.replace("\t", "")], MAVEN),
        ([MAVEN, *["[INFO] and so on"] * 5, ANSWERED], MAVEN),
    ],
)
def test_the_line_that_explains_the_heaviest_one_is_the_error(lines: list[str], text: str) -> None:
    shown = make_signature(lines).text
    assert shown.endswith(" ".join(text.split())[-60:])
