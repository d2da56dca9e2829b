"""What failed, as a short key: the same for the same error in other runs, jobs and pipelines.

It is made from the most telling lines of a failed job's excerpt, without what differs between runs
(times, ids, numbers, the runner's folders). Pure.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from worker.logs.decisive_lines import DecisiveLine, find_telling, keep_decisive
from worker.logs.failed_tests import find_messages, find_reason
from worker.logs.line_kinds import (
    DEADLY,
    LOCATED,
    PLACED,
    REASON,
    SERVER_SAID,
    TEST,
    TROUBLE,
    strip_line,
)
from worker.logs.named_places import join_headings
from worker.logs.normal_form import LONGEST, drop_number, normalise_line, normalise_places
from worker.safety.untrusted import one_line

TEXT = 320
"""The most characters of `Signature.text`."""

KEY = 16
"""Hexadecimal digits of a key."""


@dataclass(frozen=True, slots=True)
class Signature:
    """`key` is "" if no line is telling; `text` is the most telling line, unchanged.

    `others` are the errors of tools that fetch something, and the names of the other failed tests.
    `build_errors` are the normal forms of all errors if they have places and no test failed, as
    when a compiler or a linter found them.
    """

    key: str = ""
    text: str = ""
    others: tuple[str, ...] = ()
    build_errors: frozenset[str] = frozenset()


def make_signature(lines: Sequence[str], command: str = "") -> Signature:
    """Make the signature of an excerpt's lines, with or without their numbers (`1843: text`).

    `command` is the name of the command that wrote them, if that is known. The key covers every
    failed test and every error in the lines: a failure with one error more than another has a
    different key.
    """
    lines = [*join_headings(lines)]
    telling = find_telling(lines, command)
    kept = keep_decisive(telling, lines, command)
    if not kept:
        return Signature()
    found = frozenset(each.normal for each in kept)
    messages = find_messages((each.text for each in kept if each.is_test), lines)
    text = _choose_headline(telling, kept, lines)
    placed = any(PLACED.match(each.text) for each in kept)
    is_build = placed and not any(each.is_test for each in kept)
    joined = "\n".join(sorted(found.union(map(normalise_line, messages.values()))))
    return Signature(
        join_key(joined),
        one_line(text, TEXT),
        _list_others(kept, text),
        found if is_build else frozenset(),
    )


def join_key(*parts: str) -> str:
    """Return the key of what the parts say together."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:KEY]


def lead_with(error: str, base: Signature) -> Signature:
    """Return the signature of the failure `base` with one more `error`, which becomes its text."""
    return Signature(
        join_key(normalise_line(error), base.key),
        one_line(error, TEXT),
        (one_line(base.text, _LONGEST_NAME), *base.others)
        if TEST.match(base.text)
        else base.others,
    )


def find_errors(lines: Sequence[str], command: str = "") -> frozenset[str]:
    """Return the normal forms of every failed test and every error in the lines, which the command
    of that name has written; if no line is telling, the normal form of the last line that says what
    could not be done, or of a list of files."""
    lines = [*join_headings(lines)]
    telling = find_telling(lines, command)
    return frozenset(each.normal for each in keep_decisive(telling, lines, command))


def find_exact_errors(lines: Sequence[str], command: str = "") -> Mapping[str, str]:
    """Return the errors without what differs between two runs of the same failure, each with its
    line, unchanged.

    Stricter than `find_errors`: the values of an assertion and the parameters of a test are kept.
    """
    texts = [strip_line(line) for line in join_headings(lines)]
    kept = find_errors(lines, command)
    return {
        normalise_places(text): text for text in reversed(texts) if normalise_line(text) in kept
    }


def list_telling_lines(lines: Sequence[str]) -> list[str]:
    """Return all lines that may be part of a key, without numbers: every error, even if others tell
    more, and every line that says what could not be done."""
    texts = map(strip_line, lines)
    telling = {each.text for each in find_telling(lines)}  # whichever command has written them
    return [text for text in texts if text in telling or TROUBLE.search(text)]


# ------------------------------------------------------------- the line that a person would quote

_LONGEST_NAME = 160
"""The most characters of each name of what else failed."""


def _choose_headline(
    telling: Sequence[DecisiveLine], kept: Sequence[DecisiveLine], lines: Sequence[str]
) -> str:
    """Return the line of a failure that a person would quote.

    What the runner gives as its reason comes first, and what a race detector or sanitizer reports.
    If tests failed, it is the first one whose reason is known, with that reason, else the first.
    Else it is how a program died; or the heaviest line, but if that is an error with its place, it
    is the first such error: the others follow from it. What other lines explain gives way to them:
    see `_find_cause`.
    """
    tests = [each.text for each in kept if each.is_test]
    others = [each for each in kept if not each.is_test and not each.is_summary] or kept
    foremost = next((each.text for each in kept if _FOREMOST.match(each.text)), "")
    of_tests = next(iter(tests), "")
    for test in tests[:_TRIED]:
        said = "" if _says_how(test) else find_reason(test, lines)
        if said or _says_how(test):
            of_tests = f"{test}: {said}" if said else test
            break
    if foremost or of_tests:
        return of_tests if foremost in of_tests else foremost
    died = (each.text for each in kept if DEADLY.match(each.text))
    refused = (each.text for each in kept if _SERVER_SAID.match(each.text))
    best = next(refused, "") or next(died, "")
    best = best or _find_cause(_choose_heaviest(others).text, telling, lines)
    located = (each.text for each in telling if LOCATED.match(each.text))
    is_located = LOCATED.match(best) and not _RECORD.match(best)
    return next(located, best) if is_located else best


def _choose_heaviest(kept: Sequence[DecisiveLine]) -> DecisiveLine:
    """Return the heaviest line; if it and others are what programs say in their own names (`cp: …`,
    `TypeError: …`), the heaviest of those of the program that was the last to speak."""
    best = max(kept, key=lambda each: each.weight)
    names = [_read_name(each.text) for each in kept]
    last = next(filter(None, reversed(names)), "")
    if LOCATED.match(best.text) or not _read_name(best.text):
        return best
    spoken = (each for each, name in zip(kept, names, strict=True) if name == last)
    return max(spoken, key=lambda each: each.weight)


def _find_cause(best: str, telling: Sequence[DecisiveLine], lines: Sequence[str]) -> str:
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
    texts = [drop_number(line[:LONGEST]) for line in lines]
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


def _list_others(kept: Sequence[DecisiveLine], error: str) -> tuple[str, ...]:
    """Return the names of the failed tests other than that of `error`, each once even if the tool
    has several names for it. If any test failed, the errors of tools that fetch something come
    first."""
    tests = [each.text for each in kept if each.is_test]
    named: dict[str, str] = {}
    for text in sorted(tests, key=lambda text: not error.startswith(text)):
        name = text if text.startswith("not ok ") else _MESSAGE.sub("", _VERB.sub("", text))
        named.setdefault(name.split(" › ")[-1].strip(" ✕✗✖✘●"), name)
    fetched = [each.text for each in kept if tests and _FETCHED.match(each.text)]
    return tuple(one_line(each, _LONGEST_NAME) for each in (*fetched, *list(named.values())[1:]))


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
