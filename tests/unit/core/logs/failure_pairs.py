"""Pairs of failing logs: the same failure seen again, or not.

Each ecosystem has one failure as its tools write it. `again` is the same in another run: other
times, hashes, folders, counters and line numbers. `other` is another failure of the same tool.
`mixed` is the first failure and another beside it, as where a change breaks something while the
network is down.
"""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pair:
    """Two logs, and whether they fail for the same reason."""

    name: str
    one: str
    other: str
    same: bool


@dataclass(frozen=True, slots=True)
class Tool:
    """The logs of one tool. `mixed` is "" where the tool ends at the first failure."""

    name: str
    log: str
    again: str
    other: str
    mixed: str = ""


def _job(*lines: str, code: int = 1) -> str:
    return "\n".join(["$ run", *lines, f"ERROR: Job failed: exit code {code}", ""])


def _pytest(*tests: tuple[str, str], seconds: str = "4.21", line: int = 41) -> str:
    lines = ["============ FAILURES ============"]
    for name, message in tests:
        lines += [f"____ {name} ____", f"tests/test_app.py:{line}: in {name}", f"E   {message}"]
    lines.append("=========== short test summary info ===========")
    lines += [f"FAILED tests/test_app.py::{name} - {message}" for name, message in tests]
    lines.append(f"===== {len(tests)} failed, 120 passed in {seconds}s =====")
    return _job(*lines)


def _testdox(*tests: tuple[str, str], line: int = 12) -> str:
    return _job("FATAL [terminal T3] payment of 2500 failed, giving up", "Cart", *(
        each
        for name, message in tests
        for each in (f" ✘ {name}", "   ┐", f"   ├ {message}", "   │",
                     f"   ╵ /builds/team/app/tests/CartTest.php:{line}", "   ┴")
    ), "FAILURES!", f"Tests: {line}, Failures: {len(tests)}.")  # fmt: skip


def _exunit(*tests: tuple[str, str], first: int = 1, seed: int = 336528) -> str:
    return _job("..........", *(
        each
        for number, (name, got) in enumerate(tests, first)
        for each in (f"  {number}) test {name} (CartTest)", f"     test/cart_test.exs:{seed % 90}",
                     "     Assertion with == failed", f"     left:  {got}", "     right: 42", "")
    ), f"11 tests, {len(tests)} failure", f"Randomized with seed {seed}")  # fmt: skip


def _dotnet(*tests: tuple[str, str], took: str = "12 ms", at: str = "00.20") -> str:
    told = [(f"[xUnit.net 00:00:{at}]     Shop.CartTests.{name} [FAIL]",
             f"[xUnit.net 00:00:{at}]       {message}") for name, message in tests]  # fmt: skip
    failed = [(f"  Failed Shop.CartTests.{name} [{took}]", "  Error Message:", f"   {message}")
              for name, message in tests]  # fmt: skip
    return _job(
        *(each for block in (*told, *failed) for each in block), f"     Failed: {len(tests)}"
    )


def _xctest(*tests: tuple[str, str], took: str = "2.087", process: int = 58369) -> str:
    suite = (
        f"Executed 700 tests, with {len(tests)} failure (0 unexpected) in {took} (2.131) seconds"
    )
    return _job(f"Reader[{process}:{process * 3}] [net] error: cover of book 41 is broken", *(
        line
        for name, message in tests
        for line in (f"/Users/ci/{process}/Tests/A.swift:39: error: -[Shop.ATests {name}] : "
                     f"{message}", f"Test Case '-[Shop.ATests {name}]' failed ({took} seconds).")
    ), f"Test Suite 'ATests' failed at 2026-11-2{took[0]} 17:35:37.769.", suite)  # fmt: skip


