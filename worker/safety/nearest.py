"""Finds the word that somebody meant who wrote one that does not exist."""

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
