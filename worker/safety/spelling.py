"""Finds the tool that a model meant when it misspelt the name. Pure."""

from collections.abc import Iterable

FARTHEST = 2


def correct_spelling(name: str, known: Iterable[str]) -> str | None:
    """Return the only known name within edit distance 2 of `name`, None if none or several are."""
    near = [other for other in known if _is_near(name, other)]
    return near[0] if len(near) == 1 else None


def _is_near(one: str, other: str) -> bool:
    if abs(len(one) - len(other)) > FARTHEST:
        return False
    row = list(range(len(other) + 1))
    for left in one:
        above, row = row, [row[0] + 1]
        for at, right in enumerate(other):
            row.append(min(above[at] + (left != right), above[at + 1] + 1, row[at] + 1))
    return row[-1] <= FARTHEST
