"""The logs of failures as their tools write them, with the parts that differ as parameters."""


def job(*lines: str, code: int = 1) -> str:
    return "\n".join(["$ run", *lines, f"ERROR: Job failed: exit code {code}", ""])


def pytest(*tests: tuple[str, str], seconds: str = "4.21", line: int = 41) -> str:
    lines = ["============ FAILURES ============"]
    for name, message in tests:
        lines += [f"____ {name} ____", f"tests/test_app.py:{line}: in {name}", f"E   {message}"]
    lines.append("=========== short test summary info ===========")
    lines += [f"FAILED tests/test_app.py::{name} - {message}" for name, message in tests]
    lines.append(f"===== {len(tests)} failed, 120 passed in {seconds}s =====")
    return job(*lines)


def php_testdox(*tests: tuple[str, str], line: int = 12) -> str:
    return job("FATAL [terminal T3] payment of 2500 failed, giving up", "Cart", *(
        each
        for name, message in tests
        for each in (f" ✘ {name}", "   ┐", f"   ├ {message}", "   │",
                     f"   ╵ /builds/team/app/tests/CartTest.php:{line}", "   ┴")
    ), "FAILURES!", f"Tests: {line}, Failures: {len(tests)}.")  # fmt: skip


def exunit(*tests: tuple[str, str], first: int = 1, seed: int = 336528) -> str:
    return job("..........", *(
        each
        for number, (name, got) in enumerate(tests, first)
        for each in (f"  {number}) test {name} (CartTest)", f"     test/cart_test.exs:{seed % 90}",
                     "     Assertion with == failed", f"     left:  {got}", "     right: 42", "")
    ), f"11 tests, {len(tests)} failure", f"Randomized with seed {seed}")  # fmt: skip


def dotnet(*tests: tuple[str, str], took: str = "12 ms", at: str = "00.20") -> str:
    told = [(f"[xUnit.net 00:00:{at}]     Shop.CartTests.{name} [FAIL]",
             f"[xUnit.net 00:00:{at}]       {message}") for name, message in tests]  # fmt: skip
    failed = [(f"  Failed Shop.CartTests.{name} [{took}]", "  Error Message:", f"   {message}")
              for name, message in tests]  # fmt: skip
    return job(
        *(each for block in (*told, *failed) for each in block), f"     Failed: {len(tests)}"
    )


def xctest(*tests: tuple[str, str], took: str = "2.087", process: int = 58369) -> str:
    suite = (
        f"Executed 700 tests, with {len(tests)} failure (0 unexpected) in {took} (2.131) seconds"
    )
    return job(f"Reader[{process}:{process * 3}] [net] error: cover of book 41 is broken", *(
        line
        for name, message in tests
        for line in (f"/Users/ci/{process}/Tests/A.swift:39: error: -[Shop.ATests {name}] : "
                     f"{message}", f"Test Case '-[Shop.ATests {name}]' failed ({took} seconds).")
    ), f"Test Suite 'ATests' failed at 2026-11-2{took[0]} 17:35:37.769.", suite)  # fmt: skip


def spectral(first: int, *found: tuple[int, str, str], all: int) -> str:
    rows = [(first, "warning  tag-description  A tag needs a description"),
            *((at, f"error    {rule}  {said}") for at, rule, said in found)]  # fmt: skip
    counts = f"{len(found)} errors, {all - len(found)} warnings, 0 infos, 0 hints"
    return job("/builds/api/openapi.yaml", *(f"  {at}:5  {said}" for at, said in rows), "",
                f"✖ {all} problems ({counts})")  # fmt: skip


def r_tests(*tests: tuple[str, str, str], at: int = 13) -> str:
    return job(*(
        line
        for kind, name, said in tests
        for line in (f"── {kind} ('test-tariff.R:{at}:3'): {name} ──────", said, "")
    ), f"[ FAIL {len(tests)} | WARN 0 | SKIP 1 | PASS {170 + at} ]",
        "Running the tests in ‘tests/testthat.R’ failed.", "Status: 1 ERROR, 2 NOTEs")  # fmt: skip


def minitest(*tests: tuple[str, str], runs: int = 623, seed: int = 7) -> str:
    return job(f"Run options: --seed {seed}", "OrderTest#test_rejects_errors = 0.04 s = .", *(
        line
        for name, said in tests
        for line in ("Failure:", f"{name} [test/a_test.rb:{seed % 90}]:", said, "  Actual: 1", "")
    ), f"{runs} runs, {2 * runs} assertions, {len(tests)} failures, 0 errors, 0 skips")  # fmt: skip


def packer(builder: str, error: str, took: str) -> str:
    said = f"Error launching source instance: {error}"
    return job(f"==> amazon-ebs.{builder}: {said}",
               f"Build 'amazon-ebs.{builder}' errored after 6 seconds {took} milliseconds: {said}",
               "==> Some builds didn't complete successfully and had errors:",
               f"--> amazon-ebs.{builder}: {said}")  # fmt: skip


def k6(metric: str, slow: str, usual: str) -> str:
    return job(f"     ✗ {metric}..............: avg=250.43ms min=71.40ms p(95)={slow}",
                f"       {{ expected_response:true }}..: avg={usual} p(95)=279.38ms")  # fmt: skip


