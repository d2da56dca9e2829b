"""What failed, as a short key: the same for the same error in other runs, jobs and pipelines.

Made of the most telling lines of a failed job's excerpt, with everything that differs from run to
run (times, ids, numbers, the runner's folders) taken out. Pure.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from worker.core.excerpt import weights
from worker.core.excerpt.marks import marks
from worker.core.hostile import one_line

LONGEST = 400
"""Characters of a line that are looked at."""

MOST_LINES = 4
"""Lines that a key is made of."""

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


def signature(lines: Sequence[str]) -> Signature:
    """The signature of an excerpt's lines, with or without their numbers (`1843: text`)."""
    telling = _telling(lines)
    if not telling:
        return Signature()
    best = max(weight for weight, _, _ in telling)
    kept = _kept(telling)
    text = next(text for weight, _, text in telling if weight == best)
    joined = "\n".join(sorted(normal for normal, _ in kept[:MOST_LINES]))
    return Signature(hashlib.sha256(joined.encode()).hexdigest()[:KEY], one_line(text, TEXT))


def errors(lines: Sequence[str]) -> frozenset[str]:
    """The normal forms of all lines that a signature is chosen from, such as every failed test;
    where no line tells anything, of the last one that says what could not be done."""
    return frozenset(normal for normal, _ in _kept(_telling(lines))) or _last_trouble(lines)


def _last_trouble(lines: Sequence[str]) -> frozenset[str]:
    for line in reversed(lines):
        normal = normalised(_NUMBER.sub("", line.strip(), 1))
        if _TROUBLE.search(normal) and not _MERE.match(normal) and not _says_nothing(normal):
            return frozenset((normal,))
    return frozenset()


def _kept(telling: Sequence[tuple[float, str, str]]) -> list[tuple[str, str]]:
    best = max((weight for weight, _, _ in telling), default=0.0)
    return [(normal, text) for weight, normal, text in telling if weight >= best - _SPREAD]


def normalised(line: str) -> str:
    """`line` with what differs from run to run replaced by placeholders, blanks collapsed."""
    text = line[:LONGEST]
    for pattern, placeholder in _VARIABLE:
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
        (r"\b(?P<said>(?:HTTP(?:/\d(?:\.\d)?)?|status(?: code)?:?|code:?|error:?) )(?=[45]\d\d\b)"
         r"4(?=\d\d\b)", r"\g<said>&4"),
        (rf"(?<![\w&])[-+]?\d[\d.,_]*(?:[eE][-+]?\d{{1,4}})?{_UNITS}(?![A-Za-z\d])", "<n>"),
        (r"(?<=\[gw)\d+(?=\])|(?<=\bport )\d+", "<n>"),
    )
)  # fmt: skip
"""Bounded and without nested repeats, for lines are hostile."""

# --------------------------------------------------------------------------- what tells something

_NUMBER = re.compile(r"^\d{1,9}: ?")
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
    r"(?:error:? |fatal:? |##\[error\])?(?:job failed|build failed|process (?:completed|exited)|"
    r"command (?:failed|exited)|script (?:failed|exited|returned)|the command .{1,200} (?:exited|"
    r"returned)|cleaning up|uploading|exited? with|exit (?:code|status)|make(?:\[<n>\])?: \*\*\*|"
    r"[\w.-]{0,40}: \*\*\* \[|npm err!|elifecycle|.{0,40}returned (?:a )?non-zero)",
    re.IGNORECASE,
)
_TROUBLE = re.compile(
    r"\b(?:could not|cannot|can't|unable to|refused|denied|not found|no such|timed out)\b",
    re.IGNORECASE,
)


def _telling(lines: Sequence[str]) -> list[tuple[float, str, str]]:
    """What the lines weigh by themselves, their normal forms, and they; each form once."""
    found: list[tuple[float, str, str]] = []
    seen: set[str] = set()
    for line in lines:
        text = _NUMBER.sub("", line.strip(), 1).strip()
        normal = normalised(text)
        if text == _GAP or normal in seen or _MERE.match(normal) or _says_nothing(normal):
            continue
        seen.add(normal)
        weight = _weight(normal)
        if weight >= _LEAST:
            found.append((weight, normal, text))
    return found


def _says_nothing(normal: str) -> bool:
    """Whether a line holds no words but those that any failure has."""
    words = set(_WORD.findall(normal.lower()))
    return not words - _ANYBODYS or _LICENCE.search(normal) is not None


def _weight(normal: str) -> float:
    names = marks(normal.replace("<n>", "1"))
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
