"""What failed, as a short key: the same for the same error in other runs, jobs and pipelines.

It is made from the most telling lines of a failed job's excerpt, without what differs between runs
(times, ids, numbers, the runner's folders). Pure.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from worker.core.logs.error_lines import is_test_progress
from worker.core.logs.excerpt import weights
from worker.core.logs.excerpt.marks import find_marks
from worker.core.logs.failed_test_message import find_messages
from worker.core.logs.failed_test_reason import find_reason
from worker.core.logs.headings import join_headings
from worker.core.logs.line_kinds import (
    DEADLY,
    GAP,
    LOCATED,
    PLACED,
    PLAIN,
    REASON,
    SERVER_SAID,
    TEST,
    TROUBLE,
    WEAK,
    is_noise,
    strip_line,
)
from worker.core.logs.normal_form import normalise_line, normalise_places
from worker.core.text.untrusted import one_line

TEXT = 320
"""The most characters of `Signature.text`."""

NAME = 160
"""The most characters of each of `Signature.others`."""

KEY = 16
"""Hexadecimal digits of a key."""

_SPREAD = 3.0
"""How much less than the heaviest line a line may weigh and still be part of the key."""

_LEAST = -0.5
"""The least weight of a telling line."""


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
    telling = _find_telling(lines, command)
    kept = _keep_decisive(telling, lines, command)
    if not kept:
        return Signature()
    found = frozenset(each.normal for each in kept)
    messages = find_messages((each.text for each in kept if each.is_test), lines)
    text = _choose_text(telling, kept, lines)
    joined = "\n".join(sorted(found.union(map(normalise_line, messages.values()))))
    return Signature(
        join_key(joined),
        one_line(text, TEXT),
        _list_others(kept, text),
        found if _is_build(kept) else frozenset(),
    )


def join_key(*parts: str) -> str:
    """Return the key of what the parts say together."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:KEY]


def _is_build(kept: Sequence["_WeightedLine"]) -> bool:
    placed = any(PLACED.match(each.text) for each in kept)
    return placed and not any(each.is_test for each in kept)


def lead_with(error: str, base: Signature) -> Signature:
    """Return the signature of the failure `base` with one more `error`, which becomes its text."""
    return Signature(
        join_key(normalise_line(error), base.key),
        one_line(error, TEXT),
        (one_line(base.text, NAME), *base.others) if TEST.match(base.text) else base.others,
    )


def find_errors(lines: Sequence[str], command: str = "") -> frozenset[str]:
    """Return the normal forms of every failed test and every error in the lines, which the command
    of that name has written; if no line is telling, the normal form of the last line that says what
    could not be done, or of a list of files."""
    lines = [*join_headings(lines)]
    telling = _find_telling(lines, command)
    return frozenset(each.normal for each in _keep_decisive(telling, lines, command))


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
    telling = {each.text for each in _find_telling(lines)}  # whichever command has written them
    return [text for text in texts if text in telling or TROUBLE.search(text)]