def _maven(*blocks: tuple[str, ...], module: str = "core", took: str = "12.4") -> str:
    return _job(
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


def _java_test(name: str, message: str, line: int = 12) -> tuple[str, ...]:
    return (
        f"[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 0.0{line} s",
        f"[ERROR] com.x.{name}  Time elapsed: 0.002 s  <<< FAILURE!",
        f"{message}",
        f"\tat com.x.{name}(OrderTest.java:{line})",
    )


def _timeouts(attempts: int) -> tuple[str, ...]:
    host = "https://repo.internal.example/maven2"
    return tuple(
        f"[ERROR] ConnectTest.fetch:{40 + number} » ConnectException: connect timed out: {host} "
        f"(attempt {number} of {attempts})"
        for number in range(1, attempts + 1)
    )


def _npm(*lines: str, size: str = "1") -> str:
    return _job(
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


def _jest(name: str, want: str, got: str, took: int = 5, line: int = 14) -> tuple[str, ...]:
    return (
        f"FAIL src/cart.test.ts ({took}.103 s)",
        f"  ● cart › {name}",
        "    expect(received).toBe(expected) // Object.is equality",
        f"    Expected: {want}",
        f"    Received: {got}",
        f"      at Object.<anonymous> (src/cart.test.ts:{line}:21)",
    )


def _gradle(*tests: tuple[str, str], took: str = "9") -> str:
    lines: list[str] = []
    for name, message in tests:
        lines += [f"CartTest > {name}() FAILED", f"    {message} at CartTest.java:2{took}"]
    return _job(
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


def _go(*tests: tuple[str, str], took: str = "0.012") -> str:
    lines: list[str] = []
    for name, message in tests:
        lines += [f"--- FAIL: {name} ({took}s)", f"    cart_test.go:33: {message}"]
    return _job(*lines, "FAIL", f"FAIL\texample.com/shop/cart\t{took}s", "FAIL")


def _cargo(*tests: tuple[str, str], took: str = "0.02", number: int = 7) -> str:
    lines: list[str] = ["failures:"]
    for name, message in tests:
        lines += [
            f"---- cart::{name} stdout ----",
            f"thread 'cart::{name}' ({number}41) panicked at src/cart.rs:5{number}:9:",
            message,
        ]
    return _job(
        *lines,
        "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace",
        f"test result: FAILED. 12 passed; {len(tests)} failed; 0 ignored; finished in {took}s",
        "error: test failed, to rerun pass `--lib`",
        code=101,
    )


def _rustc(code: str, message: str, line: int = 9) -> str:
    return _job(
        f"error[{code}]: {message}",
        f"  --> src/cart.rs:{line}:5",
        "error: could not compile `shop` (lib) due to 1 previous error",
        f"For more information about this error, try `rustc --explain {code}`.",
        code=101,
    )


def _gcc(*errors: str, line: int = 88) -> str:
    return _job(
        *(f"src/cart.c:{line}:9: error: {error}" for error in errors),
        "make[2]: *** [CMakeFiles/shop.dir/build.make:76: src/cart.c.o] Error 1",
        f"make[1]: *** [CMakeFiles/Makefile2:{line}: all] Error 2",
        "make: *** [Makefile:146: all] Error 2",
        code=2,
    )


def _pip(package: str, reason: str, tries: int = 4) -> str:
    return _job(
        *(
            f"WARNING: Retrying (Retry(total={left}, connect=None)) after connection broken by "
            f"'ReadTimeoutError': /simple/{package}/"
            for left in range(tries, -1, -1)
        ),
        f"ERROR: Could not find a version that satisfies the requirement {package} ({reason})",
        f"ERROR: No matching distribution found for {package}",
    )


def _docker(step: str, reason: str, after: str = "4.321") -> str:
    return _job(
        f"#12 [builder 5/9] RUN {step}",
        f"#12 {after} {reason}",
        f'#12 ERROR: process "/bin/sh -c {step}" did not complete successfully: exit code: 1',
        f'ERROR: failed to solve: process "/bin/sh -c {step}" did not complete successfully: '
        "exit code: 1",
    )


TOOLS = (
    Tool(
        "pytest",
        _pytest(("test_sum", "AssertionError: assert 41 == 42")),
        _pytest(("test_sum", "AssertionError: assert 41 == 42"), seconds="9.80", line=57),
        _pytest(("test_sum", "TypeError: 'NoneType' object is not iterable")),
        _pytest(("test_sum", "AssertionError: assert 41 == 42"), ("test_tax", "KeyError: 'vat'")),
    ),
    Tool(
        "pytest, several tests",
        _pytest(*((f"test_{name}", "ConnectionError: db refused") for name in "abcd")),
        _pytest(*((f"test_{name}", "ConnectionError: db refused") for name in "dcba"),
                seconds="61.02"),
        _pytest(*((f"test_{name}", "ConnectionError: db refused") for name in "abc")),
        _pytest(*((f"test_{name}", "ConnectionError: db refused") for name in "abcd"),
                ("test_z", "assert 1 == 2")),
    ),
    Tool(
        "maven, network",
        _maven(_timeouts(3)),
        _maven(_timeouts(5), took="19.0"),
        _maven(_java_test("OrderTest.total", "org.opentest4j.AssertionFailedError: expected: <3>")),
        _maven(_timeouts(3), _java_test("OrderTest.total",
                                        "org.opentest4j.AssertionFailedError: expected: <3>")),
    ),
    Tool(
        "maven, a test",
        _maven(_java_test("OrderTest.total", "java.lang.NullPointerException: order is null")),
        _maven(_java_test("OrderTest.total", "java.lang.NullPointerException: order is null", 17),
               took="33.9"),
        _maven(_java_test("OrderTest.rebate", "java.lang.ArithmeticException: / by zero")),
        _maven(_java_test("OrderTest.total", "java.lang.NullPointerException: order is null"),
               _java_test("OrderTest.rebate", "java.lang.ArithmeticException: / by zero")),
    ),
    Tool(
        "maven, the same test otherwise",
        _maven(_java_test("OrderTest.total", "java.lang.NullPointerException: order is null")),
        _maven(_java_test("OrderTest.total", "java.lang.NullPointerException: order is null", 19)),
        _maven(_java_test("OrderTest.total", "java.lang.ArithmeticException: / by zero")),
    ),
    Tool(
        "pytest, the same test otherwise",
        _pytest(("test_sum", "AttributeError: 'Cart' object has no attribute 'total'")),
        _pytest(("test_sum", "AttributeError: 'Cart' object has no attribute 'total'"), line=9),
        _pytest(("test_sum", "AttributeError: 'Cart' object has no attribute 'vat'")),
    ),
    Tool(
        "maven, two modules",
        _maven(_java_test("OrderTest.total", "java.lang.IllegalStateException: closed")),
        _maven(_java_test("OrderTest.total", "java.lang.IllegalStateException: closed", 13)),
        _maven(_java_test("StoreTest.open", "java.io.FileNotFoundException: stock.csv"),
               module="store"),
    ),
    Tool(
        "jest",
        _npm(*_jest("adds an item", "3", "4")),
        _npm(*_jest("adds an item", "3", "4", took=8, line=19), size="1"),
        _npm(*_jest("removes an item", '"a"', '"b"')),
        _npm(*_jest("adds an item", "3", "4"), *_jest("removes an item", '"a"', '"b"')),
    ),
    Tool(
        "npm, network",
        _npm("npm ERR! network request to https://registry.internal.example/left-pad failed, "
             "reason: connect ETIMEDOUT 10.1.2.3:443"),
        _npm("npm ERR! network request to https://registry.internal.example/left-pad failed, "
             "reason: connect ETIMEDOUT 10.9.9.9:443", size="2"),
        _npm(*_jest("adds an item", "3", "4")),
        _npm("npm ERR! network request to https://registry.internal.example/left-pad failed, "
             "reason: connect ETIMEDOUT 10.1.2.3:443", *_jest("adds an item", "3", "4")),
    ),
    Tool(
        "typescript",
        _job("src/cart.ts(12,5): error TS2322: Type 'string' is not assignable to type 'number'."),
        _job("src/cart.ts(19,5): error TS2322: Type 'string' is not assignable to type 'number'."),
        _job("src/cart.ts(12,5): error TS2304: Cannot find name 'rebate'."),
        _job("src/cart.ts(12,5): error TS2322: Type 'string' is not assignable to type 'number'.",
             "src/tax.ts(3,1): error TS2304: Cannot find name 'vat'."),
    ),
    Tool(
        "gradle",
        _gradle(("addsItem", "java.lang.AssertionError: expected 3 but was 4")),
        _gradle(("addsItem", "java.lang.AssertionError: expected 3 but was 4"), took="7"),
        _gradle(("closes", "java.lang.IllegalStateException: already closed")),
        _gradle(("addsItem", "java.lang.AssertionError: expected 3 but was 4"),
                ("closes", "java.lang.IllegalStateException: already closed")),
    ),
    Tool(
        "go",
        _go(("TestTotal", "got 41, want 42")),
        _go(("TestTotal", "got 41, want 42"), took="0.311"),
        _go(("TestRebate", "unexpected error: no such rebate")),
        _go(("TestTotal", "got 41, want 42"), ("TestRebate", "unexpected error: no such rebate")),
    ),
    Tool(
        "go, it does not compile",
        _job("# example.com/shop/cart", "cart/cart.go:12:9: undefined: Rebate",
             "FAIL\texample.com/shop/cart [build failed]", "FAIL"),
        _job("# example.com/shop/cart", "vet: cart/cart.go:12:9: undefined: Rebate"),
        _job("# example.com/shop/cart", "cart/cart.go:12:9: undefined: Total",
             "FAIL\texample.com/shop/cart [build failed]", "FAIL"),
        _job("# example.com/shop/cart", "cart/cart.go:12:9: undefined: Rebate",
             "tax/tax.go:3:2: missing return",
             "FAIL\texample.com/shop/cart [build failed]", "FAIL"),
    ),
    Tool(
        "cargo test",
        _cargo(("total", "assertion `left == right` failed: totals differ")),
        _cargo(("total", "assertion `left == right` failed: totals differ"), took="1.9", number=9),
        _cargo(("rebate", "called `Option::unwrap()` on a `None` value")),
        _cargo(("total", "assertion `left == right` failed: totals differ"),
               ("rebate", "called `Option::unwrap()` on a `None` value")),
    ),
    Tool(
        "rustc",
        _rustc("E0308", "mismatched types"),
        _rustc("E0308", "mismatched types", line=31),
        _rustc("E0425", "cannot find value `vat` in this scope"),
    ),
    Tool(
        "gcc",
        _gcc("'rebate' undeclared (first use in this function)"),
        _gcc("'rebate' undeclared (first use in this function)", line=93),
        _gcc("too few arguments to function 'total'"),
        _gcc("'rebate' undeclared (first use in this function)",
             "too few arguments to function 'total'"),
    ),
    Tool(
        "pip",
        _pip("shop-core", "from versions: none"),
        _pip("shop-core", "from versions: none", tries=2),
        _pip("tax-tables", "from versions: none"),
    ),
    Tool(
        "docker build",
        _docker("apk add curl", "ERROR: unable to select packages: curl (no such package)"),
        _docker("apk add curl", "ERROR: unable to select packages: curl (no such package)",
                after="11.8"),
        _docker("make dist", "cp: cannot stat 'dist': No such file or directory"),
    ),
    Tool(
        "rspec",
        _job("  1) Cart adds an item", "     Failure/Error: expect(cart.total).to eq(3)",
             "       expected: 3", "            got: 4", "rspec ./spec/cart_spec.rb:12 # Cart adds",
             "Finished in 0.4 seconds", "12 examples, 1 failure"),
        _job("  1) Cart adds an item", "     Failure/Error: expect(cart.total).to eq(3)",
             "       expected: 3", "            got: 4", "rspec ./spec/cart_spec.rb:15 # Cart adds",
             "Finished in 2.9 seconds", "13 examples, 1 failure"),
        _job("  1) Cart is closed", "     Failure/Error: raise ClosedError, 'cart is closed'",
             "     ClosedError:", "       cart is closed", "rspec ./spec/cart_spec.rb:33 # Cart is",
             "12 examples, 1 failure"),
    ),
    Tool(
        "ruff",
        _job("app/cart.py:12:5: F841 Local variable `total` is assigned to but never used",
             "Found 1 error."),
        _job("app/cart.py:19:5: F841 Local variable `total` is assigned to but never used",
             "Found 1 error."),
        _job("app/cart.py:12:5: E711 Comparison to `None` should be `cond is None`",
             "Found 1 error."),
        _job("app/cart.py:12:5: F841 Local variable `total` is assigned to but never used",
             "app/tax.py:3:1: F401 `os` imported but unused", "Found 2 errors."),
    ),
    Tool(
        "mypy",
        _job('app/cart.py:12: error: Incompatible return value type (got "str", expected "int")',
             "Found 1 error in 1 file (checked 40 source files)"),
        _job('app/cart.py:14: error: Incompatible return value type (got "str", expected "int")',
             "Found 1 error in 1 file (checked 41 source files)"),
        _job('app/cart.py:12: error: Name "vat" is not defined',
             "Found 1 error in 1 file (checked 40 source files)"),
        _job('app/cart.py:12: error: Incompatible return value type (got "str", expected "int")',
             'app/tax.py:3: error: Name "vat" is not defined',
             "Found 2 errors in 2 files (checked 40 source files)"),
    ),
    Tool(
        "phpunit",
        _job("1) CartTest::testTotal", "Failed asserting that 41 matches expected 42.",
             "/builds/team/app/tests/CartTest.php:12", "FAILURES!", "Tests: 12, Failures: 1."),
        _job("1) CartTest::testTotal", "Failed asserting that 41 matches expected 42.",
             "/builds/other/app/tests/CartTest.php:17", "FAILURES!", "Tests: 13, Failures: 1."),
        _job("1) CartTest::testRebate", "Error: Call to undefined method Cart::rebate()",
             "/builds/team/app/tests/CartTest.php:31", "ERRORS!", "Tests: 12, Errors: 1."),
    ),
    Tool(
        "phpunit --testdox",
        _testdox(("Totals", "Failed asserting that 41 matches expected 42.")),
        _testdox(("Totals", "Failed asserting that 41 matches expected 42."), line=17),
        _testdox(("Rebates", "Error: Call to undefined method Cart::rebate()")),
        _testdox(("Totals", "Failed asserting that 41 matches expected 42."),
                 ("Rebates", "Error: Call to undefined method Cart::rebate()")),
    ),
    Tool(
        "mix test",
        _exunit(("totals", "41")),
        _exunit(("totals", "41"), first=3, seed=77),
        _exunit(("rebates", "41")),
        _exunit(("totals", "41"), ("rebates", "0")),
    ),
    Tool(
        "dotnet test",
        _dotnet(("Totals", "Assert.Equal() Failure: Values differ")),
        _dotnet(("Totals", "Assert.Equal() Failure: Values differ"), took="< 1 ms", at="01.31"),
        _dotnet(("Rebates", "System.NullReferenceException : Object reference not set.")),
        _dotnet(("Totals", "Assert.Equal() Failure: Values differ"),
                ("Rebates", "System.NullReferenceException : Object reference not set.")),
    ),
    Tool(
        "xcodebuild",
        _xctest(("testResumes", "Asynchronous wait failed: Exceeded timeout of 2 seconds.")),
        _xctest(("testResumes", "Asynchronous wait failed: Exceeded timeout of 2 seconds."),
                took="2.106", process=26911),
        _xctest(("testTotals", 'XCTAssertEqual failed: ("41") is not equal to ("42")')),
        _xctest(("testResumes", "Asynchronous wait failed: Exceeded timeout of 2 seconds."),
                ("testTotals", 'XCTAssertEqual failed: ("41") is not equal to ("42")')),
    ),
    Tool(
        "mix dialyzer",
        _job("lib/rate.ex:13:7:pattern_match", "The pattern can never match the type.", "",
             "done (warnings were emitted)"),
        _job("lib/rate.ex:17:9:pattern_match", "The pattern can never match the type.", "",
             "done (warnings were emitted)"),
        _job("lib/rate.ex:13:7:no_return", "Function quote/1 has no local return.", "",
             "done (warnings were emitted)"),
        _job("lib/rate.ex:13:7:pattern_match", "The pattern can never match the type.", "",
             "lib/tax.ex:3:1:no_return", "Function vat/1 has no local return."),
    ),
    Tool(
        "terraform",
        _job("│ Error: Invalid count argument", "│   on main.tf line 12, in resource \"vm\" \"a\":",
             "╵"),
        _job("│ Error: Invalid count argument", "│   on main.tf line 14, in resource \"vm\" \"a\":",
             "╵"),
        _job("│ Error: Unsupported attribute", "│   on main.tf line 12, in resource \"vm\" \"a\":",
             "╵"),
    ),
    Tool(
        "a shell's network",
        _job("curl: (28) Failed to connect to packages.internal.example port 443: timed out"),
        _job("curl: (28) Failed to connect to packages.internal.example port 443: timed out"),
        _job("curl: (22) The requested URL returned error: 404"),
        _job("curl: (28) Failed to connect to packages.internal.example port 443: timed out",
             "FAILED tests/test_app.py::test_sum - assert 1 == 2"),
    ),
)  # fmt: skip


def pairs() -> Iterator[Pair]:
    """All pairs: the same failure again, another one, and one more beside it."""
    for tool in TOOLS:
        yield Pair(f"{tool.name}: again", tool.log, tool.again, same=True)
        yield Pair(f"{tool.name}: another failure", tool.log, tool.other, same=False)
        if tool.mixed:
            yield Pair(f"{tool.name}: mixed with another", tool.log, tool.mixed, same=False)
            yield Pair(f"{tool.name}: the other alone", tool.mixed, tool.other, same=False)
