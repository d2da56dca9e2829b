"""Which lines of a failed command's output decide which failure it is. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from worker.logs.error_lines import is_test_progress
from worker.logs.line_kinds import (
    DEADLY,
    GAP,
    LOCATED,
    NOISE,
    PLACED,
    PLAIN,
    REASON,
    TEST,
    TROUBLE,
    WEAK,
    strip_line,
)
from worker.logs.line_marks import find_marks, sum_marks
from worker.logs.normal_form import drop_number, normalise_line

_SPREAD = 3.0
"""How much less than the heaviest line a line may weigh and still decide."""

_LEAST = -0.5
"""The least weight of a telling line."""


@dataclass(frozen=True, slots=True)
class DecisiveLine:
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


def keep_decisive(
    telling: Sequence[DecisiveLine], lines: Sequence[str], command: str, *, last: bool = True
) -> list[DecisiveLine]:
    """Return the lines that decide which failure it is: every plain one, those that weigh nearly as
    much as the heaviest (warnings only if there is nothing else), and the last one that says what
    could not be done. If none of them is sure to have ended the command, its last words decide too,
    unless `last` is False. If there are none, it is the list of files that a formatter or a
    comparison has written, by the name of the `command`."""
    best = max((each.weight for each in telling), default=0.0)
    kept = [each for each in telling if each.is_plain or each.weight >= best - _SPREAD]
    kept = [each for each in kept if not _WARNS.match(each.text)] or kept
    if any(each.is_test for each in kept):
        return kept
    _add_new(kept, _find_last(lines, TROUBLE))
    if last and kept and not any(_ENDS.match(each.text) for each in kept):
        _add_new(kept, _find_last(lines, _WORDS))
    return kept or (_read_list(lines) if _LISTS.search(command) else [])


def find_said(lines: Sequence[str], pattern: re.Pattern[str]) -> list[str]:
    """Return every line, without its number, in which `pattern` finds something and that is neither
    progress, nor what a tool or the runner writes after any error."""
    texts = ((text, normalise_line(text)) for text in map(strip_line, lines))
    return [text for text, normal in texts if pattern.search(text) and _is_own(text, normal)]


def find_last_said(lines: Sequence[str]) -> str:
    """Return the last line that says something, "" if none does; a tool's closing words do not."""
    said = _find_last(lines, _SAID)
    return said.text if said else ""


_SAID = re.compile(
    r"^(?!\W{0,4}(?i:ran all|done|finish|complet|tests?\b|total|summar|result|report|see\b|for more"
    r"|try\b|use\b|note|hint|success|ok\b|generat|creat|delet|remov|clean|stopp|shutt|exit|start|runn?"
    r"|build|built|compil|install|download|upload|fetch|load|sav|writ|wrote|wait|pass"
    r"|skip|step\b|using|restor|prepar|execut|all\b|info\b|debug\b))"
    r".{0,200}?[A-Za-z]{3,}.{0,80}?[A-Za-z]{3,}"
)
"""Words that are more than what a program tells of its work."""


def _add_new(kept: list[DecisiveLine], line: DecisiveLine | None) -> None:
    if line and all(each.normal != line.normal for each in kept):
        kept.append(line)


def _find_last(lines: Sequence[str], pattern: re.Pattern[str]) -> DecisiveLine | None:
    for line in reversed(lines):
        text = strip_line(line)
        normal = normalise_line(text)
        silent = _is_tally(normal) or _says_nothing(normal)
        if pattern.search(normal) and _is_own(text, normal) and not silent:
            return DecisiveLine(_LEAST - 1, normal, text, False, False, False)
    return None


def _is_own(text: str, normal: str) -> bool:
    """Whether it is the failed command's own line, and not one that follows from others."""
    return not (is_test_progress(text) or _is_noise(text, normal) or REASON.match(text))


