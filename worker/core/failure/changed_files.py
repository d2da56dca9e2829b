"""Whether a change touches what an error names: compares paths with the error's words. Pure.

An error names files as its tool saw them: from the repository's root, from a folder in it, from
the container's root (`/builds/group/project/…`), as a module (`a.b.c`), a class (`com.x.Y$Inner`),
a package (`host/group/project/pkg`), an import (`./utils/sum`) or by the bare file name. A name
that can mean only one path is certain; any other may mean a file of the same name elsewhere.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from worker.core.failure.error_words import Word, index_words, is_foreign
from worker.core.logs.error_lines import remove_asides
from worker.core.text.diffs import HUNK, read_hunks

MAX_TEXT = 16_384
"""The most characters of an error that are read."""

MAX_TOUCHES = 8


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


@dataclass(frozen=True, slots=True)
class Touch:
    """A changed file, and the words of the error that name it. `is_certain`: they name no other.

    `line` is a line that the error names and the change has added; 0 if there is none, or if the
    error also names a line of the project that the change has not added. `names_tests` says that
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
    named = frozenset(_IDENTIFIER.findall(text))
    found = [(each, touch) for each in changed if (touch := _find_touch(each, words, named))]
    lines = _find_project_lines(text)
    touches = (
        replace(
            touch,
            line=_find_added_line(touch, changed, lines),
            is_new=each.is_new,
            is_elsewhere=not each.defines & named and _is_elsewhere(each, lines),
            is_submodule=bool(each.submodule) and each.submodule[:_SHORT_SHA] not in text,
        )
        for each, touch in found
    )
    return tuple(sorted(touches, key=_rank_touch)[:MAX_TOUCHES])


def _rank_touch(touch: Touch) -> tuple[bool, bool, bool]:
    return touch.names_tests, not touch.is_certain, touch.names_package


def count_tests(failed: Iterable[str], paths: Iterable[str], project: str) -> int:
    """Return how many of the failed tests belong to one of the files at `paths`."""
    changed = [FileChange(path) for path in paths]
    words = (index_words(test, project) for test in failed)
    return sum(any(_find_test(each, named) for each in changed) for named in words)


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


def find_named_lines(text: str) -> tuple[tuple[str, int], ...]:
    """Return the places (such as `path:12`) that an error names, each once, in order."""
    found = ((each[1], int(each[2])) for each in _LINE.finditer(text[:MAX_TEXT]))
    return tuple(dict.fromkeys(found))


def select_lines(path: str, named: Iterable[tuple[str, int]]) -> tuple[int, ...]:
    """Return the line numbers among the `named` places that are in the repository's file `path`."""
    return tuple(number for each, number in named if _may_mean(each, path))


def find_defining_lines(lines: Sequence[str], text: str) -> tuple[int, ...]:
    """Return the numbers of the lines that define what the error names, such as a test."""
    named = frozenset(_IDENTIFIER.findall(text[:MAX_TEXT]))
    return tuple(
        number
        for number, line in enumerate(lines, 1)
        if any(name in named and _is_telling(name) for name in _DEFINES.findall(line[:400]))
    )


def find_definitions(diff: str) -> frozenset[str]:
    """Return the names that a diff's changed lines and hunk headers define."""
    lines = (line for line in diff.split("\n") if line[:1] in ("+", "-", "@"))
    return frozenset(
        name for line in lines for name in _DEFINES.findall(line[:400]) if _is_telling(name)
    )


# --------------------------------------------------------------------------------- names and lines

_SCHEME = re.compile(r"(?:webpack|file)://+(?:\./)?", re.IGNORECASE)
_SUBMODULE = re.compile(r"^\+Subproject commit ([0-9a-f]{40,64})$", re.MULTILINE)
_SHORT_SHA = 7
_LINE = re.compile(
    r"([\w@.+~$/\\-]{1,300}\.\w{1,12})(?:[\"']?, line |:|\(|:line )(\d{1,7})(?![\d.])"
)
_TEST_NAME = re.compile(
    r"(?:test_(?P<a>\w{2,80})|(?P<b>\w{2,80}?)(?:_test|_spec|\.test|\.spec|[-.]tests?"
    r"|(?<=[a-z0-9])(?:Tests?|Spec|IT)))",
)
_DEFINES = re.compile(
    r"\b(?:def|class|func|function|fn|const|let|var|type|struct|interface|enum|trait|object|module)"
    r"[ \t]+(?:\([^()\n]{0,80}\)[ \t]*)?([A-Za-z_]\w{3,80})"
)
_TELLING = re.compile(r"[a-z0-9][A-Z]|[A-Za-z0-9]_[A-Za-z0-9]")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w{5,80}")


def _is_telling(name: str) -> bool:
    """Whether a name has at least two words: names such as `sum` and `main` are too common."""
    return len(name) >= 6 and _TELLING.search(name) is not None


