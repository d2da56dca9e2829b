"""The words and places of an error that may name files of the repository. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from worker.logs.named_places import NamedPlace, find_own_places
from worker.verdict.diffs import FileChange
from worker.verdict.file_kinds import TESTABLE

MAX_WORDS = 600


@dataclass(frozen=True, slots=True)
class Word:
    """A word that may name a file; `parts` are the word split at slashes, dots or colons.

    `is_dotted`: it has no slashes. `is_rooted`: the parts seem to begin at the repository's root.
    `is_absolute`: it was written as an absolute path, `is_upward`: as one that begins with `..`.
    """

    text: str
    parts: tuple[str, ...]
    is_dotted: bool = False
    is_rooted: bool = False
    is_absolute: bool = False
    is_upward: bool = False


_TOKEN = re.compile(r"[\w@.+~$/\\-]+(?:::[\w.]+)*")
_FOREIGN = frozenset(
    {"site-packages", "dist-packages", "node_modules", ".cargo", ".m2", ".gradle", ".nuget"}
    | {"gems", ".rustup"}
)
_FOREIGN_TOPS = frozenset(
    {"usr", "lib", "lib64", "bin", "sbin", "opt", "root", "etc", "nix", "rustc"}
    | {"System", "Library"}
)


def index_words(text: str, project: str) -> Mapping[str, Sequence[Word]]:
    """Return the words by each of their parts, for fast look-up by thousands of changed files.

    `project` is the project's path: it shows which container paths are files of the project.
    """
    found: dict[str, list[Word]] = {}
    for word in _find_words(text, project):
        for part in {*word.parts, ".".join(word.parts)}:
            found.setdefault(part, []).append(word)
    return found


def is_foreign(path: str) -> bool:
    """Whether a path belongs to the system or an installed package, judged by its folders."""
    path = path.replace("\\", "/")
    parts = [part for part in path.split("/") if part not in ("", ".", "~")]
    top = parts[0] if path.startswith(("/", "~")) and parts else ""
    return bool(_FOREIGN & set(parts)) or top in _FOREIGN_TOPS or "pkg/mod/" in path


def split_path(path: str, project: str) -> tuple[tuple[str, ...], bool]:
    """Return the parts of a path that a tool wrote, and whether they begin at the repository's root
    for certain: then they are those after the project's own path."""
    parts = [part for part in path.replace("\\", "/").split("/") if part not in _NOWHERE]
    inside = _remove_project(parts, project.lower())
    return (tuple(parts), False) if inside is None else (inside, True)


_NOWHERE = frozenset({"", ".", "..", "~"})


def _find_words(text: str, project: str) -> Iterator[Word]:
    """Yield the words that may name a file, each once, at most `MAX_WORDS`."""
    seen: set[str] = set()
    before: tuple[str, ...] = ()
    for found in _TOKEN.finditer(text):
        token = found[0].rstrip(".-+$\\/")
        word = _make_word(token, project.lower()) if len(token) > 2 else None
        # In `com.x.Y.run(Y.java:12)` the class already says which Y.java is meant.
        framed = text[found.start() - 1 : found.start()] == "(" and token.split(".")[0] in before
        before = word.parts if word and word.is_dotted else ()
        if word is None or framed or token in seen:
            continue
        seen.add(token)
        yield word
        if len(seen) >= MAX_WORDS:
            return


def _make_word(token: str, project: str) -> Word | None:
    head = token.replace("\\", "/").split("::")[0]
    if "/" in head:
        return _make_path_word(token, head, project)
    named = head if "." in head else token.replace("::", ".")
    parts = tuple(part for part in named.replace("$", ".").split(".") if part)
    return Word(token, parts, is_dotted=True)


def _make_path_word(token: str, path: str, project: str) -> Word | None:
    absolute = path.startswith(("/", "~"))
    parts = [part for part in path.split("/") if part not in ("", ".", "~")]
    up = parts.count("..")
    parts = [part for part in parts if part != ".."]
    if is_foreign(path):
        return None
    inside = _remove_project(parts, project)
    if inside is not None:
        return Word(token, inside, is_rooted=True, is_absolute=absolute)
    return Word(
        token, tuple(parts), is_rooted=not absolute and not up, is_absolute=absolute,
        is_upward=path.startswith("../"),
    )  # fmt: skip


def _remove_project(parts: Sequence[str], project: str) -> tuple[str, ...] | None:
    """Return the parts after the project's own path, None if they don't contain that path."""
    home = tuple(project.split("/"))
    lower = [part.lower() for part in parts]
    for at in range(len(parts) - len(home), -1, -1):
        if tuple(lower[at : at + len(home)]) == home and at > 0:
            return tuple(parts[at + len(home) :])
    return None


def ends_with(whole: Sequence[str], end: Sequence[str]) -> bool:
    """Whether a path's parts end with those of another, which has at least one."""
    return 0 < len(end) <= len(whole) and tuple(whole[-len(end) :]) == tuple(end)


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
