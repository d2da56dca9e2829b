"""Known failures whose words resemble those of an error with an unknown signature. Pure.

A project's index holds the words of its known errors. Words that many of them share are ignored; an
error that shares most of its rare words with another one is a lead, never an answer.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from worker.safety.untrusted import parse_object
from worker.verdict.jobs import Group, Survey

MOST_ENTRIES, MOST_WORDS, MOST_LEADS = 150, 16, 2
MAX_AGE = 90 * 86_400.0
"""Seconds after which an error's words are dropped from the index."""

_SHARE, _LEAST_SHARED = 0.6, 3
_RARE_IN = 0.1
_WORD = re.compile(r"[a-z_][a-z0-9_]{3,19}")
_COMMON = frozenset(
    ("assertionerror", "error", "errors", "exception", "failed", "failure", "line", "test", "tests")
)
_KEY = re.compile(r"[0-9a-f]{8,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ErrorWords:
    """The words of a known error, last seen at `seen_at` (epoch seconds)."""

    key: str
    words: frozenset[str]
    seen_at: float


def read_words(text: str) -> frozenset[str]:
    """Return the words by which an error is compared with others."""
    found = (word for word in _WORD.findall(text.lower()) if word not in _COMMON)
    return frozenset(list(dict.fromkeys(found))[:MOST_WORDS])


def read_group_words(group: Group) -> frozenset[str]:
    """Return the words of a group's errors."""
    return read_words(" ".join([group.text, *group.others]))


def find_similar(words: Collection[str], index: Sequence[ErrorWords]) -> tuple[str, ...]:
    """Return the keys of the errors that share most of their rare words with these, best first."""
    frequent = Counter(word for entry in index for word in entry.words)
    most = max(2, int(_RARE_IN * len(index)))
    own = {word for word in words if frequent[word] <= most}
    scored: list[tuple[float, str]] = []
    for entry in index:
        rare = {word for word in entry.words if frequent[word] <= most}
        shared = len(own & rare)
        smaller = min(len(own), len(rare))
        if shared >= _LEAST_SHARED and shared >= _SHARE * smaller:
            scored.append((shared / smaller, entry.key))
    best = sorted(scored, key=lambda each: (-each[0], each[1]))
    return tuple(key for _, key in best[:MOST_LEADS])


def list_unexplained(survey: Survey) -> tuple[Group, ...]:
    """Return the groups that no rule, no earlier finding and no proof in the record explains."""
    return tuple(
        group
        for group in survey.groups
        if group.key and not (group.hit or group.rule_match or group.hard_verdict)
    )


def add_words(index: Sequence[ErrorWords], groups: Iterable[Group], now: float) -> list[ErrorWords]:
    """Return the index with the groups' errors as seen now, the newest first."""
    seen = [ErrorWords(group.key, read_group_words(group), now) for group in groups]
    keys = {each.key for each in seen}
    others = (each for each in index if each.key not in keys and now - each.seen_at < MAX_AGE)
    return [*(each for each in seen if each.words), *others][:MOST_ENTRIES]


def dump_words(index: Sequence[ErrorWords]) -> bytes | None:
    """Return the bytes of an index, at most 64 KB; None if it is empty."""
    fields = {each.key: [each.seen_at, sorted(each.words)] for each in index}
    return json.dumps(fields, separators=(",", ":")).encode() if fields else None


def load_words(data: bytes | None) -> tuple[ErrorWords, ...]:
    """Return the entries of an index; invalid ones are left out."""
    fields = parse_object(data or b"")
    read = (_read_entry(key, value) for key, value in list(fields.items())[:MOST_ENTRIES])
    return tuple(each for each in read if each)


def _read_entry(key: str, value: object) -> ErrorWords | None:
    if not _KEY.fullmatch(key) or not isinstance(value, list) or len(value) != 2:
        return None
    seen_at, words = value
    if not isinstance(seen_at, int | float) or not abs(seen_at) < 2**53:
        return None
    if not isinstance(words, list):
        return None
    good = [word for word in words if isinstance(word, str) and _WORD.fullmatch(word)]
    return ErrorWords(key, frozenset(good[:MOST_WORDS]), float(seen_at))
