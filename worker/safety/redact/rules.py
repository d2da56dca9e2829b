"""Rules for the kinds of secrets, and whether a value looks generated, or like a password."""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Span(NamedTuple):
    """A secret in a text, from `start` up to, but not including, `end`.

    Of overlapping secrets the longest names the kind, of equally long ones the lowest `rank`.
    """

    start: int
    end: int
    rank: int
    kind: str


@dataclass(frozen=True, slots=True)
class Removed:
    """A secret that was taken out of a text. Its `repr` does not show it."""

    kind: str
    secret: bytes = field(repr=False)


def mark(kind: str) -> str:
    """Return the mark that replaces a secret of this kind."""
    return f"[redacted: {kind}]"


Finder = Callable[[bytes, int], Sequence[tuple[int, int]]]
"""Takes a text and where a hint begins in it; returns where the secret begins and ends. Of several
parts of a secret it returns each, in their order; if there is none, ()."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A kind of secret. Every secret of the kind has one of `hints` (in lower case) near it.

    `find` must examine only a bounded part of the text around the hint, or return all that it
    examined: otherwise a hostile text would take more than linear time.
    """

    kind: str
    hints: tuple[bytes, ...]
    find: Finder


def match_rule(kind: str, hints: str, pattern: str, before: int = 0) -> Rule:
    """Make a rule from a pattern that begins `before` bytes before its hint.

    The secret is what group 1 matches, or the whole match if the pattern has no group.
    """
    compiled = re.compile(pattern.encode())
    group = min(compiled.groups, 1)

    def find(data: bytes, at: int) -> Sequence[tuple[int, int]]:
        found = compiled.match(data, at - before) if at >= before else None
        return (found.span(group),) if found is not None else ()

    return Rule(kind, tuple(hint.encode() for hint in hints.split()), find)


# ------------------------------------------------------------------- what values look like

_HARMLESS = re.compile(
    rb"""(?x)
      \$[\[{(] | (?:\$\w+[/:.,@-]?)+$ | %\w+%$ | \{\{ | \{[\w.-]*\} | < | \[ | \(\w*\)?$ | \#\{
    | @\w+@$ | \*{3} | [xX*]{4,}(?!\w)
    | (.)\1*$
    | (?:[\w.@+-]*[/\\])* [\w@+-]+ (?:\.[\w-]+)* \.[A-Za-z]{1,6} :[0-9]{1,7} (?!\w)   # file:line
    | [A-Za-z][A-Za-z_.-]*[0-9]{0,2} :[0-9]{1,6} (?: [:,]|$ )                          # name:line
    | [a-z][a-z0-9+.-]{1,12}:/                                                         # an address
    | v?[0-9]{1,4}(?:\.[0-9]{1,6}){1,3}(?:[-+.~][A-Za-z0-9.+~-]*)?$                      # a version
    | (?i:sha|md5)-?[0-9]{0,3}[:-]
    | [0-9]{4}-[0-9]{2}-[0-9]{2} | [0-9]{8}T[0-9]{6} | [0-9:.,+-]+[A-Za-z%]{0,2}$      # a time
    | ~?\.{0,2}/(?:app|bin|build|builds|cache|data|dev|etc|github|home|lib|mnt|opt|private|proc
        |root|run|secrets|srv|src|sys|tmp|Users|usr|var|vault|workspace)(?:/|$)
    | \.{1,2}/[A-Za-z] | [A-Za-z]:[\\/]
    | [\w.+-]+@[A-Za-z-]+(?:\.[A-Za-z]+)+$
    """
)
_WORD = rb"(?:[A-Za-z]*+[0-9]{0,4}+[a-z]{0,2}+|[0-9]{1,8}[a-z]{0,2})(?![A-Za-z0-9])"
_ODD = re.compile(rb"(?<![A-Za-z0-9])(?!%b)[A-Za-z0-9]++" % _WORD)
"""A part that is not a word or number as in names (`v2`, `x86`, `getTokenById`, `2024`)."""

