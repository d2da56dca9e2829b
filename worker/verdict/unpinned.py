"""Which line of a repository names a package or an image without saying which version. Pure.

What was installed may differ from the last run that passed though nobody changed a line: then the
line that let it drift is the one to change.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

MOST_NAMES = 40
"""The most packages that are looked for."""

_MOST_NAME, _MOST_TEXT, _LONGEST = 100, 256 * 1024, 400
_SHOWN = 80

_FALLBACKS: Mapping[str, tuple[str, ...]] = {
    "pip": ("requirements.txt", "pyproject.toml"),
    "npm": ("package.json",),
    "yarn": ("package.json",),
    "pnpm": ("package.json",),
    "bundle": ("Gemfile",),
    "tox": ("tox.ini",),
    "docker": ("Dockerfile",),
}
"""The files that a command of a script reads what to install from."""

_REQUIRED = re.compile(
    r"(?:-r|-c|--requirements?|--constraints?)[ =]\s{0,2}([\w.][\w./-]{0,200}\.(?:txt|in|pip))\b"
)
_COMMAND = re.compile(
    r"^\$ (?:.{0,200}[ ;&])?(pip3?|npm|yarn|pnpm|bundle|tox|docker) ", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class UnpinnedLine:
    """Line `line` of the file `path`, whose `text` names the package `name` and no one version."""

    name: str
    path: str
    line: int
    text: str


def list_requirement_files(log: str) -> list[str]:
    """Return the paths of the files that a job's script may install from: those that its log names,
    the CI configuration, then those that the commands it echoes read."""
    named = (path.removeprefix("./") for path in _REQUIRED.findall(log))
    plain = (path for path in named if {"", ".", ".."}.isdisjoint(path.split("/")))
    commands = (command.removesuffix("3") for command in _COMMAND.findall(log))
    usual = (path for command in commands for path in _FALLBACKS[command])
    return list(dict.fromkeys((*plain, ".gitlab-ci.yml", *usual)))


def find_unpinned(path: str, text: str, names: Iterable[str]) -> Iterator[UnpinnedLine]:
    """Yield, for each of the packages, the first line of a file that names it unpinned."""
    file = path.rpartition("/")[2].lower()
    lines = [line[:_LONGEST] for line in text[:_MOST_TEXT].split("\n")]
    plain = [_make_plain(line) for line in lines]
    for name in dict.fromkeys([*names][:MOST_NAMES]):
        wanted = _make_plain(name[:_MOST_NAME])
        # pip takes `-`, `_` and `.` for the same.
        words = "[-_.]+".join(map(re.escape, _SEPARATORS.split(name[:_MOST_NAME])))
        mention = re.compile(rf"(?<![\w./@-]){words}(?![\w/-]|\.\w)", re.IGNORECASE)
        for number, line in enumerate(lines, 1):
            if wanted not in plain[number - 1]:
                continue
            bare = _COMMENT.sub("", line)
            found = mention.search(bare)
            if found and _is_unpinned(file, bare, found):
                yield UnpinnedLine(
                    name, path, number, bare.strip(" \t\r,").removeprefix("- ")[:_SHOWN]
                )
                break


_COMMENT = re.compile(r"(?:^|\s)(?:#|//).*")
_SEPARATORS = re.compile(r"[-_.]+")


def _make_plain(text: str) -> str:
    return _SEPARATORS.sub("-", text.lower())


_EXACT = re.compile(r"(?:\[[^\]]{0,100}\])?\s{0,4}(?:={2,3}\s{0,4}[\w!.+-]{1,60}+(?!\*)|@\s)")
_PLAIN = re.compile(r"\s{0,40}$")
_QUOTED = re.compile(r"[\"']\s{0,4}[:,]\s{0,4}[\"'](?P<version>[^\"']{0,100})[\"']")
_KEYED = re.compile(r"\s{0,20}=\s{0,20}[\"'](?P<version>[^\"']{0,100})[\"']")
_ITEM_ENDS = re.compile(r"(?:\[[^\]]{0,100}\])?\s{0,4}(?:[\"'<>=~!,;\]]|$)")
_ONE_VERSION = re.compile(r"=?\s?v?\d+\.\d+\.\d[\w.+-]{0,60}$")
_INSTALLS = re.compile(r"\b(?:install|add|i|dlx|npx|uvx|pipx run)\s(?:.{0,300}[\s\"'])?$")
_VERSION_AFTER = re.compile(r"(?:\[[^\]]{0,100}\])?(?:==?|@v?|:v?|~=)\d")
_IMAGE = re.compile(
    r"(?:^|[\s{-])(?:image:|name:|FROM\s)\s{0,10}[\"']?(?:[\w.:-]{1,200}/){0,8}$", re.I
)
_EXACT_TAG = re.compile(r"(?::[\w.-]{1,128})?@sha256:|:v?\d+\.\d+\.\d")


def _is_unpinned(file: str, line: str, found: re.Match[str]) -> bool:
    """Whether a line, which names a package at the match, requires no one version of it; `file` is
    the name of the line's file in lower case."""
    start, end = found.span()
    before = line[:start]
    if file.endswith((".txt", ".in", ".pip")):
        return bool(_PLAIN.match(before)) and not _EXACT.match(line, end)
    if file in ("package.json", "composer.json", "gemfile"):
        # A key with a range, or `gem "name", "range"`.
        spec = _QUOTED.match(line, end)
        is_open = not _ONE_VERSION.match(spec["version"]) if spec else "gem " in before
        return before.endswith(("'", '"')) and is_open
    if file in ("pyproject.toml", "setup.cfg", "tox.ini"):
        # An item of a list, or a key with a version.
        opening = before.rstrip("\"' \t")
        if opening and not opening.endswith(("[", ",", "=")):
            return False
        if keyed := _KEYED.match(line, end):
            return not _ONE_VERSION.match(keyed["version"])
        return bool(_ITEM_ENDS.match(line, end)) and not _EXACT.match(line, end)
    if _IMAGE.search(before):
        return not _EXACT_TAG.match(line, end) and not _EXACT_TAG.search(found[0])
    return bool(_INSTALLS.search(before)) and not _VERSION_AFTER.match(line, end)
