"""Whether a change touches what an error names: compares paths with the error's words. Pure.

An error names files as its tool saw them: from the repository's root, from a folder in it, from
the container's root (`/builds/group/project/…`), as a module (`a.b.c`), a class (`com.x.Y$Inner`),
a package (`host/group/project/pkg`), an import (`./utils/sum`) or by the bare file name. A name
that can mean only one path is certain; any other may mean a file of the same name elsewhere.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from worker.logs.error_lines import remove_asides
from worker.logs.named_places import MAX_TEXT, NamedPlace, find_own_places, find_places
from worker.verdict.diffs import (
    IMPORTED,
    MODULES,
    TESTABLE,
    FileChange,
    find_identifiers,
    is_telling,
    is_test,
)

MAX_TOUCHES = 8
_MAX_WORDS, _MAX_PLACES = 600, 100
"""The most words and places of an error that are held against the changed files."""


@dataclass(frozen=True, slots=True)
class _Word:
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


@dataclass(frozen=True, slots=True)
class Touch:
    """A changed file that an error names."""

    path: str
    words: str
    """The words of the error that name it."""
    is_certain: bool
    """Whether they can name no other file."""
    line: int = 0
    """A line that the error names and the change has added, of a stack the innermost frame of the
    project's code; 0 also if a message names another line of the project."""
    names_tests: bool = False
    """Whether the words name the file's tests rather than the file."""
    names_package: bool = False
    is_new: bool = False
    """Whether the file did not exist before."""
    is_elsewhere: bool = False
    """Whether the error names lines of the file, but none in or near an edit, and no edited
    definition."""
    is_submodule: bool = False
    """Whether it is a submodule that moves to another commit, which the error does not name."""

    @property
    def explains(self) -> bool:
        """Whether what the change edits is likely what the error is about."""
        is_here = not self.is_elsewhere and not self.is_submodule
        return self.names_tests or (self.is_certain and is_here)


def find_touches(text: str, changed: Iterable[FileChange], project: str) -> tuple[Touch, ...]:
    """Return the changed files that the error `text` names, at most `MAX_TOUCHES`.

    Certain ones come first, then those named only by their package, and last those named only by
    their tests. `project` is the project's path: it shows which container paths are files of the
    project.
    """
    changed = tuple(changed)
    text = remove_asides(_SCHEME.sub(" ", text[:MAX_TEXT]))
    words = _index_words(text, project)
    named = find_identifiers(text)
    places = [each for each in find_places(text) if not is_foreign(each.path)]
    tests = {each.path.rpartition("/")[2] for each in places if is_test(each.path)}
    found: list[tuple[FileChange, Touch]] = []
    for each in changed:
        if touch := _find_touch(each, words, named):
            # Only in the package whose tests failed, while those named are of other files.
            beside = touch.names_package and is_test(touch.path) and tests
            if not beside or touch.path.rpartition("/")[2] in tests:
                found.append((each, touch))
    found = sorted(found, key=lambda pair: _rank_touch(pair[1]))[:MAX_TOUCHES]
    lines = _find_own_added_lines(text, changed, project) if found else {}
    touches: list[Touch] = []
    for each, touch in found:
        aside = each.hunks and not each.is_new and not each.defines & named
        seen = select_lines(each.path, places) if aside else ()
        touches.append(
            replace(
                touch,
                line=0 if touch.names_tests else lines.get(touch.path, 0),
                is_new=each.is_new,
                is_elsewhere=bool(seen) and not any(n in hunk for n in seen for hunk in each.hunks),
                is_submodule=bool(each.submodule) and each.submodule[:7] not in text,
            )
        )
    return tuple(touches)


def _rank_touch(touch: Touch) -> tuple[bool, bool, bool]:
    return touch.names_tests, not touch.is_certain, touch.names_package


def count_tests(failed: Iterable[str], paths: Iterable[str], project: str) -> int:
    """Return how many of the failed tests belong to one of the files at `paths`."""
    changed = [FileChange(path) for path in paths]
    words = (_index_words(test, project) for test in failed)
    return sum(any(_find_test(each, named) for each in changed) for named in words)


