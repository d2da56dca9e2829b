"""Which lines of a failed job's log are about its failure, and which are of what failed and did not
fail the job, or of tests that passed. Pure.

A log names many files that have nothing to do with its failure: those of tests that passed, and
those that were compiled, covered or warned about. Only lines that mention a failure or a place in
the code count. Doubtful lines are left out: a missing fact misleads nobody.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from worker.logs.line_kinds import DEADLY
from worker.logs.named_places import PLACE, STACK_HEAD, join_headings
from worker.logs.normal_form import drop_number

LONGEST = 1000
"""The most characters of a line that are read."""

_ASIDE = re.compile(
    r"\d{1,6}\.\d{1,3}s (?:call|setup|teardown) "
    r"|\S{1,200}\.\w{1,8} +\d{1,7} +\d{1,7} .{0,60}\d%| *\S{1,200}\.\w{1,8} +\| +[\d.]{1,6} +\|"
    r"| {0,8}\S{0,200} ?\w{0,40}Warning: |\S{1,300} PASSED\b"
)
"""Lines about the duration, the coverage and the warnings of tests, and about tests that passed."""

_TEST_PROGRESS = re.compile(
    r"(?:(?:\[\w{1,7}\] )?\[ {0,2}\d{1,3}%\] )?PASS(?:ED)?(?: \S{1,300}\.py::"
    r"|\b(?!.{0,300}(?:(?i:error)|Exception): ))|\[ {7}OK \]|\[ RUN {6}\]"
    r"|=== (?:RUN|PAUSE|CONT|NAME) "
    r"|--- PASS: |ok(?: \d|\s+\S{1,300}\s+\(cached\)|\s+\S{1,300}\s+[\d.]{1,12}s\b)|[✓√✔]"
    r"|\S{1,300}::.{0,300} PASSED\b|.{1,300} > .{1,300} PASSED$|.{1,300} \.\.\. (?:ok|ignored)$"
    r"|\d{1,6}/\d{1,6} Test +#\d{1,6}: .{1,300} Passed +[\d.]{1,12} sec$"
    r"|\*\* \S{1,300} +(?:PASS|SKIP) |[\w:]{1,200}#test_.{1,200} = [\d.]{1,9} s = [.S]$"
    r"|Passed \S.{0,300} \[(?:< )?\d[ \w]{0,30}\]$"
    r"|\d\d:\d\d \+\d{1,6}(?: ~\d{1,6})?(?: -\d{1,6})?: (?!Some tests failed|.{0,600} \[E\]$)"
    r"|(?:\[\d{1,6}/\d{1,6}\]|- {1,4}\d{1,6}) \[[^\]]{1,40}\] › |(?:SKIP(?:PED)?|XFAIL|XPASS) \S"
)
"""How a runner reports a test that passed, was skipped or has only begun."""

_HARMLESS = re.compile(
    r"\W{0,8}(?:warning\b|(?:DEBUG|INFO|TRACE|NOTICE)\b)|\$ |w: \S"
    r"|.{0,400}(?:: warning:|\d\d:\d\d\S{0,12} (?:DEBUG|INFO|TRACE)\b)",
    re.IGNORECASE,
)
"""A warning, a log line of a program, or an echoed command."""

_NO_FAILURE = re.compile(
    r"\b(?:0|no|zero) (?:\w{1,20} )?(?:errors?|fail\w{0,10})\b|\b(?:errors?|fail\w{0,10})\b: ?0\b",
    re.IGNORECASE,
)

_FAILS = re.compile(
    r"(?<![\w/.:-])(?:(?i:errors?|exception|fail(?:s|ed|ing|ures?)?|fatal|panic(?:ked)?|traceback"
    r"|assert(?:ion)?|undefined|unresolved|cannot|can't|could not|unable|not found|no such"
    r"|no module|denied|refused|raised|abort(?:ed)?|unexpected|invalid|would reformat|not ok)"
    r"|ERR!|[\w.]{1,100}(?:Error|Exception|Failure|Failed))(?![\w/-]|\.\w)"
    r"|^E {2,}|^# \S+$|^e: |[✕✗✖✘●×]|\[ERROR\]|^\s*--> "
)
"""A word of failure that is not part of a path or of a test's name."""


def remove_asides(text: str) -> str:
    """Return `text` without lines that name files but report no error: `_ASIDE`, and lists."""
    return "\n".join(line for line in text.split("\n") if not _is_aside(drop_number(line)))


_LISTED = 3
"""The least files of a list: a command's arguments, or what a runner is going to look at."""

