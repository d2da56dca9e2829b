"""The grammar of quotes: what is read as one, in which places, and what is not."""

import time
from collections import deque

import pytest

from worker.answer.parse import parse_finding
from worker.answer.quotes import Prose, scan_quotes
from worker.verdict.finding import (
    Evidence,
    JobArtifact,
    JobLog,
    Place,
    RepoFile,
    ReportedTest,
    RequestFile,
    TaskStep,
)


def quotes(text: str, *, replying: bool = False) -> list[Evidence]:
    return [each for each in scan_quotes(text, replying=replying) if isinstance(each, Evidence)]


@pytest.mark.parametrize(
    "line",
    [
        "- job 7 line 12: the text of it",
        "* job 7 line 12: `the text of it`",
        "1. Job 7, line 12: the text of it  ",
        "- **job 7 line 12:** the text of it",
        "- **job 7, line 12**: the text of it",
        "- `job 7 line 12`: the text of it",
        "- `job 7 line 12: the text of it`",
        "- [job 7 line 12](https://gitlab.example.com/-/jobs/7#L12): the text of it",
        "> job #7 line 12: ``the text of it``",
        "- job 7 (unit-tests) line 12: the text of it",
        "- job 7:12: the text of it",
        "- job 7 L12: the text of it",
        "- job 7 line 12:\n  ```\n  the text of it\n  ```",
        "- job 7 line 12:\nthe text of it",
    ],
)
def test_a_line_of_a_log_is_quoted_in_many_shapes(line: str) -> None:
    finding = parse_finding(f"## Evidence\n{line}\n")
    assert finding.evidence == (Evidence(JobLog(7), 12, "the text of it", last=12),)
    assert finding.unproven == 0


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("- file src/a.py line 12: x = 1", RepoFile("src/a.py")),
        ("- file `src/a.py`, line 12: `x = 1`", RepoFile("src/a.py")),
        ("- file src/a.py, line 12: x = 1", RepoFile("src/a.py")),
        ("- file src/a.py:12: x = 1", RepoFile("src/a.py")),
        ("- `src/a.py:12`: x = 1", RepoFile("src/a.py")),
        ("- src/a.py#L12: x = 1", RepoFile("src/a.py")),
        ("- [src/a.py:12](https://gitlab.example.com/a): x = 1", RepoFile("src/a.py")),
        ("- **file Makefile line 12:** x = 1", RepoFile("Makefile")),
        ("- file `docs/read me.txt` line 12: x = 1", RepoFile("docs/read me.txt")),
        ("- file app/[id]/page.tsx line 12: x = 1", RepoFile("app/[id]/page.tsx")),
        ("- file src/a.py at main line 12: x = 1", RepoFile("src/a.py", "main")),
        ("- file src/a.py at `release/1.0` line 12: x = 1", RepoFile("src/a.py", "release/1.0")),
        ("- artifact 7 out/x.xml line 12: x = 1", JobArtifact(7, "out/x.xml")),
        ("- artifact job 7 `out/x.xml`, line 12: x = 1", JobArtifact(7, "out/x.xml")),
        ("- artifact out/x.xml of job 7 line 12: x = 1", JobArtifact(7, "out/x.xml")),
        ("- file docs/a:b.md line 12: x = 1", RepoFile("docs/a:b.md")),
        ("- file docs/a:b.md at main line 12: x = 1", RepoFile("docs/a:b.md", "main")),
        ("- file docs/a:b.md:12: x = 1", RepoFile("docs/a:b.md")),
        ("- file t/10:30.txt line 12: x = 1", RepoFile("t/10:30.txt")),
        ("- file `docs/read me: a.txt` line 12: x = 1", RepoFile("docs/read me: a.txt")),
        ("- `docs/a:b.md:12`: x = 1", RepoFile("docs/a:b.md")),
        ("- docs/a:b.md line 12: x = 1", RepoFile("docs/a:b.md")),
        ("- artifact 7 out/10:30:05.log line 12: x = 1", JobArtifact(7, "out/10:30:05.log")),
        ("- artifact out/a:b.log of job 7 line 12: x = 1", JobArtifact(7, "out/a:b.log")),
    ],
)
def test_a_line_of_a_file_or_an_artifact_is_quoted(line: str, place: Place) -> None:
    assert quotes(line) == [Evidence(place, 12, "x = 1", last=12)]


