"""Adds an answer of the model to the session. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from worker.conversation import prompts
from worker.conversation.context import CacheMark, CallCost, Context
from worker.conversation.decide import Ask, record_request, record_warning
from worker.conversation.limits import TurnUsage
from worker.conversation.messages import (
    Assistant,
    Message,
    User,
    WireForm,
    add_cost,
    drop_wire,
    rename_repeated_calls,
)
from worker.conversation.model import HelperAnswer, Reply, StopReason
from worker.conversation.tiers import REPLY
from worker.settings.runs import LoopSettings

_UNUSABLE = {StopReason.REFUSED, StopReason.BLOCKED}
_CUT = {StopReason.TRUNCATED, StopReason.CONTEXT_OVERFLOW}
_COMPLETE = {StopReason.END, StopReason.TOOL_CALLS}

_DEFAULTS = LoopSettings()
_REQUEST_SHARE = 0.9
"""The share of a stated window that a request may use: the rest is for the answer."""

_MOST_UNDERESTIMATED = 8
"""A count of more than this many times our estimate is none of this request's."""


def absorb_reply(
    context: Context,
    ask: Ask,
    reply: Reply,
    origin: str,
    kept_notice: str,
    *,
    at: float = 0.0,
    seconds: float = 0.0,
    cache: CacheMark | None = None,
    loop: LoopSettings = _DEFAULTS,
) -> Context:
    """Return `context` after `reply` to `ask`.

    Calls in an answer to a final request are dropped here, even if the provider did not have the
    tools switched off, and so are more than `loop` allows: calls that are not in the context are
    never run. Calls whose ids were used before get new ids. If an answer was cut or malformed, its
    text is kept, and the history says what was wrong. `origin` tags the verbatim wire form; if the
    provider refused earlier ones, they are removed. `kept_notice` is the ephemeral text of the
    request if it must stay in the history as sent, because the answer's signed thinking depends on
    it; else "". The request was sent `at` (epoch seconds), took
    `seconds`, and left `cache` as the newest mark of the prompt cache.
    """
    reply = _drop_too_many_calls(reply, loop.calls_per_answer)
    reply = replace(reply, calls=rename_repeated_calls(reply.calls, context.messages))
    spent, added = _record_reply(context.turn_usage, ask, reply, origin, kept_notice, loop)
    before = context.messages
    if reply.bare:
        # Later signatures will cover the history as it was sent this time.
        before = tuple(drop_wire(message, origin) for message in before)
    answers = (
        len(before) + index for index, each in enumerate(added) if isinstance(each, Assistant)
    )
    position = next(answers, -1)
    tier, level = _name_tier(context, origin)
    cost = CallCost(
        turn=context.turn,
        model=origin,
        usage=reply.usage,
        cost_usd=reply.cost_usd,
        sent_at=at,
        seconds=seconds,
        message=position,
        tier=tier,
        reasoning=level,
    )
    return _charge_call(context, spent, cost, messages=before + added, cache=cache)


def _drop_too_many_calls(reply: Reply, most: int) -> Reply:
    """Return the reply without its calls if they are more than one answer may have."""
    if len(reply.calls) <= most:
        return reply
    return replace(reply, calls=(), dropped_calls=reply.dropped_calls + len(reply.calls))


def _name_tier(context: Context, origin: str) -> tuple[str, str]:
    """Return the tier of a call, and its reasoning level if the tier's own model has answered."""
    if reply := context.reply_model:
        return REPLY, reply.reasoning
    chosen = context.tier
    if chosen is None:
        return "", ""
    return chosen.tier, chosen.reasoning if chosen.model == origin else ""


