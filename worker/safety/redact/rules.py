"""Rules for the kinds of secrets, the single search that applies all of them, and the marks that
replace what it finds."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind


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


class Scanner:
    """Finds the secrets of many rules in one pass over a text."""

    __slots__ = ("_engine", "_rules")

    def __init__(self, rules: Sequence[Rule]) -> None:
        hints: dict[bytes, list[tuple[int, Rule]]] = {}
        for rank, rule in enumerate(rules):
            for hint in rule.hints:
                hints.setdefault(hint, []).append((rank, rule))
        self._rules = tuple(hints.values())
        self._engine = BytesAhoCorasick(list(hints), MatchKind.Standard, Implementation.DFA)

    def find(self, data: bytes) -> Iterator[Span]:
        """Yield every secret in `data`."""
        ends: dict[int, int] = {}
        hints = self._engine.find_matches_as_indexes(data.lower(), overlapping=True)
        for hint, at, _ in hints:
            for rank, rule in self._rules[hint]:
                if at >= ends.get(rank, 0):
                    for start, end in rule.find(data, at):
                        ends[rank] = end
                        yield Span(start, end, rank, rule.kind)


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """Return the spans in order; overlapping ones become one span of the longest one's kind."""
    merged: list[Span] = []
    longest = 0
    for span in sorted(spans):
        if merged and span.start < merged[-1].end:
            last = merged[-1]
            length = span.end - span.start
            kind = span if (-length, span.rank) < (-longest, last.rank) else last
            longest = max(longest, length)
            end = max(last.end, span.end)
            merged[-1] = Span(last.start, end, kind.rank, kind.kind)
        else:
            merged.append(span)
            longest = span.end - span.start
    return merged


def replace_spans(data: bytes, spans: Iterable[Span]) -> bytes:
    """Replace each span by a mark and the line ends that it had. They are in order, and none
    overlaps the next one: see `merge_spans`."""
    parts: list[bytes] = []
    at = 0
    for span in spans:
        ends = b"\n" * data.count(b"\n", span.start, span.end)
        parts += [data[at : span.start], mark(span.kind).encode(), ends]
        at = span.end
    return b"".join([*parts, data[at:]]) if parts else data
