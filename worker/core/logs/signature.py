"""What failed, as a short key: the same for the same error in other runs, jobs and pipelines.

It is made from the most telling lines of a failed job's excerpt, without what differs from run to
run (times, ids, numbers, the runner's folders). Pure.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from worker.core.logs.error_lines import went_well
from worker.core.logs.excerpt import weights
from worker.core.logs.excerpt.marks import find_marks
from worker.core.logs.headings import join_headings
from worker.core.logs.normal_form import LONGEST, normalise_line, normalise_places
from worker.core.text.untrusted import one_line

TEXT = 240
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
    """`key` is "" if no line tells anything; `text` is the most telling line, unchanged.

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
    found = frozenset(each.normal for each in kept) or _last_trouble(lines)
    if not found:
        return Signature()
    text = _text(telling, kept, lines)
    joined = "\n".join(sorted(found))
    return Signature(
        hashlib.sha256(joined.encode()).hexdigest()[:KEY],
        one_line(text, TEXT),
        _name_others(kept, text),
        found if _is_build(kept) else frozenset(),
    )


def _is_build(kept: Sequence["_WeightedLine"]) -> bool:
    placed = any(_PLACED.match(each.text) for each in kept)
    return placed and not any(each.is_test for each in kept)


def lead_with(error: str, base: Signature) -> Signature:
    """Return the signature of a failure with one error more, which is its text."""
    joined = f"{normalise_line(error)}\n{base.key}"
    return Signature(
        hashlib.sha256(joined.encode()).hexdigest()[:KEY],
        one_line(error, TEXT),
        (one_line(base.text, NAME), *base.others) if _TEST.match(base.text) else base.others,
    )


def find_errors(lines: Sequence[str]) -> frozenset[str]:
    """Return the normal forms of every failed test and every error in the lines; if no line is
    telling, the normal form of the last line that says what could not be done."""
    lines = [*join_headings(lines)]
    return frozenset(each.normal for each in _keep_weighty(_find_telling(lines))) or _last_trouble(
        lines
    )


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


def is_in_a_list(text: str) -> bool:
    """Whether a line names a failed test, or an error with its place: there may be many of them."""
    return _TEST.match(text) is not None or _LOCATED.match(text) is not None


def _text(
    telling: Sequence["_WeightedLine"], kept: Sequence["_WeightedLine"], lines: Sequence[str]
) -> str:
    """Return the signature's text.

    If tests failed, it is the first one that says how it failed, with that, else the first one.
    Otherwise it is the heaviest line; but if that is an error with its place, the first such error,
    from which the others follow.
    """
    if not kept:
        return next(iter(_last_trouble(lines)), "")
    tests = [each.text for each in kept if each.is_test]
    others = [each for each in kept if not each.is_test and not each.is_summary] or kept
    if not tests:
        best = max(others, key=lambda each: each.weight).text
        located = (each.text for each in telling if _LOCATED.match(each.text))
        return next(located, best) if _LOCATED.match(best) else best
    explained = (_explain(test, lines) for test in tests[:_TRIED])
    return next(filter(None, explained), tests[0])


_TRIED = 10
"""How many failed tests are searched for one that says how it failed."""


def _explain(test: str, lines: Sequence[str]) -> str:
    """Return the failed test with how it failed, "" if nothing says how."""
    said = "" if _says(test) else _diagnosis(test, lines)
    return f"{test}: {said}" if said else test if _says(test) else ""


def _name_others(kept: Sequence["_WeightedLine"], error: str) -> tuple[str, ...]:
    """Return the names of the failed tests other than that of the `error`, each once even if the
    tool names it in several ways. If any test failed, the errors of tools that fetch something come
    first."""
    tests = [each.text for each in kept if each.is_test]
    named: dict[str, str] = {}
    for text in sorted(tests, key=lambda text: not error.startswith(text)):
        name = text if text.startswith("not ok ") else _MESSAGE.sub("", _VERB.sub("", text))
        named.setdefault(name.split(" › ")[-1].strip(" ✕✗✖●"), name)
    fetched = [each.text for each in kept if tests and _FETCHED.match(each.text)]
    return tuple(one_line(each, NAME) for each in (*fetched, *list(named.values())[1:]))


_VERB = re.compile(r"(?:FAILED|--- FAIL:|FAIL:) ")
_MESSAGE = re.compile(r" (?:- .*|\(\d[\d.,]{0,12} ?(?:ms|s)\))$")
_FETCHED = re.compile(r"curl: \(|wget: |fatal: |E: ")


def _diagnosis(test: str, lines: Sequence[str]) -> str:
    """Return what the log says about how a test failed. For a TAP result this is Perl's warning
    about the code, else the values got and expected; for any other test, the line after it."""
    if not test.startswith("not ok "):
        return _line_after(test, lines)
    texts = [strip_line(line) for line in lines]
    told = [at for at, text in enumerate(texts) if _TOLD.match(text)]
    before, after = _split_told(test, texts, told) if told else _split_results(test, texts)
    warned = [text for text in before if _WARNED.match(text)]
    compared = [found[0].strip("# ") for text in after if (found := _COMPARED.match(text))][:2]
    said = warned[-1] if warned else ", ".join(compared)
    return said or ("" if told else _line_after(test, lines))


