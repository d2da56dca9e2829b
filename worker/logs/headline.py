"""The line of a failure that a person would quote, and what else failed. Pure."""

import re
from collections.abc import Sequence

from worker.logs.decisive_lines import DecisiveLine
from worker.logs.failed_test_reason import find_reason
from worker.logs.line_kinds import DEADLY, LOCATED, REASON, SERVER_SAID, strip_line
from worker.logs.normal_form import LONGEST
from worker.safety.untrusted import one_line

NAME = 160
"""The most characters of each name of what else failed."""


def choose_headline(
    telling: Sequence["DecisiveLine"], kept: Sequence["DecisiveLine"], lines: Sequence[str]
) -> str:
    """Return the signature's text.

    What the runner gives as its reason comes first, and what a race detector or sanitizer reports.
    If tests failed, it is the first one whose reason is known, with that reason, else the first.
    Else it is how a program died; or the heaviest line, but if that is an error with its place, it
    is the first such error: the others follow from it. What other lines explain gives way to them:
    see `_find_cause`.
    """
    tests = [each.text for each in kept if each.is_test]
    others = [each for each in kept if not each.is_test and not each.is_summary] or kept
    foremost = next((each.text for each in kept if _FOREMOST.match(each.text)), "")
    explained = (_explain(test, lines) for test in tests[:_TRIED])
    of_tests = next(filter(None, explained), next(iter(tests), ""))
    if foremost or of_tests:
        return of_tests if foremost in of_tests else foremost
    died = (each.text for each in kept if DEADLY.match(each.text))
    refused = (each.text for each in kept if _SERVER_SAID.match(each.text))
    best = next(refused, "") or next(died, "")
    best = best or _find_cause(_choose_heaviest(others).text, telling, lines)
    located = (each.text for each in telling if LOCATED.match(each.text))
    is_located = LOCATED.match(best) and not _RECORD.match(best)
    return next(located, best) if is_located else best


def _choose_heaviest(kept: Sequence["DecisiveLine"]) -> "DecisiveLine":
    """Return the heaviest line; if it and others are what programs say in their own names (`cp: …`,
    `TypeError: …`), the heaviest of those of the program that was the last to speak."""
    best = max(kept, key=lambda each: each.weight)
    names = [_read_name(each.text) for each in kept]
    last = next(filter(None, reversed(names)), "")
    if LOCATED.match(best.text) or not _read_name(best.text):
        return best
    spoken = (each for each, name in zip(kept, names, strict=True) if name == last)
    return max(spoken, key=lambda each: each.weight)


def _find_cause(best: str, telling: Sequence["DecisiveLine"], lines: Sequence[str]) -> str:
    """Return the line that explains the heaviest one, else that one.

    Who waited in vain for a program says less than an exception before it. A program goes on after
    an error that it only records, so the last record that is not about its end says why. What could
    not be fetched or resolved is explained by what a server answered, in the lines that continue
    the message.
    """
    if _WAITED.search(best):
        raised = (each.text for each in telling if _RAISED.match(each.text))
        first = next(raised, best)
        return best if _WAITED.search(first) else first
    if _RECORD.match(best):
        records = filter(_RECORD.match, map(strip_line, reversed(lines)))
        return next((each for each in records if not _ENDS.search(each)), best)
    return _find_answer(best, lines) or best


def _find_answer(best: str, lines: Sequence[str]) -> str:
    """Return the line in which a message goes on with what a server answered, "" for none: within a
    few lines below it, and indented deeper."""
    texts = [_NUMBER.sub("", line[:LONGEST], 1) for line in lines]
    at = next((at for at, text in enumerate(texts) if strip_line(text) == best), -1)
    if at < 0 or _ANSWERED.search(best):
        return ""
    depth = _measure_depth(texts[at])
    below = (text for text in texts[at + 1 : at + 1 + _BELOW] if _measure_depth(text) > depth)
    return next((strip_line(text) for text in below if _ANSWERED.search(text)), "")


def _measure_depth(text: str) -> int:
    """Return how far the words of a line are indented after its level, such as `[ERROR]`."""
    words = _LEVEL.sub("", text, 1)
    return len(words) - len(words.lstrip())


