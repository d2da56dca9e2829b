"""A quote proves a cause, or it is only context."""

from collections.abc import Iterator, Sequence

import pytest

from tests.linear import takes_linear_time
from tests.unit.answer.captures import Held
from worker.answer.cause_proof import mark_context
from worker.answer.proof import require_evidence
from worker.verdict.finding import (
    Evidence,
    Finding,
    JobArtifact,
    JobLog,
    Place,
    RepoFile,
    ReportedTest,
    RequestFile,
    TaskStep,
)
from worker.verdict.verdict import Verdict

CHANGE, INFRASTRUCTURE, FLAKY, TARGET = (
    Verdict.CHANGE,
    Verdict.INFRASTRUCTURE,
    Verdict.FLAKY,
    Verdict.TARGET,
)

BEGIN = """\
- Running with gitlab-runner 19.4.0 (139a0ac0)
-   on build-docker-03 t3Kq8ZsVx, system ID: s_4c1f9a0d7be2
- Preparing the "docker" executor
- Using Docker executor with image node:20-bookworm ...
- Using docker image sha256:7c1e4f0b92d3 for node:20 with digest node@sha256:0b7d5f21ac ...
- Getting source from Git repository
- Fetching changes with git depth set to 20...
- Checking out 5d0c41be as detached HEAD (ref is refs/merge-requests/41/head)...
- Executing "step_script" stage of the job script
"""
END = """\
- Uploading artifacts for failed job
- WARNING: reports/*.xml: no matching files. Ensure that the artifact path is relative
- ERROR: No files to upload
- Cleaning up project directory and file based variables
- ERROR: Job failed: exit code 1
"""

