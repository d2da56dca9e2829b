"""What failed, as a short key: the same for the same error in other runs, jobs and pipelines.

Made of the most telling lines of a failed job's excerpt, with everything that differs from run to
run (times, ids, numbers, the runner's folders) taken out. Pure.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from worker.core.logs.excerpt import weights
from worker.core.logs.excerpt.marks import marks
from worker.core.text.untrusted import one_line

LONGEST = 400
"""Characters of a line that are looked at."""

TEXT = 240
"""Characters of `Signature.text`."""

KEY = 16
"""Hexadecimal digits of a key."""

_SPREAD = 3.0
"""How much less than the most telling line another one of the key may weigh."""

_LEAST = -0.5
"""What a line must weigh to tell anything."""


@dataclass(frozen=True, slots=True)
class Signature:
    """`key` is "" if no line tells anything; `text` is the most telling line, as it stands."""

    key: str = ""
    text: str = ""


def make_signature(lines: Sequence[str]) -> Signature:
    """The signature of an excerpt's lines, with or without their numbers (`1843: text`).

    Its key is made of every failed test and every error in them, so that one that has failed with
    more than another is another.
    """
    found = find_errors(lines)
    if not found:
        return Signature()
    joined = "\n".join(sorted(found))
    return Signature(
        hashlib.sha256(joined.encode()).hexdigest()[:KEY], one_line(_text(lines), TEXT)
    )


def find_errors(lines: Sequence[str]) -> frozenset[str]:
    """The normal forms of every failed test and every error in the lines; where no line tells
    anything, of the last one that says what could not be done."""
    return frozenset(each.normal for each in _kept(_telling(lines))) or _last_trouble(lines)


def find_exact_errors(lines: Sequence[str]) -> Mapping[str, str]:
    """The errors without what differs between two runs of one and the same failure, each with the
    line as it stands.

    Stricter than `errors`: the values of an assertion and the parameters of a test are part of it.
    """
    texts = [_stripped(line) for line in lines]
    kept = find_errors(lines)
    return {_exact(text): text for text in reversed(texts) if normalise_line(text) in kept}


def find_last_words(lines: Sequence[str]) -> Mapping[str, str]:
    """The last lines of a script that was ended by its time limit: where it hung, or was slow.

    Nothing where it had said nothing but its own commands.
    """
    end = next((at for at, line in enumerate(lines) if _RUNNERS.match(line)), len(lines))
    said = [line.strip() for line in lines[:end] if line.strip()][-_LAST:]
    if all(line.startswith("$ ") for line in said):
        return {}
    return {f"at the end: {_exact(line)}": f"at the end: {line}" for line in said}


_LAST = 3
"""Lines that say where a script has hung."""

_RUNNERS = re.compile(
    r"WARNING: (?:step_script|after_script|script) could not run|Running after_script"
    r"|Uploading artifacts for failed job|Saving cache for failed job"
    r"|Cleaning up project directory|(?:ERROR|FATAL): Job failed"
)
"""What the runner writes after the script."""


def _exact(text: str) -> str:
    return _with_placeholders(text, _PLACES)


def _text(lines: Sequence[str]) -> str:
    """The first failed test by name and what it says, else the most telling line, as it stands: of
    errors with their places the first, which the others follow from."""
    telling = _telling(lines)
    kept = _kept(telling)
    if not kept:
        return next(iter(_last_trouble(lines)), "")
    tests = [each.text for each in kept if each.is_test]
    others = [each for each in kept if not each.is_test and not each.is_summary] or kept
    if not tests:
        best = max(others, key=lambda each: each.weight).text
        located = (each.text for each in telling if _LOCATED.match(each.text))
        return next(located, best) if _LOCATED.match(best) else best
    said = "" if _says(tests[0]) else _diagnosis(tests[0], lines)
    return f"{tests[0]}: {said}" if said else tests[0]


def _diagnosis(test: str, lines: Sequence[str]) -> str:
    """What is said of how a failed test failed: under TAP what Perl warns of in the code, else what
    was got and expected; of any other what follows its line."""
    if not test.startswith("not ok "):
        return _line_after(test, lines)
    texts = [_stripped(line) for line in lines]
    warned = (text for text in texts if _WARNED.match(text))
    compared = [found[0].strip("# ") for text in texts if (found := _COMPARED.match(text))][:2]
    return next(warned, "") or ", ".join(compared) or _line_after(test, lines)


def _line_after(test: str, lines: Sequence[str]) -> str:
    """What follows the line of a failed test: its assertion, as a rule."""
    texts = [_stripped(line) for line in lines]
    following = texts[texts.index(test) + 1 :][:2]
    return next((text for text in following if text and not _MERE.match(text)), "")


def _says(test: str) -> bool:
    """Whether a line that names a failed test also says how it failed."""
    return not test.startswith("not ok ") and (" - " in test or test.startswith("rspec "))


def _last_trouble(lines: Sequence[str]) -> frozenset[str]:
    for line in reversed(lines):
        normal = normalise_line(_stripped(line))
        if _TROUBLE.search(normal) and not _MERE.match(normal) and not _says_nothing(normal):
            return frozenset((normal,))
    return frozenset()


def _kept(telling: Sequence["_WeightedLine"]) -> list["_WeightedLine"]:
    best = max((each.weight for each in telling), default=0.0)
    return [each for each in telling if each.is_plain or each.weight >= best - _SPREAD]


def normalise_line(line: str) -> str:
    """`line` with what differs from run to run replaced by placeholders, blanks collapsed."""
    return _with_placeholders(line, _NUMBERS)


def _with_placeholders(line: str, more: "Sequence[tuple[re.Pattern[str], str]]") -> str:
    text = line[:LONGEST]
    for pattern, placeholder in (*_VARIABLE, *more):
        text = pattern.sub(placeholder, text)
    return " ".join(text.split())


# ------------------------------------------------------------------------------ what varies

_UNITS = r"(?:ns|us|µs|ms|s|sec|secs|m|min|h|[KMGT]i?B|[kKMGTB]|%|x)?"

_VARIABLE: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), placeholder)
    for pattern, placeholder in (
        (r"\x1b?\[[0-9;]{1,12}[mK]|\x1b\[[mK]|\x1b", ""),
        (r"\bhttps?://[^/\s]{1,80}@", "https://"),
        (
            r"\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?)?"
            r"(?: ?Z\b| ?[+-]\d\d:?\d\d\b)?",
            "<time>",
        ),
        (r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? (?:[A-Z][a-z]{2} +\d{1,2}|\d{1,2} [A-Z][a-z]{2})\b",
         "<time>"),
        (r"(?<![\d:.])\d{1,2}:\d\d:\d\d(?:[.,]\d{1,9})?(?![\d:])", "<time>"),
        (r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b", "<id>"),
        (r"\b0x[0-9a-fA-F]+\b", "<id>"),
        (r"\b(?=[a-f]{0,63}\d)(?=\d{0,63}[a-f])[0-9a-f]{7,64}\b", "<id>"),
        (r"\b[0-9a-fA-F]{32,128}\b", "<id>"),
        (r"\brunner-[\w-]{1,60}?-project-\d+-concurrent-\d+\b", "<runner>"),
        (r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?(?![\w.])", "<address>"),
        (r"(?<![\w:])\[?(?:[0-9a-fA-F]{1,4}:){3,7}[0-9a-fA-F]{1,4}\]?(?![\w:])", "<address>"),
        (r"(?<=[a-z0-9\]>]):\d{4,5}(?=[/\s'\",;)]|$)", ":<n>"),
        # Of a temporary folder's content the file's own name says something, its folders don't.
        (
            r"(?<![\w.~-])/(?:private/)?(?:tmp|var/tmp|var/folders)/(?:[^\s/:'\"(),;]{1,100}/)*"
            r"(?:(?<=/)(?:tmp[^\s/:'\"(),;]{0,100}|[^\s/:'\"(),;.]{1,100}))?(?=[\s/:'\"(),;]|$)",
            "<tmp>",
        ),
        (r"(?<![\w.~-])/(?:private/)?(?:tmp|var/tmp|var/folders)/(?:[^\s/:'\"(),;]{1,100}/)*",
         "<tmp>/"),
        # Where a project is checked out, and under whose home, is the runner's affair.
        (r"(?<![\w.~-])/(?:[^\s/:'\"(),;<>]{1,100}/){2,24}"
         r"(?=[^\s/:'\"(),;<>]{1,100}/[^\s/:'\"(),;<>])", "<dir>/"),
        (r"\b[A-Z]:\\(?:[^\s\\:'\"]{1,100}\\){1,24}(?=[^\s\\:'\"]{1,100}\\[^\s\\:'\"])", "<dir>/"),
        (r"\btmp[-_.]?(?=\w{0,40}[\dA-Z_])\w{4,40}\b", "<tmp>"),
        (r"\b(?=[A-Za-z0-9]{8,64}\b)(?:[A-Za-z]{1,4}\d{1,4}){3,}[A-Za-z]{0,4}\b", "<id>"),
    )
)  # fmt: skip
"""Bounded and without nested repeats, for lines are hostile."""

_NUMBERS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), placeholder)
    for pattern, placeholder in (
        (r"\b(?P<said>(?:HTTP(?:/\d(?:\.\d)?)?|status(?: code)?:?|code:?|error:?) )(?=[45]\d\d\b)"
         r"4(?=\d\d\b)", r"\g<said>&4"),
        (rf"(?<![\w&])[-+]?\d[\d.,_]*(?:[eE][-+]?\d{{1,4}})?{_UNITS}(?![A-Za-z\d])", "<n>"),
        (r"(?<=\[gw)\d+(?=\])|(?<=\bport )\d+", "<n>"),
    )
)  # fmt: skip
"""Any number: two failures with the same text but for these have one signature."""

_PLACES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), placeholder)
    for pattern, placeholder in (
        (r"(?<=[\w)\]>]):\d{1,7}(?::\d{1,7})?(?=\D|$)|^\d{1,7}:\d{1,7}(?=\s)|\(\d{1,7},\d{1,7}\)"
         r"|\b(?:[Ll]ines?|[Cc]ol(?:umn)?|pid|port|L) ?\d{1,9}", "<place>"),
        (r"(?<![\w.])\d[\d.,]{0,20} ?(?:ns|us|µs|ms|s|secs?|seconds|mins?|minutes|[KMGT]i?B|%)"
         r"(?![A-Za-z\d])", "<n>"),
        (r"\b\d{1,9}(?= (?:passed|failed|failures?|errors?|warnings?|tests?|total|skipped|todo"
         r"|examples|snapshots|problems?|deselected|xfailed|xpassed|ignored|measured|filtered)\b)"
         r"|(?<=: )\d{1,9}(?=, [A-Z]|$)|(?<=\[)\d{1,9}(?:/\d{1,9})?(?=\])(?<!\w)"
         r"|(?<=\[gw)\d+(?=\])", "<n>"),
    )
)  # fmt: skip
"""Places, times and counts of tests: what one failure has otherwise in another run."""

# --------------------------------------------------------------------------- what tells something

_NUMBER = re.compile(r"^\d{1,9}: ?")
_PREFIX = re.compile(
    r"(?:vet: |#\d{1,4} (?:\d{1,6}\.\d{1,4} )?"
    r"|\[ERROR\] Failed to execute goal .{1,300}? on project [\w.:-]{1,100}: )"
)
_SUFFIX = re.compile(r"(?: -> \[Help \d\]| \(attempt \d{1,4} of \d{1,4}\))+\.?$")
"""What a tool writes around an error: the goal that met it, the step of a build, the attempt."""

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
    r"|a complete log|this is (?:probably )?not a problem|exit status|failed at the|test failed"
    r"|\S{1,200}: `|$)|.{0,20}command failed with exit code|error command failed"
    # Gradle
    r"|failure: build (?:failed|completed)|execution failed for task|> there were failing tests"
    r"|> run with |\* (?:try|what went wrong|exception is)|get more help|build failed in"
    # Cargo
    r"|error: (?:test failed, to rerun|could not compile|aborting due to|\S{1,40} target failed)"
    r"|for more information about this error|test result: failed|note: run with"
    # Go: the package of a test or a build that has told its errors
    r"|fail\s(?:\S{1,300}\s)?(?:\[(?:build|setup) failed\]|<n>)|fail$"
    # Docker: the step, once more
    r"|error: (?:failed to solve|failed to build)|error: process \""
    r"|\S{0,40}recipe for target|ninja: build stopped",
    re.IGNORECASE,
)
"""What a build tool says after the errors, whatever they were."""

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
"""A line that opens with an exception, or with a tool's word for an error."""

