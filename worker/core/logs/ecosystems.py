"""The ecosystems whose failures are recognised by their output format: one row each."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Recogniser:
    """How the tools of one ecosystem begin and end a block that explains a failure.

    Regular expressions, matched at the beginning of a line, after blanks and a log level in
    brackets. They are joined into one expression: they must have no capturing groups, and nothing
    that can match a long text in two ways.
    """

    opens: tuple[str, ...]
    closes: tuple[str, ...] = ()


RECOGNISERS: dict[str, Recogniser] = {
    # xcodebuild, xcpretty, Swift.
    "apple": Recogniser(
        opens=(
            r"[^\s:]{1,200}:\d+: error: [-+]\[",
            r"❌ ",
            r"\*\* (?:BUILD|TEST|ARCHIVE) .{0,20}FAILED",
            r"The following build commands failed",
            r"Failing tests:",
            r"Undefined symbols for",
            r"\S{1,300}\.(?:swift|m|mm|h):\d+(?::\d+)?: (?:fatal )?error: ",
            r"xcodebuild: error",
            r"Testing failed:",
            r"✗ ",
            r"(?:ld|clang): (?:error|symbol|library)",
        ),
        closes=(
            r"Executed \d+ tests?, with 0 fail",
            r"Test Case .{0,200} passed",
        ),
    ),
    # Erlang and Elixir: Common Test, EUnit, ExUnit.
    "beam": Recogniser(
        opens=(
            r"\d+\) (?:test|property) ",
            r"\*\* \(\w+",
            r"\w+:\w+ failed(?: on line \d+)?$",
            r"== Compilation error",
            r"Assertion with ",
            r"%%% .{0,200}FAILED",
            r"Reason: ",
        ),
        closes=(
            r"Finished in ",
            r"Testing \S+: \*\*\* FAILED test case",
        ),
    ),
    # Leiningen and clojure.test.
    "clojure": Recogniser(
        opens=(
            r"(?:FAIL|ERROR) in \(",
            r"Reflection warning",
            r"Syntax error ",
        ),
        closes=(r"Ran \d+ tests",),
    ),
    # .NET, MSBuild, PowerShell and Pester.
    "dotnet": Recogniser(
        opens=(
            r".{0,200}: error [A-Z]{2,}\d+",
            r"\[-\] ",
            r"Failed +[\w.]+[. (]",
            r"Error Message:",
            r"Assert\.\w+\(\) Failure",
            r"\S.{0,250} \[FAIL\]",
            r"\+ (?:CategoryInfo|FullyQualifiedErrorId)",
        ),
        closes=(
            r"\[\+\] ",
            r"Passed +[\w.]+",
            r"Tests (?:completed|Passed)",
        ),
    ),
    # go test, go build, go vet.
    "go": Recogniser(
        opens=(
            r"--- FAIL: ",
            r"panic: ",
            r"# [\w.-]+/\S+$",
            r"Error Trace:",
            r"\[Fail\] ",
            r"fatal error: ",
            r"WARNING: DATA RACE",
            r"FAIL\s+\S+ \[(?:build|setup) failed",
        ),
        closes=(
            r"(?:ok|FAIL)\s+\S+/\S+\s",
            r"--- PASS: ",
            r"=== RUN ",
        ),
    ),
    # GHC, hspec, tasty.
    "haskell": Recogniser(
        opens=(
            r"[^\s:]{1,200}\.l?hs:\d+:\d+:? (?i:error|warning)",
            r"[^\s:]{1,200}\.l?hs:\d+:\d+:$",
            r"\S.{0,200}: +FAIL\b",
            r"Failures:",
        ),
        closes=(
            r"Finished in ",
            r"\S.{0,200}: +OK\b",
            r"\[ *\d+ of \d+\] Compiling",
        ),
    ),
    # Containers, packages, infrastructure as code.
    "infra": Recogniser(
        opens=(
            r"ERROR: (?:failed|Could not|No matching)",
            r"The command .{1,300} returned a non-zero",
            r"E: ",
            r"[╷│] *Error: ",
            r"RPM build errors",
            r"error: (?:Bad exit|Failed build)",
            r"(?:fatal|failed): \[",
            r"\*\*\* WARNING: Service ",
            r"Health check error",
            r"ERROR: (?:process|failed to solve|Job failed|Service|executor)",
            r"> \[.{1,100}\d/\d+\] ",
            r"failed to (?:solve|build|pull|create|start)",
            r"(?:Cannot connect|Error response from daemon|denied: |manifest for )",
            r"(?:helm|kubectl|terraform|ansible)\S{0,40}: ",
            r"Error from server",
            r"nox > Session .{1,80} failed",
            r"ERROR: +\S{1,40}: commands failed",
            r"error: Recipe ",
        ),
        closes=(
            r"(?:ok|changed): \[",
            r"\*{9}$",
        ),
    ),
    # Maven, Gradle, JUnit, Ant.
    "jvm": Recogniser(
        opens=(
            r".{0,200}<<< (?:FAILURE|ERROR)!",
            r"\* What went wrong",
            r"(?:Failed tests|Tests in error|Failures|Errors): *$",
            r"\S.{0,200} > .{0,200} FAILED$",
            r"> Task \S+ FAILED",
            r"COMPILATION ERROR",
            r"/\S{1,300}:\[\d+,\d+\]",
            r"\S{1,300}\.(?:java|kt|scala|groovy):\d*:? ?(?:\[|error)",
            r"e: (?:file:)?/",
            r"[\w$.]{1,200}:\d+ (?:expected|»|Expected)",
            r"[\w$]{1,200}[.>][\w$\[\]>.-]{1,200}:\d+",
            r"Failed to execute goal",
            r"(?:Rule \d+|Could not (?:resolve|find|transfer)) ",
            r"Execution failed for task",
            r"[\w$.]{1,200}(?:Exception|Error)(?:: |$)",
            r"Caused by: ",
            r"Exception in thread",
            r"\[javac\] \S+:\d+: error",
        ),
        closes=(
            r"\* Try:",
            r"BUILD FAIL",
            r"-> \[Help",
            r"Re-run Maven",
            r"Tests run: .{0,80}Errors: 0, Skipped: \d+, Time",
        ),
    ),
    # Linters that print one place per line, and link checkers.
    "lint": Recogniser(
        opens=(
            r"[^\s:]{1,200}:\d+:\d*:? (?:error|warning|[A-Z]{1,4}\d{1,4})\b",
            r"[A-Z]{1,5}\d{2,5} (?:\[\*\] )?[A-Z`].{1,250}[^.\s]$",
            r"(?:Issues|Problems) ",
            r">>> Lint for ",
            r"Error \(\w+\)",
            r"\S{1,300} - \w{1,80} \S{1,200} (?:is invalid|failed validation): ",
            r"[\w./-]{1,200}:\d+(?::\d+)?: \S",
            r"\d+\. \S+://",
            r"(?:Incorrectly formatted|would reformat|diff --git) ",
        ),
        closes=(r"\d+ files? (?:checked|inspected)",),
    ),
    # C and C++: compilers, linkers, CMake, make, GoogleTest.
    "native": Recogniser(
        opens=(
            r"[^\s:]{1,200}:\d+(?::\d+)?: (?:fatal )?error:",
            r"CMake Error",
            r"[^\s:]{1,200}: (?:undefined reference|multiple definition)",
            r"\S{0,100}ld: ",
            r"\[  FAILED  \]",
            r"[^\s:]{1,200}:\d+: Failure",
            r"(?:==\d+==)?(?:ERROR|WARNING): (?:Address|Leak|Thread|Undefined|Memory)\w*Sanitizer",
            r"\S{1,200}:\d+(?::\d+)?: runtime error: ",
            r"SUMMARY: \w+Sanitizer",
            r"[^\s:]{1,200}: (?:In function|In member function|In file included)",
            r"In file included from ",
            r"[^\s:]{1,200}:\S{1,80}: undefined reference",
            r"[^\s:]{1,100}: (?:error|fatal error): ",
            r"collect2: error",
            r"FAILED: \S",
            r"(?:FAIL|XPASS): \S",
            r"The following tests FAILED",
            r"\d+ - \S{1,200} \((?:Failed|Timeout|SEGFAULT|Not Run|Child aborted|Exception)",
            r"\d+/\d+ Test .{1,200}\*\*\*",
            r"terminate called",
            r".{1,200}: Assertion .{1,200} failed",
            r"(?:[a-z]+-)?g?make(?:\[\d+\])?: \*\*\* No rule",
        ),
        closes=(
            r"(?:[a-z]+-)?g?make(?:\[\d+\])?: \*\*\*",
            r"\[       OK \]",
            r"-- Configuring incomplete",
            r"ninja: build stopped",
            r"(?:[a-z]+-)?g?make(?:\[\d+\])?: (?:Leaving|Entering)",
        ),
    ),
    # Jest, Mocha, Playwright, TAP, ESLint.
    "node": Recogniser(
        opens=(
            r"● ",
            r"\d+ failing",
            r"not ok \d",
            r"[✖✗✕✘] ",
            r"\d+\) \[[^\]]{1,40}\] › ",
            r"FAIL +\S+\.[cm]?[jt]sx?",
            r"(?:\w+)?Error: ",
            r"\d+:\d+ +error ",
            r"\S{1,300}\.[cm]?[jt]sx?(?:\(\d+,\d+\)|:\d+:\d+)(?::| -) ",
            r"ERROR in ",
            r"'\S{1,80}' errored after",
            r"Error in plugin",
            r"Warning: Task ",
            r"(?:lerna|gyp) ERR!",
            r"ERR_PNPM|ELIFECYCLE",
            r"Module not found",
            r"(?:error|ERROR)\s+TS\d+",
            r"× |❯ ",
            r"npm (?:ERR!|error) code",
            r"error Command failed",
        ),
        closes=(
            r"Test Suites: ",
            r"npm ERR!",
            r"# (?:tests|pass|fail) +\d",
        ),
    ),
    # PHPUnit, PHP itself, Composer.
    "php": Recogniser(
        opens=(
            r"There (?:was|were) \d+ (?:failure|error|warning)",
            r"\d+\) [\w\\]+::\w+",
            r"(?:PHP )?(?:Fatal|Parse) error: ",
            r"Your requirements could not be resolved",
            r"KO ",
        ),
        closes=(
            r"(?:FAILURES|ERRORS)!",
            r"OK \(\d",
        ),
    ),
    # pytest, unittest, tracebacks.
    "python": Recogniser(
        opens=(
            r"={3,} (?:FAILURES|ERRORS) =",
            r"_{2,} \S.{0,150} _{2,}$",
            r"(?:ERROR|FAIL): [\w.]+(?: \(|$)",
            r"[\w./-]{1,200}\.py::\S.{0,200} (?:FAILED|ERROR)\b",
            r"E {2,}",
            r"Fatal Python error",
            r"[\w./-]{1,200}\.py:\d+: error: ",
            r"mypy: |ImportError while",
            r"Traceback \(most recent",
            r"(?:FAILED|ERROR) \S+\.py",
        ),
        closes=(
            r"={3,} (?:short test summary|warnings summary|slowest|\d+ )",
            r"Ran \d+ tests?",
        ),
    ),
    # R: R CMD check, testthat.
    "r": Recogniser(
        opens=(
            r"\W{0,4}(?:\d+\. )?(?:Failure|Error) ?[:(]",
            r"Error in ",
            r"\* checking .{0,200}\.\.\. (?:\[.{0,30}\] )?(?:ERROR|WARNING|NOTE)",
            r"(?:Running the tests in .{0,100} failed|Last \d+ lines of output)",
        ),
        closes=(
            r"\* checking .{0,200}\.\.\. (?:\[.{0,30}\] )?OK",
            r"\* DONE",
        ),
    ),
    # RSpec, minitest, RuboCop.
    "ruby": Recogniser(
        opens=(
            r"Failures:",
            r"Failure/Error:",
            r"rspec \./",
            r"(?:rake|bundler:) (?:aborted|failed)",
            r"\d+\) (?:Failure|Error)",
            r"\d+\) [A-Z]\w*(?: |::|#)",
            r"\S+\.rb:\d+:\d+: [CWEF]: ",
        ),
        closes=(
            r"Finished in ",
            r"\d+ (?:runs|examples), ",
        ),
    ),
    # cargo and rustc.
    "rust": Recogniser(
        opens=(
            r"error(?:\[E\d+\])?: ",
            r"---- .{1,200} stdout ----",
            r"thread .{1,200} panicked at",
            r"failures:",
            r"error: (?:could not compile|test failed|aborting|failed to)",
            r"(?:left|right): ",
            r"assertion .{1,200}failed",
            r"warning: (?:unused|denied)",
            r"Diff in /",
        ),
        closes=(
            r"test result: ",
            r"error: aborting due to",
            r"warning: ",
        ),
    ),
    # sbt with ScalaTest or specs2.
    "scala": Recogniser(
        opens=(
            r"- .{0,300}\*\*\* FAILED \*\*\*",
            r"x \S",
            r"==> X ",
        ),
        closes=tuple(
            rf"(?<=\[info\]{indent})(?:- (?!.*\*\*\* FAILED)|\+ )"
            for indent in (" ", " " * 3, " " * 5)
        ),
    ),
    # Lua, Perl, Tcl, Emacs Lisp, Vim and shell test tools.
    "scripting": Recogniser(
        opens=(
            r"(?:Failure|Error) (?:→|->) ",
            r"# +Failed test",
            r"Test Summary Report",
            r"(?:FAILED|Found errors in|Caught exception) ",
            r"not ok ",
            r"Failed \d+/\d+ subtests",
            r"\S{1,200} \.\.+ (?:Dubious|Failed)",
            r"#   at \S{1,200} line \d",
            r"FAIL ",
        ),
        closes=(
            r"ok \d",
            r"# tests ",
        ),
    ),
    # TeX.
    "tex": Recogniser(
        opens=(
            r"! [A-Z]",
            r"l\.\d+ ",
            r"Runaway argument",
        ),
        closes=(r"No pages of output",),
    ),
}