def _choose_text(
    telling: Sequence["_WeightedLine"], kept: Sequence["_WeightedLine"], lines: Sequence[str]
) -> str:
    """Return the signature's text.

    What the runner gives as its reason comes first, and what a race detector or sanitizer reports.
    If tests failed, it is the first one whose reason is known, with that reason, else the first.
    Else it is how a program died; or the heaviest line, but if that is an error with its place, it
    is the first such error: the others follow from it.
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
    best = next(refused, "") or next(died, _choose_heaviest(others).text)
    located = (each.text for each in telling if LOCATED.match(each.text))
    return next(located, best) if LOCATED.match(best) else best


def _choose_heaviest(kept: Sequence["_WeightedLine"]) -> "_WeightedLine":
    """Return the heaviest line; if it and others are what programs say in their own names (`cp: …`,
    `TypeError: …`), the heaviest of those of the program that was the last to speak."""
    best = max(kept, key=lambda each: each.weight)
    names = [_read_name(each.text) for each in kept]
    last = next(filter(None, reversed(names)), "")
    if LOCATED.match(best.text) or not _read_name(best.text):
        return best
    spoken = (each for each, name in zip(kept, names, strict=True) if name == last)
    return max(spoken, key=lambda each: each.weight)


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


def _list_others(kept: Sequence["_WeightedLine"], error: str) -> tuple[str, ...]:
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


def _keep_decisive(
    telling: Sequence["_WeightedLine"], lines: Sequence[str], command: str
) -> list["_WeightedLine"]:
    """Return the lines that decide which failure it is: every plain one, those that weigh nearly as
    much as the heaviest (warnings only if there is nothing else), and the last one that says what
    could not be done. If there are none, it is the list of files that a formatter or a comparison
    has written, by the name of the `command`."""
    best = max((each.weight for each in telling), default=0.0)
    kept = [each for each in telling if each.is_plain or each.weight >= best - _SPREAD]
    kept = [each for each in kept if not _WARNS.match(each.text)] or kept
    last = None if any(each.is_test for each in kept) else _find_last_trouble(lines)
    if last and all(each.normal != last.normal for each in kept):
        kept.append(last)
    return kept or (_read_list(lines) if _LISTS.search(command) else [])


def _find_last_trouble(lines: Sequence[str]) -> "_WeightedLine | None":
    for line in reversed(lines):
        text = strip_line(line)
        normal = normalise_line(text)
        if (
            TROUBLE.search(normal)
            and not is_test_progress(text)
            and not is_noise(text, normal)
            and not _is_tally(normal)
            and not _says_nothing(normal)
        ):
            return _WeightedLine(_LEAST - 1, normal, text, False, False, False)
    return None


_WARNS = re.compile(
    r"(?!WARNING: (?:DATA RACE|\w{1,30}Sanitizer))(?:\S{1,40} )?\W{0,3}(?i:warn(?:ing)?)\W"
)
_PATH = r"(?:[\w@.+~-]{0,100}/[\w@.+~/-]{1,300}|[\w@+-][\w@.+-]{0,100}\.\w{1,12})"
_LISTED = re.compile(
    r"(?:\[\w{1,8}\] |(?:\w{1,16}:? ){0,3}|diff --git \S{1,300} |--- |\+\+\+ )"
    rf"{_PATH}(?::\d{{1,7}})?:?(?: \(\w{{1,20}}\))?$"
)
_LISTS = re.compile(r"fmt|format|diff|check|lint|prettier|black|isort|ruff|biome|style|verify")
_DIFFERS = re.compile(r"[+-](?![+-])")


def _read_list(lines: Sequence[str]) -> list["_WeightedLine"]:
    """Return the files that the lines list and the lines in which these differ; none unless at
    least a third of all lines are such."""
    texts = [text for text in (_unnumber(line) for line in lines) if text and text != GAP]
    found = [text for text in texts if _LISTED.match(text) and not is_test_progress(text)]
    differing = [text for text in texts if _DIFFERS.match(text)] if found else []
    if 3 * len(found + differing) < len(texts):
        return []
    items = dict.fromkeys(map(normalise_line, (*found, *differing)))
    return [_WeightedLine(_LEAST, each, each, False, False, False) for each in items]


def _unnumber(line: str) -> str:
    return _NUMBER.sub("", line, 1).strip()


_NUMBER = re.compile(r"^\d{1,9}: ?")


# --------------------------------------------------------------------------- what tells something

_NPM = re.compile(r"npm (?:ERR!|error) ")
_WORD = re.compile(r"[a-z]{3,}")
_LICENCE = re.compile(r"licen[cs]e exception", re.IGNORECASE)
_COMMON = """
error errors fail fails failed failing failure failures fatal exception exceptions assertion
assertionerror runtimeerror valueerror the and was were with from that this some there are task
tasks test tests testing build compile step issue issues problem problems warning warnings found
info debug time summary total result results report skipped passed run running short none true
false null dir tmp err code exit status job script command see above below following details
traceback most recent call last end log
"""
_COUNTED = """
example examples completed done finished note notes hint hints infos warn skip skips pass passes
runs assertions leaks success successes suite suites offenses inspected detected seconds ignored
pending todo unnecessary
"""
_COMMON_WORDS = frozenset(_COMMON.split())
_COUNTED_WORDS = frozenset(_COUNTED.split())
_COUNTS = re.compile(r"<n> (?!m?s\))[a-z]|[a-z](?:: ?|=| )<n>", re.IGNORECASE)
"""A count of something; the duration of a test is none."""


@dataclass(frozen=True, slots=True)
class _WeightedLine:
    """A telling line: its own weight, its normal form and its text.

    `is_plain` says that it names a failed test or an exception, or begins with a tool's word for an
    error: such a line counts whatever its weight.
    """

    weight: float
    normal: str
    text: str
    is_test: bool
    is_plain: bool
    is_summary: bool


def _find_telling(lines: Sequence[str], command: str = "") -> list[_WeightedLine]:
    """Return the telling lines, each normal form once. What a program of `command` says in its own
    name is plain."""
    own = tuple(f"{part.split()[0]}: " for part in command.split(", ") if part.split())
    found: dict[str, _WeightedLine] = {}
    for line in lines:
        text = strip_line(line)
        normal = normalise_line(text)
        is_test = TEST.match(text) is not None
        silent = _is_tally(normal) or (not is_test and _says_nothing(normal))
        if (
            silent
            or is_noise(text, normal)
            or is_test_progress(text)
            or text == GAP
            or normal in found
        ):
            continue
        names = find_marks(_NPM.sub("", normal).replace("<n>", "1"))
        weight = _weigh_marks(names)
        is_plain = is_test or _is_plain(text, own)
        if is_plain or weight >= _LEAST:
            summary = "summary" in names
            found[normal] = _WeightedLine(weight, normal, text, is_test, is_plain, summary)
    return _drop_repeated(found)


def _is_plain(text: str, own: tuple[str, ...]) -> bool:
    said = text.startswith(own) and not _HARMLESS.match(text)
    return said or any(pattern.match(text) for pattern in (PLAIN, DEADLY, REASON))


_HARMLESS = re.compile(r"\S{1,60}: (?i:warn(?:ing)?|note|info|debug|using|loading|\*\*\*)\b")


def _drop_repeated(found: Mapping[str, _WeightedLine]) -> list[_WeightedLine]:
    """Return the lines without those that only repeat what a better one among them says."""
    listed = {each.text.partition(" - ")[0] for each in found.values() if each.is_test}
    names = {re.split(r"::|\.", each)[-1] for each in listed}
    better = any(not WEAK.match(each.text) for each in found.values())

    def repeats(normal: str, each: _WeightedLine) -> bool:
        if row := _TEST_ROW.match(normal):
            return f"FAILED {row[1]}" in listed
        weak = WEAK.match(each.text)
        if weak and weak["test"]:
            return weak["test"].rpartition(".")[2] in names
        return bool(weak) and better

    return [each for normal, each in found.items() if not repeats(normal, each)]


_TEST_ROW = re.compile(r"(\S{1,300}\.py::.{1,300}?) (?:FAILED|ERROR)(?: \[ ?<n>\])?$")
"""A failed test in pytest's list of all tests, which its summary names again."""


def _is_tally(normal: str) -> bool:
    """Whether a line only counts what failed, passed or was skipped."""
    words = set(_WORD.findall(normal.lower()))
    return not words - _COMMON_WORDS - _COUNTED_WORDS and _COUNTS.search(normal) is not None


def _says_nothing(normal: str) -> bool:
    """Whether a line has only words that occur in any failure."""
    words = set(_WORD.findall(normal.lower()))
    return not words - _COMMON_WORDS or _LICENCE.search(normal) is not None


def _weigh_marks(names: set[str]) -> float:
    if "ended" in names or names.isdisjoint(_SPEAKS):
        return _LEAST - 1
    return weights.sum_marks(names)[0]


_SPEAKS = frozenset(
    (
        *("fault", "trouble", "named", "crossed", "colon_error"),
        *("loud", "judged", "numbered", "opens", "summary"),
    )
)