SCRIPTS = {
    "cargo": """\
- $ git describe --tags
- fatal: No names found, cannot describe anything.
- $ cargo build --locked
-    Compiling serde v1.0.210
+ error[E0308]: mismatched types
+   --> src/pool.rs:41:9
+    |         ^^^^ expected `u32`, found `String`
- error: aborting due to 1 previous error
- For more information about this error, try `rustc --explain E0308`.
- error: could not compile `pool` (lib) due to 1 previous error; 2 warnings emitted
- warning: build failed, waiting for other jobs to finish...
""",
    "jest snapshot": """\
- $ npx jest --ci
+     expect(received).toMatchSnapshot()
-     - Snapshot  - 0
-     + Received  + 4
+     +       aria-label="Note"
- Tests:       1 failed, 87 passed, 88 total
""",
    "cargo test": """\
- $ cargo test
- running 6 tests
- test acquires ... ok
+ thread 'wraps' panicked at src/ring.rs:77:13:
+ attempt to subtract with overflow
- note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
- test result: FAILED. 5 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out
- error: test failed, to rerun pass `--lib`
""",
    "pytest": """\
- $ pip install -q -r requirements.txt
- WARNING: Running pip as the 'root' user can result in broken permissions
- $ pytest -q tests
- platform linux -- Python 3.12.7, pytest-8.3.3, pluggy-1.5.0
- collected 32 items
- =================================== FAILURES ===================================
- ______________________________ test_totals_of_vat ______________________________
+ >       assert total([100]) == 119
+ E       assert 107.0 == 119
+ E        +  where 107.0 = total([100])
+ tests/test_totals.py:41: AssertionError
- =========================== short test summary info ============================
+ FAILED tests/test_totals.py::test_totals_of_vat - assert 107.0 == 119
- 1 failed, 31 passed in 4.18s
- ======================== 1 failed, 31 passed in 4.18s =========================
""",
    "npm": """\
- $ npm ci --no-audit
+ npm ERR! notarget No matching version found for left-pad@9.9.9.
- npm ERR! code ETARGET
- npm ERR! A complete log of this run can be found in: /root/.npm/_logs/debug-0.log
""",
    "vitest": """\
- $ npm test
- > shop@1.4.0 test
- > vitest run
-  ✓ src/cart.test.ts (12 tests) 31ms
+  FAIL  src/price.test.ts > rounds half up
+ AssertionError: expected 2.67 to be 2.68 // Object.is equality
+  ❯ src/price.test.ts:14:22
-  Test Files  1 failed | 11 passed (12)
-       Tests  1 failed | 143 passed (144)
- npm ERR! Test failed.  See above for more details.
- npm error Lifecycle script `test` failed with error:
""",
    "make": """\
- $ make -j4 all
- make: Entering directory '/builds/acme/shop'
+ src/parse.c:88:14: error: 'struct node' has no member named 'nxt'
- 1 error generated.
- make[1]: *** [Makefile:31: parse.o] Error 1
- make: *** [Makefile:12: all] Error 2
- make: *** Waiting for unfinished jobs....
""",
    "a linker": """\
- $ make
+ ld: 0711-987 Error occurred while reading file
- 3 errors occurred:
""",
    "make's own error": """\
- $ make docs
+ make: *** No rule to make target 'docs/api.md', needed by 'docs'.  Stop.
""",
    "ninja": """\
- $ cmake --build build
- FAILED: CMakeFiles/shop.dir/a.cpp.o
+ /builds/acme/shop/src/a.cpp:7:10: fatal error: fmt/core.h: No such file or directory
- compilation terminated due to previous errors
- ninja: build stopped: subcommand failed.
""",
    "gradle": """\
- $ ./gradlew check
- > Task :app:compileJava
- > Task :app:compileJava FAILED
+ /builds/acme/shop/app/src/main/java/A.java:12: error: cannot find symbol
- FAILURE: Build failed with an exception.
- * What went wrong:
- Execution failed for task ':app:compileJava'.
+ > Could not resolve com.acme:commons:1.8.0.
- > Run with --scan to get full insights.
- BUILD FAILED in 41s
""",
    "maven": """\
- $ mvn -B verify
- [INFO] Scanning for projects...
- [INFO] --- maven-surefire-plugin:3.2.5:test (default-test) @ shop ---
+ [ERROR]   PriceTest.rounds:31 expected: <2.68> but was: <2.67>
- [ERROR] Tests run: 12, Failures: 1, Errors: 0, Skipped: 0
- [INFO] BUILD FAILURE
- [ERROR] -> [Help 1]
- [ERROR] Re-run Maven using the -X switch to enable full debug logging.
""",
    "go": """\
- $ go test -race ./...
- === RUN   TestFlush
+ WARNING: DATA RACE
+ Read at 0x00c0000b4010 by goroutine 9:
+     spool_test.go:41: flushed 3 of 4 rows
- FAIL\tgithub.com/acme/spool\t2.113s
- FAIL
- ok  \tgithub.com/acme/spool/wire\t0.020s
""",
    "docker build": """\
- $ docker build -t shop .
- #7 [2/5] RUN npm ci
+ #7 3.201 npm error Missing: left-pad@1.3.0 from lock file
- #7 ERROR: process "/bin/sh -c npm ci" did not complete successfully: exit code: 1
- ERROR: failed to solve: process "/bin/sh -c npm ci" did not complete successfully: exit code: 1
""",
    "docker's own error": """\
- $ docker build -t shop .
+ ERROR: failed to solve: python:3.99: docker.io/library/python:3.99: not found
""",
    "rspec and rake": """\
- $ bundle exec rake spec
+   Failure/Error: expect(order.total).to eq(119)
+        got: 107
- 5 examples, 1 failure
- rake aborted!
- Tasks: TOP => spec
- (See full trace by running task with --trace)
""",
    "linters": """\
- $ ruff check . && mypy .
+ src/shop/vat.py:12:5: F841 Local variable `rate` is assigned to but never used
- Found 1 error.
- Found 3 errors in 2 files (checked 24 source files)
- ✖ 3 problems (3 errors, 0 warnings)
- 12 files inspected, 3 offenses detected
- 1 file would be reformatted, 41 files would be left unchanged.
""",
    "dotnet": """\
- $ dotnet test
+ /builds/acme/Api/Order.cs(20,1): error CS1002: ; expected
- Build FAILED.
-     0 Warning(s)
-     1 Error(s)
""",
    "terraform": """\
- $ terraform plan -input=false
+ Error: Unsupported argument
+ on main.tf line 12, in module "dns":
""",
    "a killed program": """\
- $ npx webpack --mode production
+ bash: line 172:   214 Killed                  npx webpack --mode production
- Error: Command failed with exit code 137: npx webpack --mode production
""",
    "a traced script": """\
- $ bash -x ci/deploy.sh
- + docker compose up -d
- + curl -fsS http://localhost:8080/health
+ curl: (7) Failed to connect to localhost port 8080 after 0 ms: Couldn't connect to server
""",
    "a formatter's diff": """\
- $ black --diff --check .
+ --- src/shop/vat.py
+ @@ -1,3 +1,3 @@
+ -x = {  'a':1 }
+ + x = {"a": 1}
- 1 file would be reformatted.
""",
    "nothing to test": """\
- $ npx jest --ci
+ No tests found, exiting with code 1
""",
    "a silent command": """\
- $ set -o pipefail
+ $ git log --format=%s | head -n 1 > subject.txt
""",
    "the words of another job": """\
- $ ./deploy.sh
- Job succeeded
+ deploy: the pod of build 12 is not ready
""",
    "an after_script": """\
- $ ./check.sh
+ check.sh: line 4: jq: command not found
- Running after_script
- Running after script...
- $ cat build.log
- ERROR: cannot stat build.log
""",
}  # fmt: skip

