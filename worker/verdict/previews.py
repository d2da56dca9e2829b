"""The previews of a unified diff and of a source file that are too long to be shown whole: what an
error names comes first. Pure.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from worker.logs.named_places import find_places
from worker.verdict.changed_files import find_touches, select_lines
from worker.verdict.diffs import (
    HUNK,
    FileChange,
    find_defining_lines,
    is_dependency,
    is_docs,
    is_test,
)

_MAX_LINE = 500
"""The most characters of one line of a hunk that is shown in part."""

_FILE = "diff --git "
_LEAST = 300  # the least bytes in which a part of a hunk is shown
_SUMMARY = 40
"""The most per cent of a preview that the list of files may take. That a file is not among them may
matter more than a hunk."""

_MARK = 64  # bytes reserved for a line that says what is left out


def preview_diff(diff: str, error: str, project: str, limit: int) -> str:
    """Return a diff of at most `limit` bytes whole; of a longer one its summary and hunks that fit.

    The number in the new file stands before each added and unchanged line, as in `   12 +text`.

    Hunks with lines that the text of an `error` names come first, then those of files that it names
    or whose tests it names, then those of other source files, of tests, and of documents and
    manifests; among equals, small ones first. `project` is the project's path.
    """
    if len(diff.encode()) <= limit:
        return "\n".join(_number_lines(diff.split("\n")))
    head, _, rest = diff.partition(f"\n{_FILE}")
    summary = head.split("\n")
    kept: list[str] = []
    room = limit * _SUMMARY // 100 - _MARK
    for line in summary:
        room -= len(line.encode()) + 1
        if room < 0:
            break
        kept.append(line)
    if left := len(summary) - len(kept):
        kept.append(f"[… {left:,} more lines …]")
    heading = "\n".join(kept)
    hunks = _rank_hunks(_split_hunks(f"{_FILE}{rest}".split("\n")), error, project)
    shown = _choose_fitting(hunks, limit - len(heading.encode()) - _MARK)
    parts = [heading]
    for file, some in groupby(shown, key=lambda hunk: hunk.heading):
        parts += [file, *(line for hunk in some for line in hunk.lines)]
    if left := len(hunks) - len(shown):
        parts.append(f"[… {left:,} of {len(hunks):,} hunks are not shown …]")
    return "\n".join(parts)


def _number_lines(lines: Sequence[str]) -> Iterator[str]:
    number, inside = 0, False
    for line in lines:
        if hunk := HUNK.match(line):
            number, inside = int(hunk["new"]), True
            yield line
        elif not inside or line.startswith(_FILE):
            inside = False
            yield line
        elif line[:1] in ("+", " "):
            yield f"{number:>5} {line}"
            number += 1
        else:
            yield f"{'':5} {line}" if line else line


@dataclass(frozen=True, slots=True)
class _Hunk:
    """A hunk: its place in the diff, its file, and its lines.

    `named` are the indexes in `lines` of the lines that the error names.
    """

    place: int
    path: str
    heading: str
    lines: tuple[str, ...]
    named: tuple[int, ...] = ()
    rank: int = 0

    @property
    def size(self) -> int:
        return sum(len(line.encode()) + 1 for line in self.lines)


def _split_hunks(lines: Sequence[str]) -> list[_Hunk]:
    """Return the hunks of all files of a diff, in order."""
    found: list[_Hunk] = []
    start, heading, path = 0, "", ""
    for at in range(len(lines) + 1):
        ends = at == len(lines) or lines[at].startswith(_FILE) or HUNK.match(lines[at])
        if not ends:
            continue
        if path and HUNK.match(lines[start]):
            found.append(_Hunk(len(found), path, heading, tuple(lines[start:at])))
        if at < len(lines) and lines[at].startswith(_FILE):
            heading, path = lines[at], lines[at].rpartition(" b/")[2]
        start = at
    return found


def _rank_hunks(hunks: Sequence[_Hunk], error: str, project: str) -> list[_Hunk]:
    """Return the hunks with their rank, the most relevant to the error first."""
    texts: dict[str, list[str]] = {}
    for hunk in hunks:
        texts.setdefault(hunk.path, []).extend(hunk.lines)
    changed = [FileChange.read(path, "\n".join(parts)) for path, parts in texts.items()]
    touched = {touch.path: touch for touch in find_touches(error, changed, project)}
    places = find_places(error)
    lines = {path: select_lines(path, places) for path in texts}
    ranked: list[_Hunk] = []
    for hunk in hunks:
        numbered = tuple(_number_lines(hunk.lines))
        starts = tuple(f"{number:>5} " for number in lines[hunk.path])
        named = tuple(at for at, line in enumerate(numbered) if starts and line.startswith(starts))
        if named:
            rank = 0
        elif touch := touched.get(hunk.path):
            aside = touch.names_tests or touch.names_package
            rank = 4 if aside else 1 + (not touch.is_certain)
        elif is_dependency(hunk.path) or is_docs(hunk.path):
            rank = 7
        else:
            rank = 6 if is_test(hunk.path) else 5
        ranked.append(replace(hunk, lines=numbered, named=named, rank=rank))
    return sorted(ranked, key=lambda hunk: (hunk.rank, hunk.size, hunk.place))


def _choose_fitting(hunks: Sequence[_Hunk], room: int) -> list[_Hunk]:
    """Return the first hunks that fit, a long one in part, in the diff's order."""
    chosen: list[_Hunk] = []
    headed: set[str] = set()
    for hunk in hunks:
        heading = 0 if hunk.heading in headed else len(hunk.heading.encode()) + 1
        shown = hunk if hunk.size + heading <= room else _cut_hunk(hunk, room - heading)
        if shown:
            chosen.append(shown)
            headed.add(hunk.heading)
            room -= shown.size + heading
    return sorted(chosen, key=lambda hunk: hunk.place)


