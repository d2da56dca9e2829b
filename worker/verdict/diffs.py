"""A merge request's diff: its files, their lines with numbers, and a place on it. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

HUNK = re.compile(
    r"@@ -(?P<old>\d{1,9})(?:,\d{1,9})? \+(?P<new>\d{1,9})(?:,(?P<count>\d{1,9}))? @@"
)
"""The header of a hunk: its first line in the old and in the new file, and the lines in the new."""


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of the `hunk` with this number; `sign` is "+", "-" or " ".

    `old` and `new` are its numbers in the two files. Where it is not in one of them, that number is
    the one of the next line there.
    """

    hunk: int
    sign: str
    text: str
    old: int
    new: int


def read_hunks(diff: str) -> Iterator[DiffLine]:
    """Yield the lines of the hunks of one file's diff, in order."""
    hunk = old = new = 0
    for line in diff.split("\n"):
        sign, text = line[:1], line[1:]
        if start := HUNK.match(line):
            hunk, old, new = hunk + 1, int(start["old"]), int(start["new"])
        elif hunk and sign and sign in "+- ":
            yield DiffLine(hunk, sign, text, old, new)
            old += sign != "+"
            new += sign != "-"


@dataclass(frozen=True, slots=True)
class Position:
    """A line on the new side of a merge request's diff, see
    https://docs.gitlab.com/api/discussions/#create-a-thread-in-the-merge-request-diff.

    `old_line` is set for an unchanged line, and None for an added one.
    """

    base_sha: str
    start_sha: str
    head_sha: str
    old_path: str
    new_path: str
    new_line: int
    old_line: int | None = None


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """One file of a diff; `diff` holds its hunks, or is "" if GitLab shows none."""

    old_path: str
    new_path: str
    diff: str


@dataclass(frozen=True, slots=True)
class Changes:
    """A merge request's newest diff, and its base, start and head commits."""

    base_sha: str
    start_sha: str
    head_sha: str
    files: tuple[ChangedFile, ...]
