"""A reply in free text: each quote is proven, or struck out with a remark."""

from worker.core.finding.model import Evidence, Unproven
from worker.core.finding.parse import MAX_QUOTES
from worker.core.finding.proof import check_quotes
from worker.core.finding.quotes import scan_quotes
from worker.core.ports import Captures

ReplyPart = str | Evidence | Unproven
"""A part of an answer: Markdown, a proven quote, or one that must not be shown."""


def prove_reply(text: str, captures: Captures) -> tuple[ReplyPart, ...]:
    """Split `text` into parts and prove its quotes, but not those after the first `MAX_QUOTES`."""
    parts: list[ReplyPart] = []
    count = 0
    for each in scan_quotes(text, replying=True):
        if isinstance(each, Evidence):
            count += 1
            parts.append(_prove_quote(each, captures, count))
        elif parts and isinstance(parts[-1], str):
            parts[-1] += "\n" + each.text
        else:
            parts.append(each.text)
    return tuple(part for part in parts if not isinstance(part, str) or part.strip())


def _prove_quote(quote: Evidence, captures: Captures, count: int) -> ReplyPart:
    if count > MAX_QUOTES:
        return Unproven(quote.where, quote.text, "too many quotes", lead=quote.lead)
    checked = check_quotes((quote,), captures)
    return checked.proven_quotes[0] if checked.proven_quotes else checked.unproven_quotes[0]
