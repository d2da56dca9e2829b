"""A watcher that counts the events of runs as metrics (see `conversation.events.Watcher`)."""

from collections.abc import Callable, Collection
from contextvars import ContextVar
from dataclasses import dataclass, field

from worker.conversation.context import Context, Status
from worker.conversation.events import (
    Backlog,
    Event,
    Milestone,
    Stage,
    ToolRan,
    TriggerBegun,
    TriggerLeft,
    TurnEnded,
    VerdictJudged,
    VotesChanged,
    Watcher,
)
from worker.settings.models import Signal
from worker.telemetry.metrics import Metrics
from worker.verdict.verdict import Verdict

_ORIGINS = ("rule", "known")
OTHER = "other"


@dataclass(slots=True)
class _Run:
    """The trigger that a thread works on; `since` is when it was queued, in monotonic seconds."""

    since: float
    waited: float | None = None
    seen: set[Milestone] = field(default_factory=set)


_run: ContextVar[_Run | None] = ContextVar("sandpiper_run", default=None)


def make_watcher(
    metrics: Metrics, monotonic: Callable[[], float], tools: Collection[str]
) -> Watcher:
    """Make a watcher that counts events. Tools not among `tools` are counted as "other"."""

    def watch(event: Event) -> None:
        match event:
            case TriggerBegun(trigger, waited):
                _run.set(_Run(monotonic() - (waited or 0.0), waited))
                metrics.running_sessions.inc()
            case TriggerLeft(trigger, outcome, ran):
                run = _run.get()
                # A held trigger keeps waiting; a message that came twice has not waited for a run.
                if run and run.waited is not None and ran:
                    metrics.queue_wait.labels(trigger.kind).observe(run.waited)
                _run.set(None)
                metrics.running_sessions.dec()
                metrics.triggers.labels(trigger.kind, outcome).inc()
            case Stage(milestone=Milestone() as reached) if reached:
                _count_milestone(metrics, reached, monotonic())
            case ToolRan():
                tool = event.call.name if event.call.name in tools else OTHER
                outcome = "failed" if event.is_error else "done"
                metrics.tools.labels(tool, outcome).observe(event.seconds)
            case TurnEnded():
                _count_end(metrics, event)
            case Backlog(unfinished, parked, oldest):
                metrics.journal.labels("unfinished").set(unfinished)
                metrics.journal.labels("parked").set(parked)
                metrics.journal_age.set(oldest)
            case VotesChanged(given, withdrawn):
                for change, votes in (("given", given), ("withdrawn", withdrawn)):
                    for vote in votes:
                        metrics.reactions.labels(vote, change).inc()
            case VerdictJudged(verdict, label):
                metrics.verdict_labels.labels(Verdict(verdict).name.lower(), label).inc()
            case _:
                pass

    return watch


def _count_milestone(metrics: Metrics, reached: Milestone, now: float) -> None:
    """Count each milestone once per run: posting a note again is not a second result."""
    run = _run.get()
    if run is None or reached in run.seen:
        return
    run.seen.add(reached)
    histogram = metrics.to_note if reached is Milestone.NOTE else metrics.to_placeholder
    histogram.observe(now - run.since)


def _count_end(metrics: Metrics, event: TurnEnded) -> None:
    context = event.context
    if context is None:
        return
    metrics.iterations.labels(event.outcome.status).observe(context.turn_usage.iterations)
    verdict = _find_verdict(context, event.outcome.status)
    metrics.notes.labels(verdict, _find_origin(context)).inc()
    for kind, number, _ in context.redactions:
        metrics.redactions.labels(kind).inc(number)
    for fold in context.folds:
        if fold.made_at > context.turn_start:
            metrics.folds.labels(fold.kind).inc()
    if context.gave_way:
        metrics.fallbacks.labels(context.gave_way).inc()
    _count_tier(metrics, context)


def _count_tier(metrics: Metrics, context: Context) -> None:
    for call in context.calls:
        if call.turn == context.turn and call.tier:
            metrics.tier_calls.labels(call.tier, call.reasoning, call.model).inc()
    tier = context.tier
    if tier and tier.raised_in == context.turn:
        signal = tier.reason.removeprefix("raised: ")
        signal = signal if signal in tuple(Signal) else "asked"
        metrics.tier_raises.labels(tier.tier, signal).inc()


def _find_verdict(context: Context, status: Status) -> str:
    if status is Status.FAILED:
        return "failure"
    return Verdict(context.verdict).name.lower() if context.verdict else "answer"


def _find_origin(context: Context) -> str:
    return context.found_by if context.is_look and context.found_by in _ORIGINS else "model"
