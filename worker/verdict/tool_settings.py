"""Which lines of a manifest's diff are a tool's settings, which change nothing that is installed.

A manifest is shared: `pyproject.toml` configures linters, `package.json` names scripts, a plug-in
of Maven's has a `<configuration>`. What encloses a line is known as far as its hunk shows. Pure.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

Enclosed = Iterator[tuple[int, tuple[str, ...]]]
"""The numbers of a diff's lines, each with the names of what encloses the line in its hunk."""

_SECTION = re.compile(r"\s{0,20}\[{1,2}\s{0,4}([^\[\]]{1,200}?)\s{0,4}\]{1,2}\s*(?:#.*)?$")
_JSON = re.compile(r'(?:"(?P<key>[^"\\]{0,200})"\s*:\s*)?(?P<opens>[{\[])|(?P<closes>[}\]])')
_DEEPEST = 20
"""The most elements around one line that are looked at."""

_TAG = re.compile(r"<(?P<closes>/?)(?P<name>[A-Za-z][\w.:-]{0,100})(?P<rest>[^<>]{0,400})")


def drop_settings(path: str, diff: str) -> str:
    """Return the diff of a manifest with each changed line that is a tool's setting as a line that
    did not change."""
    form = _FORMS.get(path.rpartition("/")[2].lower())
    if form is None:
        return diff
    find, is_setting = form
    lines, settings = diff.split("\n"), set[int]()
    for other in "+-":  # the file as it was, then as it is
        side = ["" if line.startswith(other) else line for line in lines]
        settings |= {at for at, names in find(side) if side[at] and is_setting(names)}
    return "\n".join(" " + line[1:] if at in settings else line for at, line in enumerate(lines))


def _find_sections(lines: Sequence[str]) -> Enclosed:
    section: tuple[str, ...] = ()
    for at, line in enumerate(lines):
        if line.startswith("@@"):
            section = ()
        elif found := _SECTION.match(line, 1):
            section = (found[1],)
        else:
            yield at, section


def _find_keys(lines: Sequence[str]) -> Enclosed:
    keys: list[str] = []
    for at, line in enumerate(lines):
        if line.startswith("@@"):
            keys = []
            continue
        yield at, tuple(filter(None, keys[-_DEEPEST:]))
        for found in _JSON.finditer(line, 1):
            if found["opens"]:
                keys.append(found["key"] or "")
            else:
                keys[-1:] = []


def _find_elements(lines: Sequence[str]) -> Enclosed:
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
        for tag in _TAG.finditer(line, 1):
            if not tag["closes"]:
                stack += [] if tag["rest"].endswith("/") else [tag["name"]]
            elif stack:
                stack.pop()
            elif len(above) < _DEEPEST:
                above.append((at, tag["name"]))


_INSTALLED = re.compile(
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
    return bool(names) and not any(map(_INSTALLED.search, names))


def _is_plugins(names: Sequence[str]) -> bool:
    return "configuration" in names and _RESOLVED.isdisjoint(names)


_FORMS: Mapping[
    str, tuple[Callable[[Sequence[str]], Enclosed], Callable[[Sequence[str]], bool]]
] = {
    "pyproject.toml": (_find_sections, _is_tools),
    "setup.cfg": (_find_sections, _is_tools),
    "cargo.toml": (_find_sections, _is_tools),
    "package.json": (_find_keys, _is_tools),
    "composer.json": (_find_keys, _is_tools),
    "pom.xml": (_find_elements, _is_plugins),
}