TASK = "app-on-pull-request-x7k2p-clair-scan"
REQUEST = "0a1b2c3d-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    ("line", "place"),
    [
        (f"- konflux {TASK} scan line 12: x = 1", TaskStep(TASK, "scan")),
        (f"1. **konflux `{TASK}` `scan`, line 12:** `x = 1`", TaskStep(TASK, "scan")),
        (f"- Konflux {TASK}, step scan line 12: x = 1", TaskStep(TASK, "scan")),
        (f"- tekton {TASK}/scan:12: x = 1", TaskStep(TASK, "scan")),
        (
            f"- testing farm {REQUEST} work-a/b:c/output.txt line 12: x = 1",
            RequestFile(REQUEST, "work-a/b:c/output.txt"),
        ),
        (
            f"- Testing Farm request {REQUEST.upper()}, `pipeline.log` line 12: x = 1",
            RequestFile(REQUEST, "pipeline.log"),
        ),
    ],
)
@pytest.mark.parametrize("replying", [False, True])
def test_a_line_of_konflux_or_testing_farm_is_quoted(
    line: str, place: Place, replying: bool
) -> None:
    assert quotes(line, replying=replying) == [Evidence(place, 12, "x = 1", last=12)]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("- test tests.test_a.test_sum: x = 1", "tests.test_a.test_sum"),
        ("- test tests/test_a.py::test_sum[a-1]: x = 1", "tests/test_a.py::test_sum[a-1]"),
        ("- test `form: shows the name`: x = 1", "form: shows the name"),
        ("- **test test_sum:** x = 1", "test_sum"),
    ],
)
def test_the_message_of_a_test_is_quoted(line: str, name: str) -> None:
    assert quotes(line) == [Evidence(ReportedTest(name), 0, "x = 1")]


@pytest.mark.parametrize(
    "text",
    [
        "- job 7 lines 12-14: one\n  two\n  three",
        "- job 7 lines 12 to 14: one\n  two\n  three",
        "- **job 7, lines 12–14:**\n  one\n  two\n  three",
        "- job 7 lines 12-14:\n\n  ```text\n  one\n  two\n  three\n  ```",
        "- job 7 lines 12-14:\n```\none\ntwo\nthree\n```",
    ],
)
def test_several_lines_are_one_quote(text: str) -> None:
    expected = Evidence(JobLog(7), 12, "one\ntwo\nthree", last=14)
    assert quotes(f"{text}\n- job 7 line 20: next one") == [
        expected,
        Evidence(JobLog(7), 20, "next one", last=20),
    ]


TRACES = [
    (
        "- job 7 lines 12-14: E   KeyError: 'x'\n\n  portal/app.py:5: KeyError",
        "E   KeyError: 'x'\n\nportal/app.py:5: KeyError",
    ),
    (
        "- job 7 lines 12-13: E   KeyError: 'x'\nportal/app.py:5: KeyError",
        "E   KeyError: 'x'\nportal/app.py:5: KeyError",
    ),
    (
        "- job 7 lines 12-14:\n  jsonschema/tests/_suite.py:226: in fn\n    self._run()\n"
        "  src/a:b.py:3: in g",
        "jsonschema/tests/_suite.py:226: in fn\nself._run()\nsrc/a:b.py:3: in g",
    ),
    (
        "1. `job 7 lines 12-13`: make\n   src/main.c:12:5: error: expected ';'",
        "make\nsrc/main.c:12:5: error: expected ';'",
    ),
    (
        "job 7 lines 12-13: make\n  src/main.c:12:5: error: expected ';'",
        "make\nsrc/main.c:12:5: error: expected ';'",
    ),
    (
        "- job 7 lines 12-13: Traceback\n  job 8 line 3: not another one",
        "Traceback\njob 8 line 3: not another one",
    ),
    ("- job 7 line 12:\n  src/main.c:12:5: error: x", "src/main.c:12:5: error: x"),
    ("- job 7 line 12:\nsrc/main.c:12:5: error: x", "src/main.c:12:5: error: x"),
    ("- job 7 line 12: make\n  src/main.c:12:5: error: x", "make"),
    ("- job 7 line 12: make\n  see above\n  src/main.c:12:5: error: x", "make"),
    ("- job 7 lines 12-14: one\n- file a.py line 3: two", "one"),
    ("- job 7 lines 12-14: one\nSo the build fails.", "one"),
    ("- job 7 lines 12-13: one\n  two\n\n  So the build fails.", "one\ntwo"),
    (
        "- job 7 lines 12-14: sinks: [\n  +       {\n  +         kind: 1",
        "sinks: [\n+       {\n+         kind: 1",
    ),
    ("- job 7 lines 12-14:\n  - old\n  + new\n    same", "- old\n+ new\nsame"),
    (
        "- job 7 lines 12-15: ___ GET /v1 ___\n  1. Test Case ID: Wdav\n  - ST101 Server error\n"
        "  [500] Server Error:",
        "___ GET /v1 ___\n1. Test Case ID: Wdav\n- ST101 Server error\n[500] Server Error:",
    ),
    ("  1. job 7 lines 12-13: x\n     * y", "x\n* y"),
    ("- job 7 lines 12-14: @@ -1 +1 @@\n- old\n+ new", "@@ -1 +1 @@\n- old\n+ new"),
    ("- job 7 lines 12-14: one\n@@ -1 +1 @@\n+ new", "one\n@@ -1 +1 @@\n+ new"),
    ("- job 7 lines 12-13: one\n  - file a.py line 3: two", "one"),
    ("- job 7 lines 12-19: 1\n- 2\n- 3\n- 4\n- 5\n- job 7 line 19: next", "1\n- 2\n- 3\n- 4\n- 5"),
    ("- job 7 lines 1-9: 1\n  2\n  3\n  4\n  5\n  a.py:6: 6\n  a.py:7: 7", "1\n2\n3\n4\n5"),
]


