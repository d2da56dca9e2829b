"""Who owns a path, by the rules of a CODEOWNERS file as GitLab reads them. Pure.

Owners are plain words (`mara`, `group/team`, `developers of the project`, an e-mail address): a
name that GitLab would notify is never returned with its `@`. Whether somebody of that name exists
is not known here. See https://docs.gitlab.com/user/project/codeowners/reference/.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

PLACES = ("CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS")
"""Where the file may lie; the first one that is there holds."""

MOST_CHARACTERS, MOST_LINES, MOST_PATHS = 1_000_000, 5_000, 50
"""What is read of a file, and how many paths are looked up."""

_LONGEST_LINE = 1_000

_DEFAULT = "codeowners"
"""The section of the lines before the first heading."""

_HEADING = re.compile(r"\^?\[(.*?)\](?:\[[\s\d]*\])?([@\w.\-/\s]*)", re.ASCII)
_BROKEN_HEADING = re.compile(r"\^?\[")
_BLANK = re.compile(r"(?<!\\)\s+")

_ROLE = re.compile(r"@@(developer|maintainer|owner)s?", re.IGNORECASE)
_NAME = re.compile(r"@([A-Za-z0-9_.][\w.\-/]{0,254})", re.ASCII)
_EMAIL = re.compile(r"[^\s@<>]{1,100}@[^\s@<>]{1,254}")


@dataclass(frozen=True, slots=True)
class _Rule:
    """A line of a section: the parts of its pattern between slashes, and whom it names."""

    parts: tuple[str, ...]
    owners: tuple[str, ...]
    excludes: bool
    """Whether the section has no owners for what matches, whatever its other lines say."""


def list_owners(text: str, paths: Iterable[str]) -> tuple[str, ...]:
    """Return the owners of any of `paths` (the first MOST_PATHS) by a CODEOWNERS file, each once.

    In every section the last line that matches holds, so that a path may have the owners of
    several sections.
    """
    some = tuple(dict.fromkeys(paths))[:MOST_PATHS]
    return tuple(dict.fromkeys(chain.from_iterable(map_owners(text, some).values())))


def map_owners(text: str, paths: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the owners of each path, in the order of the sections."""
    sections = _parse_sections(text)
    return {path: _find_owners(sections, tuple(path.lstrip("/").split("/"))) for path in paths}


def _find_owners(sections: Iterable[Sequence[_Rule]], steps: tuple[str, ...]) -> tuple[str, ...]:
    found = chain.from_iterable(_find_in_section(rules, steps) for rules in sections)
    return tuple(dict.fromkeys(found))


def _find_in_section(rules: Sequence[_Rule], steps: tuple[str, ...]) -> tuple[str, ...]:
    matching = [rule for rule in rules if _match_path(rule.parts, steps)]
    if not matching or any(rule.excludes for rule in matching):
        return ()
    return matching[-1].owners


# ------------------------------------------------------------------------------------- the file


def _parse_sections(text: str) -> list[tuple[_Rule, ...]]:
    sections: dict[str, dict[str, _Rule]] = {_DEFAULT: {}}
    current, default_owners = _DEFAULT, ""
    for line in _list_lines(text):
        if heading := _HEADING.match(line):
            current, default_owners = _name_section(sections, heading[1]), heading[2]
            sections.setdefault(current, {})
        elif not _BROKEN_HEADING.match(line):
            pattern, rule = _parse_rule(line, default_owners)
            # A pattern that is there already keeps its place, and gets the new owners; what is
            # excluded stays so.
            sections[current][f"{rule.excludes} {pattern}"] = rule
    return [tuple(rules.values()) for rules in sections.values()]


def _list_lines(text: str) -> Iterator[str]:
    for line in text[:MOST_CHARACTERS].split("\n")[:MOST_LINES]:
        line = line.strip()
        if line and not line.startswith("#") and len(line) <= _LONGEST_LINE:
            yield line


def _name_section(sections: Iterable[str], name: str) -> str:
    """Return the name that the section has already, in whatever case, or `name`."""
    known = tuple(sections)
    if known[-1] == _DEFAULT:
        return name
    return next((each for each in known if each.casefold() == name.casefold()), name)


