"""Finds the word that somebody meant who wrote one that does not exist. Pure."""

from collections.abc import Iterable
from difflib import get_close_matches

_CUTOFF = 0.7
"""How alike two words are, of 1, if one may be the other misspelt."""


def find_nearest(word: str, known: Iterable[str]) -> str:
    """Return the known word that is most like `word`, whatever their case and dashes; else ""."""
    by_letters = {_simplify(each): each for each in known}
    near = get_close_matches(_simplify(word[:200]), by_letters, n=1, cutoff=_CUTOFF)
    return by_letters[near[0]] if near else ""


def suggest_nearest(word: str, known: Iterable[str]) -> str:
    """Return ": did you mean …?" to follow a sentence, or "" if nothing known is like `word`."""
    near = find_nearest(word, known)
    return f": did you mean {near}?" if near else ""


def _simplify(word: str) -> str:
    return "".join(letter for letter in word.lower() if letter.isalnum() or letter == "*")


_FARTHEST = 2


def correct_spelling(name: str, known: Iterable[str]) -> str | None:
    """Return the only known tool within edit distance 2 of `name`, None if none or several are.

    Such a tool is run, so a likeness by ratio, as `difflib` has it, is not enough: of a
    list of tools it would take `gitlab_get_job_runs` for `gitlab_get_job_log`.
    """
    near = [other for other in known if _is_near(name, other)]
    return near[0] if len(near) == 1 else None


def _is_near(one: str, other: str) -> bool:
    if abs(len(one) - len(other)) > _FARTHEST:
        return False
    row = list(range(len(other) + 1))
    for left in one:
        above, row = row, [row[0] + 1]
        for at, right in enumerate(other):
            row.append(min(above[at] + (left != right), above[at + 1] + 1, row[at] + 1))
    return row[-1] <= _FARTHEST