@pytest.mark.parametrize(("text", "expected"), TRACES)
def test_a_quote_goes_on_with_lines_that_look_like_places(text: str, expected: str) -> None:
    found = quotes(f"{text}\n- job 7 line 20: next one")
    others = text.count("- file a") + text.count("19: next")
    assert (found[0].text, len(found)) == (expected, 2 + others)


@pytest.mark.parametrize(("text", "expected"), [each for each in TRACES if "\n  " in each[0]])
def test_a_quote_in_a_reply_goes_on_likewise(text: str, expected: str) -> None:
    quote, *others = quotes(text, replying=True)
    assert (quote.text, len(others)) == (expected, text.count("- file a"))


@pytest.mark.parametrize(
    ("line", "lead"),
    [
        ("job 7 line 12: x", "- "),
        ("- job 7 line 12: x", "- "),
        ("  * job 7 line 12: x", "  * "),
        ("   job 7 line 12: x", "   - "),
        ("12. job 7 line 12: x", "12. "),
        ("  3)  job 7 line 12: x", "  3) "),
    ],
)
def test_a_quote_knows_its_place_in_a_list(line: str, lead: str) -> None:
    (quote,) = quotes(line, replying=True)
    assert quote.lead == lead


def test_a_quote_has_at_most_five_lines() -> None:
    block = "\n".join(f"line {number}" for number in range(9))
    (quote,) = quotes(f"- job 7 lines 1-9:\n```\n{block}\n```")
    assert quote.text.split("\n") == [f"line {number}" for number in range(5)]


def test_items_that_are_no_quotes_are_kept_to_be_told_and_prose_is_prose() -> None:
    finding = parse_finding("## Evidence\nSee also:\n- the log says so\n- job seven line 3: x\n")
    assert finding.unread == ("- the log says so", "- job seven line 3: x")
    assert (finding.evidence, finding.unproven, finding.details) == ((), 2, "See also:")


def test_quotes_past_the_twentieth_are_not_looked_at() -> None:
    lines = "\n".join(f"- job 7 line {number}: the text" for number in range(1, 26))
    finding = parse_finding(f"## Evidence\n{lines}\n")
    assert (len(finding.evidence), finding.unproven) == (20, 5)


@pytest.mark.parametrize(
    "line",
    [
        "- Test coverage: unchanged",
        "- test it again: run make",
        "- test a.b.c d: it is slow",
        "- localhost:8080: connection refused",
        "- src/a.py:12: the loop is here",
        "- file a bug: it is not yours",
        "- the job 7 line 12: x",
        "- konflux is slow today: line 12: x",
        "- testing farm was down: line 12: x",
    ],
)
def test_ordinary_lines_of_a_reply_are_no_quotes(line: str) -> None:
    assert list(scan_quotes(line, replying=True)) == [Prose(line, item=True)]


def test_code_in_a_reply_is_not_looked_into() -> None:
    text = "```\n- job 7 line 12: the text of it\n```"
    assert quotes(text, replying=True) == []
    assert len(quotes(text.strip("`"), replying=True)) == 1


@pytest.mark.parametrize(
    "start",
    [
        *("- job 7 line 12", "- job 7 lines 1-900000000: x\n  ", "- file ", "- artifact "),
        *("- test ", "- konflux ", "- konflux a ", f"- testing farm {REQUEST} ", "- [", ""),
    ],
)
@pytest.mark.parametrize(
    "filler", [" ", "`", "a", ":", "a ", "a:", "a.", "a.b c", "[(", "1-", ", ", "\n", "\n  a"]
)
def test_hostile_lines_are_read_in_time(start: str, filler: str) -> None:
    begun = time.process_time()
    for replying in (False, True):
        deque(scan_quotes(start + filler * 20_000 + "!", replying=replying), maxlen=0)
    assert time.process_time() - begun < 1.0
