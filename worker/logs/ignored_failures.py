"""Failures in a log that did not fail its job: tests that passed when their runner repeated them,
and tasks whose failure is ignored. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_MARKERS = (b" FLAKY", b" flaky\n", b" interrupted\n", b"] Flakes:", b"...ignoring\n")
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
class _Runner:
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

_RUNNERS = (
    _Runner(  # Bazel
        listed=re.compile(r"(?P<name>//\S{1,300}) +FLAKY, failed in "),
        failed=re.compile(r"(?P<name>//\S{1,300}) +(?:FAILED|TIMEOUT|NO STATUS)\b"),
        begins=re.compile(
            r"(?:\(\d\d:\d\d:\d\d\) )?(?:FAIL: |INFO: From Testing |={10,30} Test output for )"
            r"(?P<name>//[^\s:]{0,300}:[^\s:]{1,200})"
        ),
        ends=re.compile(r"={40,200}$|(?:\(\d\d:\d\d:\d\d\) )?(?:[A-Z]{4,8}: |\[[\d,]{1,9} / )"),
    ),
    _Runner(  # Playwright
        heading=re.compile(r" {1,4}\d{1,5} (?:flaky|interrupted)$"),
        listed=re.compile(r" {2,6}" + _IN_BROWSER),
        row=re.compile(r" {1,6}✘ {1,5}\d{1,5} " + _IN_BROWSER),
        begins=re.compile(r" {1,6}\d{1,5}\) " + _IN_BROWSER),
        ends=re.compile(r"  \d{1,5} [a-z]"),
    ),
    _Runner(  # cargo-nextest
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
    _Runner(  # Surefire
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
    if not any(marker in cleaned for marker in _MARKERS) or _FAIL_ON_FLAKY.search(cleaned):
        return frozenset()
    lines = cleaned.decode("utf-8", "replace").split("\n")
    retried = (number for runner in _RUNNERS for number in runner.find_lines(lines))
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
