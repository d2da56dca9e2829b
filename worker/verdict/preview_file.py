"""The preview of a source file that is too long: lines near those that an error names. Pure."""

from collections.abc import Iterable, Sequence

from worker.logs.named_places import find_places
from worker.verdict.file_changes import find_defining_lines, select_lines

NEAR = 20
"""The most lines shown on each side of a named line."""

MAX_LINE = 300
"""The most characters shown of one line."""

_COMMENT = ("#", "//", "/*", "*", "--", ";", "<!--", "%", '"""')
_MARK = 40  # bytes reserved for a line that says what is left out


def find_lines(path: str, lines: Sequence[str], error: str) -> tuple[int, ...]:
    """Return the numbers of the lines of a file that the text of an error names.

    It names a line by its place ("src/app.py:12"), or else by what is defined there.
    """
    found = select_lines(path, find_places(error))
    named = [number for number in found if number <= len(lines)]
    return tuple(named) or find_defining_lines(lines, error)


def number_lines(lines: Iterable[str], first: int = 1) -> list[str]:
    """Return the lines as `12: text`, the long ones cut."""
    return [f"{number}: {_clip_line(line)}" for number, line in enumerate(lines, first)]


def preview_file(
    lines: Sequence[str], named: Sequence[int], limit: int, most: int | None = None
) -> str:
    """Return the lines nearest to the `named` ones as `12: text`, gaps marked.

    At most `limit` bytes of UTF-8, and `most` lines. If no line is named, return the file's
    beginning without its opening comment.
    """
    ranked = _rank_by_distance(len(lines), named) or _rank_from_start(lines)
    return "\n".join(_show_lines(lines, sorted(_choose_fitting(lines, ranked[:most], limit))))


def _choose_fitting(lines: Sequence[str], ranked: Iterable[int], limit: int) -> set[int]:
    """Return the first of the `ranked` lines that fit in `limit` bytes, gap marks included."""
    chosen: set[int] = set()
    room = limit - _MARK
    for number in ranked:
        gaps = 1 - (number - 1 in chosen) - (number + 1 in chosen)
        room -= len(number_lines([lines[number - 1]], number)[0].encode()) + 1 + gaps * _MARK
        if room < 0:
            break
        chosen.add(number)
    return chosen


def _rank_by_distance(count: int, named: Sequence[int]) -> list[int]:
    """Return the numbers of the lines near a named one, the nearest first."""
    distances: dict[int, int] = {}
    for each in dict.fromkeys(named):
        for number in range(max(1, each - NEAR), min(count, each + NEAR) + 1):
            distances[number] = min(distances.get(number, NEAR), abs(number - each))
    return sorted(distances, key=lambda number: (distances[number], number))


def _rank_from_start(lines: Sequence[str]) -> list[int]:
    """Return the numbers of the lines, from the first one that is not a comment."""
    first = next((at for at, line in enumerate(lines) if _is_code(line)), 0)
    return list(range(first + 1, len(lines) + 1))


def _is_code(line: str) -> bool:
    text = line.strip()
    return bool(text) and not text.startswith(_COMMENT)


def _show_lines(lines: Sequence[str], chosen: Sequence[int]) -> list[str]:
    shown, last = list[str](), 0
    for number in chosen:
        shown += _mark_gap(lines, last, number - 1)
        shown += number_lines([lines[number - 1]], number)
        last = number
    return shown + _mark_gap(lines, last, len(lines))


def _mark_gap(lines: Sequence[str], shown: int, last: int) -> list[str]:
    """Return a mark for the lines after the number `shown` up to `last`, or these lines themselves
    if they are no longer."""
    count = last - shown
    mark = f"[… {count:,} line{'' if count == 1 else 's'} not shown …]"
    if count > len(mark):
        return [mark]
    left = number_lines(lines[shown:last], shown + 1)
    return left if len("\n".join(left).encode()) <= len(mark.encode()) else [mark]


def _clip_line(line: str) -> str:
    return line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}[cut]"
