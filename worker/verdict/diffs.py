"""A merge request's diff: its files, their lines with numbers, what they define, a place on it.
Pure.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from worker.logs.named_places import MAX_TEXT

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


@dataclass(frozen=True, slots=True)
class FileChange:
    """A changed file.

    `old_path` is its path before it was renamed. `defines` are the names whose definitions the diff
    adds, removes or edits, `added_lines` the numbers of the lines it adds, `hunks` the lines
    of the new file that the diff shows, changed ones and context; each is empty if not known.
    `is_new` says that the file did not exist before. `submodule` is the commit to which the diff
    moves a submodule, "" if it moves none.
    """

    path: str
    old_path: str = ""
    defines: frozenset[str] = frozenset()
    added_lines: frozenset[int] = frozenset()
    hunks: tuple[range, ...] = ()
    is_new: bool = False
    submodule: str = ""


def find_added_lines(diff: str) -> frozenset[int]:
    """Return the line numbers, in the new file, of the lines that a diff's hunks add."""
    return frozenset(line.new for line in read_hunks(diff) if line.sign == "+")


def find_hunks(diff: str) -> tuple[range, ...]:
    """Return the lines of the new file that a diff's hunks show."""
    headers = filter(None, map(HUNK.match, diff.split("\n")))
    starts = ((int(each["new"]), int(each["count"] or 1)) for each in headers)
    return tuple(range(start, start + count) for start, count in starts)


def find_submodule_commit(diff: str) -> str:
    """Return the commit to which a diff moves a submodule, "" if it is not about one."""
    found = _SUBMODULE.search(diff)
    return found[1] if found else ""


def find_defining_lines(lines: Sequence[str], text: str) -> tuple[int, ...]:
    """Return the numbers of the lines that define what the error names, such as a test."""
    named = find_identifiers(text[:MAX_TEXT])
    return tuple(
        number
        for number, line in enumerate(lines, 1)
        if any(name in named and is_telling(name) for name in _DEFINES.findall(line[:400]))
    )


def find_definitions(diff: str) -> frozenset[str]:
    """Return the names that a diff's changed lines and hunk headers define."""
    lines = (line for line in diff.split("\n") if line[:1] in ("+", "-", "@"))
    return frozenset(
        name for line in lines for name in _DEFINES.findall(line[:400]) if is_telling(name)
    )


def find_removed_names(diffs: Mapping[str, str], text: str) -> Mapping[str, str]:
    """Return the names in a text that `diffs` (by path) remove and add nowhere, each with the path
    of the first file that loses it."""
    wanted = frozenset(filter(is_telling, find_identifiers(text[:MAX_TEXT])))
    lost: dict[str, str] = {}
    kept = set[str]()
    for path, diff in diffs.items() if wanted else ():
        for line in read_hunks(diff):
            named = wanted & find_identifiers(line.text)
            if line.sign == "-":
                lost |= {name: path for name in sorted(named) if name not in lost}
            else:
                kept |= named
    return {name: path for name, path in lost.items() if name not in kept}


def find_identifiers(text: str) -> frozenset[str]:
    """Return the names of some length in a text."""
    return frozenset(_IDENTIFIER.findall(text))


# ------------------------------------------------------------------------------------ definitions

_SUBMODULE = re.compile(r"^\+Subproject commit ([0-9a-f]{40,64})$", re.MULTILINE)
_DEFINES = re.compile(
    r"\b(?:def|class|func|function|fn|const|let|var|type|struct|interface|enum|trait|object|module)"
    r"[ \t]+(?:\([^()\n]{0,80}\)[ \t]*)?([A-Za-z_]\w{3,80})"
)
_TELLING = re.compile(r"[a-z0-9][A-Z]|[A-Za-z0-9]_[A-Za-z0-9]")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w{5,80}")


def is_telling(name: str) -> bool:
    """Whether a name has at least two words: names such as `sum` and `main` are too common."""
    return len(name) >= 6 and _TELLING.search(name) is not None


# ----------------------------------------------------------------------------------------- places
