"""The failed tests that a log names together with their file or class, and the failures that a
person would count. Pure."""

import re
from collections.abc import Collection, Iterable

from worker.logs.line_kinds import LOCATED, TEST

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


_FORMS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?:FAILED|ERROR) ",
        r"--- FAIL: ",
        r"rspec ",
        r"\[ERROR\] ",
        r"\[ ?FAILED ?\] ",
        r"not ok ",
        r"[✕✗✖✘] ",
        r"● ",
        r"---- ",
        r"(?:<n>|\d{1,5})\) ",
        r".{1,300} FAILED$",
        r"",
    )
)
"""How one run of a test tool names its failed tests: in its progress, in its details, in its
summary."""

_PLACED = re.compile(r"\S{1,300}<place>:? \S|error\[\w{1,12}\]: ")
_RUST = re.compile(r"thread '|test .{1,300} \.\.\. FAILED$")
"""Lines that name a test of Rust's once more."""


def select_failures(errors: Collection[str]) -> frozenset[str]:
    """Return those of a run's errors, given in their normal forms, that a person would count: each
    failed test once, in whichever way the tool names most of them, else each error with a place;
    none if there is neither, as the errors may then all tell of one failure."""
    known = frozenset(errors)
    plain = [each for each in known if not _has_message(each, known)]
    tests = [each for each in plain if TEST.match(each) and not _RUST.match(each)]
    forms: dict[int, set[str]] = {}
    for each in tests:
        at = next(at for at, form in enumerate(_FORMS) if form.match(each))
        forms.setdefault(at, set()).add(each)
    if forms:
        most = max(forms, key=lambda at: len(forms[at]))
        return frozenset(forms[most])
    return frozenset(each for each in plain if _PLACED.match(each) or LOCATED.match(each))


def _has_message(error: str, errors: frozenset[str]) -> bool:
    """Whether an error is another one with the message below it."""
    ends = (found.start() for found in re.finditer(r": ", error))
    return any(error[:end] in errors for end in ends)
