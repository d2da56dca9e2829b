"""The failed tests that a log names together with their file or class. Pure."""

import re
from collections.abc import Iterable

MOST = 2000
"""The most tests that are listed."""

_FAILED = re.compile(
    r"(?:FAILED|ERROR) (?P<pytest>[^\s:]{1,300}\.py::[^\s\[]{1,200}(?:\[.{0,200}?\])?)(?: - |$)"
    r"|(?:FAIL|ERROR): (?P<unittest>\w{1,200} \([\w.]{1,300}\))$"
    r"|\[ERROR\] {1,3}(?P<maven>[\w$]{1,200}\.\S{1,500}) .{0,60}<<< (?:FAILURE|ERROR)!$"
    r"|(?P<gradle>[\w.$]{1,300} > .{1,200}) FAILED$"
    r"|rspec (?P<rspec>\./\S{1,300}:\d{1,7}) # "
    r"|\S{1,300}: error: -\[(?P<xctest>[\w.]{1,200} \w{1,200})\] : "
)

_UNNAMED = re.compile(
    r"--- FAIL: |FAIL: |FAIL {1,4}\S{1,300}\.(?:test|spec)\.|test .{1,300} \.\.\. FAILED|not ok "
    r"|\[ {2}FAILED {2}\] |[✕✗✖✘] |FAILED .{1,300}::|ERROR \S{1,300}\.py::"
    r"|ERROR: \w{1,200} \([\w.]{1,300}\)"
)
"""A failed test in any other form: often without its file or class."""


def list_failed_tests(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the failed tests in the words of their tools, each once.

    () if there are more than `MOST`, or if any tool names a test without its file or class.
    """
    found: dict[str, None] = {}
    for line in lines:
        text = line[:1000].strip()
        if not (failed := _FAILED.match(text)):
            if _UNNAMED.match(text):
                return ()
        else:
            found[str(failed[failed.lastgroup or 0])] = None
    return tuple(found) if len(found) <= MOST else ()
