"""The message below the name of a failed test, to tell two failures of one test apart. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, takewhile

from worker.logs.error_lines import is_test_progress
from worker.logs.line_kinds import GAP, NOISE, TEST, is_row, strip_line
from worker.logs.normal_form import LONGEST, normalise_line, normalise_places

MOST_TESTS = 200
"""The most failed tests of a log whose messages are looked for."""

_MOST_CANDIDATES = 1000
"""The most lines that may name a failed test and are examined."""

_BELOW = 15
"""Lines below a failed test that may be its message."""

_FIRST = 2
"""Lines of a message that are always taken; of the others, only those with values are."""

_NAMED = re.compile(
    r"FAIL|not ok |<<< |stdout ----|rspec \./|[✕✗✖✘●]|\] › |\) [\w\\]{1,200}::|panicked at "
    r"|Failure/Error: "
)
"""A part of every line that `is_named` accepts; it is fast to search for."""

_SAYS_NEXT = re.compile(
    r"thread '.{1,200}' (?:\(\d{1,10}\) )?panicked at \S{1,200}:\d{1,7}:\d{1,7}:$|Failure/Error: "
)
_SUMMED_UP = re.compile(r"FAILED |rspec \./")
_MEASURED = "..: "
"""What stands before the values of a measured row, such as k6's."""

_MESSAGE_END = re.compile(
    r"={3}|-{3,}|_{4}|PASS\b|FAIL\b|ok\b|not ok\b|FAILURES!|ERRORS!|failures:$|Traceback |[✓✔√⚠]"
    r"|at |File \"|from |❯ |stacktrace:|StackTrace:|Stack Trace:|\d{1,5}\) |note: |# Looks like "
    r"|# \./|\d{1,7} tests? completed"
    r"|\[(?:INFO|ERROR|WARNING)\]|\$ |ERROR: Job failed|<(?:dir|tmp)>/\S{1,300}$|\S{1,200}<place>$"
)
"""What follows a test's message: its stack, another test, or a summary of the tests."""

_VALUES = re.compile(
    r"(?:[-+#] ?)?(?:expected|received|actual|got|want|left|right|but was|diff)\b", re.IGNORECASE
)
_FRAME = re.compile(r"[┐│┴\s]{0,20}$|╵")


def find_messages(errors: Iterable[str], lines: Sequence[str]) -> Mapping[str, str]:
    """Return the message below each of these error lines of a log that names a failed test.

    The keys lack what differs between two runs of one failure, as those of errors do; the values
    are the log's words. A line that itself says how the test failed has no message, nor has one in
    a list of tests. If very many lines may name a test, the first are examined.
    """
    wanted = set(islice(filter(is_named, errors), MOST_TESTS))
    messages: dict[str, str] = {}
    may_name = (at for at, line in enumerate(lines) if _NAMED.search(line[:LONGEST]))
    for at in islice(may_name, _MOST_CANDIDATES) if wanted else ():
        if is_row(lines[at]):
            continue
        text = strip_line(lines[at])
        if text in wanted and (message := _read_message(lines[at + 1 : at + 1 + _BELOW])):
            wanted.remove(text)
            normal = "; ".join(map(normalise_places, message))
            messages[f"{normalise_places(text)}: {normal}"] = f"{text}: {'; '.join(message)}"
    return messages


def is_named(text: str) -> bool:
    """Whether a line names a failed test and only the lines below it say how it failed."""
    if _SUMMED_UP.match(text) or _MEASURED in text:
        return False
    return TEST.match(text) is not None or _SAYS_NEXT.match(text) is not None


def _read_message(below: Iterable[str]) -> list[str]:
    texts = [
        text for text in (strip_line(line[:LONGEST]) for line in below) if not _FRAME.match(text)
    ]
    message = [text for text in takewhile(_goes_on, texts) if not NOISE.match(normalise_line(text))]
    return [*message[:_FIRST], *filter(_VALUES.match, message[_FIRST:])]


def _goes_on(text: str) -> bool:
    over = text == GAP or _MESSAGE_END.match(text) or _MESSAGE_END.match(normalise_places(text))
    return not (over or TEST.match(text) or is_test_progress(text))
