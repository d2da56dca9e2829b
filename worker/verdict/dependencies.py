"""Whether a change to a manifest or a Dockerfile changes what is installed. Pure.

A manifest is shared: `pyproject.toml` configures linters, `package.json` names scripts, a plug-in
of Maven's has a `<configuration>`, and a release changes the version of the project itself. What
encloses a line is known as far as its hunk shows; where that leaves open whose version a line
changes, it counts as a dependency's.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from worker.verdict.diffs import is_dependency, is_image, read_hunks

_MANIFESTS_OF_MORE = frozenset(
    {"package.json", "pyproject.toml", "setup.py", "setup.cfg", "cargo.toml", "composer.json"}
    | {"pom.xml", "build.gradle", "build.gradle.kts", "mix.exs", "build.sbt"}
)
"""Manifests that also hold other things: scripts, settings, build targets."""


_REQUIREMENT = re.compile(
    r"[\"'][\w@./-]{1,100}[\"']\s*:\s*[\"'](?:[~^<>=*]|v?\d|workspace:|file:|git[+:@]|git(?:hub|lab):|npm:)"
    r"|^\s*(?!version\b)[\w.-]{1,100}\s*=\s*(?:[\"'][~^<>=*]?\s*\d|\{.{0,200}(?:version|path|git|workspace)\s*=)"
    r"|[\"'][\w.-]{1,100}(?:\[[\w,.-]{1,80}\])?\s*(?:[~=<>!]=|<|>)\s*\d"
    r"|<version>|<(?:group|artifact)Id>|<parent>|<dependency>"
    r"|\b(?:implementation|api|compileOnly|runtimeOnly|test(?:Implementation|RuntimeOnly|CompileOnly)|classpath|kapt|platform)\b.{0,10}[\"'(]"
    r"|\bid\s*\(?[\"'][\w.-]{1,80}[\"']\)?\s*version\b|%%?\s*\"|\{:\w{1,60},\s*\""
    r"|\b(?:requires|dependencies|install_requires|engines|toolchain|rust-version)\b"
)
"""What a changed line of such a manifest contains if it is about a dependency."""


_OPTION = re.compile(r"\s{0,80}(?!\w{0,80}[vV]ersion)[\w.]{1,100}\s?=\s?[\"']")
"""How Gradle's builds set an option of a task or a plug-in that is not a version."""


def changes_dependency(path: str, diff: str) -> bool:
    """Whether a change to a file changes what is installed.

    `diff` are the hunks, "" if they are not known. A manifest may also change for other reasons: a
    new target, a script, a setting, the version of the project itself. A Dockerfile may change how
    its image is used.
    """
    if not is_dependency(path):
        return False
    if diff and is_image(path):
        return bool(find_changed_install(diff))
    changed = _list_other_changes(path, _drop_settings(path, diff))
    if not diff or path.rpartition("/")[2].lower() not in _MANIFESTS_OF_MORE:
        return not diff or bool(changed)
    is_gradle = ".gradle" in path.lower()
    lines = (line[:400] for line in changed if not is_gradle or not _OPTION.match(line[:400]))
    return any(map(_REQUIREMENT.search, lines))


# -------------------------------------------------------------------------------------- Dockerfiles

_KEYWORD = re.compile(
    r"\s*(?:FROM|RUN|CMD|LABEL|EXPOSE|ENV|ADD|COPY|ENTRYPOINT|VOLUME|USER|WORKDIR|ARG|ONBUILD"
    r"|STOPSIGNAL|HEALTHCHECK|SHELL|MAINTAINER)\s",
    re.IGNORECASE,
)
_INSTALLS = re.compile(
    r"^\s{0,8}(?:FROM\s|ADD\s.{0,80}https?:|(?:ARG|ENV)\s.{0,200}(?:VERSION|IMAGE|TAG))"
    r"|--from=|\b(?:install|curl|wget|apt|apt-get|apk|dnf|microdnf|yum|zypper|pip3?|uv|poetry|conda"
    r"|yarn|pnpm|bundle|gem|composer|brew|rustup|sdkmanager|npm (?:ci|i)|go get)\b",
    re.IGNORECASE,
)
_INSTRUCTION = 400


def find_changed_install(diff: str) -> int:
    """Return the number, in the new file, of the first changed line of an instruction that names a
    base image or installs something; 0 if there is none.

    An instruction goes on over lines that end with a backslash. One that begins before its hunk
    counts as installing, because it may be.
    """
    for _, hunk in groupby(read_hunks(diff), key=lambda line: line.hunk):
        lines = list(hunk)
        goes_on = lines[0].new > 1
        sides = {sign: _Side(goes_on, goes_on) for sign in "-+"}
        for line in lines:
            installs = [sides[sign].read_line(line.text) for sign in line.sign.strip() or "-+"]
            if line.sign != " " and installs[0]:
                return line.new
    return 0


