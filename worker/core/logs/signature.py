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
from worker.core.logs.failed_test_reason import find_reason
from worker.core.logs.headings import join_headings
from worker.core.logs.line_kinds import (
    GAP,
    LOCATED,
    NOISE,
    PLACED,
    PLAIN,
    SERVER_SAID,
    TEST,
    TROUBLE,
    WEAK,
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


def make_signature(lines: Sequence[str]) -> Signature:
    """Make the signature of an excerpt's lines, with or without their numbers (`1843: text`).

    The key covers every failed test and every error in the lines: a failure with one error more
    than another has a different key.
    """
    lines = [*join_headings(lines)]
    telling = _find_telling(lines)
    kept = _keep_weighty(telling)
    found = frozenset(each.normal for each in kept) or _find_last_trouble(lines)
    if not found:
        return Signature()
    text = _choose_text(telling, kept, lines)
    joined = "\n".join(sorted(found))
    return Signature(
        hashlib.sha256(joined.encode()).hexdigest()[:KEY],
        one_line(text, TEXT),
        _list_others(kept, text),
        found if _is_build(kept) else frozenset(),
    )


def _is_build(kept: Sequence["_WeightedLine"]) -> bool:
    placed = any(PLACED.match(each.text) for each in kept)
    return placed and not any(each.is_test for each in kept)


def lead_with(error: str, base: Signature) -> Signature:
    """Return the signature of the failure `base` with one more `error`, which becomes its text."""
    joined = f"{normalise_line(error)}\n{base.key}"
    return Signature(
        hashlib.sha256(joined.encode()).hexdigest()[:KEY],
        one_line(error, TEXT),
        (one_line(base.text, NAME), *base.others) if TEST.match(base.text) else base.others,
    )


def find_errors(lines: Sequence[str]) -> frozenset[str]:
    """Return the normal forms of every failed test and every error in the lines; if no line is
    telling, the normal form of the last line that says what could not be done."""
    lines = [*join_headings(lines)]
    return frozenset(
        each.normal for each in _keep_weighty(_find_telling(lines))
    ) or _find_last_trouble(lines)


def find_exact_errors(lines: Sequence[str]) -> Mapping[str, str]:
    """Return the errors without what differs between two runs of the same failure, each with its
    line, unchanged.

    Stricter than `find_errors`: the values of an assertion and the parameters of a test are kept.
    """
    texts = [strip_line(line) for line in join_headings(lines)]
    kept = find_errors(lines)
    return {
        normalise_places(text): text for text in reversed(texts) if normalise_line(text) in kept
    }


def list_telling_lines(lines: Sequence[str]) -> list[str]:
    """Return all lines that may be part of a key, without numbers: every error, even if others tell
    more, and every line that says what could not be done."""
    texts = map(strip_line, lines)
    telling = {each.text for each in _find_telling(lines)}
    return [text for text in texts if text in telling or TROUBLE.search(text)]


def _choose_text(
    telling: Sequence["_WeightedLine"], kept: Sequence["_WeightedLine"], lines: Sequence[str]
) -> str:
    """Return the signature's text.

    If tests failed, it is the first one whose reason is known, with that reason, else the first.
    Otherwise it is the heaviest line; but if that is an error with its place, it is the first such
    error: the others follow from it.
    """
    if not kept:
        return next(iter(_find_last_trouble(lines)), "")
    tests = [each.text for each in kept if each.is_test]
    others = [each for each in kept if not each.is_test and not each.is_summary] or kept
    if not tests:
        refused = (each.text for each in kept if _SERVER_SAID.match(each.text))
        best = next(refused, max(others, key=lambda each: each.weight).text)
        located = (each.text for each in telling if LOCATED.match(each.text))
        return next(located, best) if LOCATED.match(best) else best
    explained = (_explain(test, lines) for test in tests[:_TRIED])
    return next(filter(None, explained), tests[0])


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
    said = _HOW.search(test) or test.startswith("rspec ")
    return bool(said) and not test.startswith("not ok ")


_HOW = re.compile(r" - |\.\.: |: error: (?:-\[[^\]]{1,400}\]|\w{1,200}\.\w{1,200}) : ")


def _find_last_trouble(lines: Sequence[str]) -> frozenset[str]:
    for line in reversed(lines):
        text = strip_line(line)
        normal = normalise_line(text)
        if (
            TROUBLE.search(normal)
            and not is_test_progress(text)
            and not NOISE.match(normal)
            and not _is_tally(normal)
            and not _says_nothing(normal)
        ):
            return frozenset((normal,))
    return frozenset()


def _keep_weighty(telling: Sequence["_WeightedLine"]) -> list["_WeightedLine"]:
    best = max((each.weight for each in telling), default=0.0)
    return [each for each in telling if each.is_plain or each.weight >= best - _SPREAD]


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
completed done finished note notes hint hints infos warn skip skips pass passes runs assertions
leaks success successes suite suites offenses inspected detected seconds ignored pending todo
unnecessary
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


def _find_telling(lines: Sequence[str]) -> list[_WeightedLine]:
    """Return the telling lines, each normal form once."""
    found: dict[str, _WeightedLine] = {}
    for line in lines:
        text = strip_line(line)
        normal = normalise_line(text)
        is_test = TEST.match(text) is not None
        silent = _is_tally(normal) or (not is_test and _says_nothing(normal))
        if (
            silent
            or NOISE.match(normal)
            or is_test_progress(text)
            or text == GAP
            or normal in found
        ):
            continue
        names = find_marks(_NPM.sub("", normal).replace("<n>", "1"))
        weight = _weigh_marks(names)
        is_plain = is_test or PLAIN.match(text) is not None
        if is_plain or weight >= _LEAST:
            summary = "summary" in names
            found[normal] = _WeightedLine(weight, normal, text, is_test, is_plain, summary)
    return _drop_repeated(found)


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