_LOCATED = re.compile(
    r"[^\s:]{1,200}:\d{1,7}(?::\d{1,7})?:? (?:fatal )?error\b|error\[\w{1,12}\]: "
    r"|[^\s:(]{1,200}\(\d{1,7},\d{1,7}\): error\b|[A-Z]{1,5}\d{2,5} (?:\[\*\] )?\S"
)
"""An error of a compiler, a type checker or a linter, with its place or its code."""

_WARNED = re.compile(r"[^#\s].{1,300} at \S{1,200} line \d{1,7}\.$")
_COMPARED = re.compile(r"# {1,12}(?:got|expected): .{1,100}|(?:error|message): .{1,200}")
"""How Perl and TAP say why a test has failed."""

_TROUBLE = re.compile(
    r"\b(?:could not|cannot|can't|unable to|refused|denied|not found|no such|timed out)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _WeightedLine:
    """A line that tells something: its weight by itself, its normal form, and the line.

    `is_plain` says that it names a failed test or an exception, or opens with a tool's word for an
    error: it counts whatever it weighs.
    """

    weight: float
    normal: str
    text: str
    is_test: bool
    is_plain: bool
    is_summary: bool


def _telling(lines: Sequence[str]) -> list[_WeightedLine]:
    """The lines that tell something, each normal form once."""
    found: dict[str, _WeightedLine] = {}
    for line in lines:
        text = _stripped(line)
        normal = normalise_line(text)
        if text == _GAP or normal in found or _MERE.match(normal) or _says_nothing(normal):
            continue
        is_test = _TEST.match(text) is not None
        names = marks(_NPM.sub("", normal).replace("<n>", "1"))
        weight = _weight(names)
        is_plain = is_test or _PLAIN.match(text) is not None
        if is_plain or weight >= _LEAST:
            summary = "summary" in names
            found[normal] = _WeightedLine(weight, normal, text, is_test, is_plain, summary)
    return list(found.values())


def _stripped(line: str) -> str:
    """A line without its number and without what a tool writes around its error."""
    text = _NUMBER.sub("", line[: 4 * LONGEST].strip(), 1).strip()
    return _SUFFIX.sub("", _PREFIX.sub("", text, 1)).strip()


def _says_nothing(normal: str) -> bool:
    """Whether a line holds no words but those that any failure has."""
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