def maven(*blocks: tuple[str, ...], module: str = "core", took: str = "12.4") -> str:
    return job(
        *(line for block in blocks for line in block),
        "[INFO] BUILD FAILURE",
        f"[INFO] Total time:  {took} s",
        f"[ERROR] Failed to execute goal org.apache.maven.plugins:maven-surefire-plugin:3.2.5:test "
        f"(default-test) on project {module}: There are test failures.",
        "[ERROR] ",
        "[ERROR] Please refer to /builds/team/app/target/surefire-reports for the test results.",
        "[ERROR] -> [Help 1]",
        "[ERROR] To see the full stack trace of the errors, re-run Maven with the -e switch.",
        "[ERROR] Re-run Maven using the -X switch to enable full debug logging.",
        "[ERROR] For more information about the errors and possible solutions, please read:",
        "[ERROR] [Help 1] http://cwiki.apache.org/confluence/display/MAVEN/MojoFailureException",
    )


def java_test(name: str, message: str, line: int = 12) -> tuple[str, ...]:
    return (
        f"[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 0.0{line} s",
        f"[ERROR] com.x.{name}  Time elapsed: 0.002 s  <<< FAILURE!",
        f"{message}",
        f"\tat com.x.{name}(OrderTest.java:{line})",
    )


def timeouts(attempts: int) -> tuple[str, ...]:
    host = "https://repo.internal.example/maven2"
    return tuple(
        f"[ERROR] ConnectTest.fetch:{40 + number} » ConnectException: connect timed out: {host} "
        f"(attempt {number} of {attempts})"
        for number in range(1, attempts + 1)
    )


def npm(*lines: str, size: str = "1") -> str:
    return job(
        *lines,
        "npm ERR! code ELIFECYCLE",
        f"npm ERR! errno {size}",
        "npm ERR! shop@1.4.0 test: `jest --ci`",
        f"npm ERR! Exit status {size}",
        "npm ERR! Failed at the shop@1.4.0 test script.",
        "npm ERR! This is probably not a problem with npm. There is likely additional logging "
        "output above.",
        f"npm ERR! A complete log of this run can be found in: /tmp/_logs/2026-1{size}.log",
    )


def jest(name: str, want: str, got: str, took: int = 5, line: int = 14) -> tuple[str, ...]:
    return (
        f"FAIL src/cart.test.ts ({took}.103 s)",
        f"  ● cart › {name}",
        "    expect(received).toBe(expected) // Object.is equality",
        f"    Expected: {want}",
        f"    Received: {got}",
        f"      at Object.<anonymous> (src/cart.test.ts:{line}:21)",
    )


def gradle(*tests: tuple[str, str], took: str = "9") -> str:
    lines: list[str] = []
    for name, message in tests:
        lines += [f"CartTest > {name}() FAILED", f"    {message} at CartTest.java:2{took}"]
    return job(
        *lines,
        f"{10 + len(tests)} tests completed, {len(tests)} failed",
        "FAILURE: Build failed with an exception.",
        "* What went wrong:",
        "Execution failed for task ':test'.",
        "> There were failing tests. See the report at: file:///builds/a/build/reports/index.html",
        "* Try:",
        "> Run with --scan to get full insights.",
        f"BUILD FAILED in {took}s",
    )


def go(*tests: tuple[str, str], took: str = "0.012") -> str:
    lines: list[str] = []
    for name, message in tests:
        lines += [f"--- FAIL: {name} ({took}s)", f"    cart_test.go:33: {message}"]
    return job(*lines, "FAIL", f"FAIL\texample.com/shop/cart\t{took}s", "FAIL")


def cargo(*tests: tuple[str, str], took: str = "0.02", number: int = 7) -> str:
    lines: list[str] = ["failures:"]
    for name, message in tests:
        lines += [
            f"---- cart::{name} stdout ----",
            f"thread 'cart::{name}' ({number}41) panicked at src/cart.rs:5{number}:9:",
            message,
        ]
    return job(
        *lines,
        "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace",
        f"test result: FAILED. 12 passed; {len(tests)} failed; 0 ignored; finished in {took}s",
        "error: test failed, to rerun pass `--lib`",
        code=101,
    )


def rustc(code: str, message: str, line: int = 9) -> str:
    return job(
        f"error[{code}]: {message}",
        f"  --> src/cart.rs:{line}:5",
        "error: could not compile `shop` (lib) due to 1 previous error",
        f"For more information about this error, try `rustc --explain {code}`.",
        code=101,
    )


def gcc(*errors: str, line: int = 88) -> str:
    return job(
        *(f"src/cart.c:{line}:9: error: {error}" for error in errors),
        "make[2]: *** [CMakeFiles/shop.dir/build.make:76: src/cart.c.o] Error 1",
        f"make[1]: *** [CMakeFiles/Makefile2:{line}: all] Error 2",
        "make: *** [Makefile:146: all] Error 2",
        code=2,
    )


def pip(package: str, reason: str, tries: int = 4) -> str:
    return job(
        *(
            f"WARNING: Retrying (Retry(total={left}, connect=None)) after connection broken by "
            f"'ReadTimeoutError': /simple/{package}/"
            for left in range(tries, -1, -1)
        ),
        f"ERROR: Could not find a version that satisfies the requirement {package} ({reason})",
        f"ERROR: No matching distribution found for {package}",
    )


def docker(step: str, reason: str, after: str = "4.321") -> str:
    return job(
        f"#12 [builder 5/9] RUN {step}",
        f"#12 {after} {reason}",
        f'#12 ERROR: process "/bin/sh -c {step}" did not complete successfully: exit code: 1',
        f'ERROR: failed to solve: process "/bin/sh -c {step}" did not complete successfully: '
        "exit code: 1",
    )
