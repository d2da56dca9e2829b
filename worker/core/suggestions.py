"""A fix that the model gives for lines of the diff: read from its answer, and put in its place.

The workflow asks for a block of code under "What to do", opened by

    ```suggestion path/of/the/file.py:41-42

that holds the lines to stand there instead. A block that does not fit the diff is shown as text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from worker.core.gitlab import ChangedFile, Changes, Position

MAX_LINES = 100
"""Lines above its own that GitLab lets a suggestion replace (wire-gitlab 5)."""

MAX_TEXT = 8_000
"""Characters of a replacement."""

_OPENING = re.compile(
    r"[ ]{0,3}(?P<fence>`{3,}|~{3,})[ ]*suggestion[ ]+(?P<path>[\w./@+][\w./@+ ()-]{0,300}?)"
    r":(?P<first>\d{1,7})(?:-(?P<last>\d{1,7}))?[ \t]*$"
)
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,\d{1,9})? \+(\d{1,9})(?:,\d{1,9})? @@")


@dataclass(frozen=True, slots=True)
class Suggestion:
    """`text` in the place of the lines `first` to `last` of the file as it is at the head."""

    path: str
    first: int
    last: int
    text: str


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the new side: `old` is its number before, None if it was added."""

    hunk: int
    old: int | None
    text: str


def read(text: str) -> tuple[str, tuple[Suggestion, ...]]:
    """`text` with its suggestions as plain blocks of code, each under its place; and them."""
    lines, found, shown, at = text.split("\n"), list[Suggestion](), list[str](), 0
    while at < len(lines):
        opening = _OPENING.match(lines[at])
        end = _end(lines, at + 1, opening["fence"]) if opening else 0
        if opening and end:
            fix = _suggestion(opening, lines[at + 1 : end])
            found.append(fix)
            shown += [""] if shown and shown[-1].strip() else []
            shown += [f"In `{fix.path}`, {_lines_of(fix)}:", "", opening["fence"]]
            shown += [*lines[at + 1 : end + 1]]
            at = end + 1
        else:
            shown.append(lines[at])
            at += 1
    return "\n".join(shown).strip(), tuple(found)


def placed(fix: Suggestion, changes: Changes) -> Position | str:
    """Where on the diff the suggestion goes, or why it has no place there.

    Every line it replaces must be shown by the diff, added or unchanged, in one piece.
    """
    if not 0 < fix.first <= fix.last or fix.last - fix.first > MAX_LINES:
        return f"{_lines_of(fix)} cannot be replaced at once"
    if len(fix.text) > MAX_TEXT:
        return f"the replacement has {len(fix.text)} characters"
    file = next((each for each in changes.files if each.new_path == fix.path), None)
    if file is None:
        return f"{fix.path} is not in the diff"
    shown = dict(_new_side(file))
    lines = [shown.get(number) for number in range(fix.first, fix.last + 1)]
    there = [line for line in lines if line]
    if len(there) < len(lines) or len({line.hunk for line in there}) > 1:
        return f"{_lines_of(fix)} of {fix.path} are not all in one piece of the diff"
    if "\n".join(line.text for line in there) == fix.text:
        return "it changes nothing"
    return Position(
        base_sha=changes.base_sha,
        start_sha=changes.start_sha,
        head_sha=changes.head_sha,
        old_path=file.old_path,
        new_path=file.new_path,
        new_line=fix.last,
        old_line=there[-1].old,
    )


def _end(lines: list[str], at: int, fence: str) -> int:
    """The number of the line that closes the fence, or 0."""
    for number in range(at, len(lines)):
        line = lines[number].strip()
        if len(line) >= len(fence) and not line.strip(fence[0]):
            return number
    return 0


def _suggestion(opening: re.Match[str], lines: list[str]) -> Suggestion:
    first = int(opening["first"])
    last = int(opening["last"] or first)
    return Suggestion(opening["path"], first, last, "\n".join(lines))


def _lines_of(fix: Suggestion) -> str:
    return f"line {fix.first}" if fix.first == fix.last else f"lines {fix.first} to {fix.last}"


def _new_side(file: ChangedFile) -> Iterator[tuple[int, _Line]]:
    """The lines that the diff shows of the file as it is now, by their numbers."""
    old = new = hunk = 0
    for line in file.diff.split("\n"):
        if start := _HUNK.match(line):
            old, new, hunk = int(start[1]), int(start[2]), hunk + 1
        elif line.startswith("+"):
            yield new, _Line(hunk, None, line[1:])
            new += 1
        elif line.startswith("-"):
            old += 1
        elif line.startswith(" "):
            yield new, _Line(hunk, old, line[1:])
            old, new = old + 1, new + 1