def _parse_rule(line: str, default_owners: str) -> tuple[str, _Rule]:
    pattern, *owners = _BLANK.split(line, maxsplit=1)
    excludes = pattern.startswith("!")
    pattern = _complete_pattern(pattern.removeprefix("!"))
    named = "" if excludes else (owners[0] if owners else default_owners)
    parts = tuple(pattern.removeprefix("/").split("/"))
    return pattern, _Rule(parts, _read_owners(named), excludes)


def _complete_pattern(pattern: str) -> str:
    """Return a pattern from the repository's top: without a slash in front it holds anywhere, with
    one at its end for all below."""
    if pattern == "*":
        return "/**/*"
    if pattern.startswith("\\#"):
        pattern = pattern[1:]
    pattern = re.sub(r"\\\s+", " ", pattern)
    if not pattern.startswith("/"):
        pattern = f"/**/{pattern}"
    return f"{pattern}**/*" if pattern.endswith("/") else pattern


def _read_owners(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (_read_owner(word.rstrip(",;")) for word in text.split())))


def _read_owner(word: str) -> str:
    """Return an owner as a plain word, "" for what GitLab would not take for one."""
    if role := _ROLE.fullmatch(word):
        return f"{role[1].lower()}s of the project"
    if name := _NAME.fullmatch(word):
        return name[1]
    return word if _EMAIL.fullmatch(word) else ""


# ---------------------------------------------------------------------------------- the patterns


def _match_path(parts: Sequence[str], steps: Sequence[str]) -> bool:
    """Whether a pattern matches a path; `**` between slashes stands for any number of folders.

    Only the last `**` is tried again, which finds every match and takes no longer than the product
    of both lengths: patterns are strangers' text.
    """
    at = step = 0
    again: tuple[int, int] | None = None
    while True:
        while parts[at] == "**" and at + 1 < len(parts):
            at += 1
            again = at, step
        if step < len(steps) and _match_step(parts[at], steps[step]):
            at, step = at + 1, step + 1
            if at == len(parts) and step == len(steps):
                return True
            if at < len(parts) and step < len(steps):
                continue
        if again is None or again[1] + 1 >= len(steps):
            return False
        at, step = again = again[0], again[1] + 1


def _match_step(part: str, step: str) -> bool:
    """Whether one part of a pattern matches one folder's or file's name; names that begin with a
    dot are no exception. Only the last `*` is tried again."""
    at = letter = 0
    again: tuple[int, int] | None = None
    while letter < len(step) or at < len(part):
        if at < len(part) and part[at] == "*":
            at += 1
            again = at, letter
            continue
        end = _match_letter(part, at, step[letter]) if letter < len(step) else 0
        if end:
            at, letter = end, letter + 1
            continue
        if again is None or again[1] >= len(step):
            return False
        at, letter = again = again[0], again[1] + 1
    return True


def _match_letter(part: str, at: int, letter: str) -> int:
    """Return where the pattern goes on after what stands for `letter` at `at`; 0 if it does not."""
    if at >= len(part):
        return 0
    if part[at] == "?":
        return at + 1
    if part[at] == "[":
        return _match_set(part, at + 1, letter)
    if part[at] == "\\" and at + 1 < len(part):
        at += 1
    return at + 1 if part[at] == letter else 0


def _match_set(part: str, at: int, letter: str) -> int:
    """Like `_match_letter`, for a set in brackets from its first character on; one that is not
    closed matches nothing."""
    negated = part[at : at + 1] in ("!", "^")
    at += negated
    found = False
    while at < len(part) and part[at] != "]":
        first, at = _read_set_letter(part, at)
        last = first
        if part[at : at + 1] == "-" and part[at + 1 : at + 2] not in ("]", ""):
            last, at = _read_set_letter(part, at + 1)
        found = found or (bool(first) and first <= letter <= last)
    return at + 1 if at < len(part) and found != negated else 0


def _read_set_letter(part: str, at: int) -> tuple[str, int]:
    if part[at] == "\\":
        at += 1
    return part[at : at + 1], at + 1
