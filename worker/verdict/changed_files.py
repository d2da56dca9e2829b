"""Whether a change touches what an error names: compares paths with the error's words. Pure.

An error names files as its tool saw them: from the repository's root, from a folder in it, from
the container's root (`/builds/group/project/…`), as a module (`a.b.c`), a class (`com.x.Y$Inner`),
a package (`host/group/project/pkg`), an import (`./utils/sum`) or by the bare file name. A name
that can mean only one path is certain; any other may mean a file of the same name elsewhere.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from worker.logs.error_lines import remove_asides
from worker.logs.named_places import MAX_TEXT, find_places
from worker.verdict.diffs import FileChange, find_identifiers, is_telling
from worker.verdict.error_words import (
    Word,
    ends_with,
    find_own_added_lines,
    index_words,
    is_elsewhere,
    is_foreign,
)
from worker.verdict.file_kinds import IMPORTED, MODULES, TESTABLE, is_test

MAX_TOUCHES = 8


@dataclass(frozen=True, slots=True)
class Touch:
    """A changed file, and the words of the error that name it. `is_certain`: they name no other.

    `line` is a line that the error names and the change has added; 0 if there is none, or if a
    message of the error names a line of the project that the change has not added. Of a stack, the
    innermost frame of the project's code is such a line. `names_tests` says that
    the words name the file's tests rather than the file. `is_new` is `FileChange.is_new`.
    `is_elsewhere`: the error names lines of the file, but no line in or near an edit and no edited
    definition. `is_submodule`: the file is a submodule that the change moves to another commit, and
    the error does not name that commit.
    """

    path: str
    words: str
    is_certain: bool
    line: int = 0
    names_tests: bool = False
    names_package: bool = False
    is_new: bool = False
    is_elsewhere: bool = False
    is_submodule: bool = False

    @property
    def explains(self) -> bool:
        """Whether what the change edits is likely what the error is about."""
        return self.names_tests or (
            self.is_certain and not self.is_elsewhere and not self.is_submodule
        )


def find_touches(text: str, changed: Iterable[FileChange], project: str) -> tuple[Touch, ...]:
    """Return the changed files that the error `text` names, at most `MAX_TOUCHES`.

    Certain ones come first, then those named only by their package, and last those named only by
    their tests. `project` is the project's path: it shows which container paths are files of the
    project.
    """
    changed = tuple(changed)
    text = remove_asides(_SCHEME.sub(" ", text[:MAX_TEXT]))
    words = index_words(text, project)
    named = find_identifiers(text)
    places = [each for each in find_places(text) if not is_foreign(each.path)]
    tests = {each.path.rpartition("/")[2] for each in places if is_test(each.path)}
    found = [
        (each, touch)
        for each in changed
        if (touch := _find_touch(each, words, named)) and not _is_beside(touch, tests)
    ]
    found = sorted(found, key=lambda pair: _rank_touch(pair[1]))[:MAX_TOUCHES]
    lines = find_own_added_lines(text, changed, project) if found else {}
    return tuple(
        replace(
            touch,
            line=0 if touch.names_tests else lines.get(touch.path, 0),
            is_new=each.is_new,
            is_elsewhere=not each.defines & named and is_elsewhere(each, places),
            is_submodule=bool(each.submodule) and each.submodule[:_SHORT_SHA] not in text,
        )
        for each, touch in found
    )


def _is_beside(touch: Touch, tests: Collection[str]) -> bool:
    """Whether a file of tests is only in the package whose tests failed, and those named are of
    other files."""
    aside = touch.names_package and is_test(touch.path)
    return aside and bool(tests) and touch.path.rpartition("/")[2] not in tests


def _rank_touch(touch: Touch) -> tuple[bool, bool, bool]:
    return touch.names_tests, not touch.is_certain, touch.names_package


def count_tests(failed: Iterable[str], paths: Iterable[str], project: str) -> int:
    """Return how many of the failed tests belong to one of the files at `paths`."""
    changed = [FileChange(path) for path in paths]
    words = (index_words(test, project) for test in failed)
    return sum(any(_find_test(each, named) for each in changed) for named in words)


# --------------------------------------------------------------------------------- names and lines

_SCHEME = re.compile(r"(?:webpack|file)://+(?:\./)?", re.IGNORECASE)
_SHORT_SHA = 7
_TEST_NAME = re.compile(
    r"(?:test_(?P<a>\w{2,80})|(?P<b>\w{2,80}?)(?:_test|_spec|\.test|\.spec|[-.]tests?"
    r"|(?<=[a-z0-9])(?:Tests?|Spec|IT)))",
)


# ------------------------------------------------------------------------------- held against paths

_SOURCES = (
    *(("src", kind, tongue) for kind in ("main", "test", "it") for tongue in
      ("java", "kotlin", "scala", "groovy", "clojure")),
    *(("src",), ("lib",)),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Place:
    """A path in the repository; `suffix` includes the dot, `folder` is the parent folder's name."""

    parts: tuple[str, ...]
    name: str
    stem: str
    suffix: str
    folder: str


