"""The lines that tests which passed have written: what they say of errors is no error of the job.
Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from worker.logs.line_kinds import DEADLY

_LONGEST = 400


@dataclass(frozen=True, slots=True)
class _Runner:
    """How a runner that runs one test after the other says that one begins and that it passed; the
    group `name` is the test's name. What stands between these lines is the test's."""

    begins: re.Pattern[str]
    passes: re.Pattern[str]


_RUNNERS = (
    _Runner(  # GoogleTest
        re.compile(r"\[ RUN {6}\] (?P<name>\S{1,300})"),
        re.compile(r"\[ {7}OK \] (?P<name>\S{1,300})"),
    ),
    _Runner(  # XCTest
        re.compile(r"Test Case '(?P<name>[^']{1,300})' started"),
        re.compile(r"Test Case '(?P<name>[^']{1,300})' passed"),
    ),
    _Runner(  # Surefire
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
_MARKERS = (b"[ RUN ", b"Test Case '", b"Running ", b"=== RUN ", b" STANDARD_")
"""Every log with such lines contains one of these."""


def find_passed_output(cleaned: bytes) -> frozenset[int]:
    """Return the numbers of the lines of a cleaned log that tests have written which did not fail;
    not of those in which a program dies, or a race or a bad access is reported, whichever test
    ran."""
    if not any(marker in cleaned for marker in _MARKERS):
        return frozenset()
    lines = cleaned.decode("utf-8", "replace").split("\n")
    kinds = (*(_find_between(runner, lines) for runner in _RUNNERS), _find_go(lines))
    numbers = (number for kind in (*kinds, _find_gradle(lines)) for number in kind)
    return frozenset(number for number in numbers if not DEADLY.match(lines[number - 1].strip()))


def _find_between(runner: _Runner, lines: Sequence[str]) -> Iterator[int]:
    begun, name = 0, ""
    for number, line in enumerate(lines, 1):
        text = line[:_LONGEST]
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
        text = line[:_LONGEST]
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
        test, _, state = line[:_LONGEST].rpartition(" ")
        name = test if state in ("STANDARD_OUT", "STANDARD_ERR") and " > " in test else ""
        if state == "FAILED":
            failed.add(test)
    yield from (number for number, name in owned if name not in failed)
