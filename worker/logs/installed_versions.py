"""What a job's log says was installed, and how that differs from another run. Pure.

A dependency whose version changed since the last run that passed is often the whole cause, and no
line of the failed log says so.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

MOST = 5_000
"""The most packages of one log that are kept."""

_VERSION = rb"v?\d[\w.+!~:-]{0,60}"
_NAME = rb"[A-Za-z0-9@][\w.@/+-]{0,100}"

_RELEASE = "release"
"""The kind of a distribution whose packages were installed."""


@dataclass(frozen=True, slots=True)
class Package:
    """Something that was installed; `kind` is its ecosystem: `pip`, `npm`, `image`, `tool`, …"""

    kind: str
    name: str


Versions = Mapping[Package, frozenset[str]]
"""The versions of each package that a log names."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A package whose `version` was `old_version` in another run."""

    name: str
    old_version: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.old_version} → {self.version}"


def find_versions(cleaned: Iterable[bytes]) -> Versions:
    """Return what a cleaned log, in whole-line pieces, names as installed, downloaded or used."""
    found: dict[Package, set[str]] = {}
    for piece in cleaned:
        for package, version in _read_versions(piece):
            if package in found or len(found) < MOST:
                found.setdefault(package, set()).add(version)
    return {package: frozenset(versions) for package, versions in found.items()}


def find_differences(found: Versions, before: Versions) -> tuple[Difference, ...]:
    """Return the packages whose versions differ between the runs, ordered by kind and name. The
    release of a distribution comes first: its packages follow from it."""
    both = sorted(
        found.keys() & before.keys(), key=lambda each: (each.kind != _RELEASE, each.kind, each.name)
    )
    return tuple(
        Difference(
            each.name,
            _join_versions(before[each] - found[each]),
            _join_versions(found[each] - before[each]),
        )
        for each in both
        if found[each] - before[each] and before[each] - found[each]
    )


def find_same(found: Versions, before: Versions) -> tuple[tuple[Package, str], ...]:
    """Return the packages with the same versions in both runs, ordered as differences are. Images
    are left out if any of them differs."""
    both = sorted(found.keys() & before.keys(), key=lambda each: (each.kind, each.name))
    moved = {each.kind for each in both if found[each] != before[each]} & {"image"}
    return tuple(
        (each, _join_versions(found[each]))
        for each in both
        if found[each] == before[each] and each.kind not in moved
    )


_RUNNER = re.compile(r" {1,4}on (\S.{0,200})$")


def find_runner(lines: Iterable[str]) -> str:
    """Return which runner took a job, by the first lines of its log; "" if they do not say it."""
    found = map(_RUNNER.match, islice(lines, 20))
    return next((each[1] for each in found if each), "")


def _join_versions(versions: frozenset[str]) -> str:
    return ", ".join(sorted(versions)[:3])


# ------------------------------------------------------------------------------------- the tools


def _line(kind: str, holds: str, pattern: bytes) -> tuple[str, bytes, re.Pattern[bytes]]:
    """Make a row of `_LINES`. Every such line contains `holds`, which is fast to search for."""
    return kind, holds.encode(), re.compile(pattern)