WHOLE = {
    "no image": (INFRASTRUCTURE, """\
- Running with gitlab-runner 19.4.0 (139a0ac0)
- Preparing the "docker" executor
- Using Docker executor with image node:20-bookworm ...
- Pulling docker image node:20-bookworm ...
+ WARNING: Failed to pull image with policy "always": toomanyrequests: You have reached your limit
+ ERROR: Job failed: failed to pull image "node:20" with specified policies [always]: not found
"""),
    "no pod": (INFRASTRUCTURE, """\
- Running with gitlab-runner 19.4.0 (139a0ac0)
- Preparing environment
- Waiting for pod ci-jobs/runner-hz7 to be running, status is Pending
+ \tUnschedulable: "0/6 nodes are available: 6 Insufficient memory."
+ ERROR: Job failed (system failure): prepare environment: waiting for pod running: timed out
"""),
    "no sources": (CHANGE, """\
- Running with gitlab-runner 19.4.0 (139a0ac0)
- Getting source from Git repository
- Fetching changes with git depth set to 20...
+ fatal: couldn't find remote ref refs/merge-requests/41/merge
- Cleaning up project directory and file based variables
- ERROR: Job failed: exit status 1
"""),
    "an evicted pod": (INFRASTRUCTURE, BEGIN + """\
- $ make test
- Running 412 tests
+ ERROR: Job failed (system failure): pod "runner-x" is disrupted: the node was low on memory
"""),
    "artifacts that are too large": (INFRASTRUCTURE, BEGIN + """\
- $ make dist
- Uploading artifacts for successful job
- Uploading artifacts...
- dist: found 3 matching artifact files and directories
+ ERROR: Uploading artifacts as "archive" to coordinator... 413 Request Entity Too Large
- ERROR: Job failed: exit code 1
"""),
    "a time limit": (FLAKY, BEGIN + """\
- $ cargo test
- running 6 tests
- test opens ... ok
+ test acquires ... ok
+ test releases ... ok
+ test drains_while_filling has been running for over 60 seconds
- ERROR: Job failed: execution took longer than 1h0m0s seconds
"""),
    "a job that passed": (TARGET, BEGIN + """\
- $ pytest
- E       assert 107.0 == 119
- Job succeeded
"""),
    "a log of another system": (TARGET, """\
+ error: no such file
- Process exited with code 1
"""),
}  # fmt: skip