@dataclass
class _Side:
    """The file before or after: whether its instruction installs, and goes on in the next line."""

    installs: bool
    goes_on: bool

    def read_line(self, text: str) -> bool:
        """Read the next line; returns whether it belongs to an instruction that installs."""
        if text.lstrip().startswith("#"):  # a comment, also inside an instruction
            return False
        starts = not self.goes_on or bool(_KEYWORD.match(text))
        found = bool(_INSTALLS.search(text[:_INSTRUCTION]))
        self.installs = found or (self.installs and not starts)
        self.goes_on = text.rstrip().endswith("\\")
        return self.installs


# -------------------------------------------------------------------------------- a tool's settings

_Enclosed = Iterator[tuple[int, tuple[str, ...]]]
"""The numbers of a diff's lines, each with the names of what encloses the line in its hunk."""

_SECTION = re.compile(r"\s{0,20}\[{1,2}\s{0,4}([^\[\]]{1,200}?)\s{0,4}\]{1,2}\s*(?:#.*)?$")
_OBJECT = re.compile(r'(?:"(?P<key>[^"\\]{0,200})"\s*:\s*)?(?P<opens>[{\[])|(?P<closes>[}\]])')
_DEEPEST = 20
"""The most elements around one line that are looked at."""

_ELEMENT = re.compile(r"<(?P<closes>/?)(?P<name>[A-Za-z][\w.:-]{0,100})(?P<rest>[^<>]{0,400})")


def _drop_settings(path: str, diff: str) -> str:
    """Return the diff of a manifest with each changed line that is a tool's setting as a line that
    did not change."""
    form = _SETTINGS.get(path.rpartition("/")[2].lower())
    if form is None:
        return diff
    find, is_setting = form
    lines, settings = diff.split("\n"), set[int]()
    for other in "+-":  # the file as it was, then as it is
        side = ["" if line.startswith(other) else line for line in lines]
        settings |= {at for at, names in find(side) if side[at] and is_setting(names)}
    return "\n".join(" " + line[1:] if at in settings else line for at, line in enumerate(lines))


def _find_sections(lines: Sequence[str]) -> _Enclosed:
    section: tuple[str, ...] = ()
    for at, line in enumerate(lines):
        if line.startswith("@@"):
            section = ()
        elif found := _SECTION.match(line, 1):
            section = (found[1],)
        else:
            yield at, section


def _find_keys(lines: Sequence[str]) -> _Enclosed:
    keys: list[str] = []
    for at, line in enumerate(lines):
        if line.startswith("@@"):
            keys = []
            continue
        yield at, tuple(filter(None, keys[-_DEEPEST:]))
        for found in _OBJECT.finditer(line, 1):
            if found["opens"]:
                keys.append(found["key"] or "")
            else:
                keys[-1:] = []


def _find_elements(lines: Sequence[str]) -> _Enclosed:
    """Yield the elements around each line; one that begins before its hunk encloses all lines down
    to its end."""
    above, stack = list[tuple[int, str]](), list[str]()
    seen: list[tuple[int, tuple[str, ...]]] = []
    for at, line in enumerate((*lines, "@@")):
        if line.startswith("@@"):
            for number, names in seen:
                outer = (name for end, name in above if number < end)
                yield number, (*outer, *names)
            above, stack, seen = [], [], []
            continue
        seen.append((at, tuple(stack[-_DEEPEST:])))
        for tag in _ELEMENT.finditer(line, 1):
            if not tag["closes"]:
                stack += [] if tag["rest"].endswith("/") else [tag["name"]]
            elif stack:
                stack.pop()
            elif len(above) < _DEEPEST:
                above.append((at, tag["name"]))


_ABOUT_INSTALLED = re.compile(
    r"depend|require|build-system|^project$|^options|extras|source|patch|replace|conflict|workspace"
    r"|^package$|group|engines|resolutions|overrides|volta|platform|repositor|catalog|packageManager"
    r"|^(?:tool\.)?(?:poetry|pdm|uv|hatch|pixi|flit|setuptools|rye|pnpm)\b",
    re.IGNORECASE,
)
"""In the names of those parts of a manifest that say what is installed."""

_RESOLVED = frozenset(
    {"path", "artifactItem", "dependency", "signature", "annotationProcessorPath"}
)
"""Elements of a plug-in's configuration that name what Maven downloads."""


