"""Puts the place of an error, which a tool prints on another line, before the error. Pure.

ESLint, stylelint and yamllint print a file's path on a line of its own and then `12:7  error  …`
for each problem in it; PHP_CodeSniffer prints `FILE: path` and then `12 | ERROR | …`. Terraform
prints a box with `Error: …`, then `  on path line 12` and the code, then what is wrong with it.
Brakeman prints `Confidence: …`, and `Message:`, `File:` and `Line:` below it. PHPStan prints a
table for each file, with its path in the head and an error in several lines of a column. Sphinx
calls `WARNING` what it treats as an error. Go's race detector names below `WARNING: DATA RACE` who
raced. ShellCheck prints `In path line 12:`, the code, and below it what is wrong. Dialyzer prints
`path:12:7:kind` and GHC `path:12:7: error:`, and what is wrong below it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, takewhile

from worker.logs.line_kinds import GAP

_NUMBER = r"(?P<number>\d{1,9}: ?)?"
_HEADING = re.compile(
    _NUMBER + r"(?:FILE: )?(?P<path>(?:[A-Za-z]:)?[\w@.+~$/\\-]{1,300}\.\w{1,12})\s*$"
)
_ERROR = re.compile(
    _NUMBER + r"[ \t]{1,20}(?P<at>\d{1,7}(?::\d{1,7})?)(?:\s{1,20}|\s*\|\s)"
    r"(?P<said>(?:error|ERROR|[✖×])\s.*)$"
)
_BOX = _NUMBER + r"│ "
_BOX_ERROR = re.compile(_BOX + r"Error: (?P<said>.*)$")
_BOX_PLACE = re.compile(_BOX + r" {2}on (?P<path>\S{1,300}) line (?P<at>\d{1,7})\b")
_BOX_REASON = re.compile(_BOX + r"(?P<reason>\S.*)$")
_BOX_LINES = 30
_FINDING = re.compile(_NUMBER + r"Confidence: (?:High|Medium|Weak)$")
_FIELD = re.compile(r"(?:\d{1,9}: ?)?(?P<field>Message|File|Line): (?P<value>.{1,400})$")
_FINDING_LINES = 12
_TABLE = re.compile(r"(?:\d{1,9}: ?)? {1,3}Line {2,8}(?P<path>\S{1,300}\.\w{1,8})\s*$")
_ROW = re.compile(_NUMBER + r" {1,4}:?(?P<at>\d{1,7}|-)? {2,12}(?P<said>\S.{0,400})$")
_RULE = re.compile(r"(?:\d{1,9}: ?)?\s{0,3}-{4,10} -{4,200}\s*$")
_STRICT = "warnings treated as errors"
_SPHINX = re.compile(
    _NUMBER + r"(?P<path>\S{1,300}\.\w{1,8}):(?:docstring of (?P<what>[\w.]{1,300}):)?"
    r"(?P<at>\d{1,7}): WARNING: (?P<said>.*)$"
)
_PLACE_ALONE = re.compile(
    _NUMBER + r"(?P<place>\S{1,300}\.(?:exs?|erl|l?hs):\d{1,7}(?::\d{1,7})?):"
    r"(?:(?P<kind>[a-z_]{3,40})| error:(?: \[(?P<code>[\w-]{1,20})\])?)\s*$"
)


def join_headings(lines: Iterable[str]) -> Iterator[str]:
    """Yield a log's lines, with or without their numbers; an error below a path begins with that
    path and its place (`src/app.js:12:7: error …`), if no blank line or gap is between them.

    An error in a box, or in a finding of Brakeman's, begins with the place below it, and ends with
    the reason if that is there.
    """
    path, lines = "", _join_tables(list(lines))
    strict = any(_STRICT in line for line in lines)
    for at, line in enumerate(lines):
        if strict and (warning := _SPHINX.match(line[:1000])):
            yield _write_sphinx(warning)
            continue
        if boxed := _BOX_ERROR.match(line[:1000]):
            yield _write_boxed(boxed, lines[at + 1 : at + _BOX_LINES]) or line
            continue
        if finding := _FINDING.match(line):
            yield _write_finding(finding, lines[at + 1 : at + _FINDING_LINES]) or line
            continue
        if _RACE.match(line):
            yield f"{line.rstrip()}{_name_racer(lines[at + 1 : at + _RACE_LINES])}"
            continue
        if place := _IN_LINE.match(line[:1000]):
            yield _write_below(place, lines[at + 1 : at + _IN_LINES]) or line
            continue
        if bare := _PLACE_ALONE.match(line[:1000]):
            yield _write_with_next(bare, lines[at + 1 : at + 2])
            continue
        if heading := _HEADING.match(line):
            path = heading["path"]
        elif not line.strip() or line == GAP:
            path = ""
        error = _ERROR.match(line[:1000]) if path else None
        yield _write_error(path, error) if error else line


def _join_tables(lines: list[str]) -> list[str]:
    """Return the lines; each error in a table of PHPStan's becomes one line that begins with its
    place, where the first of its lines was."""
    joined: list[str] = []
    path, inside = "", False
    for line in lines:
        if table := _TABLE.match(line[:1000]):
            path = table["path"]
        elif path and _RULE.match(line[:1000]):
            path, inside = (path, True) if not inside else ("", False)
        elif path and inside and (row := _ROW.match(line[:1000])):
            _join_row(joined, path, row)
            continue
        joined.append(line)
    return [line.removesuffix(_OPEN) for line in joined]


def _join_row(joined: list[str], path: str, row: re.Match[str]) -> None:
    said = row["said"].strip()
    goes_on = not row["at"] and joined and joined[-1].endswith(_OPEN)
    if said.startswith("🪪"):  # the name of the rule ends an error
        joined[-1] = joined[-1].removesuffix(_OPEN)
    elif goes_on:
        joined[-1] = f"{joined[-1].removesuffix(_OPEN)} {said}{_OPEN}"
    else:
        place = f"{path}:{row['at']}" if (row["at"] or "-") != "-" else f"{path}:1"
        joined.append(f"{row['number'] or ''}{place}: error: {said}{_OPEN}")


_OPEN = "\0"
"""Marks the end of an error that may go on in the next line."""


def _write_sphinx(warning: re.Match[str]) -> str:
    what = f" (docstring of {warning['what']})" if warning["what"] else ""
    place = f"{warning['number'] or ''}{warning['path']}:{warning['at']}"
    return f"{place}: error: {warning['said']}{what}"


def _write_with_next(error: re.Match[str], below: Sequence[str]) -> str:
    said = _UNNUMBERED.sub("", "".join(below), 1).strip(" \t•").removesuffix(GAP)
    kind = error["kind"] or (f"[{error['code']}]" if error["code"] else "")
    words = ": ".join(filter(None, (f"{error['place']}: error", kind, said)))
    return f"{error['number'] or ''}{words}"


def _write_below(place: re.Match[str], below: Sequence[str]) -> str:
    """Return the first remark below a place as an error there, "" if there is none."""
    found = next(filter(None, (_POINTED.match(line[:1000]) for line in below)), None)
    where = f"{place['number'] or ''}{place['path']}:{place['at']}"
    return f"{where}: error: {found['said']}" if found else ""


_IN_LINE = re.compile(_NUMBER + r"In (?P<path>\S{1,300}) line (?P<at>\d{1,7}):\s*$")
_POINTED = re.compile(r"(?:\d{1,9}: ?)?\s{0,300}\^[-^]{0,300} (?P<said>[A-Z]{1,5}\d{2,5} .*)$")
_IN_LINES = 6


def _name_racer(below: Sequence[str]) -> str:
    """Return what the first side of a race did and in which function, "" if that is not told."""
    texts = [_UNNUMBERED.sub("", line[:1000], 1).strip() for line in below]
    did = next((at for at, text in enumerate(texts) if _RACED.match(text)), len(texts))
    return f": {texts[did].split()[0]} in {texts[did + 1]}" if did + 1 < len(texts) else ""


_RACE = re.compile(_NUMBER + r"WARNING: DATA RACE\s*$")
_RACED = re.compile(r"(?:Read|Write) at 0x\w{1,16} by ")
_RACE_LINES = 3
_UNNUMBERED = re.compile(r"^\d{1,9}: ?")


def _write_error(path: str, error: re.Match[str]) -> str:
    return f"{error['number'] or ''}{path}:{error['at']}: {error['said']}"


def _write_boxed(error: re.Match[str], below: Sequence[str]) -> str:
    """Return the error of a box with its place and reason, "" if the box names no place."""
    box = [*takewhile(lambda line: "│" in line[:12] and not _BOX_ERROR.match(line), below)]
    place = next(filter(None, map(_BOX_PLACE.match, islice(box, 4))), None)
    reason = next(filter(None, map(_BOX_REASON.match, box)), None)
    if place is None:
        return ""
    said = f"{error['said']}: {reason['reason']}" if reason else error["said"]
    return f"{error['number'] or ''}{place['path']}:{place['at']}: error: {said}"


def _write_finding(confidence: re.Match[str], below: Sequence[str]) -> str:
    """Return a finding of Brakeman's as an error with its place, "" if it names no place."""
    paragraph = takewhile(lambda line: not _FINDING.match(line) and line != GAP, below)
    fields: dict[str, str] = {}
    for found in filter(None, map(_FIELD.match, paragraph)):
        fields.setdefault(found["field"], found["value"])
    if not {"Message", "File", "Line"} <= fields.keys():
        return ""
    place = f"{fields['File']}:{fields['Line']}"
    return f"{confidence['number'] or ''}{place}: error: {fields['Message']}"