_FILE = re.compile(
    r"(?:^|(?<=[\s,'\"=]))(?=[^\s/]{0,100}/)[\w@.+~$/\\-]{1,300}\.[A-Za-z]\w{0,11}(?=[\s,'\"]|$)"
)


def _is_aside(line: str) -> bool:
    """Whether a line reports no error of a file that it names."""
    line = line[:LONGEST]
    if _ASIDE.match(line):
        return True
    return len(set(_FILE.findall(line))) >= _LISTED and not PLACE.search(line)


def is_test_progress(line: str) -> bool:
    """Whether a line only says that a test passed or has begun, whatever the test's name."""
    return _TEST_PROGRESS.match(line.strip()) is not None


def select_error_lines(text: str) -> str:
    """Return the lines of a log, with or without their numbers, that are about the failure."""
    return "\n".join(_find_error_lines(text))


def _find_error_lines(text: str) -> Iterator[str]:
    warned, summary = False, False
    for line in join_headings(_drop_passed(text.split("\n"))):
        bare = drop_number(line)[:LONGEST]
        summary = "warnings summary" in bare or (summary and not bare.startswith(("==", "-- ")))
        aside = summary or _is_aside(bare) or is_test_progress(bare) or _HARMLESS.match(bare)
        place = PLACE.search(bare)
        tells = STACK_HEAD.match(bare) or _FAILS.search(_NO_FAILURE.sub("", bare))
        if not aside and (not warned if place else tells):
            yield line
        warned = bare.startswith("warning")


_GO_TEST = re.compile(
    r"(?:\d{1,9}: ?)?\s{0,40}(?:=== (?:RUN|CONT|NAME) {1,3}|--- (?P<ended>PASS|SKIP): )"
    r"(?P<name>\S{1,300})"
)


def _drop_passed(lines: Sequence[str]) -> list[str]:
    """Return the lines without what Go's tests log that passed in the end."""
    marks = [_GO_TEST.match(line) for line in lines]
    passed = {mark["name"] for mark in marks if mark and mark["ended"]}
    kept, test = list[str](), ""
    for line, mark in zip(lines, marks, strict=True):
        if mark:
            test = "" if mark["ended"] else mark["name"]
        elif not line[:1].isspace() and not drop_number(line)[:1].isspace():
            test = ""
        if test not in passed:
            kept.append(line)
    return kept


# --------------------------------------------------------------------- failures that were ignored

# Tests that passed when their runner repeated them, and tasks whose failure is ignored.

_IGNORED_MARKERS = (b" FLAKY", b" flaky\n", b" interrupted\n", b"] Flakes:", b"...ignoring\n")
"""Every log with such failures contains one of these."""

_TASK_FAILED = re.compile(r"(?:fatal|failed): \[[^\]]{1,200}\]")
_TASK_LINES = 200
"""The most lines of a failed task of Ansible's."""

_NEVER = re.compile(r"(?!)")


_FAIL_ON_FLAKY = re.compile(rb"fail-?on-?flaky|failOnFlakeCount", re.IGNORECASE)
"""How a runner is told that flaky tests fail the job: then none of them is ignored."""

_OUTPUT_END = re.compile(r"\$ |ERROR: Job failed|\[\d{1,6}/\d{1,6}\] ")
_MOST_LINES = 200
"""What ends a runner's output about a test, and the most lines that this output may have."""


@dataclass(frozen=True, slots=True)
class _RetryingRunner:
    """How a test runner reports such tests; the group `name` is a test's name.

    `listed` names one, below a line `heading` if the runner has one. `failed` names a test that
    failed for good: nothing about that test is ignored, even if it is also `listed`. `begins` is
    the first line of the output of a failed attempt, `ends` the first line that belongs to
    something else; `row` is a single line about an attempt.
    """

    listed: re.Pattern[str]
    begins: re.Pattern[str]
    ends: re.Pattern[str]
    heading: re.Pattern[str] = _NEVER
    failed: re.Pattern[str] = _NEVER
    row: re.Pattern[str] = _NEVER

    def find_lines(self, lines: Sequence[str]) -> Iterator[int]:
        """Yield the numbers of the lines about the tests that passed in the end each time."""
        if not (names := self._list_names(lines)):
            return
        begun = 0
        for number, line in enumerate(lines, 1):
            if begins := self.begins.match(line):
                begun = number if begins["name"] in names else 0
            elif self.ends.match(line) or _OUTPUT_END.match(line) or number - begun > _MOST_LINES:
                begun = 0
            named = self.listed.match(line) or self.row.match(line)
            if begun or (named and named["name"] in names):
                yield number

    def _list_names(self, lines: Sequence[str]) -> set[str]:
        """Return the names of the tests that passed in the end each time."""
        passed, failed = set[str](), set[str]()
        is_below = self.heading is _NEVER
        for line in lines:
            listed = self.listed.match(line)
            if failure := self.failed.match(line):
                failed.add(failure["name"])
            elif listed:
                (passed if is_below else failed).add(listed["name"])
            if not listed and self.heading is not _NEVER:
                is_below = self.heading.match(line) is not None
        return passed - failed