def _make_place(path: str) -> _Place:
    parts = tuple(path.split("/"))
    stem, dot, suffix = parts[-1].rpartition(".")
    if not stem:
        stem, dot, suffix = parts[-1], "", ""
    return _Place(parts, parts[-1], stem, dot + suffix, parts[-2] if len(parts) > 1 else "")


def _find_touch(
    changed: FileChange, words: Mapping[str, Sequence[Word]], named: frozenset[str]
) -> Touch | None:
    """Return the best proof that the words name the file, by its present or its former path."""
    found = sorted(_list_named(changed, words), key=_rank_touch)
    defined = sorted(changed.defines & named)
    if found and not found[0].names_package:
        return found[0]
    if defined and not found:
        return Touch(changed.path, defined[0], is_certain=False)
    return _find_test(changed, words) or next(iter(found), None)


def _list_named(changed: FileChange, words: Mapping[str, Sequence[Word]]) -> Iterator[Touch]:
    """Yield a touch for each word that names the file, by its present or its former path."""
    for path in dict.fromkeys((changed.path, changed.old_path or changed.path)):
        place = _make_place(path)
        for key in dict.fromkeys((place.name, place.stem, place.folder)):
            for word in words.get(key, ()):
                sure = _compare_word(word, place)
                if sure is not None:
                    package = sure and _is_package(word, place)
                    yield Touch(changed.path, word.text, sure, names_package=package)


def _find_test(changed: FileChange, words: Mapping[str, Sequence[Word]]) -> Touch | None:
    """Return the changed file if the error names its tests: `sum.py` is named by `test_sum.py`."""
    place = _make_place(changed.path)
    for part, named in words.items() if place.suffix in TESTABLE else ():
        word = next((word for word in named if _is_test_of(place, part, word)), None)
        if word is not None:
            return Touch(changed.path, word.text, is_certain=False, names_tests=True)
    return None


def _is_test_of(place: _Place, part: str, word: Word) -> bool:
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


def _compare_word(word: Word, place: _Place) -> bool | None:
    """Return True if the word can only mean this path, False if it may mean it, None if not."""
    if word.is_dotted:
        return _compare_file(word, place) if _is_file(word, place) else _compare_module(word, place)
    return _compare_path(word, place)


def _is_file(word: Word, place: _Place) -> bool:
    return ".".join(word.parts) == place.name.lstrip(".")


def _compare_file(word: Word, place: _Place) -> bool:
    """Whether a bare file name is certain: only for a non-source file at the repository's root."""
    return len(place.parts) == 1 and place.suffix not in MODULES | IMPORTED | {".go"}


def _compare_path(word: Word, place: _Place) -> bool | None:
    parts = place.parts
    if word.is_rooted and word.parts == parts:
        return True
    if word.is_upward and word.parts == parts and place.suffix not in IMPORTED:
        return len(parts) > 1  # from a build's folder; an import is relative to its own file
    if ends_with(parts, word.parts):  # from a folder of the repository
        return False
    if not word.is_rooted and ends_with(word.parts, parts):  # from the container's root
        return len(parts) >= 2
    if place.suffix in IMPORTED:
        stem = (*parts[:-1], place.stem)
        if ends_with(stem, word.parts) or (
            place.stem == "index" and ends_with(parts[:-1], word.parts)
        ):
            return word.is_rooted and word.parts == stem and len(stem) > 1
    if place.suffix == ".go":
        return _compare_package(word, parts[:-1])
    return None


def _is_package(word: Word, place: _Place) -> bool:
    """Whether a word that names the file for certain is its package's name."""
    if place.suffix == ".go":
        return word.parts != place.parts and not ends_with(word.parts, place.parts)
    return place.stem in ("__init__", "mod") and word.is_dotted and not _is_file(word, place)


def _compare_package(word: Word, folder: tuple[str, ...]) -> bool | None:
    """As `_compare_word`, for a Go package, whose name is its folder. The project's own path has
    been removed from the word."""
    if word.is_absolute:
        return None
    if word.is_rooted and word.parts == folder:
        return True
    return False if len(folder) >= 2 and ends_with(word.parts, folder) else None


def _compare_module(word: Word, place: _Place) -> bool | None:
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
