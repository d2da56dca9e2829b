"""Which lines of a failed job's log say what failed, and where. Pure.

A log names many files that have nothing to do with its failure: those of tests that passed, and
those that were compiled, covered or warned about. Only lines that mention a failure or a place in
the code count. Doubtful lines are left out: a missing fact misleads nobody.
"""

import re
from collections.abc import Iterator, Sequence

from worker.logs.headings import join_headings
from worker.logs.named_places import PLACE, is_stack_head

LONGEST = 1000
"""The most characters of a line that are read."""

_NUMBER = re.compile(r"^\d{1,9}: ?")

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
    return "\n".join(line for line in text.split("\n") if not _is_aside(_NUMBER.sub("", line)))


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
        bare = _NUMBER.sub("", line)[:LONGEST]
        summary = "warnings summary" in bare or (summary and not bare.startswith(("==", "-- ")))
        aside = summary or _is_aside(bare) or is_test_progress(bare) or _HARMLESS.match(bare)
        place = PLACE.search(bare)
        tells = is_stack_head(bare) or _FAILS.search(_NO_FAILURE.sub("", bare))
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
        elif not line[:1].isspace() and not _NUMBER.sub("", line)[:1].isspace():
            test = ""
        if test not in passed:
            kept.append(line)
    return kept
