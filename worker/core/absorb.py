"""How an answer of the model becomes part of the session. Pure."""

from dataclasses import replace
from typing import Any

from worker.core.context import CallCost, Context
from worker.core.decide import Ask, asked
from worker.core.limits import Spent
from worker.core.messages import Assistant, Message, User, WireForm
from worker.core.ports import Reply, StopReason

_UNUSABLE = {StopReason.REFUSED, StopReason.BLOCKED}
_CUT = {StopReason.TRUNCATED, StopReason.CONTEXT_OVERFLOW}


def absorb(
    context: Context,
    ask: Ask,
    reply: Reply,
    origin: str,
    kept_notice: str,
    *,
    at: float = 0.0,
    seconds: float = 0.0,
) -> Context:
    """`context` after `reply` to `ask`.

    Calls in an answer to a final request are dropped here, whether or not the provider had the
    tools switched off: what is not in the context is never run. `origin` tags the verbatim wire
    form. `kept_notice` is the ephemeral text of the request if it must stay in the history as
    sent, because signed thinking was written under it; else "". The request was sent `at` (epoch
    seconds) and took `seconds`.
    """
    spent, said = _taken(asked(context.spent, ask), ask, reply, origin, kept_notice)
    place = len(context.messages) + len(said) - 1 if said else -1
    cost = CallCost(context.turn, origin, reply.usage, reply.cost_usd, at, seconds, place)
    return replace(
        context,
        usage=context.usage + reply.usage,
        cost_usd=_sum(context.cost_usd, reply.cost_usd),
        spent=spent,
        messages=context.messages + said,
        calls=(*context.calls, cost),
    )


def _taken(
    spent: Spent, ask: Ask, reply: Reply, origin: str, notice: str
) -> tuple[Spent, tuple[Message, ...]]:
    """What was spent after the reply, and what it adds to the history."""
    if reply.stop in _UNUSABLE:
        return _charged(spent, reply, halt=_why(reply)), ()
    calls = () if ask.final else reply.calls
    if not calls and (not reply.text.strip() or (reply.dropped and not ask.final)):
        defied = bool(ask.final and (reply.calls or reply.dropped))
        return _charged(spent, reply, empties=spent.empties + 1, defied=defied), ()
    cut = reply.stop in _CUT
    spent = _charged(spent, reply, empties=0, defied=False, truncated=cut)
    # Thinking stays, and the notice with it, if all of the answer does.
    whole = not cut and calls == reply.calls
    wire = WireForm(origin, reply.wire) if whole and reply.wire else None
    answer = Assistant(reply.text, calls, wire)
    return spent, (User(notice), answer) if whole and notice else (answer,)


def halt(context: Context, reason: str) -> Context:
    """`context` with a reason to end the run: `decide` stops with what there is."""
    return replace(context, spent=replace(context.spent, halt=reason))


def _charged(spent: Spent, reply: Reply, **changes: Any) -> Spent:
    return replace(
        spent,
        iterations=spent.iterations + 1,
        context_tokens=reply.usage.input,
        usage=spent.usage + reply.usage,
        cost_usd=_sum(spent.cost_usd, reply.cost_usd),
        **changes,
    )


def _sum(total: float | None, cost: float | None) -> float | None:
    return None if total is None or cost is None else total + cost


def _why(reply: Reply) -> str:
    verb = "refused to answer" if reply.stop is StopReason.REFUSED else "was blocked"
    return f"the model {verb}" + (f": {reply.detail}" if reply.detail else "")
