"""What a script was doing when its job reached the time limit. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence

from worker.logs.normal_form import normalise_places

_LAST = 3
"""How many last lines show where a script hung."""

_MOST = 64
"""The most tests that can be under way: more are a mere list of tests."""

_RUNNERS = re.compile(
    r"WARNING: (?:step_script|after_script|script) could not run|Running after_script"
    r"|Uploading artifacts for failed job|Saving cache for failed job"
    r"|Cleaning up project directory|(?:ERROR|FATAL): Job failed"
)
"""What the runner writes after the script."""

_BEGINS = re.compile(
    r"(?P<pytest>[\w./+-]{1,200}\.py::(?:(?! (?:PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b).)"
    r"{1,300})$|=== (?:RUN|CONT) +(?P<go>\S{1,300})$"
    r"|\[ RUN {6}\] (?P<gtest>\S{1,300})$"
    r"|test (?P<cargo>\S{1,300}) (?:\.\.\.|has been running for over \d{1,6} seconds)$"
    r"|(?P<unittest>\w{1,100} \([\w.]{1,300}\)) \.\.\.\s*$"
    r"|\[INFO\] Running (?P<maven>[\w.$]{1,300})$"
    r"|(?P<gradle>\S{1,300} > .{1,300}) STARTED$"
    r"|Start +\d{1,6}: (?P<ctest>\S{1,300})$"
)
"""A line that says that a test has begun, and not yet how it ended."""

_ENDS = re.compile(
    r"(?:--- (?:PASS|FAIL|SKIP): |\[ {2}(?: {5}OK|FAILED {2}|SKIPPED ) ?\] )(?P<first>\S{1,300})"
    r"|test (?P<cargo>\S{1,300}) \.\.\. \w"
    r"|(?P<gradle>\S{1,300} > .{1,300}) (?:PASSED|FAILED|SKIPPED)$"
    r"|(?:\[\w{1,7}\] )?Tests run: .{1,200} in (?P<maven>[\w.$]{1,300})$"
    r"|\d{1,6}/\d{1,6} Test +#\d{1,6}: (?P<ctest>\S{1,300}) "
    r"|(?:\[gw\d{1,4}\] \[ {0,2}\d{1,3}%\] )?"
    r"(?:PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) (?P<pytest>[\w./+-]{1,200}\.py::\S.{0,300}?)$"
)
_RESULT = re.compile(
    r"(?:(?:PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b(?:\s+\[ {0,2}\d{1,3}%\])?"
    r"|ok|FAIL|ERROR|skipped .{0,200})\s*$"
)
"""The result of the last test that has begun, on a line of its own."""


def find_last_words(lines: Sequence[str]) -> Mapping[str, str]:
    """Return the last lines of a script that reached its time limit: they show where it hung.

    Nothing if they are only the script's own commands.
    """
    end = next((at for at, line in enumerate(lines) if _RUNNERS.match(line)), len(lines))
    said = [line.strip() for line in lines[:end] if line.strip()][-_LAST:]
    if all(line.startswith("$ ") for line in said):
        return {}
    return {f"at the end: {normalise_places(line)}": f"at the end: {line}" for line in said}


def find_unfinished_test(lines: Iterable[str]) -> str:
    """Return the name of the test that began last of those that have not ended, "" for none.

    The lines are the end of a log, without gaps.
    """
    under_way: dict[str, None] = {}
    for line in lines:
        text = line[:1000].strip()
        if ended := _ENDS.match(text):
            under_way.pop(_get_name(ended), None)
        elif _RESULT.match(text) and under_way:
            under_way.popitem()
        elif begun := _BEGINS.match(text):
            under_way[_get_name(begun)] = None
    return next(reversed(under_way), "") if len(under_way) <= _MOST else ""


def _get_name(found: re.Match[str]) -> str:
    return str(found[found.lastgroup or 0])
