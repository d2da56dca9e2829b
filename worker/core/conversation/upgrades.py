"""Whether a transcript calls for a stronger model, and whether the turn may have one. Pure."""

from collections.abc import Iterator

from worker.core.conversation.code_signals import shows_code_work
from worker.core.conversation.context import Context
from worker.core.conversation.limits import Limits
from worker.core.routing.tiers import Signal, TierChoice, explain_no_switch, find_upgrade

_MOST_MALFORMED = 2
"""This many broken or empty answers in a row raise the tier."""


def find_raise(context: Context, limits: Limits) -> TierChoice | None:
    """Return the higher tier that the transcript calls for before the next request, or None."""
    if context.tier is None or explain_no_raise(context, limits):
        return None
    raised = (
        find_upgrade(limits.tier_rules, context.tier, signal, context.turn)
        for signal in _list_signals(context, limits)
    )
    return next(filter(None, raised), None)


def _list_signals(context: Context, limits: Limits) -> Iterator[Signal]:
    spent = context.turn_usage
    malformed = 0 if spent.last_was_cut else spent.broken_answers
    if max(malformed, spent.empty_answers) >= _MOST_MALFORMED:
        yield Signal.MALFORMED
    watches_code = Signal.CODE in limits.tier_rules.upgrade
    if watches_code and shows_code_work(context.messages[context.turn_start + 1 :]):
        yield Signal.CODE


def explain_no_raise(context: Context, limits: Limits) -> str:
    """Say why the turn's model cannot be changed now, "" if it can."""
    if context.tier is None:
        return "there are no tiers here"
    spent = context.turn_usage
    if spent.final:
        return "the final answer was asked for"
    budget_left = 1.0 if spent.cost_usd is None else 1.0 - spent.cost_usd / limits.cost_usd
    return explain_no_switch(context.tier, context.turn, budget_left)