def _may_mean(named: str, path: str) -> bool:
    """Whether the path `named`, as a tool wrote it, may mean the repository's file `path`."""
    parts, wanted = named.replace("\\", "/").split("/"), path.split("/")
    found = [part for part in parts if part not in ("", ".")]
    return _ends_with(wanted, found) or _ends_with(found, wanted)


def _find_project_lines(text: str) -> list[tuple[str, int]]:
    """Return the places that an error names, without those in third-party code."""
    return [each for each in find_named_lines(text) if not is_foreign(each[0].replace("\\", "/"))]


def _find_added_line(
    touch: Touch, changed: Sequence[FileChange], lines: Sequence[tuple[str, int]]
) -> int:
    """Return the first line that the error names in the file; 0 unless all named lines are new."""
    if touch.names_tests or not all(any(_adds(each, line) for each in changed) for line in lines):
        return 0
    return next(iter(select_lines(touch.path, lines)), 0)


def _is_elsewhere(changed: FileChange, lines: Sequence[tuple[str, int]]) -> bool:
    """Whether the error names lines of a changed file, and all of them are far from its changes."""
    named = select_lines(changed.path, lines)
    if not changed.hunks or changed.is_new or not named:
        return False
    return not any(line in each for line in named for each in changed.hunks)


def _adds(changed: FileChange, line: tuple[str, int]) -> bool:
    return line[1] in changed.added_lines and _may_mean(line[0], changed.path)


# ------------------------------------------------------------------------------- held against paths

_MODULES = frozenset(
    {".py", ".pyi", ".pyx", ".java", ".kt", ".scala", ".groovy", ".rs", ".clj"}
    | {".ex", ".exs", ".hs", ".erl", ".cs", ".swift"}
)
_SOURCES = (
    *(("src", kind, tongue) for kind in ("main", "test", "it") for tongue in
      ("java", "kotlin", "scala", "groovy", "clojure")),
    *(("src",), ("lib",)),
)  # fmt: skip
_IMPORTED = frozenset(
    {".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".vue", ".svelte", ".css", ".scss", ".json"}
)


_TESTABLE = (_MODULES | _IMPORTED | {".go", ".rb", ".php", ".c", ".cc", ".cpp"}) - {
    *(".css", ".scss", ".json")
}
"""The suffixes of source files, which may have tests."""


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
    for part, named in words.items() if place.suffix in _TESTABLE else ():
        word = next((word for word in named if _is_test_of(place, part, word)), None)
        if word is not None:
            return Touch(changed.path, word.text, is_certain=False, names_tests=True)
    return None


def _is_test_of(place: _Place, part: str, word: Word) -> bool:
    """Whether a part of a word names the file's tests: a file of the same language, a class or a
    module. A function of such a name does not count: it may test anything."""
    stem, _, suffix = part.rpartition(".")
    is_file = "." + suffix in _TESTABLE
    if is_file:
        fits = "." + suffix == place.suffix or {"." + suffix, place.suffix} <= _IMPORTED
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
    return len(place.parts) == 1 and place.suffix not in _MODULES | _IMPORTED | {".go"}


def _compare_path(word: Word, place: _Place) -> bool | None:
    parts = place.parts
    if word.is_rooted and word.parts == parts:
        return True
    if _ends_with(parts, word.parts):  # from a folder of the repository
        return False
    if not word.is_rooted and _ends_with(word.parts, parts):  # from the container's root
        return len(parts) >= 2
    if place.suffix in _IMPORTED:
        stem = (*parts[:-1], place.stem)
        if _ends_with(stem, word.parts) or (
            place.stem == "index" and _ends_with(parts[:-1], word.parts)
        ):
            return word.is_rooted and word.parts == stem and len(stem) > 1
    if place.suffix == ".go":
        return _compare_package(word, parts[:-1])
    return None


def _is_package(word: Word, place: _Place) -> bool:
    """Whether a word that names the file for certain is its package's name."""
    if place.suffix == ".go":
        return word.parts != place.parts and not _ends_with(word.parts, place.parts)
    return place.stem in ("__init__", "mod") and word.is_dotted and not _is_file(word, place)


def _compare_package(word: Word, folder: tuple[str, ...]) -> bool | None:
    """As `_compare_word`, for a Go package, whose name is its folder. The project's own path has
    been removed from the word."""
    if word.is_absolute:
        return None
    if word.is_rooted and word.parts == folder:
        return True
    return False if len(folder) >= 2 and _ends_with(word.parts, folder) else None


def _compare_module(word: Word, place: _Place) -> bool | None:
    if place.suffix not in _MODULES or not word.parts:
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
    return False if place.stem == names[0] and _is_telling(place.stem) else None


def _ends_with(whole: Sequence[str], end: Sequence[str]) -> bool:
    return 0 < len(end) <= len(whole) and tuple(whole[-len(end) :]) == tuple(end)
