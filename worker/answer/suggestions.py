"""Reads the changes that a model suggests from its answer, and finds their places on the diff.

The workflow asks for a block of code under "What to do", opened by

    ```suggestion path/of/the/file.py:41-42 A

that holds the new lines. Blocks with the same letter only work together and are one change, if
they are near each other. A block that does not fit the diff is shown as text. A line `Check: …`
above the block says what somebody must check before it is applied.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import pairwise

from worker.safety.sentences import before_code
from worker.verdict.diffs import Changes, Position, read_hunks

MAX_LINES = 100
"""The most lines above its own that a suggestion may replace, see
https://docs.gitlab.com/user/project/merge_requests/reviews/suggestions/."""

_MAX_BETWEEN = 25
"""The most unchanged lines between two places of one suggestion: a reader has to look through
them."""

MAX_TEXT = 8_000
"""The most characters of a replacement."""

_OPENING = re.compile(
    r"[ ]{0,3}(?P<fence>`{3,}|~{3,})[ ]*suggestion[ ]+"
    # A path may have almost any character, like app/[slug]/$id.tsx. None is a colon: a number after
    # one would be taken for the line.
    r"(?P<path>[^\s\x00-\x1f\x7f-\x9f`:][^\x00-\x1f\x7f-\x9f\u2028\u2029`:]{0,300}?)"
    r":(?P<first>\d{1,7})(?:-(?P<last>\d{1,7}))?"
    r"(?:[ \t]{1,8}[(\[]?(?P<group>[A-Za-z0-9]{1,20})[)\]]?)?[ \t]*$"
)
_STAND_IN = re.compile(r"\[redacted: |<U\+[0-9A-F]{4,6}>|\ufffd")
"""What we show in place of secrets, of invisible characters, and of bytes that are not UTF-8."""

_CAUTION = re.compile(
    r"[ ]{0,3}(?:[-*>] )?[*_]{0,2}Check[*_]{0,2}:[*_]{0,2} +(\S.*)", re.IGNORECASE
)
MAX_CAUTION = 220
"""The most characters of what must be checked before a suggestion is applied."""

_LONGEST_COMPARED = 300
"""Characters of a line that is compared with others."""

_LIKE = 0.8
"""How alike two lines are, of 1, of which one is the other with another value."""

_KEY = re.compile(r"[^\s:=(]+")

_POINTER = re.compile(r"\bas (?:shown |given |written )?below\b")


@dataclass(frozen=True, slots=True)
class Suggestion:
    """`text` replaces the lines `first` to `last` of the file at the head commit.

    Suggestions of one `group` only work together; "" is for one that works alone. `caution` says
    what must be checked before it is applied.
    """

    path: str
    first: int
    last: int
    text: str
    group: str = ""
    caution: str = ""

    @property
    def lines(self) -> list[str]:
        """The new lines; none if the old ones are to be deleted."""
        return self.text.split("\n") if self.text else []


@dataclass(frozen=True, slots=True)
class NotOnDiff:
    """Why a change is in the note and not on the diff; "" if it was not meant for the diff."""

    reason: str


Change = tuple[Suggestion, ...]
"""Suggestions that must be applied together; usually only one."""


@dataclass(frozen=True, slots=True)
class Offers:
    """What became of an answer's changes.

    `links` are the changes that are on the diff: the file's name with the line, and the URL.
    `left_out_count` counts the suggestions that are not; `text` shows these as Markdown, each
    change with its reason.
    """

    links: tuple[tuple[str, str], ...] = ()
    left_out_count: int = 0
    text: str = ""


def name_place(change: Change) -> str:
    """Return a short name for the places of a change in order, as `app.py:12` or
    `app.py:12-15, 30`."""
    places: dict[str, list[str]] = {}
    for fix in sorted(change, key=lambda fix: (fix.path, fix.first)):
        lines = f"{fix.first}" if fix.last == fix.first else f"{fix.first}-{fix.last}"
        places.setdefault(fix.path.rpartition("/")[2], []).append(lines)
    return "; ".join(f"{name}:{', '.join(lines)}" for name, lines in places.items())


def read_suggestions(text: str) -> tuple[str, tuple[Suggestion, ...]]:
    """Return `text` without its suggestions, and the suggestions.

    "As shown below" becomes "as in the fix", and a line that announced a suggestion ends in a full
    stop.
    """
    found, kept = list[Suggestion](), list[str]()
    for part in _split_text(text):
        if isinstance(part, Suggestion):
            found.append(part)
            before = "\n".join(kept).rstrip()
            before = f"{before[:-1]}." if before.endswith(":") else before
            kept = [*before.split("\n"), ""] if before else []
        else:
            kept.append(part)
    prose = "\n".join(kept).strip()
    return _POINTER.sub("as in the fix", prose) if found else prose, tuple(found)


