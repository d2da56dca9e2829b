"""Parses untrusted JUnit/xUnit XML as a stream: the failed tests and the counts. Refuses a DTD.

By expat itself: `iterparse`, hardened or not, has no cap on an unfinished tag, which costs the
square of its length.

It also reads Testing Farm's own dialect, where the outcome is the attribute `result` of a test or a
suite, and `<logs>` name the files that each has left.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from xml.parsers.expat import ExpatError, ParserCreate

from worker.errors import SourceError
from worker.gitlab.read.base import present
from worker.safety.untrusted import visible

MAX_CASES = 200
MAX_TEXT = 4000
MAX_LOGS = 12
"""Most files that are named for one test or suite."""

MAX_DEPTH = 50
_MAX_ELEMENTS = 1_000_000
MAX_MARKUP = 512 * 1024
"""Bytes of one tag with its attributes, or of one comment.

The parser rescans an unfinished one for each piece that it is fed.
"""

ENCODINGS = ("utf-8", "utf-16", "us-ascii", "iso-8859-1", "iso-8859-15", "windows-1252")
"""The encodings that a report may declare. Python also has codecs that no XML is written in."""

_PIECE = 64 * 1024
_OUTCOMES = {"failure": "failed", "error": "error", "skipped": "skipped"}
_RESULTS = {
    "failed": "failed",
    "fail": "failed",
    "error": "error",
    "undefined": "error",
    "skipped": "skipped",
    "skip": "skipped",
}


class _Forbidden(Exception):
    """What no test report needs: entities, an odd encoding, an absurd depth or size."""


@dataclass(slots=True)
class Case:
    """One test that did not pass, or a suite (its `name` is "") whose tests did not even run.

    `logs` are the addresses of the files that it has left.
    """

    suite: str
    name: str
    classname: str = ""
    status: str = "passed"
    message: str = ""
    text: list[str] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)

    def describe(self) -> dict[str, object]:
        """Return the fields for the model, without `logs`."""
        return present(
            suite=self.suite,
            name=self.name,
            classname=self.classname,
            status=self.status,
            message=visible(self.message)[:MAX_TEXT],
            output=visible("".join(self.text)).strip()[:MAX_TEXT],
        )


class Report:
    """Parses XML piece by piece; the results are in `counts` and `bad`."""

    def __init__(self) -> None:
        self.counts = {"passed": 0, "failed": 0, "error": 0, "skipped": 0}
        self.bad: list[Case] = []
        self._suites: list[tuple[Case, int]] = []
        self._path: list[str] = []
        self._case: Case | None = None
        self._kept = 0
        self._elements = 0
        self._parser = ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start_element
        self._parser.EndElementHandler = self._end_element
        self._parser.CharacterDataHandler = self._add_text
        self._parser.XmlDeclHandler = _check_encoding
        self._parser.StartDoctypeDeclHandler = _refuse_dtd

    def read(self, chunks: Iterable[bytes], what: str) -> "Report":
        """Parse all of it. Raises SourceError for invalid XML, or XML that is not allowed here."""
        fed = 0
        try:
            pieces = (
                chunk[at : at + _PIECE] for chunk in chunks for at in range(0, len(chunk), _PIECE)
            )
            for piece in pieces:
                self._parser.Parse(piece, False)
                fed += len(piece)
                if fed - self._parser.CurrentByteIndex > MAX_MARKUP:
                    raise _Forbidden(f"a tag or comment over {MAX_MARKUP} bytes")
            self._parser.Parse(b"", True)
        except (ExpatError, _Forbidden) as error:
            raise SourceError(f"{what}: not a usable XML report: {error}") from error
        return self

    def _start_element(self, name: str, attributes: dict[str, str]) -> None:
        self._path.append(name)
        self._elements += 1
        if self._elements > _MAX_ELEMENTS:
            raise _Forbidden(f"more than {_MAX_ELEMENTS} elements")
        if len(self._path) > MAX_DEPTH:
            raise _Forbidden(f"deeper than {MAX_DEPTH} elements")
        status = _RESULTS.get(attributes.get("result", "").lower(), "passed")
        if name == "testsuite":
            suite = Case(attributes.get("name", "")[:500], "", status=status)
            self._suites.append((suite, len(self.bad)))
        elif name == "testcase":
            within = self._suites[-1][0].suite if self._suites else ""
            name, of = attributes.get("name", ""), attributes.get("classname", "")
            self._case = Case(within, name[:500], of[:500], status)
            self._kept = 0
        elif name == "log":
            owner = self._case or (self._suites[-1][0] if self._suites else None)
            if owner and attributes.get("href") and len(owner.logs) < MAX_LOGS:
                owner.logs.append(attributes["href"][:1000])
        elif self._case and name in _OUTCOMES:
            if self._case.status == "passed":
                self._case.status = _OUTCOMES[name]
            self._case.message = self._case.message or attributes.get("message", "")[:MAX_TEXT]

    def _end_element(self, name: str) -> None:
        self._path.pop()
        if name == "testsuite":
            suite, bad_before = self._suites.pop()
            if len(self.bad) == bad_before:  # the suite failed before its tests ran
                self._add_case(suite)
        elif name == "testcase" and self._case:
            self.counts[self._case.status] += 1
            self._add_case(self._case)
            self._case = None

    def _add_case(self, case: Case) -> None:
        if case.status in ("failed", "error") and len(self.bad) < MAX_CASES:
            self.bad.append(case)

    def _add_text(self, data: str) -> None:
        is_kept = self._path[-1] in ("failure", "error", "note")
        if self._case and is_kept and self._kept < MAX_TEXT:
            self._case.text.append(data[: MAX_TEXT - self._kept])
            self._kept += len(data)


def _check_encoding(version: str, encoding: str | None, standalone: int) -> None:
    if encoding is not None and encoding.lower() not in ENCODINGS:
        raise _Forbidden(f"its encoding {encoding[:40]!r} is none of {', '.join(ENCODINGS)}")


def _refuse_dtd(*declaration: object) -> None:
    raise _Forbidden("it declares entities, or could: it has a document type")
