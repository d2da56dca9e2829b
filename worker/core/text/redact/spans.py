"""Where secrets stand, and the marks that take their place."""

from collections.abc import Iterable
from typing import NamedTuple


class Span(NamedTuple):
    """A secret in a text: from `start` up to `end`. `rank` orders kinds that fit as well."""

    start: int
    end: int
    rank: int
    kind: str


def mark(kind: str) -> str:
    """What stands in a secret's place."""
    return f"[redacted: {kind}]"


def replace_spans(data: bytes, spans: Iterable[Span]) -> bytes:
    """`data` with a mark for each span, and the line ends that it had. Overlapping ones are one."""
    parts: list[bytes] = []
    at = 0
    for span in _merge(spans):
        ends = b"\n" * data.count(b"\n", span.start, span.end)
        parts += [data[at : span.start], mark(span.kind).encode(), ends]
        at = span.end
    return b"".join([*parts, data[at:]]) if parts else data


def _merge(spans: Iterable[Span]) -> list[Span]:
    """The spans in their order; those that overlap become one of the kind of the longest."""
    merged: list[Span] = []
    longest = 0
    for span in sorted(spans):
        if merged and span.start < merged[-1].end:
            last = merged[-1]
            kind = span if (_order(span) < (-longest, last.rank)) else last
            longest = max(longest, span.end - span.start)
            end = max(last.end, span.end)
            merged[-1] = Span(last.start, end, kind.rank, kind.kind)
        else:
            merged.append(span)
            longest = span.end - span.start
    return merged


def _order(span: Span) -> tuple[int, int]:
    return (span.start - span.end, span.rank)
