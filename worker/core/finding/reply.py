"""A reply in free text: what it quotes is proven, or struck out with a remark (law 5)."""

from worker.core.finding.model import Evidence, Unproven
from worker.core.finding.parse import MAX_QUOTES
from worker.core.finding.proof import check
from worker.core.finding.quotes import scan
from worker.core.ports import Captures

Said = str | Evidence | Unproven
"""A part of an answer: Markdown, a proven quote, or one that must not be shown."""


def said(text: str, captures: Captures) -> tuple[Said, ...]:
    """`text` in parts, its quotes proven. Those after the first `MAX_QUOTES` are not looked at."""
    parts: list[Said] = []
    count = 0
    for each in scan(text, replying=True):
        if isinstance(each, Evidence):
            count += 1
            parts.append(_proven(each, captures, count))
        elif parts and isinstance(parts[-1], str):
            parts[-1] += "\n" + each.text
        else:
            parts.append(each.text)
    return tuple(part for part in parts if not isinstance(part, str) or part.strip())


def _proven(quote: Evidence, captures: Captures, count: int) -> Said:
    if count > MAX_QUOTES:
        return Unproven(quote.where, quote.text, "too many quotes", lead=quote.lead)
    checked = check((quote,), captures)
    return checked.proven[0] if checked.proven else checked.failed[0]
