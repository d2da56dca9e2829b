"""What a diff changes in a file, and which of the places that an error names are in it. Pure."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from worker.logs.named_places import MAX_TEXT, NamedPlace, find_own_places
from worker.verdict.diffs import HUNK, read_hunks
from worker.verdict.error_words import ends_with, is_foreign, split_path
from worker.verdict.file_kinds import TESTABLE


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


_MOST_PLACES = 100
"""The most places of an error that are held against the changed files."""


def select_lines(path: str, named: Iterable[NamedPlace], project: str = "") -> tuple[int, ...]:
    """Return the line numbers among the `named` places that are in the repository's file `path`."""
    wanted = tuple(path.split("/"))
    return tuple(each.line for each in named if _find_in([wanted], each, project))


def _find_in(
    paths: Iterable[tuple[str, ...]], place: NamedPlace, project: str
) -> list[tuple[str, ...]]:
    """Return those of the repository's `paths` that a tool may mean by a place."""
    parts, is_rooted = split_path(place.path, project)
    if is_rooted:
        return [path for path in paths if path == parts]
    may_be_above = place.path.startswith(("/", "\\", "~", ".."))
    return [
        path
        for path in paths
        if ends_with(path, parts) or (may_be_above and len(path) > 1 and ends_with(parts, path))
    ]


def find_own_added_lines(
    text: str, changed: Sequence[FileChange], project: str
) -> Mapping[str, int]:
    """Return the first line of each changed file that the error is about and the change has added.

    None if a message of the error names another line of the project. A place that may be in two
    changed files is in neither.
    """
    names: dict[str, dict[tuple[str, ...], FileChange]] = {}
    for each in changed:
        parts = tuple(each.path.split("/"))
        names.setdefault(parts[-1], {})[parts] = each
    own = find_own_places(text, _make_own_test(changed, names))
    lines: dict[str, int] = {}
    for at, place in enumerate((*own.messages, *own.stacks)[:_MOST_PLACES]):
        files = names.get(_SLASH.split(place.path)[-1], {})
        meant = _find_in(files, place, project)
        if len(meant) > 1:
            meant = [path for path in meant if "/".join(path) == place.path]
        found = files[meant[0]] if meant else None
        if found and place.line in found.added_lines:
            lines.setdefault(found.path, place.line)
        elif at < len(own.messages):
            return {}
    return lines


_SLASH = re.compile(r"[\\/]")
_THIRD_PARTY = frozenset({"vendor", "third_party"})


def _make_own_test(
    changed: Sequence[FileChange], names: Mapping[str, object]
) -> Callable[[NamedPlace], bool]:
    """Return a test whether a place is in the project's code, as far as its path tells.

    A class belongs to the project if its package begins like that of a changed file.
    """

    @cache
    def has_folder(folder: str) -> bool:
        return any(folder in f"/{each.path}" for each in changed)

    def is_own(place: NamedPlace) -> bool:
        *folders, name = place.path.replace("\\", "/").split("/")
        if place.is_class:
            return has_folder("/".join(["", *folders[:2], ""]))
        if is_foreign(place.path) or not _THIRD_PARTY.isdisjoint(folders):
            return False
        known = name in names or (name != "testing.go" and name[name.rfind(".") :] in TESTABLE)
        return bool(folders) or known

    return is_own


def is_elsewhere(changed: FileChange, places: Sequence[NamedPlace]) -> bool:
    """Whether the error names lines of a changed file, and all of them are far from its changes."""
    named = select_lines(changed.path, places)
    if not changed.hunks or changed.is_new or not named:
        return False
    return not any(line in each for line in named for each in changed.hunks)