def _cut_hunk(hunk: _Hunk, room: int) -> _Hunk | None:
    """Return the lines of a long hunk around its first named line, else around its first changed
    one; None if there is too little room."""
    if room < _LEAST:
        return None
    first, *lines = (line[:_MAX_LINE] for line in hunk.lines)
    changed = (at for at, line in enumerate(lines) if line[6:7] in ("+", "-"))
    middle = hunk.named[0] - 1 if hunk.named else next(changed, 0)
    start = end = middle
    room -= len(first.encode()) + 2 * _MARK
    while start > 0 or end < len(lines):
        nearer = end - middle <= middle - start
        at = end if end < len(lines) and (nearer or start == 0) else start - 1
        room -= len(lines[at].encode()) + 1
        if room < 0:
            break
        start, end = min(start, at), max(end, at + 1)
    kept = (*_mark_gap(lines[:start]), *lines[start:end], *_mark_gap(lines[end:]))
    return replace(hunk, lines=(first, *kept))


def _mark_gap(lines: Sequence[str]) -> Sequence[str]:
    """Return a mark for lines that are left out, or the lines themselves if they are no longer."""
    mark = f"[… {len(lines):,} lines of this hunk not shown …]"
    short = len("\n".join(lines).encode()) <= len(mark.encode())
    return lines if short else (mark,)


NEAR = 20
"""The most lines shown on each side of a named line."""

_FILE_LINE = 300
"""The most characters shown of one line."""

_COMMENTS = ("#", "//", "/*", "*", "--", ";", "<!--", "%", '"""')
_FILE_MARK = 40  # bytes reserved for a line that says what is left out


def find_lines(path: str, lines: Sequence[str], error: str) -> tuple[int, ...]:
    """Return the numbers of the lines of a file that the text of an error names.

    It names a line by its place ("src/app.py:12"), or else by what is defined there.
    """
    found = select_lines(path, find_places(error))
    named = [number for number in found if number <= len(lines)]
    return tuple(named) or find_defining_lines(lines, error)


def number_lines(lines: Iterable[str], first: int = 1) -> list[str]:
    """Return the lines as `12: text`, the long ones cut."""
    return [
        f"{number}: {line if len(line) <= _FILE_LINE else f'{line[:_FILE_LINE]}[cut]'}"
        for number, line in enumerate(lines, first)
    ]


def preview_file(
    lines: Sequence[str], named: Sequence[int], limit: int, most: int | None = None
) -> str:
    """Return the lines nearest to the `named` ones as `12: text`, gaps marked.

    At most `limit` bytes of UTF-8, and `most` lines. If no line is named, return the file's
    beginning without its opening comment.
    """
    distances: dict[int, int] = {}
    for each in dict.fromkeys(named):
        for number in range(max(1, each - NEAR), min(len(lines), each + NEAR) + 1):
            distances[number] = min(distances.get(number, NEAR), abs(number - each))
    ranked = sorted(distances, key=lambda number: (distances[number], number))
    if not ranked:
        texts = ((number, line.strip()) for number, line in enumerate(lines, 1))
        code = (number for number, text in texts if text and not text.startswith(_COMMENTS))
        ranked = list(range(next(code, 1), len(lines) + 1))
    chosen: set[int] = set()
    room = limit - _FILE_MARK
    for number in ranked[:most]:
        gaps = 1 - (number - 1 in chosen) - (number + 1 in chosen)
        room -= len(number_lines([lines[number - 1]], number)[0].encode()) + 1 + gaps * _FILE_MARK
        if room < 0:
            break
        chosen.add(number)
    shown, last = list[str](), 0
    for number in sorted(chosen):
        shown += _mark_lines(lines, last, number - 1)
        shown += number_lines([lines[number - 1]], number)
        last = number
    return "\n".join(shown + _mark_lines(lines, last, len(lines)))


def _mark_lines(lines: Sequence[str], shown: int, last: int) -> list[str]:
    """Return a mark for the lines after the number `shown` up to `last`, or these lines themselves
    if they are no longer."""
    count = last - shown
    mark = f"[… {count:,} line{'' if count == 1 else 's'} not shown …]"
    if count > len(mark):
        return [mark]
    left = number_lines(lines[shown:last], shown + 1)
    return left if len("\n".join(left).encode()) <= len(mark.encode()) else [mark]
