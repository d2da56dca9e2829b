"""Tests that failed, and passed when their runner tried them again: the job did not fail by them.
Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_MARKERS = (b" FLAKY", b" flaky\n", b"] Flakes:")
"""One of these is in each log that has such tests."""

_NEVER = re.compile(r"(?!)")


@dataclass(frozen=True, slots=True)
class _Runner:
    """How a test runner reports such tests; the group `name` is a test's name.

    `listed` names one, below a line `heading` if the runner has one. `begins` is the first line of
    what it prints about a failed attempt, `ends` the first line that belongs to something else;
    `row` is a single line about an attempt.
    """

    listed: re.Pattern[str]
    begins: re.Pattern[str]
    ends: re.Pattern[str]
    heading: re.Pattern[str] = _NEVER
    row: re.Pattern[str] = _NEVER

    def list_names(self, lines: Sequence[str]) -> Iterator[str]:
        is_below = self.heading is _NEVER
        for line in lines:
            if listed := self.listed.match(line):
                if is_below:
                    yield listed["name"]
            elif self.heading is not _NEVER:
                is_below = self.heading.match(line) is not None

    def find_lines(self, lines: Sequence[str], names: frozenset[str]) -> Iterator[int]:
        is_inside = False
        for number, line in enumerate(lines, 1):
            if begins := self.begins.match(line):
                is_inside = begins["name"] in names
            elif self.ends.match(line):
                is_inside = False
            named = self.listed.match(line) or self.row.match(line)
            if is_inside or (named and named["name"] in names):
                yield number


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
        begins=re.compile(
            r"(?:\(\d\d:\d\d:\d\d\) )?(?:FAIL: |INFO: From Testing |={10,30} Test output for )"
            r"(?P<name>//[^\s:]{0,300}:[^\s:]{1,200})"
        ),
        ends=re.compile(r"={40,200}$|(?:\(\d\d:\d\d:\d\d\) )?(?:[A-Z]{4,8}: |\[[\d,]{1,9} / )"),
    ),
    _Runner(  # Playwright
        heading=re.compile(r" {1,4}\d{1,5} flaky$"),
        listed=re.compile(r" {2,6}" + _IN_BROWSER),
        row=re.compile(r" {1,6}✘ {1,5}\d{1,5} " + _IN_BROWSER),
        begins=re.compile(r" {1,6}\d{1,5}\) " + _IN_BROWSER),
        ends=re.compile(r"  \d{1,5} [a-z]"),
    ),
    _Runner(  # cargo-nextest
        listed=re.compile(r" {0,12}FLAKY \d{1,3}/\d{1,3} \[.{1,20}?\] +(?P<name>\S.{1,300})$"),
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


def find_retried(cleaned: bytes) -> frozenset[int]:
    """Return the numbers, from 1, of the lines of a cleaned log that are about such tests."""
    if not any(marker in cleaned for marker in _MARKERS):
        return frozenset()
    lines = cleaned.decode("utf-8", "replace").split("\n")
    return frozenset(number for runner in _RUNNERS for number in _find_lines(runner, lines))


def _find_lines(runner: _Runner, lines: Sequence[str]) -> Iterator[int]:
    names = frozenset(runner.list_names(lines))
    return runner.find_lines(lines, names) if names else iter(())