def _read_rows() -> Iterator[tuple[str, Verdict, str, int, bool]]:
    """Yield each log's name, its verdict, its text, and a line with whether it is proof."""
    logs = {name: (CHANGE, BEGIN + script + END) for name, script in SCRIPTS.items()}
    for name, (verdict, marked) in (logs | WHOLE).items():
        rows = marked.splitlines()
        log = "\n".join(row[2:] for row in rows)
        first = 1 if name in ("cargo", *WHOLE) else marked.count("\n", 0, len(BEGIN)) + 1
        last = len(rows) if name in ("cargo", *WHOLE) else len(rows) - END.count("\n")
        for number in range(first, last + 1):
            yield name, verdict, log, number, rows[number - 1][0] == "+"


ROWS = [
    pytest.param(verdict, log, number, proves, id=f"{name}: {log.splitlines()[number - 1]}")
    for name, verdict, log, number, proves in _read_rows()
]


def find_lack(
    quote: Evidence, verdict: Verdict, lines: Sequence[str] = (), changed: Sequence[str] = ()
) -> str:
    held = Held({quote.place: "\n".join(lines)} if lines else {})
    (marked,) = mark_context(Finding(verdict, evidence=(quote,)), held, changed).evidence
    return marked.lacks


@pytest.mark.parametrize(("verdict", "log", "number", "proves"), ROWS)
def test_a_line_of_a_log_is_proof_or_context(
    verdict: Verdict, log: str, number: int, proves: bool
) -> None:
    lines = log.split("\n")
    quote = Evidence(JobLog(7), number, lines[number - 1].strip(), last=number)
    assert bool(find_lack(quote, verdict, lines)) != proves


FILE, OTHER = RepoFile("src/vat.py"), RepoFile("src/vat.py", "main")
CHANGED = ("src/vat.py", ".gitlab-ci.yml")
PLACES: list[tuple[Place, str, Verdict, bool]] = [
    (FILE, "RATE = 0.07", CHANGE, True),
    (RepoFile(".gitlab-ci.yml"), "  extends: .tests", CHANGE, True),
    (RepoFile("src/other.py"), "RATE = 0.07", CHANGE, False),
    (OTHER, "RATE = 0.19", CHANGE, False),
    (FILE, "RATE = 0.07", FLAKY, False),
    (FILE, "RATE = 0.07", INFRASTRUCTURE, False),
    (FILE, "RATE = 0.07", TARGET, False),
    (ReportedTest("tests.test_vat"), "assert 107.0 == 119", CHANGE, True),
    (ReportedTest("tests.test_vat"), "TimeoutError: no tick in 5 s", FLAKY, True),
    (ReportedTest("tests.test_vat"), "1 failed, 31 passed in 4.18s", CHANGE, False),
    (ReportedTest("tests.test_vat"), "Traceback (most recent call last):", CHANGE, False),
    (JobArtifact(7, "out.txt"), "FATAL: role shop does not exist", INFRASTRUCTURE, True),
    (JobArtifact(7, "out.txt"), "Process exited with code 1", INFRASTRUCTURE, False),
    (TaskStep("scan-1", "scan"), "error: the registry does not answer", INFRASTRUCTURE, True),
    (TaskStep("scan-1", "scan"), "make: *** [Makefile:3: scan] Error 1", INFRASTRUCTURE, False),
    (RequestFile("a", "log.txt"), ":: [   FAIL   ] :: Command 'rpm -q shop'", CHANGE, True),
    (RequestFile("a", "log.txt"), "====================", CHANGE, False),
]  # fmt: skip


@pytest.mark.parametrize(("place", "text", "verdict", "proves"), PLACES)
def test_a_quote_of_another_place_is_proof_or_context(
    place: Place, text: str, verdict: Verdict, proves: bool
) -> None:
    assert bool(find_lack(Evidence(place, 3, text, last=3), verdict, changed=CHANGED)) != proves


EARLIER = (
    BEGIN
    + "- $ ./setup.sh\n- /builds/acme/shop/src/vat.py:12: SyntaxWarning: invalid\n- $ ./test\n"
    "- it differs\n" + END
)