_SCHEME = re.compile(r"(?:webpack|file)://+(?:\./)?", re.IGNORECASE)
_TEST_NAME = re.compile(
    r"(?:test_(?P<a>\w{2,80})|(?P<b>\w{2,80}?)(?:_test|_spec|\.test|\.spec|[-.]tests?"
    r"|(?<=[a-z0-9])(?:Tests?|Spec|IT)))",
)

_SOURCES = (
    *(("src", kind, tongue) for kind in ("main", "test", "it") for tongue in
      ("java", "kotlin", "scala", "groovy", "clojure")),
    *(("src",), ("lib",)),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Place:
    """A path in the repository: its parts, and the last one's stem and suffix with the dot."""

    parts: tuple[str, ...]
    stem: str
    suffix: str


def _make_place(path: str) -> _Place:
    parts = tuple(path.split("/"))
    stem, dot, suffix = parts[-1].rpartition(".")
    return _Place(parts, stem, dot + suffix) if stem else _Place(parts, parts[-1], "")


def _find_touch(
    changed: FileChange, words: Mapping[str, Sequence[_Word]], named: frozenset[str]
) -> Touch | None:
    """Return the best proof that the words name the file, by its present or its former path."""
    found: list[Touch] = []
    for path in dict.fromkeys((changed.path, changed.old_path or changed.path)):
        place = _make_place(path)
        for key in dict.fromkeys((place.parts[-1], place.stem, "".join(place.parts[-2:-1]))):
            for word in words.get(key, ()):
                sure = _compare_word(word, place)
                if sure is not None:
                    package = sure and _is_package(word, place)
                    found.append(Touch(changed.path, word.text, sure, names_package=package))
    found.sort(key=_rank_touch)
    defined = sorted(changed.defines & named)
    if found and not found[0].names_package:
        return found[0]
    if defined and not found:
        return Touch(changed.path, defined[0], is_certain=False)
    return _find_test(changed, words) or next(iter(found), None)


def _find_test(changed: FileChange, words: Mapping[str, Sequence[_Word]]) -> Touch | None:
    """Return the changed file if the error names its tests: `sum.py` is named by `test_sum.py`."""
    place = _make_place(changed.path)
    for part, named in words.items() if place.suffix in TESTABLE else ():
        if word := next((each for each in named if _is_test_of(place, part, each)), None):
            return Touch(changed.path, word.text, is_certain=False, names_tests=True)
    return None


def _is_test_of(place: _Place, part: str, word: _Word) -> bool:
    """Whether a part of a word names the file's tests: a file of the same language, a class or a
    module. A function of such a name does not count: it may test anything."""
    stem, _, suffix = part.rpartition(".")
    is_file = "." + suffix in TESTABLE
    if is_file:
        fits = "." + suffix == place.suffix or {"." + suffix, place.suffix} <= IMPORTED
        fits = fits and part in (word.parts[-1], ".".join(word.parts))
    else:
        stem = part
        fits = word.is_dotted and (part != word.parts[-1] or not stem.islower())
    found = _TEST_NAME.fullmatch(stem)
    return fits and found is not None and (found["a"] or found["b"]) == place.stem


def _compare_word(word: _Word, place: _Place) -> bool | None:
    """Return True if the word can only mean this path, False if it may mean it, None if not."""
    parts = place.parts
    if word.is_dotted and not _is_file(word, place):
        return _compare_module(word, place)
    if word.is_dotted:  # a bare file name is certain only for no source file, at the root
        return len(parts) == 1 and place.suffix not in MODULES | IMPORTED | {".go"}
    if word.is_rooted and word.parts == parts:
        return True
    if word.is_upward and word.parts == parts and place.suffix not in IMPORTED:
        return len(parts) > 1  # from a build's folder; an import is relative to its own file
    if _ends_with(parts, word.parts):  # from a folder of the repository
        return False
    if not word.is_rooted and _ends_with(word.parts, parts):  # from the container's root
        return len(parts) >= 2
    if place.suffix in IMPORTED:
        stem = (*parts[:-1], place.stem)
        if _ends_with(stem, word.parts) or (
            place.stem == "index" and _ends_with(parts[:-1], word.parts)
        ):
            return word.is_rooted and word.parts == stem and len(stem) > 1
    folder = parts[:-1]
    # A Go package is named by its folder; the project's own path has been removed from the word.
    if place.suffix != ".go" or word.is_absolute:
        return None
    if word.is_rooted and word.parts == folder:
        return True
    return False if len(folder) >= 2 and _ends_with(word.parts, folder) else None


def _is_file(word: _Word, place: _Place) -> bool:
    return ".".join(word.parts) == place.parts[-1].lstrip(".")


def _is_package(word: _Word, place: _Place) -> bool:
    """Whether a word that names the file for certain is its package's name."""
    if place.suffix == ".go":
        return word.parts != place.parts and not _ends_with(word.parts, place.parts)
    return place.stem in ("__init__", "mod") and word.is_dotted and not _is_file(word, place)


def _compare_module(word: _Word, place: _Place) -> bool | None:
    if place.suffix not in MODULES or not word.parts:
        return None
    stem = (*place.parts[:-1], place.stem)
    if place.stem in ("__init__", "mod") and len(stem) > 1:
        stem = stem[:-1]
    names = word.parts[1:] if word.parts[0] == "crate" else word.parts
    for root in ((), *_SOURCES):
        module = stem[len(root) :]
        if stem[: len(root)] == root and len(module) >= 2 and names[: len(module)] == module:
            return True
    if any(names[: len(stem) - at] == stem[at:] for at in range(len(stem) - 1)):
        return False
    return False if place.stem == names[0] and is_telling(place.stem) else None


_TOKEN = re.compile(r"[\w@.+~$/\\-]+(?:::[\w.]+)*")
_FOREIGN = frozenset(
    {"site-packages", "dist-packages", "node_modules", ".cargo", ".m2", ".gradle", ".nuget"}
    | {"gems", ".rustup"}
)
_FOREIGN_TOPS = frozenset(
    {"usr", "lib", "lib64", "bin", "sbin", "opt", "root", "etc", "nix", "rustc", "System"}
    | {"Library"}
)


def _index_words(text: str, project: str) -> Mapping[str, Sequence[_Word]]:
    """Return the words by each of their parts, for fast look-up by thousands of changed files."""
    found: dict[str, list[_Word]] = {}
    seen: set[str] = set()
    before: tuple[str, ...] = ()
    for match in _TOKEN.finditer(text):
        token = match[0].rstrip(".-+$\\/")
        word = _make_word(token, project.lower()) if len(token) > 2 else None
        # In `com.x.Y.run(Y.java:12)` the class already says which Y.java is meant.
        framed = text[match.start() - 1 : match.start()] == "(" and token.split(".")[0] in before
        before = word.parts if word and word.is_dotted else ()
        if word is None or framed or token in seen:
            continue
        seen.add(token)
        for part in {*word.parts, ".".join(word.parts)}:
            found.setdefault(part, []).append(word)
        if len(seen) >= _MAX_WORDS:
            break
    return found


def is_foreign(path: str) -> bool:
    """Whether a path belongs to the system or an installed package, judged by its folders."""
    path = path.replace("\\", "/")
    parts = [part for part in path.split("/") if part not in ("", ".", "~")]
    top = parts[0] if path.startswith(("/", "~")) and parts else ""
    return bool(_FOREIGN & set(parts)) or top in _FOREIGN_TOPS or "pkg/mod/" in path


def _make_word(token: str, project: str) -> _Word | None:
    """Make a word; None for a path of no project's code. `project` is in lower case."""
    path = token.replace("\\", "/").split("::")[0]
    if "/" not in path:
        named = path if "." in path else token.replace("::", ".")
        parts = tuple(part for part in named.replace("$", ".").split(".") if part)
        return _Word(token, parts, is_dotted=True)
    if is_foreign(path):
        return None
    absolute = path.startswith(("/", "~"))
    parts = tuple(part for part in path.split("/") if part not in _NOWHERE)
    inside = _remove_project(parts, project)
    if inside is not None:
        return _Word(token, inside, is_rooted=True, is_absolute=absolute)
    return _Word(
        token, parts, is_rooted=not absolute and ".." not in path.split("/"),
        is_absolute=absolute, is_upward=path.startswith("../"),
    )  # fmt: skip


_NOWHERE = frozenset({"", ".", "..", "~"})


def _remove_project(parts: Sequence[str], project: str) -> tuple[str, ...] | None:
    """Return the parts after the project's own path, None if they don't contain that path."""
    home = tuple(project.split("/"))
    lower = [part.lower() for part in parts]
    for at in range(len(parts) - len(home), -1, -1):
        if tuple(lower[at : at + len(home)]) == home and at > 0:
            return tuple(parts[at + len(home) :])
    return None


def _ends_with(whole: Sequence[str], end: Sequence[str]) -> bool:
    """Whether a path's parts end with those of another, which has at least one."""
    return 0 < len(end) <= len(whole) and tuple(whole[-len(end) :]) == tuple(end)


def select_lines(path: str, named: Iterable[NamedPlace]) -> tuple[int, ...]:
    """Return the line numbers among the `named` places that are in the repository's file `path`."""
    wanted = tuple(path.split("/"))
    return tuple(each.line for each in named if _find_in([wanted], each, project=""))


def _find_in(
    paths: Iterable[tuple[str, ...]], place: NamedPlace, project: str
) -> list[tuple[str, ...]]:
    """Return those of the repository's `paths` that a tool may mean by a place."""
    parts = tuple(part for part in place.path.replace("\\", "/").split("/") if part not in _NOWHERE)
    inside = _remove_project(parts, project.lower())
    if inside is not None:
        return [path for path in paths if path == inside]
    may_be_above = place.path.startswith(("/", "\\", "~", ".."))
    return [
        path
        for path in paths
        if _ends_with(path, parts) or (may_be_above and len(path) > 1 and _ends_with(parts, path))
    ]


def _find_own_added_lines(
    text: str, changed: Sequence[FileChange], project: str
) -> Mapping[str, int]:
    """Return the first line of each changed file that the error is about and the change has added.

    Nothing if a message of the error names another line of the project. A place that may be in two
    changed files is in neither.
    """
    names: dict[str, dict[tuple[str, ...], FileChange]] = {}
    for each in changed:
        parts = tuple(each.path.split("/"))
        names.setdefault(parts[-1], {})[parts] = each

    @cache
    def has_folder(folder: str) -> bool:
        return any(folder in f"/{each.path}" for each in changed)

    def is_own(place: NamedPlace) -> bool:
        """Whether a place is in the project's code, as far as its path tells. A class belongs to
        the project if its package begins like that of a changed file."""
        *folders, name = place.path.replace("\\", "/").split("/")
        if place.is_class:
            return has_folder("/".join(["", *folders[:2], ""]))
        if is_foreign(place.path) or not _THIRD_PARTY.isdisjoint(folders):
            return False
        known = name in names or (name != "testing.go" and name[name.rfind(".") :] in TESTABLE)
        return bool(folders) or known

    own = find_own_places(text, is_own)
    lines: dict[str, int] = {}
    for at, place in enumerate((*own.messages, *own.stacks)[:_MAX_PLACES]):
        files = names.get(place.path.replace("\\", "/").rpartition("/")[2], {})
        meant = _find_in(files, place, project)
        if len(meant) > 1:
            meant = [path for path in meant if "/".join(path) == place.path]
        found = files[meant[0]] if meant else None
        if found and place.line in found.added_lines:
            lines.setdefault(found.path, place.line)
        elif at < len(own.messages):
            return {}
    return lines


_THIRD_PARTY = frozenset({"vendor", "third_party"})
