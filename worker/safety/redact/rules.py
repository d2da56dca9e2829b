"""Rules for the kinds of secrets, and the single search that applies all of them."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

from worker.safety.redact.spans import Span

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

    def find(self, data: bytes, lowered: bytes) -> Iterator[Span]:
        """Yield every secret in `data`; `lowered` is `data` in lower case."""
        ends: dict[int, int] = {}
        for hint, at, _ in self._engine.find_matches_as_indexes(lowered, overlapping=True):
            for rank, rule in self._rules[hint]:
                if at >= ends.get(rank, 0):
                    for start, end in rule.find(data, at):
                        ends[rank] = end
                        yield Span(start, end, rank, rule.kind)
