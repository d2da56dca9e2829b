"""Where secrets are in a text, and the marks that replace them."""

from collections.abc import Iterable
from typing import NamedTuple


class Span(NamedTuple):
    """A secret in a text, from `start` up to, but not including, `end`.

    Of overlapping secrets the longest names the kind, of equally long ones the lowest `rank`.
    """

    start: int
    end: int
    rank: int
    kind: str


def mark(kind: str) -> str:
    """Return the mark that replaces a secret of this kind."""
    return f"[redacted: {kind}]"


def replace_spans(data: bytes, spans: Iterable[Span]) -> bytes:
    """Replace each span by a mark and the line ends that it had; overlapping spans are merged."""
    parts: list[bytes] = []
    at = 0
    for span in _merge(spans):
        ends = b"\n" * data.count(b"\n", span.start, span.end)
        parts += [data[at : span.start], mark(span.kind).encode(), ends]
        at = span.end
    return b"".join([*parts, data[at:]]) if parts else data


def _merge(spans: Iterable[Span]) -> list[Span]:
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
