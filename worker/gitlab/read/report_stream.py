"""GitLab's answers about the tests of a pipeline: the summary, which only counts, and the report.

The report is read while it arrives: it may list 200,000 tests, and the output of a single one may
be as large as GitLab lets a file be. Of tests that have not failed only numbers are kept.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import ijson
from pydantic import Field

from worker.gitlab.read import wire

MOST_OUTPUT = 16_384
"""The most characters of a failed test's output, or of its name, that are kept, from its start."""

PIECE = 64 * 1024
"""Bytes: of a string that is longer than some pieces the middle is dropped."""

_SUITE = "test_suites.item"
_CASE = f"{_SUITE}.test_cases.item"
_OUTPUT = f"{_CASE}.system_output"
_CASE_FIELDS = {f"{_CASE}.{name}": name for name in ("status", "name", "classname", "file")}
_NOTHING = frozenset({"map_key", "null"})
_COUNTS = ("total_count", "failed_count", "error_count", "skipped_count")
_SUITE_FIELDS = {f"{_SUITE}.{name}": name for name in ("name", "suite_error", *_COUNTS)}


class CountedSuite(wire.Answer):
    """What GitLab has counted of one suite."""

    name: str = ""
    tests: int = Field(default=0, alias="total_count")
    failures: int = Field(default=0, alias="failed_count")
    errors: int = Field(default=0, alias="error_count")
    skipped_tests: int = Field(default=0, alias="skipped_count")
    build_ids: tuple[int, ...] = ()
    suite_error: str | None = None

    @property
    def failed_tests(self) -> int:
        """Failures and errors."""
        return self.failures + self.errors

    @property
    def is_readable(self) -> bool:
        """Whether GitLab could parse what its jobs have reported."""
        return not self.suite_error


class ReportSummary(wire.Answer):
    """What GitLab has counted of a pipeline's tests; no test has a name there."""

    test_suites: tuple[CountedSuite, ...] = ()


@dataclass(frozen=True, slots=True)
class ReportedCase:
    """A test that has failed, as its report names it."""

    name: str
    classname: str
    file: str
    output: str
    """What it has said, from its start."""
    has_passed: bool = False
    """Whether the report also lists it as passed: its job has run it again."""


@dataclass(frozen=True, slots=True)
class ReportedSuite:
    """What a report says of one suite."""

    name: str
    tests: int
    failed_tests: int
    """Failures and errors, also those that are not among `cases`."""
    skipped_tests: int
    is_readable: bool
    """Whether GitLab could parse what its jobs have reported."""
    cases: tuple[ReportedCase, ...]


@dataclass(slots=True)
class ReportParser:
    """Takes a report piece by piece. Of all suites together, `most` failed tests are kept."""

    most: int
    suites: list[ReportedSuite] = field(default_factory=list[ReportedSuite])
    """The suites that have come to their end."""
    _told: dict[str, Any] = field(default_factory=dict[str, Any])
    _case: dict[str, Any] = field(default_factory=dict[str, Any])
    _kept: list[tuple[int, ReportedCase]] = field(default_factory=list[tuple[int, ReportedCase]])
    _passed: set[int] = field(default_factory=set[int])
    """Hashes of the names of passed tests: the names themselves would take too much room."""
    _failed: int = 0
    _events: Any = field(default_factory=ijson.sendable_list)
    _source: Any = None

    def __post_init__(self) -> None:
        self._source = ijson.parse_coro(self._events)

    def feed(self, piece: bytes) -> None:
        """Read on. Raises ValueError for what is not JSON."""
        try:
            self._source.send(piece)
        except ijson.JSONError as error:
            raise ValueError("not JSON") from error
        for prefix, event, value in self._events:
            if event in _NOTHING:
                continue
            if name := _CASE_FIELDS.get(prefix):
                self._case[name] = value
            elif prefix == _CASE:
                self._take_case(event)
            elif prefix.startswith(_OUTPUT):
                self._take_output(value)
            elif name := _SUITE_FIELDS.get(prefix):
                self._told[name] = value
            elif prefix == _SUITE and event == "end_map":
                self.end_suite()
        del self._events[:]

    def _take_case(self, event: str) -> None:
        """Begin a test, or end it."""
        if event == "start_map":
            self._case = {}
            return
        case = self._case
        key = hash((str(case.get("classname")), str(case.get("name"))))
        if case.get("status") == "success":
            self._passed.add(key)
        elif case.get("status") in ("failed", "error"):
            self._failed += 1
            if self.most > 0:
                self.most -= 1
                name, classname, file = (
                    _get_text(case, each) for each in ("name", "classname", "file")
                )
                told = ReportedCase(name, classname, file, case.get("output", ""))
                self._kept.append((key, told))

    def _take_output(self, value: object) -> None:
        """Add one of the texts of a test's output, which is a mapping or a list of them where the
        XML had attributes or several elements."""
        output = self._case.get("output", "")
        if isinstance(value, str) and len(output) < MOST_OUTPUT:
            both = f"{output}\n{value}" if output else value
            self._case["output"] = both[:MOST_OUTPUT]

    def end_suite(self) -> None:
        """End the suite that was begun, if there is one: nothing more comes."""
        told, kept = self._told, self._kept
        if told or self._failed:
            counted = _get_number(told, "failed_count") + _get_number(told, "error_count")
            cases = (replace(each, has_passed=key in self._passed) for key, each in kept)
            suite = ReportedSuite(
                name=_get_text(told, "name"),
                tests=_get_number(told, "total_count"),
                failed_tests=max(self._failed, counted),
                skipped_tests=_get_number(told, "skipped_count"),
                is_readable=not told.get("suite_error"),
                cases=tuple(cases),
            )
            self.suites.append(suite)
        self._told, self._kept, self._passed, self._failed = {}, [], set(), 0


def _get_text(told: Mapping[str, Any], name: str) -> str:
    return str(told.get(name) or "")[:MOST_OUTPUT]


def _get_number(told: Mapping[str, Any], name: str) -> int:
    value = told.get(name)
    return max(value, 0) if isinstance(value, int) else 0


_PAIR = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}")
"""The first half of a character that JSON writes as two."""

_LONGEST_ESCAPE = 6


def drop_middles(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a JSON text in pieces, without the middle of strings that are longer than some pieces.

    A piece without a quotation mark lies within a string; of several that follow one another, only
    the first is kept.
    """
    held, is_within = bytearray(), False
    for chunk in chunks:
        held += chunk
        if len(held) < PIECE:
            continue
        at = _find_whole_end(held)
        piece = bytes(held[:at])
        del held[:at]
        has_end = b'"' in piece.replace(rb"\\", b"").replace(rb"\"", b"")
        if has_end or not is_within:
            yield piece
        is_within = not has_end
    if held:
        yield bytes(held)


def _find_whole_end(text: bytearray) -> int:
    """Return how much of a piece of JSON ends with a whole character, however that is written."""
    end = len(text)
    for _ in range(2):  # the second half of a pair, then the first
        at = text.rfind(b"\\", max(end - _LONGEST_ESCAPE, 0), end)
        rest = bytes(text[at:end]) if at >= 0 else b""
        is_open = rest == b"\\" or (rest[1:2] == b"u" and len(rest) < _LONGEST_ESCAPE)
        if not is_open and not _PAIR.fullmatch(rest):
            break
        if (at - len(text[:at].rstrip(b"\\"))) % 2:  # it is part of an escaped backslash
            break
        end = at
    for back in range(1, min(4, end) + 1):
        byte = text[end - back]
        if byte >= 0xC0:
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return end - back if back < size else end
        if byte < 0x80:
            break
    return end