_WORDS = re.compile(r"[A-Za-z]{3,}.{0,80}?[A-Za-z]{3,}")
_ENDS = re.compile(
    "|".join(f"(?:{each.pattern})" for each in (TEST, LOCATED, PLACED, DEADLY, REASON))
)
"""Errors that are none that a program goes on after."""

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


def _read_list(lines: Sequence[str]) -> list["DecisiveLine"]:
    """Return the files that the lines list and the lines in which these differ; none unless at
    least a third of all lines are such."""
    texts = [text for text in (drop_number(line).strip() for line in lines) if text and text != GAP]
    found = [text for text in texts if _LISTED.match(text) and not is_test_progress(text)]
    differing = [text for text in texts if _DIFFERS.match(text)] if found else []
    if 3 * len(found + differing) < len(texts):
        return []
    items = dict.fromkeys(map(normalise_line, (*found, *differing)))
    return [DecisiveLine(_LEAST, each, each, False, False, False) for each in items]


# ------------------------------------------------------------------------ what tells something

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
pending todo unnecessary file files would left unchanged reformatted
"""
_COMMON_WORDS = frozenset(_COMMON.split())
_COUNTED_WORDS = frozenset(_COUNTED.split())
_COUNTS = re.compile(r"<n> (?!m?s\))[a-z]|[a-z](?:: ?|=| )<n>", re.IGNORECASE)
"""A count of something; the duration of a test is none."""


def find_telling(lines: Sequence[str], command: str = "") -> list[DecisiveLine]:
    """Return the telling lines, each normal form once. What a program of `command` says in its own
    name is plain."""
    own = tuple(f"{part.split()[0]}: " for part in command.split(", ") if part.split())
    found: dict[str, DecisiveLine] = {}
    for line in lines:
        text = strip_line(line)
        normal = normalise_line(text)
        is_test = TEST.match(text) is not None
        silent = _is_tally(normal) or (not is_test and _says_nothing(normal))
        if (
            silent
            or _is_noise(text, normal)
            or is_test_progress(text)
            or text == GAP
            or normal in found
        ):
            continue
        names = find_marks(_NPM.sub("", normal).replace("<n>", "1"))
        speaks = "ended" not in names and not names.isdisjoint(_SPEAKS)
        weight = sum_marks(names)[0] if speaks else _LEAST - 1
        said = text.startswith(own) and not _HARMLESS.match(text)
        is_plain = is_test or said or any(form.match(text) for form in (PLAIN, DEADLY, REASON))
        if is_plain or weight >= _LEAST:
            summary = "summary" in names
            found[normal] = DecisiveLine(weight, normal, text, is_test, is_plain, summary)
    return _drop_repeated(found)


_HARMLESS = re.compile(r"\S{1,60}: (?i:warn(?:ing)?|note|info|debug|using|loading|\*\*\*)\b")


def _drop_repeated(found: Mapping[str, DecisiveLine]) -> list[DecisiveLine]:
    """Return the lines without those that only repeat what a better one among them says."""
    listed = {each.text.partition(" - ")[0] for each in found.values() if each.is_test}
    names = {re.split(r"::|\.", each)[-1] for each in listed}
    better = any(not WEAK.match(each.text) for each in found.values())

    def repeats(normal: str, each: DecisiveLine) -> bool:
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


def _is_noise(text: str, normal: str) -> bool:
    """Whether a line, given as it is and in its normal form, says nothing of the error."""
    known = DEADLY.match(text) or REASON.match(text)
    return not known and NOISE.match(normal) is not None


def _says_nothing(normal: str) -> bool:
    """Whether a line has only words that occur in any failure."""
    words = set(_WORD.findall(normal.lower()))
    return not words - _COMMON_WORDS or _LICENCE.search(normal) is not None


_SPEAKS = frozenset(
    (
        *("fault", "trouble", "named", "crossed", "colon_error"),
        *("loud", "judged", "numbered", "opens", "summary"),
    )
)