_WAITED = re.compile(r"\b(?i:timed? ?out|gave up|giving up)\b.{0,40}\bwaiting (?:for|on)\b")
_RAISED = re.compile(r"(?:Uncaught )?(?:[A-Za-z_][\w.$]{0,120}(?:Error|Exception)|Error|panic): ")
_RECORD = re.compile(
    r"(?:\[[\w=]{1,20}\]){0,3} ?\[[\d:]{1,30}/[\d.]{1,20}:(?:ERROR|FATAL):[\w.]{1,80}\(\d{1,6}\)\] "
    r"|[EF]\d{4} \d\d:\d\d:\d\d\.\d{1,9} +\d{1,9} [\w.]{1,80}:\d{1,6}\] "
)
"""An error as Google's libraries record it: with process, time and the place in their own code."""

_ENDS = re.compile(r"\b(?i:exiting|quitting|terminating|shutting down|giving up)\b")
_ANSWERED = re.compile(
    r"\b(?:status(?: code)?[: =]{1,3}|HTTP(?:/[\d.]{1,3})? )[45]\d\d\b|\bUnknown host\b"
    r"|\b(?i:connection (?:refused|reset|timed out)|connect timed out|read timed out)\b"
)
_LEVEL = re.compile(r"\s{0,40}\[\w{4,7}\] ?")
_NUMBER = re.compile(r"^\d{1,9}: ?")
_BELOW = 4
"""How many lines below a message may continue it."""


def _read_name(text: str) -> str:
    """Return the name in which a line is said, "" for none; what is `fatal` to a program is as much
    its own as its `error`."""
    found = _NAME.match(text)
    return _SPOKEN.sub("error", found[1]) if found else ""


_NAME = re.compile(r"([\w.$:+-]{1,80}): ")
_SPOKEN = re.compile(r"(?i:error|fatal)$")
_FOREMOST = re.compile(
    rf"{REASON.pattern}|(?:={{2}}\d{{1,10}}={{2}})?(?:ERROR|WARNING): \w{{1,30}}Sanitizer: "
    r"|WARNING: DATA RACE"
)

_TRIED = 10
"""How many failed tests are searched for one that says how it failed."""


def _explain(test: str, lines: Sequence[str]) -> str:
    """Return the failed test with how it failed, "" if nothing says how."""
    said = "" if _says_how(test) else find_reason(test, lines)
    return f"{test}: {said}" if said else test if _says_how(test) else ""


def list_others(kept: Sequence["DecisiveLine"], error: str) -> tuple[str, ...]:
    """Return the names of the failed tests other than that of `error`, each once even if the tool
    has several names for it. If any test failed, the errors of tools that fetch something come
    first."""
    tests = [each.text for each in kept if each.is_test]
    named: dict[str, str] = {}
    for text in sorted(tests, key=lambda text: not error.startswith(text)):
        name = text if text.startswith("not ok ") else _MESSAGE.sub("", _VERB.sub("", text))
        named.setdefault(name.split(" › ")[-1].strip(" ✕✗✖✘●"), name)
    fetched = [each.text for each in kept if tests and _FETCHED.match(each.text)]
    return tuple(one_line(each, NAME) for each in (*fetched, *list(named.values())[1:]))


_VERB = re.compile(r"^(?:FAILED|ERROR|--- FAIL:|FAIL:|Failed|[^\s:]{1,300}:\d{1,7}: error:) ")
_SERVER_SAID = re.compile(SERVER_SAID)
_MESSAGE = re.compile(
    r"(?<=\]) : .*$| (?:- .*|\[(?:FAIL|(?:< )?\d[ \w]{0,30})\]|\(\d[\d.,]{0,12} ?(?:ms|s)\))$"
)
_FETCHED = re.compile(r"curl: \(|wget: |fatal: |E: ")


def _says_how(test: str) -> bool:
    """Whether a line that names a failed test also says how it failed."""
    said = _HOW.search(test) and not _BARE.search(test)
    return bool(said) and not test.startswith("not ok ")


_BARE = re.compile(r" - [\w.]{1,200}(?:Error|Exception|Failure|Failed)$")
"""Only the name of an exception after that of a test."""

_HOW = re.compile(r" - |\.\.: |: error: (?:-\[[^\]]{1,400}\]|\w{1,200}\.\w{1,200}) : ")