def write_in_place(text: str) -> str:
    """Return `text` with each suggestion as a plain block of code, below its file and lines."""
    kept, below = list[str](), False
    for part in _split_text(text):
        if isinstance(part, Suggestion):
            kept += [*[""] * bool(kept and kept[-1].strip()), _write_block(part, ""), ""]
        elif part.strip() or not below:
            kept.append(part)
        below = isinstance(part, Suggestion)
    return "\n".join(kept)


def _split_text(text: str) -> Iterator[str | Suggestion]:
    """Yield the suggestions of a text and its other lines, in order."""
    lines, at = text.split("\n"), 0
    while at < len(lines):
        caution = _CAUTION.match(lines[at])
        start = at + 1 if caution else at
        if caution and start < len(lines) and not lines[start].strip():
            start += 1
        opening = _OPENING.match(lines[start]) if start < len(lines) else None
        end = _find_fence_end(lines, start + 1, opening["fence"]) if opening else None
        if opening and end:
            first, last = int(opening["first"]), int(opening["last"] or opening["first"])
            text, said = "\n".join(lines[start + 1 : end]), caution[1] if caution else ""
            said = said[:MAX_CAUTION].strip()
            yield Suggestion(opening["path"], first, last, text, opening["group"] or "", said)
            at = end + 1
        else:
            yield lines[at]
            at += 1


def _find_fence_end(lines: list[str], at: int, fence: str) -> int | None:
    """Return the number of the line that closes the fence, None if none does."""
    for number in range(at, len(lines)):
        line = lines[number].strip()
        if len(line) >= len(fence) and not line.strip(fence[0]):
            return number
    return None


def split_code(text: str) -> tuple[str, str]:
    """Return a section's prose before its first block of code, and the rest.

    Lines that announce the block or say what to check before it is applied belong to the rest.
    """
    prose = before_code(text)
    if prose == text:
        return text, ""
    lines = prose.split("\n")
    while lines and (
        not lines[-1].strip() or _CAUTION.match(lines[-1]) or lines[-1].rstrip().endswith(":")
    ):
        lines.pop()
    prose = "\n".join(lines).rstrip()
    return prose, text[len(prose) :].lstrip("\n")


def group_changes(found: Iterable[Suggestion]) -> tuple[Change, ...]:
    """Return the suggestions as changes, in the order of their first suggestions.

    Places of one file that are too far apart are changes of their own, which say so.
    """
    changes: dict[str, list[Suggestion]] = {}
    for number, fix in enumerate(found):
        changes.setdefault(fix.group.lower() or f"alone {number}", []).append(fix)
    return tuple(part for change in changes.values() for part in _split_far_places(change))


def _split_far_places(change: Sequence[Suggestion]) -> list[Change]:
    if len({fix.path for fix in change}) > 1:
        return [tuple(change)]
    parts: list[list[Suggestion]] = []
    for fix in sorted(change, key=lambda fix: fix.first):
        if parts and fix.first - parts[-1][-1].last - 1 <= _MAX_BETWEEN:
            parts[-1].append(fix)
        else:
            parts.append([fix])
    if len(parts) == 1:
        return [tuple(change)]
    names = [name_place(tuple(part)) for part in parts]
    for at, part in enumerate(parts):
        others = ", ".join(name for other, name in enumerate(names) if other != at)
        warning = f"It only works together with {others}."
        part[0] = replace(part[0], caution=" ".join(filter(None, [part[0].caution, warning])))
    return [tuple(part) for part in parts]


def write_text(change: Change, reason: str) -> str:
    """Return the change as Markdown; `reason` says why it is not on the diff, "" if it need not
    be."""
    why = f"not on the diff: {reason}" if reason else ""
    if len(change) == 1:
        return _write_block(change[0], why)
    title = f"These {len(change)} belong together{f' ({why})' if why else ''}:"
    return "\n\n".join([title, *(_write_block(fix, "") for fix in change)])


def _write_block(fix: Suggestion, why: str) -> str:
    place = f"Replace {_name_lines(fix)} of `{fix.path}`{f' ({why})' if why else ''} with:"
    runs = re.findall("`{3,}", fix.text)
    fence = "`" * max([3, *(len(run) + 1 for run in runs)])
    caution = f"\n\nCheck: {fix.caution}" if fix.caution else ""
    return f"{place}\n\n{fence}\n{fix.text}\n{fence}{caution}"


