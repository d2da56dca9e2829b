"""Pairs of failing logs: the same failure seen again, or not.

Each ecosystem has one failure as its tools write it. `again` is the same in another run: other
times, hashes, folders, counters and line numbers. `other` is another failure of the same tool.
`mixed` is the first failure and another beside it, as where a change breaks something while the
network is down.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tests.unit.logs.failure_logs import (
    cargo,
    docker,
    dotnet,
    exunit,
    gcc,
    go,
    gradle,
    java_test,
    jest,
    job,
    k6,
    maven,
    minitest,
    npm,
    packer,
    php_testdox,
    pip,
    pytest,
    r_tests,
    rustc,
    spectral,
    timeouts,
    xctest,
)


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


TOOLS = (
    Tool(
        "pytest",
        pytest(("test_sum", "AssertionError: assert 41 == 42")),
        pytest(("test_sum", "AssertionError: assert 41 == 42"), seconds="9.80", line=57),
        pytest(("test_sum", "TypeError: 'NoneType' object is not iterable")),
        pytest(("test_sum", "AssertionError: assert 41 == 42"), ("test_tax", "KeyError: 'vat'")),
    ),
    Tool(
        "pytest, several tests",
        pytest(*((f"test_{name}", "ConnectionError: db refused") for name in "abcd")),
        pytest(*((f"test_{name}", "ConnectionError: db refused") for name in "dcba"),
                seconds="61.02"),
        pytest(*((f"test_{name}", "ConnectionError: db refused") for name in "abc")),
        pytest(*((f"test_{name}", "ConnectionError: db refused") for name in "abcd"),
                ("test_z", "assert 1 == 2")),
    ),
    Tool(
        "maven, network",
        maven(timeouts(3)),
        maven(timeouts(5), took="19.0"),
        maven(java_test("OrderTest.total", "org.opentest4j.AssertionFailedError: expected: <3>")),
        maven(timeouts(3), java_test("OrderTest.total",
                                        "org.opentest4j.AssertionFailedError: expected: <3>")),
    ),
    Tool(
        "maven, a test",
        maven(java_test("OrderTest.total", "java.lang.NullPointerException: order is null")),
        maven(java_test("OrderTest.total", "java.lang.NullPointerException: order is null", 17),
               took="33.9"),
        maven(java_test("OrderTest.rebate", "java.lang.ArithmeticException: / by zero")),
        maven(java_test("OrderTest.total", "java.lang.NullPointerException: order is null"),
               java_test("OrderTest.rebate", "java.lang.ArithmeticException: / by zero")),
    ),
    Tool(
        "maven, the same test otherwise",
        maven(java_test("OrderTest.total", "java.lang.NullPointerException: order is null")),
        maven(java_test("OrderTest.total", "java.lang.NullPointerException: order is null", 19)),
        maven(java_test("OrderTest.total", "java.lang.ArithmeticException: / by zero")),
    ),
    Tool(
        "pytest, the same test otherwise",
        pytest(("test_sum", "AttributeError: 'Cart' object has no attribute 'total'")),
        pytest(("test_sum", "AttributeError: 'Cart' object has no attribute 'total'"), line=9),
        pytest(("test_sum", "AttributeError: 'Cart' object has no attribute 'vat'")),
    ),
    Tool(
        "maven, two modules",
        maven(java_test("OrderTest.total", "java.lang.IllegalStateException: closed")),
        maven(java_test("OrderTest.total", "java.lang.IllegalStateException: closed", 13)),
        maven(java_test("StoreTest.open", "java.io.FileNotFoundException: stock.csv"),
               module="store"),
    ),
    Tool(
        "jest",
        npm(*jest("adds an item", "3", "4")),
        npm(*jest("adds an item", "3", "4", took=8, line=19), size="1"),
        npm(*jest("removes an item", '"a"', '"b"')),
        npm(*jest("adds an item", "3", "4"), *jest("removes an item", '"a"', '"b"')),
    ),
    Tool(
        "npm, network",
        npm("npm ERR! network request to https://registry.internal.example/left-pad failed, "
             "reason: connect ETIMEDOUT 10.1.2.3:443"),
        npm("npm ERR! network request to https://registry.internal.example/left-pad failed, "
             "reason: connect ETIMEDOUT 10.9.9.9:443", size="2"),
        npm(*jest("adds an item", "3", "4")),
        npm("npm ERR! network request to https://registry.internal.example/left-pad failed, "
             "reason: connect ETIMEDOUT 10.1.2.3:443", *jest("adds an item", "3", "4")),
    ),
    Tool(
        "typescript",
        job("src/cart.ts(12,5): error TS2322: Type 'string' is not assignable to type 'number'."),
        job("src/cart.ts(19,5): error TS2322: Type 'string' is not assignable to type 'number'."),
        job("src/cart.ts(12,5): error TS2304: Cannot find name 'rebate'."),
        job("src/cart.ts(12,5): error TS2322: Type 'string' is not assignable to type 'number'.",
             "src/tax.ts(3,1): error TS2304: Cannot find name 'vat'."),
    ),
    Tool(
        "gradle",
        gradle(("addsItem", "java.lang.AssertionError: expected 3 but was 4")),
        gradle(("addsItem", "java.lang.AssertionError: expected 3 but was 4"), took="7"),
        gradle(("closes", "java.lang.IllegalStateException: already closed")),
        gradle(("addsItem", "java.lang.AssertionError: expected 3 but was 4"),
                ("closes", "java.lang.IllegalStateException: already closed")),
    ),
    Tool(
        "go",
        go(("TestTotal", "got 41, want 42")),
        go(("TestTotal", "got 41, want 42"), took="0.311"),
        go(("TestRebate", "unexpected error: no such rebate")),
        go(("TestTotal", "got 41, want 42"), ("TestRebate", "unexpected error: no such rebate")),
    ),
    Tool(
        "go, it does not compile",
        job("# example.com/shop/cart", "cart/cart.go:12:9: undefined: Rebate",
             "FAIL\texample.com/shop/cart [build failed]", "FAIL"),
        job("# example.com/shop/cart", "vet: cart/cart.go:12:9: undefined: Rebate"),
        job("# example.com/shop/cart", "cart/cart.go:12:9: undefined: Total",
             "FAIL\texample.com/shop/cart [build failed]", "FAIL"),
        job("# example.com/shop/cart", "cart/cart.go:12:9: undefined: Rebate",
             "tax/tax.go:3:2: missing return",
             "FAIL\texample.com/shop/cart [build failed]", "FAIL"),
    ),
    Tool(
        "cargo test",
        cargo(("total", "assertion `left == right` failed: totals differ")),
        cargo(("total", "assertion `left == right` failed: totals differ"), took="1.9", number=9),
        cargo(("rebate", "called `Option::unwrap()` on a `None` value")),
        cargo(("total", "assertion `left == right` failed: totals differ"),
               ("rebate", "called `Option::unwrap()` on a `None` value")),
    ),
    Tool(
        "rustc",
        rustc("E0308", "mismatched types"),
        rustc("E0308", "mismatched types", line=31),
        rustc("E0425", "cannot find value `vat` in this scope"),
    ),
    Tool(
        "gcc",
        gcc("'rebate' undeclared (first use in this function)"),
        gcc("'rebate' undeclared (first use in this function)", line=93),
        gcc("too few arguments to function 'total'"),
        gcc("'rebate' undeclared (first use in this function)",
             "too few arguments to function 'total'"),
    ),
    Tool(
        "pip",
        pip("shop-core", "from versions: none"),
        pip("shop-core", "from versions: none", tries=2),
        pip("tax-tables", "from versions: none"),
    ),
    Tool(
        "docker build",
        docker("apk add curl", "ERROR: unable to select packages: curl (no such package)"),
        docker("apk add curl", "ERROR: unable to select packages: curl (no such package)",
                after="11.8"),
        docker("make dist", "cp: cannot stat 'dist': No such file or directory"),
    ),
    Tool(
        "rspec",
        job("  1) Cart adds an item", "     Failure/Error: expect(cart.total).to eq(3)",
             "       expected: 3", "            got: 4", "rspec ./spec/cart_spec.rb:12 # Cart adds",
             "Finished in 0.4 seconds", "12 examples, 1 failure"),
        job("  1) Cart adds an item", "     Failure/Error: expect(cart.total).to eq(3)",
             "       expected: 3", "            got: 4", "rspec ./spec/cart_spec.rb:15 # Cart adds",
             "Finished in 2.9 seconds", "13 examples, 1 failure"),
        job("  1) Cart is closed", "     Failure/Error: raise ClosedError, 'cart is closed'",
             "     ClosedError:", "       cart is closed", "rspec ./spec/cart_spec.rb:33 # Cart is",
             "12 examples, 1 failure"),
    ),
    Tool(
        "ruff",
        job("app/cart.py:12:5: F841 Local variable `total` is assigned to but never used",
             "Found 1 error."),
        job("app/cart.py:19:5: F841 Local variable `total` is assigned to but never used",
             "Found 1 error."),
        job("app/cart.py:12:5: E711 Comparison to `None` should be `cond is None`",
             "Found 1 error."),
        job("app/cart.py:12:5: F841 Local variable `total` is assigned to but never used",
             "app/tax.py:3:1: F401 `os` imported but unused", "Found 2 errors."),
    ),
    Tool(
        "mypy",
        job('app/cart.py:12: error: Incompatible return value type (got "str", expected "int")',
             "Found 1 error in 1 file (checked 40 source files)"),
        job('app/cart.py:14: error: Incompatible return value type (got "str", expected "int")',
             "Found 1 error in 1 file (checked 41 source files)"),
        job('app/cart.py:12: error: Name "vat" is not defined',
             "Found 1 error in 1 file (checked 40 source files)"),
        job('app/cart.py:12: error: Incompatible return value type (got "str", expected "int")',
             'app/tax.py:3: error: Name "vat" is not defined',
             "Found 2 errors in 2 files (checked 40 source files)"),
    ),
    Tool(
        "phpunit",
        job("1) CartTest::testTotal", "Failed asserting that 41 matches expected 42.",
             "/builds/team/app/tests/CartTest.php:12", "FAILURES!", "Tests: 12, Failures: 1."),
        job("1) CartTest::testTotal", "Failed asserting that 41 matches expected 42.",
             "/builds/other/app/tests/CartTest.php:17", "FAILURES!", "Tests: 13, Failures: 1."),
        job("1) CartTest::testRebate", "Error: Call to undefined method Cart::rebate()",
             "/builds/team/app/tests/CartTest.php:31", "ERRORS!", "Tests: 12, Errors: 1."),
    ),
    Tool(
        "phpunit --testdox",
        php_testdox(("Totals", "Failed asserting that 41 matches expected 42.")),
        php_testdox(("Totals", "Failed asserting that 41 matches expected 42."), line=17),
        php_testdox(("Rebates", "Error: Call to undefined method Cart::rebate()")),
        php_testdox(("Totals", "Failed asserting that 41 matches expected 42."),
                 ("Rebates", "Error: Call to undefined method Cart::rebate()")),
    ),
    Tool(
        "mix test",
        exunit(("totals", "41")),
        exunit(("totals", "41"), first=3, seed=77),
        exunit(("rebates", "41")),
        exunit(("totals", "41"), ("rebates", "0")),
    ),
    Tool(
        "dotnet test",
        dotnet(("Totals", "Assert.Equal() Failure: Values differ")),
        dotnet(("Totals", "Assert.Equal() Failure: Values differ"), took="< 1 ms", at="01.31"),
        dotnet(("Rebates", "System.NullReferenceException : Object reference not set.")),
        dotnet(("Totals", "Assert.Equal() Failure: Values differ"),
                ("Rebates", "System.NullReferenceException : Object reference not set.")),
    ),
    Tool(
        "spectral",
        spectral(12, (73, "path-params", "Operation must define parameter id"), all=7),
        spectral(33, (94, "path-params", "Operation must define parameter id"), all=9),
        spectral(12, (73, "operation-id-unique", "Every operation has its own id"), all=7),
        spectral(12, (73, "path-params", "Operation must define parameter id"),
                  (74, "operation-id-unique", "Every operation has its own id"), all=7),
    ),
    Tool(
        "testthat",
        r_tests(("Failure", "zones are whole", "`missing` not identical to character().")),
        r_tests(("Failure", "zones are whole", "`missing` not identical to character()."), at=31),
        r_tests(("Error", "rates are those of zone 7", "Error in `rate()`: none for NA")),
        r_tests(("Failure", "zones are whole", "`missing` not identical to character()."),
                  ("Error", "rates are those of zone 7", "Error in `rate()`: none for NA")),
    ),
    Tool(
        "minitest",
        minitest(("PriceTest#test_currency", 'Expected: "12 EUR"')),
        minitest(("PriceTest#test_currency", 'Expected: "12 EUR"'), runs=626, seed=51873),
        minitest(("CartTest#test_total", "Expected: 42")),
        minitest(("PriceTest#test_currency", 'Expected: "12 EUR"'),
                  ("CartTest#test_total", "Expected: 42")),
    ),
    Tool(
        "ghc",
        job("app/Report.hs:30:12: error: [GHC-39999]", "    • No instance for ‘Monoid Totals’",
             "Error: [Cabal-7125]", "Failed to build exe:tally from tally-1.9.0."),
        job("app/Report.hs:33:12: error: [GHC-39999]", "    • No instance for ‘Monoid Totals’",
             "Error: [Cabal-7125]", "Failed to build exe:tally from tally-1.9.1."),
        job("app/Report.hs:30:12: error: [GHC-88464]", "    Variable not in scope: foldMap",
             "Error: [Cabal-7125]", "Failed to build exe:tally from tally-1.9.0."),
        job("app/Report.hs:30:12: error: [GHC-39999]", "    • No instance for ‘Monoid Totals’",
             "app/Report.hs:41:1: error: [GHC-88464]", "    Variable not in scope: foldMap",
             "Error: [Cabal-7125]", "Failed to build exe:tally from tally-1.9.0."),
    ),
    Tool(
        "julia",
        job("Method ambiguity: Test Failed at test/a.jl:7", "  Expression: n == 0",
            "ERROR: LoadError: Some tests did not pass: 227 passed, 1 failed, 0 errored, 0 broken.",
            "ERROR: Package Tides errored during testing"),
        job("Method ambiguity: Test Failed at test/a.jl:9", "  Expression: n == 0",
            "ERROR: LoadError: Some tests did not pass: 231 passed, 1 failed, 0 errored, 0 broken.",
            "ERROR: Package Tides errored during testing"),
        job("tides of Cuxhaven: Test Failed at test/a.jl:7", "  Expression: high(9) == 3",
            "ERROR: LoadError: Some tests did not pass: 227 passed, 1 failed, 0 errored, 0 broken.",
            "ERROR: Package Tides errored during testing"),
    ),
    Tool(
        "gitleaks",
        job("Finding:     token = REDACTED", "Fingerprint: aaee75fc9b4ff359:a.sh:curl-auth:5",
            "5:28PM WRN leaks found: 1"),
        job("Finding:     token = REDACTED", "Fingerprint: aaee75fc9b4ff359:a.sh:curl-auth:5",
            "6:02PM WRN leaks found: 1"),
        job("Finding:     key = REDACTED", "Fingerprint: aaee75fc9b4ff359:b.env:aws-key:2",
            "5:28PM WRN leaks found: 1"),
        job("Finding:     token = REDACTED", "Fingerprint: aaee75fc9b4ff359:a.sh:curl-auth:5",
            "Finding:     key = REDACTED", "Fingerprint: aaee75fc9b4ff359:b.env:aws-key:2",
            "5:28PM WRN leaks found: 2"),
    ),
    Tool(
        "packer",
        packer("base", "VcpuLimitExceeded: the limit is 32", "465"),
        packer("worker", "VcpuLimitExceeded: the limit is 32", "644"),
        packer("base", "InvalidAMIID: the image does not exist", "465"),
    ),
    Tool(
        "cocotb",
        job("AssertionError: word 24: got 0, want 24",
            "** test_fifo.wraps_around  FAIL   1040.00     0.01   88466 **",
            "** TESTS=2 PASS=1 FAIL=1 SKIP=0   2820.00 **"),
        job("AssertionError: word 24: got 0, want 24",
            "** test_fifo.wraps_around  FAIL   1040.00     0.02   91133 **",
            "** TESTS=3 PASS=2 FAIL=1 SKIP=0   3310.00 **"),
        job("AssertionError: depth: got 8, want 16",
            "** test_fifo.is_deep       FAIL   1040.00     0.01   88466 **",
            "** TESTS=2 PASS=1 FAIL=1 SKIP=0   2820.00 **"),
    ),
    Tool(
        "k6",
        k6("http_req_duration", "431.77ms", "162.04ms"),
        k6("http_req_duration", "407.12ms", "171.40ms"),
        k6("http_req_failed", "431.77ms", "162.04ms"),
    ),
    Tool(
        "xcodebuild",
        xctest(("testResumes", "Asynchronous wait failed: Exceeded timeout of 2 seconds.")),
        xctest(("testResumes", "Asynchronous wait failed: Exceeded timeout of 2 seconds."),
                took="2.106", process=26911),
        xctest(("testTotals", 'XCTAssertEqual failed: ("41") is not equal to ("42")')),
        xctest(("testResumes", "Asynchronous wait failed: Exceeded timeout of 2 seconds."),
                ("testTotals", 'XCTAssertEqual failed: ("41") is not equal to ("42")')),
    ),
    Tool(
        "mix dialyzer",
        job("lib/rate.ex:13:7:pattern_match", "The pattern can never match the type.", "",
             "done (warnings were emitted)"),
        job("lib/rate.ex:17:9:pattern_match", "The pattern can never match the type.", "",
             "done (warnings were emitted)"),
        job("lib/rate.ex:13:7:no_return", "Function quote/1 has no local return.", "",
             "done (warnings were emitted)"),
        job("lib/rate.ex:13:7:pattern_match", "The pattern can never match the type.", "",
             "lib/tax.ex:3:1:no_return", "Function vat/1 has no local return."),
    ),
    Tool(
        "terraform",
        job("│ Error: Invalid count argument", "│   on main.tf line 12, in resource \"vm\" \"a\":",
             "╵"),
        job("│ Error: Invalid count argument", "│   on main.tf line 14, in resource \"vm\" \"a\":",
             "╵"),
        job("│ Error: Unsupported attribute", "│   on main.tf line 12, in resource \"vm\" \"a\":",
             "╵"),
    ),
    Tool(
        "a shell's network",
        job("curl: (28) Failed to connect to packages.internal.example port 443: timed out"),
        job("curl: (28) Failed to connect to packages.internal.example port 443: timed out"),
        job("curl: (22) The requested URL returned error: 404"),
        job("curl: (28) Failed to connect to packages.internal.example port 443: timed out",
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
