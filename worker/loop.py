"""The driver: performs what `decide` asks for, and checkpoints after every step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from worker.core import prompts
from worker.core.absorb import absorb, halt, mark
from worker.core.breakpoints import place
from worker.core.context import Context
from worker.core.decide import Act, Ask, Stop, decide
from worker.core.limits import Limits
from worker.core.messages import ToolCall, groups, results
from worker.core.ports import Clock, Model, Reply, Request, Toolbox
from worker.core.progress import Answered, Asking, ToolRan, Watcher
from worker.errors import ModelError, SandboxLost

FINAL_GRACE = 120.0
"""Seconds past the wall-clock limit that the final answer may take."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What one run is driven with."""

    model: Model
    toolbox: Toolbox
    clock: Clock
    checkpoint: Callable[[Context], None]
    watch: Watcher


def drive(context: Context, limits: Limits, parts: Parts) -> Context:
    """Run `context` to its outcome. Raises only what `checkpoint` raises."""
    while True:
        match decide(context, limits, parts.clock.now()):
            case Ask() as ask:
                context = _ask(context, ask, limits, parts)
            case Act(calls):
                context = _act(context, calls, parts)
            case Stop(outcome):
                return replace(context, outcome=outcome)
        parts.checkpoint(context)


def _ask(context: Context, ask: Ask, limits: Limits, parts: Parts) -> Context:
    notice = prompts.notice(ask)
    previous = context.cache.position if context.cache else None
    placement = place(len(groups(context.messages)), previous, ephemeral=bool(notice))
    request = Request(
        system=context.system,
        tools=context.tools,
        messages=context.messages,
        notice=notice,
        tools_allowed=not ask.final,
        marks=placement.marks,
        deadline=_deadline(context, limits, parts.clock),
    )
    parts.watch(Asking(context.spent.iterations + 1, limits.max_iterations, notice))
    sent_at, started = parts.clock.now(), parts.clock.monotonic()
    try:
        reply = parts.model.reply(request)
    except ModelError as error:
        return halt(context, str(error))
    parts.watch(_answered(reply, limits, parts.clock.monotonic() - started))
    kept = notice if reply.thought and parts.model.binds_thinking else ""
    return mark(absorb(context, ask, reply, parts.model.name, kept), placement, sent_at)


def _act(context: Context, calls: Sequence[ToolCall], parts: Parts) -> Context:
    first = sum(1 for _ in results(context.messages))
    by_id = {call.id: call for call in calls}
    try:
        for ran in parts.toolbox.run(calls, first):
            context = context.add(ran.result)
            shown = len(ran.result.content.encode(errors="replace"))
            call = by_id[ran.result.call_id]
            parts.watch(ToolRan(call, ran.size, shown, ran.seconds, ran.result.is_error))
    except SandboxLost as error:
        return halt(context, f"the sandbox was lost: {error}")
    return context


def _deadline(context: Context, limits: Limits, clock: Clock) -> float:
    left = limits.wall_clock - (clock.now() - context.spent.started_at)
    return clock.monotonic() + max(left, 0.0) + FINAL_GRACE


def _answered(reply: Reply, limits: Limits, seconds: float) -> Answered:
    return Answered(
        usage=reply.usage,
        context_share=reply.usage.input / limits.context_tokens,
        cost_usd=reply.cost_usd,
        seconds=seconds,
        text=reply.text,
        calls=reply.calls,
    )