_Texts = tuple[Sequence[str], Sequence[str]]


def _split_told(test: str, texts: Sequence[str], told: Sequence[int]) -> _Texts:
    """Return what Perl wrote before and after it named the failed test, up to the tests that it
    named before and after; nothing if it did not name it. Perl's messages are not in sequence with
    the results."""
    name = test.partition(" - ")[2]
    at = next((at for at in told if name and f"'{name}'" in texts[at]), None)
    if at is None:
        return (), ()
    return _cut_around(texts, at, _TOLD)


def _split_results(test: str, texts: Sequence[str]) -> _Texts:
    """Return the lines around the failed test's result, up to the adjacent results, twice."""
    before, after = _cut_around(texts, texts.index(test), _RESULT)
    return (*before, *after), (*before, *after)


def _cut_around(texts: Sequence[str], at: int, ends: re.Pattern[str]) -> _Texts:
    """Return the texts before and after one, each part up to a gap or a match of `ends`."""

    def goes_on(text: str) -> bool:
        return text != _GAP and not ends.match(text)

    before = [*takewhile(goes_on, reversed(texts[:at]))]
    return before[::-1], [*takewhile(goes_on, texts[at + 1 :])]


_TOLD = re.compile(r"#\s+Failed (?:\(TODO\) )?test")
_RESULT = re.compile(r"(?:not )?ok \d")


def _line_after(test: str, lines: Sequence[str]) -> str:
    """Return what follows the line of a failed test: usually its assertion. "" if that is about
    another test, unless it is a part of this one."""
    texts = [strip_line(line) for line in lines]
    following = texts[texts.index(test) + 1 :][:2]
    said = next((text for text in following if text and not _MERE.match(normalise_line(text))), "")
    part = test.split(" (")[0]
    return "" if said == _GAP or (_TEST.match(said) and not said.startswith(part)) else said


def _says(test: str) -> bool:
    """Whether a line that names a failed test also says how it failed."""
    return not test.startswith("not ok ") and (" - " in test or test.startswith("rspec "))


def _last_trouble(lines: Sequence[str]) -> frozenset[str]:
    for line in reversed(lines):
        text = strip_line(line)
        normal = normalise_line(text)
        if (
            _TROUBLE.search(normal)
            and not went_well(text)
            and not _MERE.match(normal)
            and not _says_nothing(normal)
        ):
            return frozenset((normal,))
    return frozenset()


def _keep_weighty(telling: Sequence["_WeightedLine"]) -> list["_WeightedLine"]:
    best = max((each.weight for each in telling), default=0.0)
    return [each for each in telling if each.is_plain or each.weight >= best - _SPREAD]


# --------------------------------------------------------------------------- what tells something

_NUMBER = re.compile(r"^\d{1,9}: ?")
_PREFIX = re.compile(
    r"(?:vet: |#\d{1,4} (?:\d{1,6}\.\d{1,4} )?"
    r"|\[ERROR\] Failed to execute goal .{1,300}? on project [\w.:-]{1,100}: )"
)
_SUFFIX = re.compile(r"(?: -> \[Help \d\]| \(attempt \d{1,4} of \d{1,4}\))+\.?$")
"""What a tool writes around an error: the goal that failed, the step of a build, the attempt."""