def _is_tools(names: Sequence[str]) -> bool:
    return bool(names) and not any(map(_ABOUT_INSTALLED.search, names))


def _is_plugins(names: Sequence[str]) -> bool:
    return "configuration" in names and _RESOLVED.isdisjoint(names)


_SETTINGS: Mapping[
    str, tuple[Callable[[Sequence[str]], _Enclosed], Callable[[Sequence[str]], bool]]
] = {
    "pyproject.toml": (_find_sections, _is_tools),
    "setup.cfg": (_find_sections, _is_tools),
    "cargo.toml": (_find_sections, _is_tools),
    "package.json": (_find_keys, _is_tools),
    "composer.json": (_find_keys, _is_tools),
    "pom.xml": (_find_elements, _is_plugins),
}


# ------------------------------------------------------------------------ the project's own version

_Masked = Iterator[tuple[int, str]]
"""The numbers of a diff's lines with the project's own version, and these lines without it."""


def _list_other_changes(path: str, diff: str) -> list[str]:
    """Return the lines that the diff of a manifest adds or removes, without their signs, and
    without those in which only the project's own version differs."""
    lines, masked = diff.split("\n"), dict[int, str]()
    if find := _OWN_VERSIONS.get(path.rpartition("/")[2].lower()):
        for other in "+-":  # the file as it was, then as it is
            masked |= find(["" if line.startswith(other) else line for line in lines])
    counts = Counter((lines[at][0], text) for at, text in masked.items())
    released = {text for sign, text in counts if counts["-", text] == counts["+", text]}
    return [
        line[1:]
        for at, line in enumerate(lines)
        if line[:1] in ("+", "-") and masked.get(at) not in released
    ]


_JSON = re.compile(
    r'(?P<version>"version"\s*:\s*"[^"\\]{0,100}")'
    r'|(?:"(?P<key>[^"\\]{0,200})"\s*:\s*)?(?P<opens>\{)|(?P<closes>\})'
)


_FIRST_HUNK = re.compile(r"@@ -[01]\b")


def _mask_composer(lines: Sequence[str]) -> _Masked:
    """Mask the version directly in the manifest's object, if the diff shows where that begins: the
    packages of a repository look the same."""
    if _FIRST_HUNK.match(lines[0]):
        hunks = (at for at, line in enumerate(lines) if at and line.startswith("@@"))
        yield from _mask_json(lines[: next(hunks, len(lines))], lambda keys: keys == ["{"])


def _mask_json(lines: Sequence[str], is_own: Callable[[list[str]], bool]) -> _Masked:
    """Mask the versions in the objects whose keys, from the outermost one on, are the project's."""
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


def _mask_pom(lines: Sequence[str]) -> _Masked:
    for each in _read_elements(lines):
        inside = not each.name and not _IN_PROJECT.isdisjoint(each.children)
        if each.name == "project" or inside:
            yield from ((at, "<version>") for at in each.versions)


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
            for tag in _ELEMENT.finditer(line, 1):
                if tag["closes"]:
                    yield stack.pop()
                    if not stack:  # it had begun before the hunk
                        stack.append(_Element(children={tag["name"]}))
                    continue
                stack[-1].children.add(tag["name"])
                if not tag["rest"].endswith("/"):
                    stack.append(_Element(tag["name"]))
    yield from stack


_IN_CARGO_LOCK = re.compile(r'version = "[^"]{0,100}"$')


def _mask_cargo_lock(lines: Sequence[str]) -> _Masked:
    """Mask the versions of packages without a source: they belong to the repository."""
    shown = [(at, line) for at, line in enumerate(lines) if line]
    for (at, line), (_, after) in pairwise(shown):
        has_source = after.startswith("source = ", 1)
        if _IN_CARGO_LOCK.match(line, 1) and not has_source and not after.startswith("@@"):
            yield at, "version"


def _is_of_lock(keys: list[str]) -> bool:
    """Directly in the lock file's object, and in its entry for the project."""
    return keys == ["{"] or keys[-1:] == [""]


_OWN_VERSIONS: Mapping[str, Callable[[Sequence[str]], _Masked]] = {
    # The manifest's object may begin before a hunk does.
    "package.json": lambda lines: _mask_json(lines, lambda keys: keys in ([], ["{"])),
    "composer.json": _mask_composer,
    "package-lock.json": lambda lines: _mask_json(lines, _is_of_lock),
    "npm-shrinkwrap.json": lambda lines: _mask_json(lines, _is_of_lock),
    "pom.xml": _mask_pom,
    "cargo.lock": _mask_cargo_lock,
}