def _record_reply(
    before: TurnUsage, ask: Ask, reply: Reply, origin: str, notice: str, loop: LoopSettings
) -> tuple[TurnUsage, tuple[Message, ...]]:
    """Return the usage after the reply, without its costs, and the messages that it adds."""
    spent = record_request(before, ask, reply.usage.input)
    if reply.stop in _UNUSABLE:
        return replace(spent, halt=_explain_unusable(reply)), ()
    broken = reply.stop not in _COMPLETE or reply.dropped_calls > 0
    if broken and not ask.final:
        return _record_broken(spent, reply, loop)
    calls = () if ask.final else reply.calls
    if not calls and not reply.text.strip():
        spent = replace(
            spent,
            empty_answers=spent.empty_answers + 1,
            final_was_only_calls=bool(ask.final and (reply.calls or reply.dropped_calls)),
        )
        return spent, ()
    spent = replace(
        spent,
        empty_answers=0,
        final_was_only_calls=False,
        last_was_cut=reply.stop in _CUT,
        broken_answers=int(broken),
    )
    # The thinking and its notice are kept only if the whole answer is.
    is_complete = not broken and calls == reply.calls
    wire = WireForm(origin, reply.wire) if is_complete and reply.wire else None
    answer = Assistant(reply.text, calls, wire)
    if is_complete and notice:
        return record_warning(spent, ask), (User(notice), answer)
    return spent, (answer,)


def _record_broken(
    spent: TurnUsage, reply: Reply, loop: LoopSettings
) -> tuple[TurnUsage, tuple[Message, ...]]:
    """Return the usage after a cut or malformed answer, its text, and what the model is told."""
    cut = reply.stop in _CUT
    spent = replace(
        spent, empty_answers=0, last_was_cut=cut, broken_answers=spent.broken_answers + 1
    )
    answer: tuple[Message, ...] = (Assistant(reply.text),) if reply.text.strip() else ()
    if spent.broken_answers >= loop.broken_answers:
        return spent, answer
    notice = prompts.tell_broken_answer(
        cut=cut,
        calls=reply.dropped_calls,
        again=spent.broken_answers > 1,
        most=loop.calls_per_answer,
    )
    return spent, (*answer, User(notice))


def charge_helper(context: Context, task: str, answers: Sequence[HelperAnswer]) -> Context:
    """Return `context` after helper calls for `task`: they add to the costs, not the iterations."""
    for each in answers:
        cost = CallCost(
            turn=context.turn,
            model=each.model,
            usage=each.usage,
            cost_usd=each.cost_usd,
            sent_at=each.sent_at,
            seconds=each.seconds,
            task=task,
        )
        context = _charge_call(context, context.turn_usage, cost)
    return context


def _charge_call(context: Context, spent: TurnUsage, call: CallCost, **changes: Any) -> Context:
    """Return `context` with `changes`, and the call added to the costs of the turn (`spent`) and of
    the session."""
    return replace(
        context,
        usage=context.usage + call.usage,
        cost_usd=add_cost(context.cost_usd, call.cost_usd),
        turn_usage=replace(
            spent, usage=spent.usage + call.usage, cost_usd=add_cost(spent.cost_usd, call.cost_usd)
        ),
        calls=(*context.calls, call),
        **changes,
    )


def record_overflow(
    context: Context, stated_limit: int, stated_count: int, estimated: int
) -> Context:
    """Return `context` after a provider has refused the request as too long.

    `stated_limit` is the number of tokens that the provider says it accepts, `stated_count` how
    many it has counted, 0 if it does not say; `estimated` are those that we took it for. From here
    on the provider's count is what requests are measured by, since an estimate that is too low
    would not let the conversation be folded.
    """
    counted = max(stated_count or estimated, stated_limit + 1)
    tokens = min(counted, estimated * _MOST_UNDERESTIMATED)
    window = int((stated_limit or tokens) * _REQUEST_SHARE)
    spent = replace(
        context.turn_usage,
        refused_at=len(context.messages),
        window=window,
        refused_tokens=tokens,
        refused_folds=len(context.folds),
    )
    return replace(context, turn_usage=spent)


def halt_turn(context: Context, reason: str) -> Context:
    """Return `context` with a reason to end the run: `decide` then stops with what there is."""
    return replace(context, turn_usage=replace(context.turn_usage, halt=reason))


def _explain_unusable(reply: Reply) -> str:
    verb = "refused to answer" if reply.stop is StopReason.REFUSED else "was blocked"
    return f"the model {verb}" + (f": {reply.detail}" if reply.detail else "")
