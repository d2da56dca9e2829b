"""A merge request's diff: its files and their kinds, their lines with numbers, what they define, a
place on it. Pure.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

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
    """A changed file; what is not known of it is empty."""

    path: str
    old_path: str = ""
    """Its path before it was renamed."""
    defines: frozenset[str] = frozenset()
    """The names whose definitions the diff adds, removes or edits."""
    added_lines: frozenset[int] = frozenset()
    """The numbers of the lines that it adds."""
    hunks: tuple[range, ...] = ()
    """The lines of the new file that the diff shows, changed ones and context."""
    is_new: bool = False
    submodule: str = ""
    """The commit to which the diff moves a submodule."""

    @classmethod
    def read(cls, path: str, diff: str, old_path: str = "", *, is_new: bool = False) -> Self:
        """Read the change of the file `path` from its `diff`, one with its hunks or more."""
        lines = diff.split("\n")
        headers = [header for line in lines if (header := HUNK.match(line))]
        starts = [(int(header["new"]), int(header["count"] or 1)) for header in headers]
        submodule = _SUBMODULE.search(diff)
        return cls(
            path,
            old_path,
            defines=frozenset(
                name
                for line in lines
                if line[:1] in ("+", "-", "@")
                for name in _DEFINES.findall(line[:400])
                if is_telling(name)
            ),
            added_lines=frozenset(line.new for line in read_hunks(diff) if line.sign == "+"),
            hunks=tuple(range(start, start + count) for start, count in starts),
            is_new=is_new,
            submodule=submodule[1] if submodule else "",
        )


def find_defining_lines(lines: Sequence[str], text: str) -> tuple[int, ...]:
    """Return the numbers of the lines that define what the error names, such as a test."""
    named = find_identifiers(text[:MAX_TEXT])
    return tuple(
        number
        for number, line in enumerate(lines, 1)
        if any(name in named and is_telling(name) for name in _DEFINES.findall(line[:400]))
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


MODULES = frozenset(
    {".py", ".pyi", ".pyx", ".java", ".kt", ".scala", ".groovy", ".rs", ".clj"}
    | {".ex", ".exs", ".hs", ".erl", ".cs", ".swift"}
)
"""The suffixes of files that a dotted name may mean."""

IMPORTED = frozenset(
    {".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".vue", ".svelte", ".css", ".scss", ".json"}
)
"""The suffixes of files that are imported by their path."""

TESTABLE = (MODULES | IMPORTED | {".go", ".rb", ".php", ".c", ".cc", ".cpp"}) - {
    *(".css", ".scss", ".json")
}
"""The suffixes of source files, which may have tests."""

_CI = re.compile(
    r"(?:^|/)(?:\.gitlab-ci[^/]{0,80}|[^/]{1,80}\.gitlab-ci|[^/]{0,80}gitlab-ci[^/]{0,80})\.ya?ml$"
    r"|^\.gitlab/(?!issue_templates/|merge_request_templates/)|^\.?ci/|^\.tekton/",
    re.IGNORECASE,
)
_DOCS = (".md", ".rst", ".adoc", ".txt", ".markdown", ".png", ".svg", ".jpg", ".gif")
_MANIFESTS = frozenset(
    {"package.json", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml"}
    | {"pyproject.toml", "poetry.lock", "uv.lock", "pdm.lock", "pipfile", "pipfile.lock"}
    | {"setup.py", "setup.cfg", "constraints.txt", "environment.yml", "go.mod", "go.sum"}
    | {"cargo.toml", "cargo.lock", "gemfile", "gemfile.lock", "composer.json", "composer.lock"}
    | {"pom.xml", "build.gradle", "build.gradle.kts", "gradle.lockfile", "libs.versions.toml"}
    | {"mix.exs", "mix.lock", "packages.lock.json", "directory.packages.props", "build.sbt"}
    | {"dockerfile", "containerfile", ".tool-versions", ".python-version", ".nvmrc"}
)


_REQUIREMENTS = re.compile(
    r"requirements[^/]{0,80}\.(?:txt|in)$|(?:^|/)requirements/[^/]{1,80}\.(?:txt|in)$|(?:Docker|Container)file\.[^/]{1,80}$|\.[Dd]ockerfile$"
)


def is_ci(path: str) -> bool:
    """Whether a file is part of the CI configuration, judged by its path."""
    return _CI.search(path[:500]) is not None


def is_dependency(path: str) -> bool:
    """Whether a file defines what is installed: a manifest, a lock file, a Dockerfile."""
    name = path.rpartition("/")[2].lower()
    return name in _MANIFESTS or _REQUIREMENTS.search(path[-200:]) is not None


def is_image(path: str) -> bool:
    """Whether a file builds an image."""
    return "dockerfile" in path.lower() or "containerfile" in path.lower()


def may_configure(path: str) -> bool:
    """Whether a file may decide how jobs run, as far as its path tells."""
    return may_choose_runner(path) or is_image(path)


_CONFIGURATION = re.compile(r"\.(?:ya?ml|jsonnet|libsonnet|cue|dhall)(?:\.\w{1,20})?$")


def may_choose_runner(path: str) -> bool:
    """Whether a file may decide which runners may take jobs, as far as its path tells.

    A project may keep its CI configuration, and what that includes or is generated from, under any
    name: so any YAML file, and any template of one, may be part of it.
    """
    return is_ci(path) or _CONFIGURATION.search(path[-200:].lower()) is not None


def is_lock(path: str) -> bool:
    """Whether a file is a lock file, whose lines tools number in their own way."""
    name = path.rpartition("/")[2].lower()
    return name.endswith((".lock", "-lock.json", "-lock.yaml", ".lockfile")) or name == "go.sum"


def is_docs(path: str) -> bool:
    """Whether a file is prose or a picture."""
    name = path.rpartition("/")[2]
    return name.lower().endswith(_DOCS) and name != "CMakeLists.txt" and not is_dependency(path)


_TEST = re.compile(
    r"(?:^|/)(?:tests?|specs?|__tests__|testdata|fixtures)/"
    r"|(?:^|/)(?:test_[^/]{1,200}|conftest\.py)$"
    r"|(?:[_.-](?:test|spec)s?|(?<=[a-z0-9])(?:Tests?|Spec|IT))\.\w{1,12}$"
)


def is_test(path: str) -> bool:
    """Whether a file is a test or belongs to tests, judged by its path."""
    return _TEST.search(path[-500:]) is not None
