"""Finds the values of a log's errors in its other lines: who took the port, which id it was."""

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain

from sandbox.image.log_text import clip_line, number_lines, strip_escapes

MOST_VALUES = 20
"""The most values that are looked for."""

RARE = 4
"""A value is rare if at most so many other lines have it; a common one, such as a process id, tells
nothing."""

MOST_LINES = 4
_SHOWN = 200

_VALUE = re.compile(
    rb"(?<![\w.-])(?:\d{4,12}|0x[0-9a-f]{4,16}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![\w.-])"
)
_YEAR = re.compile(rb"(?:19|20)\d\d")


def list_elsewhere(
    path: str, errors: Iterable[bytes], candidates: Sequence[int], room: int
) -> list[str]:
    """List lines that have a rare value of the `errors` (a long number, an address or an id) and
    are not among the `candidates`: at most about `room` bytes."""
    values = dict.fromkeys(
        value for line in errors for value in _VALUE.findall(strip_escapes(line)[:1000])
    )
    wanted = [value for value in values if not _YEAR.fullmatch(value)][:MOST_VALUES]
    if not wanted:
        return []
    skipped, numbers_by_value = set(candidates), dict[bytes, list[int]]()
    lines: dict[int, bytes] = {}
    for number, line in number_lines(path):
        if number in skipped or not any(value in line for value in wanted):
            continue
        for value in set(_VALUE.findall(strip_escapes(line)[:1000])).intersection(wanted):
            numbers = numbers_by_value.setdefault(value, [])
            numbers.append(number)
            if len(numbers) <= RARE:
                lines[number] = line
    rare = chain(*(numbers for numbers in numbers_by_value.values() if len(numbers) <= RARE))
    first = sorted(set(rare))[:MOST_LINES]
    shown = [f"{number}: {clip_line(lines[number], _SHOWN)}" for number in first]
    sizes = accumulate(len(line.encode()) for line in shown)
    shown = [line for line, size in zip(shown, sizes, strict=True) if size <= room]
    return ["the values of these errors are also in:", *shown] if shown else []