_TOOLS = (
    *("Python", "ruff", "mypy", "rustc", "cargo", "Gradle", "Apache Maven", "cmake version", "pip"),
    *("uv", "Docker version", "node", "npm", "yarn", "pnpm", "gcc version", "clang version"),
)
_LINES = (
    _line("pip", "Requirement already satisfied: ",
          rb"Requirement already satisfied: (" + _NAME + rb").{0,300} \((" + _VERSION + rb")\)"),
    _line("pip", ".whl", rb"\s*(?:Downloading|Using cached) (?:\S{1,200}/)?"
          rb"([A-Za-z0-9][\w.]{0,100})-(\d[\w.+!]{0,60})-[^\s/]{1,100}\.whl"),
    _line("pip", "==", rb" [+~] (" + _NAME + rb")==(" + _VERSION + rb")"),
    _line("pip", " Installing ", rb"\s*(?:-|\xe2\x80\xa2) Installing (" + _NAME
          + rb") \((" + _VERSION + rb")\)"),
    *(
        _line("npm", branch, rb"[^@\w]{1,40}(@?[\w.-]{1,80}(?:/[\w.-]{1,80})?)@(?:npm:)?("
              + _VERSION + rb")")
        for branch in ("\u2500 ", "\u252c ")
    ),
    _line("npm", "-- ", rb"[|`+ -]{1,40}(@?[\w.-]{1,80}(?:/[\w.-]{1,80})?)@(" + _VERSION + rb")"),
    _line("npm", "+ ", rb"\+ (@?[\w.-]{1,80}(?:/[\w.-]{1,80})?)[ @](" + _VERSION + rb")"),
    *(
        _line("cargo", f"{word} ", b"\\s*" + word.encode() + rb" ([\w-]{1,80}) (v\d[\w.+-]{0,40})")
        for word in ("Compiling", "Checking", "Downloaded", "Adding", "Locking")
    ),
    _line("cargo", " -> v", rb"\s*(?:Updating|Downgrading) ([\w-]{1,80}) v[\w.+-]{1,40} -> "
          rb"(v\d[\w.+-]{0,40})"),
    _line("go", "go: ", rb"go: (?:downloading|added|upgraded|finding) ([\w.~/-]{1,160}) "
          rb"(v\d[\w.+-]{0,60})"),
    _line("jar", ".jar", rb"(?:\[INFO\] )?Download(?:ed|ing)?(?: from [\w.-]{1,60}:)? "
          rb"https?://\S{1,200}/([\w.-]{1,100})/(\d[\w.-]{0,60})/[^\s/]{1,160}\.jar"),
    _line("apt", "Setting up ",
          rb"Setting up ([a-z0-9][\w.+-]{0,80})(?::\w{1,12})? \((\S{1,80})\)"),
    _line("apt", "Get:", rb"Get:\d{1,5} \S{1,200} \S{1,80} \w{1,12} ([a-z0-9][\w.+-]{0,80}) "
          rb"\w{1,12} (\S{1,80}) \["),
    *(
        _line(_RELEASE, holds, rb"(?:Get|Hit):\d{1,5} https?://\S{1,200}?/([a-z][\w.-]{0,40})/? "
              rb"([a-z][\w./-]{0,40}) (?:In)?Release\b")
        for holds in (" InRelease", " Release ")
    ),
    _line("apk", ") Installing ",
          rb"\(\d{1,5}/\d{1,5}\) Installing ([\w.+-]{1,80}) \((\d\S{0,60})\)"),
    _line("gem", "Installing ", rb"Installing ([\w-]{1,80}) (\d[\w.]{0,40})"),
    _line("gem", "Using ", rb"Using ([\w-]{1,80}) (\d[\w.]{0,40})"),
    _line("composer", "  - ", rb"  - (?:Installing|Upgrading|Locking) "
          rb"([\w.-]{1,80}/[\w.-]{1,80}) \((?:\S{1,40} => )?(v?\d[\w.-]{0,40})"),
    _line("image", " with digest ", rb"Using docker image sha256:\S{1,80} for (\S{1,200}) with "
          rb"digest \S{1,200}@sha256:([0-9a-f]{12})"),
    _line("image", " with digest ", rb"Using docker image sha256:\S{1,80} for (\S{1,200}):"
          rb"(?!\S*[/:])([\w.-]{1,128}) with digest "),
    _line("tool", " version ",
          rb"([A-Za-z][\w.+-]{1,40}),?(?: has)? version (v?\d+\.\d[\w.+-]{0,40})"),
    _line("tool", " -- Python ", rb"platform \w{1,20} -- (Python) (" + _VERSION + rb")"),
    _line("tool", ", pytest-", rb"platform .{1,80}(pytest)-(" + _VERSION + rb")"),
    _line("tool", "go version go", rb"(go) version go(" + _VERSION + rb")"),
    *(
        _line("tool", f"{tool} ", b"(" + tool.encode() + rb") (v?\d+\.\d[\w.+-]{0,40})\b")
        for tool in _TOOLS
    ),
)  # fmt: skip
_PIP_LIST = b"Successfully installed "
_FREEZE = re.compile(
    rb"(?:[\w.-]{1,60}: )?([\w.-]{1,100}==[^\s,]{1,60}(?:,[\w.-]{1,100}==[^\s,]{1,60})*)$"
)
_FROZEN = re.compile(rb"([\w.-]{1,100})==(\d[\w.+!]{0,60})")
_PIP_ITEM = re.compile(rb"(\S{1,100}?)-(\d[\w.+!]{0,60})")


def _read_versions(piece: bytes) -> Iterator[tuple[Package, str]]:
    for line in _find_lines(_PIP_LIST, piece):
        for item in line.removeprefix(_PIP_LIST).split(b" ")[:MOST]:
            if found := _PIP_ITEM.fullmatch(item):
                yield _package("pip", found[1]), found[2].decode()
    for line in _find_lines(b"==", piece):
        if frozen := _FREEZE.match(line):
            for item in frozen[1].split(b",")[:MOST]:
                if found := _FROZEN.fullmatch(item):
                    yield _package("pip", found[1]), found[2].decode()
    for kind, holds, pattern in _LINES:
        for line in _find_lines(holds, piece):
            if found := pattern.match(line):
                version = found[2].decode("utf-8", "replace").rstrip(".,:")
                yield _package(kind, found[1]), version


def _find_lines(text: bytes, piece: bytes) -> Iterator[bytes]:
    """Yield the lines of `piece` that contain `text`, each once."""
    at = piece.find(text)
    while at >= 0:
        end = piece.find(b"\n", at)
        end = len(piece) if end < 0 else end
        yield piece[piece.rfind(b"\n", 0, at) + 1 : end]
        at = piece.find(text, end)


def _package(kind: str, name: bytes) -> Package:
    text = name.decode("utf-8", "replace")
    return Package(kind, re.sub(r"[-_.]+", "-", text.lower()) if kind == "pip" else text)