_IN_BROWSER = (
    r"(?P<name>\[[^\]]{1,40}\] › .{1,300}?)"
    r"(?: \(retry #\d{1,3}\))?(?: \(\d[\d.]{0,9}(?:ms|s|m)\))?(?: ─{1,300})?$"
)
_RUST_STATUS = (
    r" {0,12}(?:TRY \d{1,3} )?[A-Z]{3,8}(?: \d{1,3}/\d{1,3})? \[[ >]{0,3}\d[\d.]{0,9}s\] "
)

_RETRYING_RUNNERS = (
    _RetryingRunner(  # Bazel
        listed=re.compile(r"(?P<name>//\S{1,300}) +FLAKY, failed in "),
        failed=re.compile(r"(?P<name>//\S{1,300}) +(?:FAILED|TIMEOUT|NO STATUS)\b"),
        begins=re.compile(
            r"(?:\(\d\d:\d\d:\d\d\) )?(?:FAIL: |INFO: From Testing |={10,30} Test output for )"
            r"(?P<name>//[^\s:]{0,300}:[^\s:]{1,200})"
        ),
        ends=re.compile(r"={40,200}$|(?:\(\d\d:\d\d:\d\d\) )?(?:[A-Z]{4,8}: |\[[\d,]{1,9} / )"),
    ),
    _RetryingRunner(  # Playwright
        heading=re.compile(r" {1,4}\d{1,5} (?:flaky|interrupted)$"),
        listed=re.compile(r" {2,6}" + _IN_BROWSER),
        row=re.compile(r" {1,6}✘ {1,5}\d{1,5} " + _IN_BROWSER),
        begins=re.compile(r" {1,6}\d{1,5}\) " + _IN_BROWSER),
        ends=re.compile(r"  \d{1,5} [a-z]"),
    ),
    _RetryingRunner(  # cargo-nextest
        listed=re.compile(r" {0,12}FLAKY \d{1,3}/\d{1,3} \[.{1,20}?\] +(?P<name>\S.{1,300})$"),
        failed=re.compile(
            r" {0,12}(?:FAIL|TIMEOUT|SIG[A-Z]{2,6}) \[.{1,20}?\] +(?P<name>\S.{1,300})$"
        ),
        begins=re.compile(
            r"(?: {0,12}TRY \d{1,3} (?!PASS)[A-Z]{3,8} \[.{1,20}?\] +"
            r"|--- TRY \d{1,3} STD(?:OUT|ERR): +)"
            r"(?P<name>\S.{1,300}?)(?: ---)?$"
        ),
        ends=re.compile(_RUST_STATUS + r"|-{10,80}$"),
    ),
    _RetryingRunner(  # Surefire
        heading=re.compile(r"\[WARNING\] Flakes:"),
        listed=re.compile(r"\[WARNING\] (?P<name>[\w$]{1,200}\.[\w.$]{1,300})$"),
        begins=re.compile(
            r"\[(?:ERROR|WARNING)\] (?P<name>[\w$]{1,200}\.[\w.$]{1,300})"
            r"(?:$| .{0,80}<<< (?:FAILURE|ERROR)!$)"
        ),
        ends=re.compile(r"\[(?:INFO|WARNING|ERROR)\](?: (?! )|$)"),
    ),
)


def find_ignored(cleaned: bytes) -> frozenset[int]:
    """Return the numbers, from 1, of the lines of a cleaned log that are about such failures."""
    if not any(marker in cleaned for marker in _IGNORED_MARKERS) or _FAIL_ON_FLAKY.search(cleaned):
        return frozenset()
    lines = cleaned.decode("utf-8", "replace").split("\n")
    retried = (number for runner in _RETRYING_RUNNERS for number in runner.find_lines(lines))
    return frozenset((*retried, *_find_ignored_tasks(lines)))


def _find_ignored_tasks(lines: Sequence[str]) -> Iterator[int]:
    """Yield the numbers of the lines of Ansible's tasks that failed and were ignored."""
    begins = 0
    for number, line in enumerate(lines, 1):
        if _TASK_FAILED.match(line):
            begins = number
        elif begins and line == "...ignoring":
            yield from range(begins, number + 1)
            begins = 0
        elif number - begins > _TASK_LINES:
            begins = 0


