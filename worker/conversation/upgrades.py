"""Whether a transcript calls for a stronger model, and whether the turn may have one. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from worker.conversation.code_signals import shows_code_work
from worker.conversation.context import Context
from worker.conversation.limits import Limits
from worker.conversation.messages import ToolResult
from worker.conversation.tiers import TierChoice, explain_no_switch, find_upgrade
from worker.settings.models import Signal

_MOST_MALFORMED = 2
"""This many broken or empty answers in a row raise the tier."""


@dataclass(frozen=True, slots=True)
class Raise:
    """Another model goes on with the turn: a stronger one, that of `choice`, because of `signal`;
    or if the reply's own model is not to go on, for `reason`, that of the session."""

    choice: TierChoice | None = None
    signal: Signal | None = None
    reason: str = ""


def find_raise(context: Context, limits: Limits) -> Raise | None:
    """Return the change of model that the transcript calls for before the next request, or None.

    A reply's own model gets one request: whatever its answer was, it was not the end.
    """
    if context.reply_model:
        is_asked = context.turn_usage.iterations > 0
        return Raise(reason=_explain_more_needed(context)) if is_asked else None
    if context.tier is None or explain_no_raise(context, limits):
        return None
    for signal in _list_signals(context, limits):
        if choice := find_upgrade(limits.tier_rules, context.tier, signal, context.turn):
            return Raise(choice, signal)
    return None


def _explain_more_needed(context: Context) -> str:
    """Say what was wrong with the only answer of a reply's own model."""
    spent = context.turn_usage
    if spent.last_was_cut:
        return "its answer was too long"
    if spent.broken_answers:
        return "its answer came out broken"
    if spent.empty_answers:
        return "it gave no answer"
    if isinstance(context.messages[-1], ToolResult):
        return "it called a tool"
    return "its answer was not enough"


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
