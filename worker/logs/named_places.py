"""The places in files that a log names: one reader for compilers, linters, shells and stacks. Pure.

A tool names a place in a message of its own (`x.c:41:3: error: …`, `In FILE line 12:`), or as one
frame of a stack. Of a stack, the frame that counts is the innermost one in the project's own code.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

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

_NUMBER = re.compile(r"^\d{1,9}: ?")
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
        if not places and _ends_stack(_NUMBER.sub("", line)):
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


def _ends_stack(line: str) -> bool:
    """Whether a line without a place ends a stack: any but a line of code and a function's name."""
    within = line[:1].isspace() or line.endswith(")")
    return not line.strip() or not within or is_stack_head(line)


def _read_line(line: str) -> list[tuple[NamedPlace, _Role]]:
    line = _NUMBER.sub("", line)
    if frame := _OF_JVM.match(line):
        path = frame["package"].replace(".", "/") + frame["file"]
        return [(NamedPlace(path, int(frame["at"]), is_class=True), _Role.INNER_FIRST)]
    found = list(_find_all(line))
    return [(place, _find_role(match, line)) for place, match in found]


def _find_all(line: str) -> Iterator[tuple[NamedPlace, re.Match[str]]]:
    for each in PLACE.finditer(line):
        path = each["path"] or each["script"] or each["checked"] or each["parsed"]
        number = each["at"] or each["step"] or each["row"] or each["until"]
        yield NamedPlace(path, int(number)), each


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
