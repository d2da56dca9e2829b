"""Which line of a repository names a package or an image without saying which version. Pure.

What was installed may differ from the last run that passed though nobody changed a line: then the
line that let it drift is the one to change.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
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
    is_unpinned = _choose_form(path)
    lines = [line[:_LONGEST] for line in text[:_MOST_TEXT].split("\n")]
    plain = [_make_plain(line) for line in lines]
    for name in dict.fromkeys([*names][:MOST_NAMES]):
        mention, wanted = _make_mention(name), _make_plain(name[:_MOST_NAME])
        for number, line in enumerate(lines, 1):
            if wanted not in plain[number - 1]:
                continue
            bare = _COMMENT.sub("", line)
            found = mention.search(bare)
            if found and is_unpinned(bare, found):
                yield UnpinnedLine(
                    name, path, number, bare.strip(" \t\r,").removeprefix("- ")[:_SHOWN]
                )
                break


_COMMENT = re.compile(r"(?:^|\s)(?:#|//).*")
_SEPARATORS = re.compile(r"[-_.]+")


def _make_plain(text: str) -> str:
    return _SEPARATORS.sub("-", text.lower())


def _make_mention(name: str) -> re.Pattern[str]:
    """Return a pattern for a name as files write it: pip takes `-`, `_` and `.` for the same."""
    words = [re.escape(word) for word in _SEPARATORS.split(name[:_MOST_NAME])]
    return re.compile(rf"(?<![\w./@-]){'[-_.]+'.join(words)}(?![\w/-]|\.\w)", re.IGNORECASE)


Form = Callable[[str, re.Match[str]], bool]
"""Whether a line, which names a package at the match, requires no one version of it."""

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


def _is_unpinned_requirement(line: str, found: re.Match[str]) -> bool:
    return bool(_PLAIN.match(line[: found.start()])) and not _EXACT.match(line, found.end())


def _is_unpinned_range(line: str, found: re.Match[str]) -> bool:
    """Whether a manifest's key or its `gem "name", "range"` leaves the version open."""
    quote = line[found.start() - 1 : found.start()]
    if quote not in ("'", '"') or found.start() == 0:
        return False
    spec = _QUOTED.match(line, found.end())
    if spec:
        return not _ONE_VERSION.match(spec["version"])
    return "gem " in line[: found.start()]


def _is_unpinned_list(line: str, found: re.Match[str]) -> bool:
    """Whether an item of a list, or a key with a version, leaves the version open."""
    before = line[: found.start()].rstrip("\"' \t")
    if before and not before.endswith(("[", ",", "=")):
        return False
    if keyed := _KEYED.match(line, found.end()):
        return not _ONE_VERSION.match(keyed["version"])
    return bool(_ITEM_ENDS.match(line, found.end())) and not _EXACT.match(line, found.end())


def _is_unpinned_command(line: str, found: re.Match[str]) -> bool:
    """Whether a command installs the package, or a line names the image, without a version."""
    before = line[: found.start()]
    if _IMAGE.search(before):
        return not _EXACT_TAG.match(line, found.end()) and not _EXACT_TAG.search(found[0])
    return bool(_INSTALLS.search(before)) and not _VERSION_AFTER.match(line, found.end())


def _choose_form(path: str) -> Form:
    name = path.rpartition("/")[2].lower()
    if name.endswith((".txt", ".in", ".pip")):
        return _is_unpinned_requirement
    if name in ("package.json", "composer.json", "gemfile"):
        return _is_unpinned_range
    if name in ("pyproject.toml", "setup.cfg", "tox.ini"):
        return _is_unpinned_list
    return _is_unpinned_command
