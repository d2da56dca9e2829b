"""Changes the context when another model takes over a turn. Pure.

Signals of the transcript raise the tier before a request (`upgrades`), signals of an answer after
it, and the model itself may ask with the tool `set_tier`. Each change is kept in the context before
the next request, so that another worker that takes over the run uses the same model.
"""

import json
from dataclasses import replace

from worker.core.conversation import prompts
from worker.core.conversation.context import Context
from worker.core.conversation.limits import Limits
from worker.core.conversation.messages import ToolCall, ToolResult, ToolSpec, User
from worker.core.conversation.upgrades import explain_no_raise
from worker.core.routing.tiers import (
    Signal,
    TierChoice,
    TierRules,
    choose_on_request,
    find_upgrade,
    list_tiers,
)
from worker.core.text.untrusted_json import parse_object

SET_TIER = "set_tier"
_LONGEST_NAME = 40


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
    raised = find_upgrade(limits.tier_rules, context.tier, signal, context.turn)
    if raised is None:
        return None
    return switch_tier(context, raised).add(User(prompts.tell_takeover(signal)))


def answer_set_tier(context: Context, call: ToolCall, limits: Limits) -> Context:
    """Return the context with the result of a `set_tier` call, and the tier if it is granted."""
    wanted = str(parse_object(call.arguments).get("tier", ""))[:_LONGEST_NAME]
    refusal = explain_no_raise(context, limits)
    chosen = refusal or choose_on_request(
        limits.tier_rules, context.tier or TierChoice("", ""), wanted, context.turn
    )
    if isinstance(chosen, str):
        return context.add(_make_result(call, {"error": chosen}, is_error=True))
    answer = {"tier": chosen.tier, "takes effect": "at the next request"}
    return switch_tier(context, chosen).add(_make_result(call, answer))


def _make_result(call: ToolCall, content: dict[str, str], *, is_error: bool = False) -> ToolResult:
    return ToolResult(call.id, call.name, json.dumps(content, ensure_ascii=False), is_error)


def switch_tier(context: Context, choice: TierChoice) -> Context:
    """Return the context with another tier, without what was learnt about the previous model."""
    spent = replace(
        context.turn_usage,
        refused_at=-1,
        window=0,
        refused_tokens=0,
        refused_folds=0,
        broken_answers=0,
        empty_answers=0,
    )
    return replace(context, tier=choice, turn_usage=spent, cache=None, gave_way="")


def record_model(context: Context, name: str) -> Context:
    """Return the context with the model that answers now, and the one that it replaced."""
    if name == context.model:
        return context
    return replace(context, model=name, gave_way=context.gave_way or context.model)
