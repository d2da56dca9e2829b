"""Changes the context when another model takes over a turn. Pure.

Signals of the transcript raise the tier before a request (`upgrades`), signals of an answer after
it, and the model itself may ask with the tool `set_tier`. Each change is kept in the context before
the next request, so that another worker that takes over the run uses the same model.
"""

import json
from dataclasses import replace

from worker.conversation import prompts
from worker.conversation.context import Context
from worker.conversation.limits import Limits, TurnUsage
from worker.conversation.messages import ToolCall, ToolResult, ToolSpec, User
from worker.conversation.tiers import (
    TierChoice,
    TierRules,
    choose_on_request,
    find_upgrade,
    list_tiers,
)
from worker.conversation.upgrades import Raise, explain_no_raise
from worker.safety.untrusted import parse_object
from worker.settings.models import Signal

SET_TIER = "set_tier"
_LONGEST_NAME = 40
_TOLD = "From the next request on a stronger model goes on: you, who read this then."


def make_set_tier_spec(rules: TierRules) -> ToolSpec:
    """Return the description of `set_tier` for the model."""
    return ToolSpec(
        SET_TIER,
        "Let a stronger model go on with this conversation, from its next request on. Once in a "
        "turn, and never back. Ask for it only if you cannot find the cause yourself.",
        {
            "type": "object",
            "properties": {"tier": {"type": "string", "enum": list_tiers(rules)}},
            "required": ["tier"],
        },
    )


def raise_for_answer(context: Context, limits: Limits, signal: Signal) -> Context | None:
    """Return the context in which a stronger model goes on after an answer, or None."""
    if context.tier is None or explain_no_raise(context, limits):
        return None
    choice = find_upgrade(limits.tier_rules, context.tier, signal, context.turn)
    return hand_over(context, Raise(choice, signal)) if choice else None


def hand_over(context: Context, raised: Raise) -> Context:
    """Return the context in which the model of `raised` goes on, which is told so, and why."""
    if raised.choice and raised.signal:
        told = User(prompts.tell_takeover(raised.signal))
        return switch_tier(context, raised.choice).add(told)
    return leave_reply_model(context, raised.reason)


def leave_reply_model(context: Context, reason: str, gave_way: str = "") -> Context:
    """Return the context in which the session's own model goes on with a reply.

    It is told so if anything of the other's attempt stands above. `gave_way` names the other one if
    it did not answer. What the session knows of its own model's cache still holds.
    """
    if context.reply_by is None:
        return context
    left = replace(
        context,
        reply_by=replace(context.reply_by, end_reason=reason),
        turn_usage=replace(_forget_model(context.turn_usage), halt="", last_was_cut=False),
        gave_way=gave_way,
    )
    was_tried = len(context.messages) > context.turn_start + 1
    return left.add(User(prompts.tell_handback(reason))) if was_tried else left


def answer_set_tier(context: Context, call: ToolCall, limits: Limits) -> Context:
    """Return the context with the result of a `set_tier` call, and the tier if it is granted."""
    wanted = str(parse_object(call.arguments).get("tier", ""))[:_LONGEST_NAME]
    refusal = explain_no_raise(context, limits)
    chosen = refusal or choose_on_request(
        limits.tier_rules, context.tier or TierChoice("", ""), wanted, context.turn
    )
    if isinstance(chosen, str):
        return context.add(_make_result(call, {"error": chosen}, is_error=True))
    answer = {"tier": chosen.tier, "takes effect": "at the next request", "told": _TOLD}
    return switch_tier(context, chosen).add(_make_result(call, answer))


def _make_result(call: ToolCall, content: dict[str, str], *, is_error: bool = False) -> ToolResult:
    return ToolResult(call.id, call.name, json.dumps(content, ensure_ascii=False), is_error)


def switch_tier(context: Context, choice: TierChoice) -> Context:
    """Return the context with another tier, without what was learnt about the previous model."""
    spent = _forget_model(context.turn_usage)
    return replace(context, tier=choice, turn_usage=spent, cache=None, gave_way="")


def _forget_model(spent: TurnUsage) -> TurnUsage:
    return replace(
        spent,
        refused_at=-1,
        window=0,
        refused_tokens=0,
        refused_folds=0,
        broken_answers=0,
        empty_answers=0,
    )


def record_model(context: Context, name: str) -> Context:
    """Return the context with the model that answers now, and the one that it replaced."""
    if name == context.model:
        return context
    return replace(context, model=name, gave_way=context.gave_way or context.model)
