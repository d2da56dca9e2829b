"""When another model takes over a turn, and what that changes in the context. Pure.

Signals of the transcript raise the tier before a request, signals of an answer after it, and the
model itself may ask with the tool `set_tier`. Each change is kept in the context before the next
request, so that another worker that takes over the run uses the same model.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from worker.conversation import prompts
from worker.conversation.context import Context
from worker.conversation.limits import Limits, TurnUsage
from worker.conversation.messages import Assistant, Message, ToolCall, ToolResult, ToolSpec, User
from worker.conversation.tiers import (
    TierChoice,
    TierRules,
    list_tiers,
)
from worker.safety.untrusted import parse_object
from worker.settings.models import Signal

_MOST_MALFORMED = 2
"""This many broken or empty answers in a row raise the tier."""


@dataclass(frozen=True, slots=True)
class Escalate:
    """Another model goes on with the turn: a stronger one, that of `choice`, because of `signal`;
    or if the reply's own model is not to go on, for `reason`, that of the session."""

    choice: TierChoice | None = None
    signal: Signal | None = None
    reason: str = ""


def find_escalation(context: Context, limits: Limits) -> Escalate | None:
    """Return the change of model that the transcript calls for before the next request, or None.

    A reply's own model gets one request: whatever its answer was, it was not the end.
    """
    if context.reply_model:
        is_asked = context.turn_usage.iterations > 0
        return Escalate(reason=_explain_more_needed(context)) if is_asked else None
    if context.tier is None or _explain_no_raise(context, limits):
        return None
    spent, signals = context.turn_usage, list[Signal]()
    malformed = 0 if spent.last_was_cut else spent.broken_answers
    if max(malformed, spent.empty_answers) >= _MOST_MALFORMED:
        signals.append(Signal.MALFORMED)
    watches_code = Signal.CODE in limits.tier_rules.upgrade
    if watches_code and shows_code_work(context.messages[context.turn_start + 1 :]):
        signals.append(Signal.CODE)
    for signal in signals:
        if choice := limits.tier_rules.find_upgrade(context.tier, signal, context.turn):
            return Escalate(choice, signal)
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


def _explain_no_raise(context: Context, limits: Limits) -> str:
    """Say why the turn's model cannot be changed now, "" if it can."""
    if context.tier is None:
        return "there are no tiers here"
    spent = context.turn_usage
    if spent.final:
        return "the final answer was asked for"
    budget_left = 1.0 if spent.cost_usd is None else 1.0 - spent.cost_usd / limits.cost_usd
    return context.tier.explain_no_switch(context.turn, budget_left)


_ENDINGS = (
    *(".py", ".js", ".ts", ".java", ".go", ".rs", ".rb", ".sh", ".c", ".cpp", ".cs", ".kt"),
    *(".scala", ".swift", ".lua", ".r", ".pl", ".php", ".sql", ".yaml", ".yml", ".toml"),
    *(".gradle", ".cmake", ".makefile", "makefile", "dockerfile"),
)
_COMMAND = re.compile(
    r"(?:^|[;&|(]\s*)(?:python3?|node|npm|npx|pip3?|mvn|gradle|gcc|g\+\+|cargo|go|rustc|pytest"
    r"|make|cmake|javac|dotnet|ruby|tsc|webpack|esbuild|jest|mocha|yarn)\s"
)
_TRACE = re.compile(
    r"Traceback|SyntaxError|TypeError|NullPointerException|\bat (?:com|org)\.|\bpanic:|error\[E"
)
_FILE_TOOL = "gitlab_get_file"
_MOST = 4_096
"""Only this many characters of a text are searched."""


def shows_code_work(messages: Iterable[Message]) -> bool:
    """Whether one of the messages reads code, runs it, or holds a stack trace of it."""
    for message in messages:
        if isinstance(message, ToolResult) and _TRACE.search(message.content[:_MOST]):
            return True
        if isinstance(message, Assistant) and any(map(_works_on_code, message.calls)):
            return True
    return False


def _works_on_code(call: ToolCall) -> bool:
    arguments: Any = parse_object(call.arguments)
    command = arguments.get("command")
    if call.name == "sandbox_exec" and isinstance(command, str):
        return _COMMAND.search(f"{command[:_MOST]} ") is not None
    if arguments.get("source") == _FILE_TOOL:
        arguments = arguments.get("arguments")
    elif call.name != _FILE_TOOL:
        return False
    path = arguments.get("path") if isinstance(arguments, dict) else None
    return isinstance(path, str) and path.lower().endswith(_ENDINGS)


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


def escalate_for_answer(context: Context, limits: Limits, signal: Signal) -> Context | None:
    """Return the context in which a stronger model goes on after an answer, or None."""
    if context.tier is None or _explain_no_raise(context, limits):
        return None
    choice = limits.tier_rules.find_upgrade(context.tier, signal, context.turn)
    return hand_over(context, Escalate(choice, signal)) if choice else None


def hand_over(context: Context, escalation: Escalate) -> Context:
    """Return the context in which the model of `escalation` goes on, which is told so, and why."""
    if escalation.choice and escalation.signal:
        told = User(prompts.tell_takeover(escalation.signal))
        return _switch_tier(context, escalation.choice).add(told)
    return leave_reply_model(context, escalation.reason)


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
    refusal = _explain_no_raise(context, limits)
    chosen = refusal or limits.tier_rules.choose_on_request(
        context.tier or TierChoice("", ""), wanted, context.turn
    )
    if isinstance(chosen, str):
        return context.add(_make_result(call, {"error": chosen}, is_error=True))
    answer = {"tier": chosen.tier, "takes effect": "at the next request", "told": _TOLD}
    return _switch_tier(context, chosen).add(_make_result(call, answer))


def _make_result(call: ToolCall, content: dict[str, str], *, is_error: bool = False) -> ToolResult:
    return ToolResult(call.id, call.name, json.dumps(content, ensure_ascii=False), is_error)


def _switch_tier(context: Context, choice: TierChoice) -> Context:
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