_NPM = re.compile(r"npm (?:ERR!|error) ")
_GAP = "…"
_WORD = re.compile(r"[a-z]{3,}")
_LICENCE = re.compile(r"licen[cs]e exception", re.IGNORECASE)
_ANYBODYS = frozenset(
    re.findall(
        r"\w+",
        """
        error errors fail fails failed failing failure failures fatal exception exceptions
        assertion assertionerror runtimeerror valueerror the and was were with from that this
        some there are task tasks test tests testing build compile step issue issues problem
        problems warning warnings found info debug time summary total result results report
        skipped passed run running short none true false null dir tmp err code exit status job
        script command see above below following details traceback most recent call last end log
        """,
    )
)
_MERE = re.compile(
    r"(?:error:? |fatal:? |##\[error\])?(?:job failed|build failed|process (?:completed|exited|\")|"
    r"command (?:failed|exited)|script (?:failed|exited|returned)|the command .{1,200} (?:exited|"
    r"returned)|cleaning up|uploading|exited? with|exit (?:code|status)|make(?:\[<n>\])?: \*\*\*|"
    r"[\w.-]{0,40}: \*\*\* \[|elifecycle|.{0,40}returned (?:a )?non-zero)"
    # Maven
    r"|\[error\] (?:->|\[help <n>\]|to see the full stack trace|re-run maven|for more information"
    r"|after correcting|please refer|there are test failures|mvn <args>|tests run:|failures:"
    r"|errors:)|there are test failures|compilation failure$|tests run: "
    # npm, yarn, pnpm
    r"|npm (?:err!|error) (?:code|errno|syscall|path|command|workspace|location|lifecycle script"
    r"|a complete log|to correct|npm login|this is .{0,9}not a problem|exit status|failed at the"
    r"|test failed|\S{1,200}: `|$)|.{0,20}command failed with exit code|error command failed"
    # Gradle
    r"|failure: build (?:failed|completed)|execution failed for task|> there were failing tests"
    r"|> run with |\* (?:try|what went wrong|exception is)|get more help|build failed in"
    # Cargo
    r"|error: (?:test failed, to rerun|could not compile|aborting due to|\S{1,40} target failed)"
    r"|for more information about this error|test result: failed|note: run with"
    # Go: the package of a failed test or build, after its errors
    r"|fail\s(?:\S{1,300}\s)?(?:\[(?:build|setup) failed\]|<n>)|fail$"
    # Docker: the step, once more
    r"|error: (?:failed to solve|failed to build)|error: process \""
    r"|\S{0,40}recipe for target|ninja: build stopped"
    r"|make(?:\[<n>\])?: target .{1,200} not remade because of errors",
    re.IGNORECASE,
)
"""What a build tool writes after the errors, whatever they were."""

_TEST = re.compile(
    r"FAILED |FAIL: |--- FAIL: |(?:\s|^)[✕✗✖●] |not ok |\[ERROR\] \S{1,200} .{0,60}<<< (?:FAIL|ERR)"
    r"|.{1,200} > .{1,200} FAILED$|---- .{1,200} stdout ----|rspec \./|\d{1,5}\) \w{1,100}::"
)
"""A line that names a failed test."""

_PLAIN = re.compile(
    r"(?:E {1,8})?[A-Za-z_][\w.$]{0,120}(?:Error|Exception|Failure|Failed)\b(?:$|:| )"
    r"|(?:npm (?:ERR!|error)|ERROR:|FATAL:|fatal:|Error:|curl: \(|wget: )"
    r"|assertion .{1,200} failed"
)
"""A line that begins with an exception, or with a tool's word for an error."""

_LOCATED = re.compile(
    r"[^\s:]{1,200}:\d{1,7}(?::\d{1,7})?:? (?:fatal )?error\b|error\[\w{1,12}\]: "
    r"|[^\s:(]{1,200}\(\d{1,7},\d{1,7}\): error\b|[A-Z]{1,5}\d{2,5} (?:\[\*\] )?\S"
)
"""An error of a compiler, a type checker or a linter, with its place or its code."""

_PLACED = re.compile(r"[^\s:(]{1,200}\.\w{1,12}(?::\d{1,7}(?::\d{1,7})?|\(\d{1,7},\d{1,7}\)): \S")
"""An error that begins with its place in a file."""

_WARNED = re.compile(r"[^#\s].{1,300} at \S{1,200} line \d{1,7}\.$")
_COMPARED = re.compile(r"# {1,12}(?:got|expected): .{1,100}|(?:error|message): .{1,200}")
"""How Perl and TAP say why a test failed."""

_TROUBLE = re.compile(
    r"\b(?:could not|cannot|can't|unable to|refused|denied|not found|no such|timed out)\b",
    re.IGNORECASE,
)


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
        silent = _MERE.match(normal) or _says_nothing(normal) or went_well(text)
        if silent or text == _GAP or normal in found:
            continue
        is_test = _TEST.match(text) is not None
        names = find_marks(_NPM.sub("", normal).replace("<n>", "1"))
        weight = _weight(names)
        is_plain = is_test or _PLAIN.match(text) is not None
        if is_plain or weight >= _LEAST:
            summary = "summary" in names
            found[normal] = _WeightedLine(weight, normal, text, is_test, is_plain, summary)
    return list(found.values())


def strip_line(line: str) -> str:
    """Return a line without its number and without what a tool writes around its error."""
    text = _NUMBER.sub("", line[: 4 * LONGEST].strip(), 1).strip()
    return _SUFFIX.sub("", _PREFIX.sub("", text, 1)).strip()


def _says_nothing(normal: str) -> bool:
    """Whether a line has only words that occur in any failure."""
    words = set(_WORD.findall(normal.lower()))
    return not words - _ANYBODYS or _LICENCE.search(normal) is not None


def _weight(names: set[str]) -> float:
    if "ended" in names or names.isdisjoint(_SPEAKS):
        return _LEAST - 1
    return weights.of_marks(names)[0]


_SPEAKS = frozenset(
    (
        "fault",
        "trouble",
        "named",
        "crossed",
        "colon_error",
        "loud",
        "judged",
        "numbered",
        "opens",
        "summary",
    )
)
