"""The lines of a unified diff with their numbers. Pure."""

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
