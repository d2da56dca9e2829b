"""The failed tests that a log names together with their file or class. Pure."""

import re
from collections.abc import Iterable

MOST = 2000
"""The most tests that are told apart."""

_FAILED = re.compile(
    r"(?:FAILED|ERROR) (?P<pytest>\S{1,300}?\.py::.{1,300}?)(?: - .*)?$"
    r"|(?:FAIL|ERROR): (?P<unittest>\w{1,200} \([\w.]{1,300}\))$"
    r"|\[ERROR\] {1,3}(?P<maven>[\w.$]{1,300}\.\w{1,200}\S{0,100}) .{0,60}<<< (?:FAILURE|ERROR)!$"
    r"|(?P<gradle>[\w.$]{1,300} > .{1,200}) FAILED$"
    r"|rspec (?P<rspec>\./\S{1,300}:\d{1,7}) # "
)


def list_failed_tests(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the failed tests in the words of their tools, each once.

    None if there are more than `MOST`, or if the tools name tests without their file or class.
    """
    found: dict[str, None] = {}
    for line in lines:
        failed = _FAILED.match(line[:1000].strip())
        if failed:
            found[str(failed[failed.lastgroup or 0])] = None
    return tuple(found) if len(found) <= MOST else ()