# ----------------------------------------------------------------- what passed tests have written

# What it says of errors is no error of the job.

_READ = 400


@dataclass(frozen=True, slots=True)
class _SerialRunner:
    """How a runner that runs one test after the other says that one begins and that it passed; the
    group `name` is the test's name. What stands between these lines is the test's."""

    begins: re.Pattern[str]
    passes: re.Pattern[str]


_SERIAL_RUNNERS = (
    _SerialRunner(  # GoogleTest
        re.compile(r"\[ RUN {6}\] (?P<name>\S{1,300})"),
        re.compile(r"\[ {7}OK \] (?P<name>\S{1,300})"),
    ),
    _SerialRunner(  # XCTest
        re.compile(r"Test Case '(?P<name>[^']{1,300})' started"),
        re.compile(r"Test Case '(?P<name>[^']{1,300})' passed"),
    ),
    _SerialRunner(  # Surefire
        re.compile(r"(?:\[INFO\] )?Running (?P<name>[\w.$]{1,300})$"),
        re.compile(
            r"(?:\[INFO\] )?Tests run: \d{1,7}, Failures: 0, Errors: 0, .{1,100} in "
            r"(?P<name>[\w.$]{1,300})$"
        ),
    ),
)
_GO_BEGINS = re.compile(r"=== (?:RUN|CONT|NAME|PAUSE) +(?P<name>\S{1,300})$")
_GO_ENDS = re.compile(r"\s{0,40}--- (?P<how>PASS|FAIL|SKIP): (?P<name>\S{1,300})")
_GO_LOGS = re.compile(r"\s{1,60}\S{1,100}\.go:\d{1,7}: ")
_GO_OVER = re.compile(r"(?:FAIL|PASS|ok  )\b|panic: ")
_PASSED_MARKERS = (b"[ RUN ", b"Test Case '", b"Running ", b"=== RUN ", b" STANDARD_")
"""Every log with such lines contains one of these."""


def find_passed_output(cleaned: bytes) -> frozenset[int]:
    """Return the numbers of the lines of a cleaned log that tests have written which did not fail;
    not of those in which a program dies, or a race or a bad access is reported, whichever test
    ran."""
    if not any(marker in cleaned for marker in _PASSED_MARKERS):
        return frozenset()
    lines = cleaned.decode("utf-8", "replace").split("\n")
    kinds = (*(_find_between(runner, lines) for runner in _SERIAL_RUNNERS), _find_go(lines))
    numbers = (number for kind in (*kinds, _find_gradle(lines)) for number in kind)
    return frozenset(number for number in numbers if not DEADLY.match(lines[number - 1].strip()))


def _find_between(runner: _SerialRunner, lines: Sequence[str]) -> Iterator[int]:
    begun, name = 0, ""
    for number, line in enumerate(lines, 1):
        text = line[:_READ]
        if begins := runner.begins.match(text):
            begun, name = number, begins["name"]
        elif begun and (passes := runner.passes.match(text)) and passes["name"] == name:
            yield from range(begun + 1, number)
            begun = 0


def _find_go(lines: Sequence[str]) -> Iterator[int]:
    """Yield what is written while a test runs that passes, and what other tests log that do not
    fail: Go names the test whose lines follow, in whatever order the tests run."""
    name, owned = "", list[tuple[int, str]]()
    passed, failed = set[str](), set[str]()
    for number, line in enumerate(lines, 1):
        text = line[:_READ]
        found = _GO_BEGINS.match(text)
        if ends := _GO_ENDS.match(text):
            (failed if ends["how"] == "FAIL" else passed).add(ends["name"])
            found = ends
        if found:
            name = found["name"]
        elif _GO_OVER.match(text):
            name = ""
        elif name:
            owned.append((number, name))
    for number, name in owned:
        if name not in failed and (name in passed or _GO_LOGS.match(lines[number - 1])):
            yield number


def _find_gradle(lines: Sequence[str]) -> Iterator[int]:
    """Yield what Gradle shows, below the name of a test, of the output of tests that passed."""
    name, owned, failed = "", list[tuple[int, str]](), set[str]()
    for number, line in enumerate(lines, 1):
        if name and line.startswith("    "):
            owned.append((number, name))
            continue
        test, _, state = line[:_READ].rpartition(" ")
        name = test if state in ("STANDARD_OUT", "STANDARD_ERR") and " > " in test else ""
        if state == "FAILED":
            failed.add(test)
    yield from (number for number, name in owned if name not in failed)