def combine_change(change: Change, lines: Callable[[str], Sequence[str]]) -> Suggestion | NotOnDiff:
    """Return the change as one suggestion, or why it cannot be one.

    `lines` returns a file's lines at the head commit; those between the suggestions are needed.
    These lines, and what a suggestion copies of them, are as we show them: a placeholder in them
    would be written into the file.
    """
    if any(_STAND_IN.search(fix.text) for fix in change):
        return NotOnDiff("it has a placeholder in place of the file's own text")
    if len(change) == 1:
        return change[0]
    if len({fix.path for fix in change}) > 1:
        return NotOnDiff("one suggestion is for one file")
    parts = sorted(change, key=lambda fix: fix.first)
    if any(before.last >= after.first for before, after in pairwise(parts)):
        return NotOnDiff("they replace the same lines")
    path, first, last = parts[0].path, parts[0].first, parts[-1].last
    if last - first > MAX_LINES:
        return NotOnDiff(f"they are too far apart: one suggestion replaces {MAX_LINES} lines")
    between = lines(path)[first - 1 : last]
    if len(between) < last - first + 1 or any(map(_STAND_IN.search, between)):
        return NotOnDiff("the lines between them cannot be shown")
    moved = [Suggestion("", fix.first - first + 1, fix.last - first + 1, fix.text) for fix in parts]
    text = "\n".join(apply_suggestions(moved, between) or ())
    cautions = dict.fromkeys(fix.caution for fix in change if fix.caution)
    return Suggestion(path, first, last, text, caution=" ".join(cautions))


def apply_suggestions(fixes: Iterable[Suggestion], lines: Sequence[str]) -> list[str] | None:
    """Return the lines of a file after the changes; None if these do not fit it or each other."""
    changed, end = list(lines), len(lines) + 1
    for fix in sorted(fixes, key=lambda fix: fix.first, reverse=True):
        if not 0 < fix.first <= fix.last < end:
            return None
        changed[fix.first - 1 : fix.last] = fix.lines
        end = fix.first
    return changed


def find_change_position(change: Change, changes: Changes) -> Position | NotOnDiff:
    """Return the last place that the change has on the diff, or why it has none there.

    If the change has several suggestions, the others may be elsewhere in the file.
    """
    places = [_find_position(fix, changes) for fix in sorted(change, key=lambda fix: fix.first)]
    found = max(places, key=lambda each: isinstance(each, Position) and each.new_line)
    if isinstance(found, NotOnDiff):
        return found
    files = (file for file in changes.files if file.new_path == change[0].path)
    if len(change) > 1 and any("\r\n" in file.diff for file in files):
        return NotOnDiff("the lines between them end in CR LF")
    return found


def is_on_diff(change: Change, changes: Changes) -> bool:
    """Whether the change is to one file, and has a place on the diff."""
    is_of_one_file = len({fix.path for fix in change}) == 1
    return is_of_one_file and isinstance(find_change_position(change, changes), Position)


def _find_position(fix: Suggestion, changes: Changes) -> Position | NotOnDiff:
    """Return the suggestion's place on the diff, or why it has none there.

    Every line it replaces must be shown by the diff, added or unchanged, in one piece.
    """
    if not 0 < fix.first <= fix.last or fix.last - fix.first > MAX_LINES:
        return NotOnDiff(f"{_name_lines(fix)} cannot be replaced at once")
    if len(fix.text) > MAX_TEXT:
        return NotOnDiff(f"the replacement has {len(fix.text)} characters")
    file = next((each for each in changes.files if each.new_path == fix.path), None)
    if file is None:
        return NotOnDiff("the diff does not show this file")
    shown = {line.new: line for line in read_hunks(file.diff) if line.sign != "-"}
    lines = [shown.get(number) for number in range(fix.first, fix.last + 1)]
    there = [line for line in lines if line]
    if len(there) < len(lines) or len({line.hunk for line in there}) > 1:
        return NotOnDiff(
            f"the diff does not show {'it' if fix.first == fix.last else 'them in one piece'}"
        )
    if "\n".join(line.text for line in there) == fix.text:
        return NotOnDiff("it changes nothing")
    if meant := _find_meant_line(fix, {number: line.text for number, line in shown.items()}):
        return NotOnDiff(f"it reads like a change of line {meant}")
    return Position(
        base_sha=changes.base_sha,
        start_sha=changes.start_sha,
        head_sha=changes.head_sha,
        old_path=file.old_path,
        new_path=file.new_path,
        new_line=fix.last,
        old_line=there[-1].old if there[-1].sign == " " else None,
    )


def _find_meant_line(fix: Suggestion, shown: Mapping[int, str]) -> int:
    """Return the line that a change of one line into one seems to have meant, 0 if its own one.

    Model and log may count from different ends: to replace the line beside would delete that one
    and leave the fault.
    """
    if fix.first != fix.last or len(fix.lines) != 1 or len(fix.text) > _LONGEST_COMPARED:
        return 0
    own, key = shown.get(fix.first, ""), _KEY.match(fix.text.strip())
    if not key or own.strip().startswith(key[0]):
        return 0
    for distance in (-1, 1, -2, 2, -3, 3):
        line = shown.get(fix.first + distance, "")[:_LONGEST_COMPARED].strip()
        same = _KEY.match(line)
        matcher = SequenceMatcher(None, line, fix.text.strip(), autojunk=False)
        if same and same[0] == key[0] and matcher.ratio() >= _LIKE:
            return fix.first + distance
    return 0


def _name_lines(fix: Suggestion) -> str:
    return f"line {fix.first}" if fix.first == fix.last else f"lines {fix.first} to {fix.last}"
