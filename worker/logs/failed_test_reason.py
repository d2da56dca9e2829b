"""The reason that a log gives for a failed test. Pure."""

import re
from collections.abc import Sequence
from itertools import dropwhile, takewhile

from worker.logs.error_lines import is_test_progress
from worker.logs.line_kinds import GAP, NOISE, TEST, is_row, strip_line
from worker.logs.normal_form import normalise_line


def find_reason(test: str, lines: Sequence[str]) -> str:
    """Return why a test failed, "" if the log does not say. For a TAP result this is Perl's warning
    about the code, else the values got and expected; if a worker of pytest-xdist crashed, that; for
    a test of ExUnit's, the mismatch; for GoogleTest, RSpec and a bare line of pytest's, what was
    judged wrong above it; for any other test, the line after it, or for Go above it."""
    if crash := _find_crash(test.removeprefix("FAILED "), lines):
        return crash
    if _JUDGED_ABOVE.match(test):
        return _find_judged(lines)
    if _EXUNIT.match(test):
        return _find_mismatch(test, lines)
    if not test.startswith("not ok "):
        return _find_line_after(test, lines) or _find_go_log(test, lines)
    texts = [strip_line(line) for line in lines]
    named = [at for at, text in enumerate(texts) if _PERL_FAILED.match(text)]
    before, after = _split_messages(test, texts, named) if named else _split_results(test, texts)
    warned = [text for text in before if _WARNED.match(text)]
    compared = [found[0].strip("# ") for text in after if (found := _COMPARED.match(text))][:2]
    reason = warned[-1] if warned else ", ".join(compared)
    return reason or ("" if named else _find_line_after(test, lines))


def _find_crash(name: str, lines: Sequence[str]) -> str:
    """Return which worker of pytest-xdist crashed while it ran a test, "" if none did."""
    crashes = (_CRASHED.fullmatch(strip_line(line)) for line in lines)
    return next((found[1] for found in crashes if found and found[2] == name), "")


_CRASHED = re.compile(r"(worker '\w{1,20}' crashed) while running '(.{1,300})'")

_Texts = tuple[Sequence[str], Sequence[str]]


def _split_messages(test: str, texts: Sequence[str], named: Sequence[int]) -> _Texts:
    """Return what Perl wrote before and after it named the failed test, up to the tests that it
    named before and after; nothing if it did not name it. `named` are the indexes of the lines in
    which it names one: they are not in sequence with the results."""
    name = test.partition(" - ")[2]
    at = next((at for at in named if name and f"'{name}'" in texts[at]), None)
    if at is None:
        return (), ()
    return _cut_around(texts, at, _PERL_FAILED)


def _split_results(test: str, texts: Sequence[str]) -> _Texts:
    """Return the lines around the failed test's result, up to the adjacent results: the same for
    before and after, as either may explain it."""
    before, after = _cut_around(texts, texts.index(test), _RESULT)
    return (*before, *after), (*before, *after)


def _cut_around(texts: Sequence[str], at: int, ends: re.Pattern[str]) -> _Texts:
    """Return the texts before and after one, each part up to a gap or a match of `ends`."""

    def goes_on(text: str) -> bool:
        return text != GAP and not ends.match(text)

    before = [*takewhile(goes_on, reversed(texts[:at]))]
    return before[::-1], [*takewhile(goes_on, texts[at + 1 :])]


_PERL_FAILED = re.compile(r"#\s+Failed (?:\(TODO\) )?test")
_RESULT = re.compile(r"(?:not )?ok \d")


def _find_line_after(test: str, lines: Sequence[str]) -> str:
    """Return the line after that of a failed test, usually its assertion; "" if that line is about
    another test that is no part of this one."""
    if is_row(test):  # Playwright's rows come before its blocks, which say why
        lines = [*dropwhile(lambda line: strip_line(line) != test or is_row(line), lines)]
    texts = [text for text in map(strip_line, lines) if text != _FRAME]
    test = _find_details(test, texts)
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


def _find_details(test: str, texts: Sequence[str]) -> str:
    """Return the line that heads Jest's details of a test in its list; for any other test, the test
    itself. In the list, the next line may be the next group of tests."""
    listed = _LISTED.fullmatch(test)
    end = f" › {listed[1]}" if listed else ""
    heads = (text for text in texts if end and text.startswith("● ") and text.endswith(end))
    return next(heads, test)


_EXCEPTION = re.compile(r"[\w.$]{1,200}(?:Error|Exception|Failure|Failed): ?")
_OPEN = re.compile(r" panicked at .{1,300}:$")
_LISTED = re.compile(r"[✕✗✖✘] (.{1,300}?)(?: \(\d[\d.]{0,9} m?s\))?")
_FRAME = "┐"
"""The line between a failed test and its error in PHPUnit's testdox."""


def _find_go_log(test: str, lines: Sequence[str]) -> str:
    """Return what a failed test of Go's has logged last above its result, "" for another one."""
    texts = [strip_line(line) for line in lines]
    if not test.startswith("--- FAIL: ") or test not in texts:
        return ""
    return next(filter(_GO_LOG.match, texts[: texts.index(test)][-1:]), "")


_GO_LOG = re.compile(r"\S{1,100}\.go:\d{1,7}: ")
_JUDGED_ABOVE = re.compile(r"rspec \./|\[ {1,2}FAILED {1,2}\] |(?:FAILED|ERROR) \S{1,300}\.py::")
_JUDGED = re.compile(r"E {2,}(?=\S)|Failure/Error: |(?=\S{1,300}:\d{1,7}: Failure$)")


def _find_judged(lines: Sequence[str]) -> str:
    """Return the first line that says what was judged wrong, with the next one if it only names the
    place; "" if there is none."""
    texts = [strip_line(line) for line in lines]
    at = next((at for at, text in enumerate(texts) if _JUDGED.match(text)), len(texts))
    said = [_JUDGED.sub("", text, 1) for text in texts[at : at + 2]]
    return " ".join(said if said and said[0].endswith(": Failure") else said[:1])


_EXUNIT = re.compile(r"\d{1,5}\) (?:test|property|doctest) ")
_MISMATCH = re.compile(r"\*\* \(|(?:left|right): ")
_STACK = re.compile(r"stacktrace:|\d{1,5}\) ")


def _find_mismatch(test: str, lines: Sequence[str]) -> str:
    """Return the exception, or the values compared, below a failed test of ExUnit's."""
    texts = [strip_line(line) for line in lines]
    _, below = _cut_around(texts, texts.index(test), _STACK)
    said = [" ".join(text.split()) for text in below if _MISMATCH.match(text)]
    return ", ".join(said[:2]) or next((text for text in below[1:] if text), "")


_WARNED = re.compile(r"[^#\s].{1,300} at \S{1,200} line \d{1,7}\.$")
_COMPARED = re.compile(r"# {1,12}(?:got|expected): .{1,100}|(?:error|message): .{1,200}")
"""How Perl and TAP say why a test failed."""