_NUMBERED = re.compile(rb"(?<![A-Za-z0-9])(?=[0-9]*[A-Za-z])(?=[A-Za-z]*[0-9])[A-Za-z0-9]{4,}+")
_MIXED = re.compile(rb"(?<![A-Za-z0-9])(?=[a-z]*[A-Z])(?=[A-Z]*[a-z])[A-Za-z]{5,}+")
_CAMEL = re.compile(rb"[A-Z]?[a-z]+|[A-Z]+")
_RUNS = re.compile(rb"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_REPEATED = re.compile(rb"(.)\1{3,}")
_EXAMINED = 200
_DIGEST = re.compile(rb"(?:[0-9a-f]{16,}|[0-9A-F]{16,})$")
_SYMBOL = re.compile(rb"[^A-Za-z0-9_./:\\ -]")
_CLASSES = (*map(re.compile, (rb"[a-z]", rb"[A-Z]", rb"[0-9]")), _SYMBOL)
_COMMON = re.compile(
    rb"(?i:.*(?:password|passwd|passphrase|secret|token)|required|disabled|enabled|undefined"
    rb"|changeme|change_me|redacted|hidden|masked|postgres|provided|unchanged|encrypted|anything)$"
)
_MOST_SPACES = 3
"""The most spaces of a password in several words. A sentence has more."""


def looks_generated(value: bytes) -> bool:
    """Whether a value is too irregular to be a name, a path, a place, a number or a version."""
    lower, upper, _, _ = kinds = _find_kinds(value)
    if len(value) < 12 or sum(kinds) < 2:
        return False
    digits = len(value) - len(value.translate(None, b"0123456789"))
    if digits < 2 and not (lower and upper and len(value) >= 20):
        return False
    if _HARMLESS.match(value) or not _has_odd_part(value):
        return False
    shares = [n / len(value) for n in Counter(value).values()]
    return -sum(share * math.log2(share) for share in shares) >= 3.0  # bits per character


def looks_like_password(value: bytes, constant: bool) -> bool:
    """Whether the value of a key that names a password looks like a password.

    `constant` says that the key is written in capitals, as CI/CD variables are: then the value is a
    literal rather than code.
    """
    _, _, digit, symbol = kinds = _find_kinds(value)
    if len(value) < 6 or not (digit or constant or sum(kinds) > 1 + symbol):
        return False
    if _HARMLESS.match(value):
        return False
    if b" " in value:
        return sum(kinds) == len(kinds) and value.count(b" ") <= _MOST_SPACES
    if sum(kinds) >= 3 and symbol:
        return True
    if len(value) < 8:
        return False
    if constant:  # a real value rather than a placeholder word
        fits = (digit and sum(kinds) >= 2) or (value.isalpha() and not _COMMON.match(value))
    else:  # without any separator that joins the parts of a name in code, it is one word
        is_one_word = value.translate(None, b"_./:\\") == value
        fits = digit and sum(kinds) >= 2 and (is_one_word or _has_odd_part(value))
    return fits or looks_generated(value)


def looks_like_strong_password(value: bytes) -> bool:
    """Whether a value can hardly be anything but a password or generated, whatever it stands by."""
    *_, symbol = kinds = _find_kinds(value)
    strong = len(value) >= 8 and sum(kinds) >= 3 and (symbol or _has_odd_part(value))
    plain = b" " not in value and not _HARMLESS.match(value)
    return (strong and plain) or looks_generated(value)


def looks_like_base64(text: bytes) -> bool:
    """Whether text in the alphabet of Base64 is neither words, as a path is, nor a digest."""
    head = _REPEATED.sub(rb"\1", text[:_EXAMINED])  # as of the zeros in a key
    return 3 * len(_RUNS.findall(head)) > len(head) and not _DIGEST.match(head)


def _has_odd_part(value: bytes) -> bool:
    """Whether a part of the value is not a word, or at least three parts mix letters and digits."""
    odd = _ODD.findall(value)
    if any(len(part) >= 5 or 2 * len(part) >= len(value) for part in odd):
        return True
    if any(3 * len(_CAMEL.findall(part)) > len(part) for part in _MIXED.findall(value)):
        return True
    return len(_NUMBERED.findall(value)) >= 3


def _find_kinds(value: bytes) -> tuple[bool, ...]:
    """Return whether the value has small letters, capitals, digits and symbols, in this order."""
    return tuple(kind.search(value) is not None for kind in _CLASSES)