@pytest.mark.parametrize(
    ("verdict", "changed", "proves"),
    [
        (CHANGE, CHANGED, True),
        (CHANGE, ("src/other.py",), False),
        (CHANGE, (), False),
        (FLAKY, CHANGED, False),
    ],
)
def test_a_line_that_names_a_line_of_the_change_is_proof_wherever_it_stands(
    verdict: Verdict, changed: tuple[str, ...], proves: bool
) -> None:
    lines = [row[2:] for row in EARLIER.splitlines()]
    number = next(at for at, line in enumerate(lines, 1) if "SyntaxWarning" in line)
    quote = Evidence(JobLog(7), number, lines[number - 1], last=number)
    assert bool(find_lack(quote, verdict, lines, changed)) != proves


def test_a_part_of_a_line_is_no_better_than_its_line() -> None:
    lines = ["$ make", "error: could not compile `pool` (lib) due to 1 previous error", "exit 1"]
    assert find_lack(Evidence(JobLog(7), 2, "could not compile `pool`", last=2), CHANGE, lines)


def test_of_several_lines_one_that_proves_is_enough() -> None:
    lines = [
        "$ make",
        "a.c:3:1: error: no such field",
        "1 error generated.",
        "make: *** [x] Error 1",
    ]
    both = Evidence(JobLog(7), 2, "\n".join(lines[1:3]), last=3)
    assert not find_lack(both, CHANGE, lines)
    assert find_lack(Evidence(JobLog(7), 3, "\n".join(lines[2:]), last=4), CHANGE, lines)


def test_each_reason_says_what_the_line_is_or_where_the_output_stands() -> None:
    lines = [row[2:] for row in (BEGIN + SCRIPTS["cargo"] + END).splitlines()]

    def lack(text: str) -> str:
        number = lines.index(text) + 1
        return find_lack(Evidence(JobLog(7), number, text, last=number), CHANGE, lines)

    assert lack(lines[0]) == "any run prints it"
    assert lack("ERROR: Job failed: exit code 1") == "any failure ends so"
    follows = "it only follows from the error, or counts"
    assert lack("error: aborting due to 1 previous error") == follows
    said = "it is not in the output of the command that failed, lines 13 to 20"
    assert lack("fatal: No names found, cannot describe anything.") == said


def test_a_verdict_without_a_quote_that_proves_it_is_not_kept() -> None:
    log = "\n".join(row[2:] for row in (BEGIN + SCRIPTS["pytest"] + END).splitlines())
    lines = log.split("\n")

    def judge(*numbers: int, others: tuple[str, ...] = ()) -> Finding:
        quotes = tuple(Evidence(JobLog(7), at, lines[at - 1], last=at) for at in numbers)
        marked = mark_context(Finding(CHANGE, evidence=quotes), Held({JobLog(7): log}))
        return require_evidence(marked, others)

    proof = next(at for at, line in enumerate(lines, 1) if "assert 107.0" in line)
    lost = judge(1, len(lines))
    assert (lost.verdict, len(lost.evidence)) == (Verdict.UNKNOWN, 2)
    assert "said “caused by this change”, but quoted nothing that proves it" in lost.doubt
    assert judge(1, proof).verdict is CHANGE
    assert judge(1, others=(CHANGE,)).verdict is CHANGE


def test_a_log_that_can_no_longer_be_read_is_not_needed_for_what_a_line_is() -> None:
    quotes = (
        Evidence(JobLog(7), 1, "Running with gitlab-runner 19.4.0 (139a0ac0)", last=1),
        Evidence(JobLog(7), 2, "error: no such file", last=2),
    )
    marked = mark_context(Finding(CHANGE, evidence=quotes), Held())
    assert [bool(quote.lacks) for quote in marked.evidence] == [True, False]


@pytest.mark.parametrize(
    "unit", ["1 error ", "a: ", "== ", "+ x", "exit code 1 ", "make: *** [", "'"]
)
def test_a_hostile_line_takes_linear_time(unit: str) -> None:
    def judge(text: str) -> None:
        find_lack(Evidence(JobLog(7), 1, text, last=1), CHANGE, [text], CHANGED)

    assert takes_linear_time(judge, unit, 30_000)
