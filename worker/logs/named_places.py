"""The places in files that a log names: one reader for compilers, linters, shells and stacks. Pure.

A tool names a place in a message of its own (`x.c:41:3: error: …`, `In FILE line 12:`), or as one
frame of a stack. Of a stack, the frame that counts is the innermost one in the project's own code.
Where a tool prints the place on another line than the error, `join_headings` puts it before the
error.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import islice, takewhile

from worker.logs.line_kinds import GAP
from worker.logs.normal_form import drop_number

MAX_TEXT = 16_384
"""The most characters of an error that are read."""

_CHARS = r"[\w@.+~$/\\-]"
_FILE = rf"(?:{_CHARS}{{1,300}}\.\w{{1,12}}|(?:{_CHARS}{{1,300}}/)?[A-Z][a-z]{{1,12}}file)"
PLACE = re.compile(
    rf"(?<!{_CHARS})(?:"
    rf"(?P<path>{_FILE})(?:[\"']?,? (?:on )?line |:(?: ?line )?\[?|\()(?P<at>\d{{1,7}})(?!\w|\.\d)"
    rf"|(?P<script>(?!/scripts-)(?={_CHARS}{{0,300}}/){_CHARS}{{1,300}}): line (?P<step>\d{{1,7}}):"
    rf"|In (?P<checked>\S{{1,300}}) line (?P<row>\d{{1,7}}):"
    rf"|(?P<parsed>{_FILE}): [^()\n]{{1,200}} \((?P<until>\d{{1,7}}):\d{{1,7}}\))"
)
"""A file and a line in it. A file without a suffix counts only where the form leaves no doubt."""

_OF_JVM = re.compile(
    r"\s{0,40}at (?:[\w.@-]{1,100}/){0,3}(?P<package>(?:[\w$]{1,100}\.){1,20}?)[\w$]{1,100}"
    r"\.[\w$<>-]{1,100}\((?P<file>[\w$]{1,100}\.\w{1,8}):(?P<at>\d{1,7})\)"
)
_CALLS = re.compile(r"\s{0,40}(?:at|from|In file included from) ")
_PYTHON = re.compile(r"\s{0,40}File [\"']")
_BARE = re.compile(r"\s{0,40}(?:# |#\d{1,4}:? .{0,300}|\([\w .-]{1,80}\) )?$")
_AFTER_FRAME = re.compile(
    r"(?:[:,]\d{1,7})?[\"')\]]{0,3}(?:,? \+0x[0-9a-f]{1,16}\b.*|(?:[ :]|[,:] )in .*"
    r"| \([\w.+-]{1,60}\)|: \(\w{1,20}\)|: [\w.!?]{1,100}/\d{1,2}|:)?\s*$"
)
_OUTER_FIRST = re.compile(r"(?:[:,]\d{1,7})?:(?: in .*)?\s*$")
_RERUN = re.compile(r".{0,60}\b(?:test|r?spec)s? $")
_NOTE = re.compile(r"(?:[:,]\d{1,7})?\)?: note: |\s{1,4}# ")
_HEAD = re.compile(
    r".{0,300}(?:\bby (?:goroutine|thread|main)\b.{0,80}|\bcreated (?:at|by)\b.{0,200}| here:)$"
)
"""What stands above each stack of a report on a race or on memory."""


@dataclass(frozen=True, slots=True)
class NamedPlace:
    """A line of a file, as a tool names it. `is_class`: the folders are the package of a class."""

    path: str
    line: int
    is_class: bool = False


@dataclass(frozen=True, slots=True)
class OwnPlaces:
    """The places in the project's code: those of `messages`, and the innermost one of each of the
    `stacks`."""

    messages: tuple[NamedPlace, ...] = ()
    stacks: tuple[NamedPlace, ...] = ()


class _Role(Enum):
    """What a place is to the error: a message's, a frame's (of a stack in one of three orders), or
    only beside it."""

    MESSAGE = "message"
    INNER_FIRST = "innermost frame first"
    INNER_LAST = "innermost frame last"
    BEFORE_MESSAGE = "innermost frame last, then the message with its place"
    ASIDE = "aside"


def find_places(text: str) -> tuple[NamedPlace, ...]:
    """Return every place that a text of at most `MAX_TEXT` names, each once, in order."""
    found = (place for line in text[:MAX_TEXT].split("\n") for place, _ in _read_line(line))
    return tuple(dict.fromkeys(found))


def names_place(text: str) -> bool:
    """Whether any line of a text names a place."""
    return PLACE.search(text) is not None


def is_stack_head(line: str) -> bool:
    """Whether a line is the head of one of the stacks in a report on a race or on memory."""
    return _HEAD.match(line) is not None


def find_own_places(text: str, is_own: Callable[[NamedPlace], bool]) -> OwnPlaces:
    """Return the places that an error is about. `is_own` tells the project's code from others'."""
    messages: list[NamedPlace] = []
    stacks: list[list[NamedPlace]] = []
    stack: list[NamedPlace] | None = None
    of_stack, created = _Role.ASIDE, False
    for line in text.split("\n"):
        places = _read_line(line)
        bare = drop_number(line)
        # A line of code and a function's name do not end a stack.
        within = bare[:1].isspace() or bare.endswith(")")
        if not places and (not bare.strip() or not within or is_stack_head(bare)):
            stack, created = None, "created " in line
        for place, role in places:
            if role is _Role.MESSAGE:
                if is_own(place):
                    messages.append(place)
                    if stack and of_stack is _Role.BEFORE_MESSAGE:
                        stack.clear()  # the stack goes on to this place
                stack, created = None, False
            elif role is not _Role.ASIDE:
                if stack is None or role is not of_stack:
                    stack, of_stack = [], role
                    stacks += [] if created else [stack]
                if is_own(place):
                    at = len(stack) if role is _Role.INNER_FIRST else 0
                    stack.insert(at, place)
    return OwnPlaces(tuple(messages), tuple(each[0] for each in stacks if each))


def _read_line(line: str) -> list[tuple[NamedPlace, _Role]]:
    line = drop_number(line)
    if frame := _OF_JVM.match(line):
        path = frame["package"].replace(".", "/") + frame["file"]
        return [(NamedPlace(path, int(frame["at"]), is_class=True), _Role.INNER_FIRST)]
    found = []
    for each in PLACE.finditer(line):
        path = each["path"] or each["script"] or each["checked"] or each["parsed"]
        number = each["at"] or each["step"] or each["row"] or each["until"]
        found.append((NamedPlace(path, int(number)), _find_role(each, line)))
    return found


def _find_role(found: re.Match[str], line: str) -> _Role:
    before, after = line[: found.start()], line[found.end() :]
    if _NOTE.match(after) or (_RERUN.match(before) and not after.strip()):
        return _Role.ASIDE
    if _CALLS.match(before):
        return _Role.INNER_FIRST
    if not found["path"] or not _AFTER_FRAME.match(after):
        return _Role.MESSAGE
    if _PYTHON.match(before):
        return _Role.INNER_LAST
    if not _BARE.match(before):
        return _Role.MESSAGE
    return _Role.BEFORE_MESSAGE if _OUTER_FIRST.match(after) else _Role.INNER_FIRST


# ------------------------------------------------------------------------- places on another line

# A tool prints the place of an error on another line than the error:
# ESLint, stylelint and yamllint print a file's path on a line of its own and then `12:7  error  …`
# for each problem in it; PHP_CodeSniffer prints `FILE: path` and then `12 | ERROR | …`. Terraform
# prints a box with `Error: …`, then `  on path line 12` and the code, then what is wrong with it.
# Brakeman prints `Confidence: …`, and `Message:`, `File:` and `Line:` below it. PHPStan prints a
# table for each file, with its path in the head and an error in several lines of a column. Sphinx
# calls `WARNING` what it treats as an error. Go's race detector says below `WARNING: DATA RACE` who
# raced. ShellCheck prints `In path line 12:`, the code, and below it what is wrong. Dialyzer prints
# `path:12:7:kind` and GHC `path:12:7: error:`, and what is wrong below it.

_NUMBERED = r"(?P<number>\d{1,9}: ?)?"
_HEADING = re.compile(
    _NUMBERED + r"(?:FILE: )?(?P<path>(?:[A-Za-z]:)?[\w@.+~$/\\-]{1,300}\.\w{1,12})\s*$"
)
_ERROR = re.compile(
    _NUMBERED + r"[ \t]{1,20}(?P<at>\d{1,7}(?::\d{1,7})?)(?:\s{1,20}|\s*\|\s)"
    r"(?P<said>(?:error|ERROR|[✖×])\s.*)$"
)
_BOX = _NUMBERED + r"│ "
_BOX_ERROR = re.compile(_BOX + r"Error: (?P<said>.*)$")
_BOX_PLACE = re.compile(_BOX + r" {2}on (?P<path>\S{1,300}) line (?P<at>\d{1,7})\b")
_BOX_REASON = re.compile(_BOX + r"(?P<reason>\S.*)$")
_BOX_LINES = 30
_FINDING = re.compile(_NUMBERED + r"Confidence: (?:High|Medium|Weak)$")
_FIELD = re.compile(r"(?:\d{1,9}: ?)?(?P<field>Message|File|Line): (?P<value>.{1,400})$")
_FINDING_LINES = 12
_TABLE_HEAD = re.compile(r"(?:\d{1,9}: ?)? {1,3}Line {2,8}(?P<path>\S{1,300}\.\w{1,8})\s*$")
_TABLE_ROW = re.compile(_NUMBERED + r" {1,4}:?(?P<at>\d{1,7}|-)? {2,12}(?P<said>\S.{0,400})$")
_TABLE_RULE = re.compile(r"(?:\d{1,9}: ?)?\s{0,3}-{4,10} -{4,200}\s*$")
_STRICT = "warnings treated as errors"
_SPHINX = re.compile(
    _NUMBERED + r"(?P<path>\S{1,300}\.\w{1,8}):(?:docstring of (?P<what>[\w.]{1,300}):)?"
    r"(?P<at>\d{1,7}): WARNING: (?P<said>.*)$"
)
_PLACE_ALONE = re.compile(
    _NUMBERED + r"(?P<place>\S{1,300}\.(?:exs?|erl|l?hs):\d{1,7}(?::\d{1,7})?):"
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
            what = f" (docstring of {warning['what']})" if warning["what"] else ""
            place = f"{warning['number'] or ''}{warning['path']}:{warning['at']}"
            yield f"{place}: error: {warning['said']}{what}"
            continue
        for pattern, more, write in _SPREAD:
            if found := pattern.match(line[:1000]):
                yield write(found, lines[at + 1 : at + more]) or line
                break
        else:
            if heading := _HEADING.match(line):
                path = heading["path"]
            elif not line.strip() or line == GAP:
                path = ""
            if path and (error := _ERROR.match(line[:1000])):
                line = f"{error['number'] or ''}{path}:{error['at']}: {error['said']}"
            yield line


def _join_tables(lines: list[str]) -> list[str]:
    """Return the lines; each error in a table of PHPStan's becomes one line that begins with its
    place, where the first of its lines was."""
    joined: list[str] = []
    path, inside, goes_on = "", False, False
    for line in lines:
        if table := _TABLE_HEAD.match(line[:1000]):
            path = table["path"]
        elif path and _TABLE_RULE.match(line[:1000]):
            path, inside = (path, True) if not inside else ("", False)
        elif path and inside and (row := _TABLE_ROW.match(line[:1000])):
            said = row["said"].strip()
            if said.startswith("🪪"):  # the name of the rule ends an error
                goes_on = False
            elif goes_on and not row["at"]:
                joined[-1] += f" {said}"
            else:
                at = row["at"] if row["at"] not in (None, "-") else "1"
                joined.append(f"{row['number'] or ''}{path}:{at}: error: {said}")
                goes_on = True
            continue
        joined.append(line)
        goes_on = False
    return joined


def _write_with_next(error: re.Match[str], below: Sequence[str]) -> str:
    said = drop_number("".join(below)).strip(" \t•").removesuffix(GAP)
    kind = error["kind"] or (f"[{error['code']}]" if error["code"] else "")
    words = ": ".join(filter(None, (f"{error['place']}: error", kind, said)))
    return f"{error['number'] or ''}{words}"


def _write_below(place: re.Match[str], below: Sequence[str]) -> str:
    """Return the first remark below a place as an error there, "" if there is none."""
    found = next(filter(None, (_POINTED.match(line[:1000]) for line in below)), None)
    where = f"{place['number'] or ''}{place['path']}:{place['at']}"
    return f"{where}: error: {found['said']}" if found else ""


_IN_LINE = re.compile(_NUMBERED + r"In (?P<path>\S{1,300}) line (?P<at>\d{1,7}):\s*$")
_POINTED = re.compile(r"(?:\d{1,9}: ?)?\s{0,300}\^[-^]{0,300} (?P<said>[A-Z]{1,5}\d{2,5} .*)$")
_IN_LINES = 6


def _write_race(race: re.Match[str], below: Sequence[str]) -> str:
    """Return the head of a race with what its first side did and in which function."""
    texts = [drop_number(line[:1000]).strip() for line in below]
    did = next((at for at, text in enumerate(texts) if _RACED.match(text)), len(texts))
    told = f": {texts[did].split()[0]} in {texts[did + 1]}" if did + 1 < len(texts) else ""
    return f"{race[0].rstrip()}{told}"


_RACE = re.compile(_NUMBERED + r"WARNING: DATA RACE\s*$")
_RACED = re.compile(r"(?:Read|Write) at 0x\w{1,16} by ")
_RACE_LINES = 3


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


_SPREAD = (
    (_BOX_ERROR, _BOX_LINES, _write_boxed),
    (_FINDING, _FINDING_LINES, _write_finding),
    (_RACE, _RACE_LINES, _write_race),
    (_IN_LINE, _IN_LINES, _write_below),
    (_PLACE_ALONE, 2, _write_with_next),
)
"""The errors that are spread over several lines: the first line, how many lines there are at most,
and who writes them as one; "" if they are none."""
