"""Adds an answer of the model to the session, and results to calls that have none. Pure."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from worker.conversation import prompts
from worker.conversation.context import CacheMark, CallCost, Context
from worker.conversation.decide import Ask
from worker.conversation.limits import TurnUsage
from worker.conversation.messages import (
    Assistant,
    Message,
    ToolCall,
    ToolResult,
    User,
    WireForm,
    add_cost,
    drop_wire,
    find_open_calls,
    find_results,
    find_saved_files,
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
    if len(reply.calls) > loop.calls_per_answer:
        reply = replace(reply, calls=(), dropped_calls=reply.dropped_calls + len(reply.calls))
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
    chosen = context.tier
    tier = level = ""
    if own := context.reply_model:
        tier, level = REPLY, own.reasoning
    elif chosen:
        # The level is the tier's if its own model has answered.
        tier, level = chosen.tier, chosen.reasoning if chosen.model == origin else ""
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


def _record_reply(
    before: TurnUsage, ask: Ask, reply: Reply, origin: str, notice: str, loop: LoopSettings
) -> tuple[TurnUsage, tuple[Message, ...]]:
    """Return the usage after the reply, without its costs, and the messages that it adds."""
    spent = replace(
        before,
        iterations=before.iterations + 1,
        context_tokens=reply.usage.input,
        final=frozenset(ask.final),
    )
    if reply.stop in _UNUSABLE:
        verb = "refused to answer" if reply.stop is StopReason.REFUSED else "was blocked"
        why = f": {reply.detail}" if reply.detail else ""
        return replace(spent, halt=f"the model {verb}{why}"), ()
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
    if not (is_complete and notice):
        return spent, (answer,)
    if ask.soft:  # the warning has become a part of the history
        spent = replace(
            spent,
            warned_budgets=frozenset(each.budget.name for each in ask.soft),
            warned_share=max(each.share for each in ask.soft),
        )
    return spent, (User(notice), answer)


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


_WORKER_DIED = (
    "the worker died before this call's result was kept: it may have run wholly, in part or not at "
    "all, and what it wrote is lost; look at what is there, and call it again if you need to"
)


_SANDBOX_DIED = (
    "the sandbox died while this ran: it may have run wholly, in part or not at all, and what it "
    "wrote is gone"
)


def close_calls(context: Context, reason: str) -> Context:
    """Answer the calls that a stopped run left open: every provider refuses calls without
    results."""
    content = json.dumps({"error": f"not run: {reason}"})
    orphans = find_open_calls(context.messages)
    return context.add(*(ToolResult(call.id, call.name, content, True) for call in orphans))


def close_lost_calls(
    context: Context, repeatable: Callable[[ToolCall], bool], *, in_sandbox: bool = False
) -> Context:
    """Answer the open calls of a run that died, except those that may be run again.

    `in_sandbox` says that the sandbox died, not the worker.
    """
    content = json.dumps({"error": _SANDBOX_DIED if in_sandbox else _WORKER_DIED})
    lost = (call for call in find_open_calls(context.messages) if not repeatable(call))
    return context.add(*(ToolResult(call.id, call.name, content, True) for call in lost))


def list_saving_calls(
    context: Context, repeatable: Callable[[ToolCall], bool], known: int = 0
) -> Iterator[tuple[ToolCall, int]]:
    """The repeatable calls of this turn that saved files, each with its result's number.

    The results of the session are numbered from 0. Calls in its first `known` messages are left
    out.
    """
    calls = {
        call.id: call
        for message in context.messages[max(known, context.turn_start) :]
        if isinstance(message, Assistant)
        for call in message.calls
    }
    for number, result in enumerate(find_results(context.messages)):
        call = calls.get(result.call_id)
        if call and repeatable(call) and find_saved_files([result]):
            yield call, number
