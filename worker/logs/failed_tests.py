"""The failed tests that a log names: which they are, what stands below their names, and why they
failed. Pure."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import dropwhile, islice, takewhile

from worker.logs.error_lines import is_test_progress
from worker.logs.line_kinds import GAP, LOCATED, NOISE, TEST, is_row, strip_line
from worker.logs.normal_form import LONGEST, normalise_line, normalise_places

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
    # Without those that are another one with the message below it.
    plain = [
        each
        for each in known
        if not any(each[: end.start()] in known for end in re.finditer(": ", each))
    ]
    tests = [each for each in plain if TEST.match(each) and not _RUST.match(each)]
    forms: dict[int, set[str]] = {}
    for each in tests:
        at = next(at for at, form in enumerate(_FORMS) if form.match(each))
        forms.setdefault(at, set()).add(each)
    if forms:
        most = max(forms, key=lambda at: len(forms[at]))
        return frozenset(forms[most])
    return frozenset(each for each in plain if _PLACED.match(each) or LOCATED.match(each))


# ---------------------------------------------------------------- the message below a test's name

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
"""A part of every line that `_is_named` accepts; it is fast to search for."""

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

_VALUE_LINE = re.compile(
    r"(?:[-+#] ?)?(?:expected|received|actual|got|want|left|right|but was|diff)\b", re.IGNORECASE
)
_DRAWN = re.compile(r"[┐│┴\s]{0,20}$|╵")


def find_messages(errors: Iterable[str], lines: Sequence[str]) -> Mapping[str, str]:
    """Return the message below each of these error lines of a log that names a failed test.

    The keys lack what differs between two runs of one failure, as those of errors do; the values
    are the log's words. A line that itself says how the test failed has no message, nor has one in
    a list of tests. If very many lines may name a test, the first are examined.
    """
    wanted = set(islice(filter(_is_named, errors), MOST_TESTS))
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


def _is_named(text: str) -> bool:
    """Whether a line names a failed test and only the lines below it say how it failed."""
    if _SUMMED_UP.match(text) or _MEASURED in text:
        return False
    return TEST.match(text) is not None or _SAYS_NEXT.match(text) is not None


def _read_message(below: Iterable[str]) -> list[str]:
    texts = [
        text for text in (strip_line(line[:LONGEST]) for line in below) if not _DRAWN.match(text)
    ]
    message = []
    for text in texts:
        over = text == GAP or _MESSAGE_END.match(text) or _MESSAGE_END.match(normalise_places(text))
        if over or TEST.match(text) or is_test_progress(text):
            break
        if not NOISE.match(normalise_line(text)):
            message.append(text)
    return [*message[:_FIRST], *filter(_VALUE_LINE.match, message[_FIRST:])]


# ------------------------------------------------------------------------------ why a test failed


def find_reason(test: str, lines: Sequence[str]) -> str:
    """Return why a test failed, "" if the log does not say. For a TAP result this is Perl's warning
    about the code, else the values got and expected; if a worker of pytest-xdist crashed, that; for
    a test of ExUnit's, the mismatch; for GoogleTest, RSpec and a bare line of pytest's, what was
    judged wrong above it; for any other test, the line after it, or for Go above it."""
    texts = [strip_line(line) for line in lines]
    crashes = filter(None, map(_CRASHED.fullmatch, texts))
    name = test.removeprefix("FAILED ")
    if crash := next((found[1] for found in crashes if found[2] == name), ""):
        return crash
    if _JUDGED_ABOVE.match(test):
        at = next((at for at, text in enumerate(texts) if _JUDGED.match(text)), len(texts))
        said = [_JUDGED.sub("", text, 1) for text in texts[at : at + 2]]
        only_place = said and said[0].endswith(": Failure")
        return " ".join(said if only_place else said[:1])
    if _EXUNIT.match(test):
        _, below = _cut_around(texts, texts.index(test), _STACK)
        said = [" ".join(text.split()) for text in below if _MISMATCH.match(text)]
        return ", ".join(said[:2]) or next((text for text in below[1:] if text), "")
    if not test.startswith("not ok "):
        said_after = _find_line_after(test, lines)
        if said_after or not test.startswith("--- FAIL: ") or test not in texts:
            return said_after
        return next(filter(_GO_LOG.match, texts[: texts.index(test)][-1:]), "")
    named = [at for at, text in enumerate(texts) if _PERL_FAILED.match(text)]
    if named:  # not in sequence with the results: the lines up to the tests named before and after
        words = test.partition(" - ")[2]
        place = next((at for at in named if words and f"'{words}'" in texts[at]), None)
        before, after = _cut_around(texts, place, _PERL_FAILED) if place is not None else ((), ())
    else:  # the lines up to the adjacent results: those before or those after may explain it
        around = _cut_around(texts, texts.index(test), _RESULT)
        before = after = [*around[0], *around[1]]
    warned = [text for text in before if _WARNED.match(text)]
    compared = [found[0].strip("# ") for text in after if (found := _COMPARED.match(text))][:2]
    reason = warned[-1] if warned else ", ".join(compared)
    return reason or ("" if named else _find_line_after(test, lines))


_CRASHED = re.compile(r"(worker '\w{1,20}' crashed) while running '(.{1,300})'")
_PERL_FAILED = re.compile(r"#\s+Failed (?:\(TODO\) )?test")
_RESULT = re.compile(r"(?:not )?ok \d")
_WARNED = re.compile(r"[^#\s].{1,300} at \S{1,200} line \d{1,7}\.$")
_COMPARED = re.compile(r"# {1,12}(?:got|expected): .{1,100}|(?:error|message): .{1,200}")
"""How Perl and TAP say why a test failed."""


def _cut_around(
    texts: Sequence[str], at: int, ends: re.Pattern[str]
) -> tuple[Sequence[str], Sequence[str]]:
    """Return the texts before and after one, each part up to a gap or a match of `ends`."""

    def goes_on(text: str) -> bool:
        return text != GAP and not ends.match(text)

    before = [*takewhile(goes_on, reversed(texts[:at]))]
    return before[::-1], [*takewhile(goes_on, texts[at + 1 :])]


def _find_line_after(test: str, lines: Sequence[str]) -> str:
    """Return the line after that of a failed test, usually its assertion; "" if that line is about
    another test that is no part of this one."""
    if is_row(test):  # Playwright's rows come before its blocks, which say why
        lines = [*dropwhile(lambda line: strip_line(line) != test or is_row(line), lines)]
    texts = [text for text in map(strip_line, lines) if text != _FRAME_LINE]
    if listed := _LISTED.fullmatch(test):  # the next line of Jest's list may be of another group
        end = f" › {listed[1]}"
        heads = (text for text in texts if text.startswith("● ") and text.endswith(end))
        test = next(heads, test)
    following = texts[texts.index(test) + 1 :] if test in texts else []
    telling = (
        text
        for text in takewhile(lambda text: text != GAP, following[:2])
        if any(map(str.isalpha, text)) and not NOISE.match(normalise_line(text))
    )
    said = next(telling, "")
    if _EXCEPTION.fullmatch(said) or _OPEN.search(said):  # its message begins on the next line
        said = f"{said} {next(iter(following[following.index(said) + 1 :]), '')}".strip()
    part = test.split(" (")[0]
    is_another = TEST.match(said) and not said.startswith(part)
    return "" if said == GAP or is_another or is_test_progress(said) else said


_EXCEPTION = re.compile(r"[\w.$]{1,200}(?:Error|Exception|Failure|Failed): ?")
_OPEN = re.compile(r" panicked at .{1,300}:$")
_LISTED = re.compile(r"[✕✗✖✘] (.{1,300}?)(?: \(\d[\d.]{0,9} m?s\))?")
_FRAME_LINE = "┐"
"""The line between a failed test and its error in PHPUnit's testdox."""


_GO_LOG = re.compile(r"\S{1,100}\.go:\d{1,7}: ")
_JUDGED_ABOVE = re.compile(r"rspec \./|\[ {1,2}FAILED {1,2}\] |(?:FAILED|ERROR) \S{1,300}\.py::")
_JUDGED = re.compile(r"E {2,}(?=\S)|Failure/Error: |(?=\S{1,300}:\d{1,7}: Failure$)")


_EXUNIT = re.compile(r"\d{1,5}\) (?:test|property|doctest) ")
_MISMATCH = re.compile(r"\*\* \(|(?:left|right): ")
_STACK = re.compile(r"stacktrace:|\d{1,5}\) ")
