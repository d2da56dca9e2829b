"""How an answer of the model becomes part of the session. Pure."""

from dataclasses import replace

from worker.core.breakpoints import Placement
from worker.core.context import CacheMark, Context
from worker.core.decide import Ask, asked
from worker.core.limits import Spent
from worker.core.messages import Assistant, User, WireForm
from worker.core.ports import Reply, StopReason

_UNUSABLE = {StopReason.REFUSED, StopReason.BLOCKED}


def absorb(context: Context, ask: Ask, reply: Reply, origin: str, kept_notice: str) -> Context:
    """`context` after `reply` to `ask`.

    `origin` tags the verbatim wire form. `kept_notice` is the ephemeral text of the request if it
    must stay in the history as sent, because signed thinking was written under it; else "".
    """
    spent = _charged(asked(context.spent, ask), reply)
    context = replace(
        context,
        usage=context.usage + reply.usage,
        cost_usd=_sum(context.cost_usd, reply.cost_usd),
    )
    if reply.stop in _UNUSABLE:
        return replace(context, spent=replace(spent, halt=_why(reply)))
    calls = () if ask.final else reply.calls
    if not calls and (reply.dropped or not reply.text.strip()):
        return replace(context, spent=replace(spent, empties=spent.empties + 1))
    truncated = reply.stop in {StopReason.TRUNCATED, StopReason.CONTEXT_OVERFLOW}
    whole = not truncated and calls == reply.calls
    wire = WireForm(origin, reply.wire) if whole and reply.wire else None
    if kept_notice:
        context = context.add(User(kept_notice))
    spent = replace(spent, empties=0, truncated=truncated)
    return replace(context.add(Assistant(reply.text, calls, wire)), spent=spent)


def mark(context: Context, placement: Placement, at: float) -> Context:
    """`context` with the position of the last cache mark and the time of its request."""
    if placement.last is None:
        return context
    return replace(context, cache=CacheMark(placement.last, at))


def halt(context: Context, reason: str) -> Context:
    """`context` with a reason to end the run: `decide` stops with what there is."""
    return replace(context, spent=replace(context.spent, halt=reason))


def _charged(spent: Spent, reply: Reply) -> Spent:
    return replace(
        spent,
        iterations=spent.iterations + 1,
        context_tokens=reply.usage.input,
        usage=spent.usage + reply.usage,
        cost_usd=_sum(spent.cost_usd, reply.cost_usd),
    )


def _sum(total: float | None, cost: float | None) -> float | None:
    return None if total is None or cost is None else total + cost


def _why(reply: Reply) -> str:
    verb = "refused to answer" if reply.stop is StopReason.REFUSED else "was blocked"
    return f"the model {verb}" + (f": {reply.detail}" if reply.detail else "")
