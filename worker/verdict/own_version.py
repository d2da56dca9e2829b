"""What a manifest's diff changes besides the version of the project itself. Pure.

A release changes that version, and nothing that is installed. Where a diff does not show whose
version it changes, it counts as a dependency's.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

Masked = Iterator[tuple[int, str]]
"""The numbers of a diff's lines with the project's own version, and these lines without it."""


def list_other_changes(path: str, diff: str) -> list[str]:
    """Return the lines that the diff of a manifest adds or removes, without their signs, and
    without those in which only the project's own version differs."""
    lines, masked = diff.split("\n"), dict[int, str]()
    if find := _FINDERS.get(path.rpartition("/")[2].lower()):
        for other in "+-":  # the file as it was, then as it is
            masked |= find(["" if line.startswith(other) else line for line in lines])
    counts = Counter((lines[at][0], text) for at, text in masked.items())
    released = {text for sign, text in counts if counts["-", text] == counts["+", text]}
    return [
        line[1:]
        for at, line in enumerate(lines)
        if line[:1] in ("+", "-") and masked.get(at) not in released
    ]


# ------------------------------------------------------------------------------------------- JSON

_JSON = re.compile(
    r'(?P<version>"version"\s*:\s*"[^"\\]{0,100}")'
    r'|(?:"(?P<key>[^"\\]{0,200})"\s*:\s*)?(?P<opens>\{)|(?P<closes>\})'
)


def _mask_manifest(lines: Sequence[str]) -> Masked:
    """Mask the versions directly in the manifest's object, which may begin before a hunk does."""
    return _mask_json(lines, lambda keys: keys in ([], ["{"]))


_FIRST_HUNK = re.compile(r"@@ -[01]\b")


def _mask_composer(lines: Sequence[str]) -> Masked:
    """Mask the version directly in the manifest's object, if the diff shows where that begins: the
    packages of a repository look the same."""
    if _FIRST_HUNK.match(lines[0]):
        hunks = (at for at, line in enumerate(lines) if at and line.startswith("@@"))
        yield from _mask_json(lines[: next(hunks, len(lines))], lambda keys: keys == ["{"])


def _mask_npm_lock(lines: Sequence[str]) -> Masked:
    """Mask the versions directly in the lock file's object, and in its entry for the project."""
    return _mask_json(lines, lambda keys: keys == ["{"] or keys[-1:] == [""])


def _mask_json(lines: Sequence[str], is_own: Callable[[list[str]], bool]) -> Masked:
    keys: list[str] = []
    for at, line in enumerate(lines):
        if line.startswith("@@"):
            keys = []
        own = None
        for found in _JSON.finditer(line, 1):
            if found["version"] and is_own(keys):
                own = found
            elif found["opens"]:
                keys.append("{" if found["key"] is None else found["key"])
            elif found["closes"]:
                keys[-1:] = []
        if own:
            yield at, line[1 : own.start()] + line[own.end() :]


# ------------------------------------------------------------------------------------------ Maven

_TAG = re.compile(r"<(?P<closes>/?)(?P<name>[A-Za-z][\w.:-]{0,100})(?P<rest>[^<>]{0,400})")
_VERSION = re.compile(r"\s*<version>[^<>]{0,100}</version>\s*$")
_IN_PROJECT = frozenset(
    {"modelVersion", "parent", "packaging", "name", "description", "inceptionYear", "organization"}
    | {"licenses", "developers", "scm", "modules", "properties", "dependencyManagement", "build"}
    | {"profiles", "distributionManagement", "repositories"}
)
"""Elements that stand beside `<version>` only in `<project>`."""


@dataclass(slots=True)
class _Element:
    """An element, as far as a hunk shows it: its `name`, "" if it begins before the hunk, the names
    of its children, and the numbers of the lines with its version."""

    name: str = ""
    children: set[str] = field(default_factory=set)
    versions: list[int] = field(default_factory=list)

    def is_project(self) -> bool:
        return self.name == "project" or (
            not self.name and not _IN_PROJECT.isdisjoint(self.children)
        )


def _mask_pom(lines: Sequence[str]) -> Masked:
    for element in _read_elements(lines):
        yield from ((at, "<version>") for at in element.versions if element.is_project())


def _read_elements(lines: Sequence[str]) -> Iterator[_Element]:
    """Yield every element of the hunks, each when it ends."""
    stack = [_Element()]
    for at, line in enumerate(lines):
        if line.startswith("@@"):
            yield from stack
            stack = [_Element()]
        elif _VERSION.match(line, 1):
            stack[-1].versions.append(at)
        else:
            for tag in _TAG.finditer(line, 1):
                yield from _read_tag(tag, stack)
    yield from stack


def _read_tag(tag: re.Match[str], stack: list[_Element]) -> Iterator[_Element]:
    """Open or close an element on the stack; yield the one that it ends."""
    if not tag["closes"]:
        stack[-1].children.add(tag["name"])
        if not tag["rest"].endswith("/"):
            stack.append(_Element(tag["name"]))
        return
    yield stack.pop()
    if not stack:  # it had begun before the hunk
        stack.append(_Element(children={tag["name"]}))


# ------------------------------------------------------------------------------------------ Cargo

_IN_CARGO_LOCK = re.compile(r'version = "[^"]{0,100}"$')


def _mask_cargo_lock(lines: Sequence[str]) -> Masked:
    """Mask the versions of packages without a source: they belong to the repository."""
    shown = [(at, line) for at, line in enumerate(lines) if line]
    for (at, line), (_, after) in pairwise(shown):
        has_source = after.startswith("source = ", 1)
        if _IN_CARGO_LOCK.match(line, 1) and not has_source and not after.startswith("@@"):
            yield at, "version"


_FINDERS: Mapping[str, Callable[[Sequence[str]], Masked]] = {
    "package.json": _mask_manifest,
    "composer.json": _mask_composer,
    "package-lock.json": _mask_npm_lock,
    "npm-shrinkwrap.json": _mask_npm_lock,
    "pom.xml": _mask_pom,
    "cargo.lock": _mask_cargo_lock,
}
