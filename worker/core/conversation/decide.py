"""What happens next: a pure function of the transcript, the limits and the clock.

A first run, a reply and a restart after a crash enter here alike (design, section 2).
"""

from dataclasses import dataclass, replace

from worker.core.conversation.context import Context, Outcome, Status
from worker.core.conversation.limits import (
    MAX_BROKEN,
    MAX_EMPTY_RETRIES,
    SOFT,
    Dimension,
    Limits,
    Spent,
    reached,
)
from worker.core.conversation.messages import Assistant, ToolCall, unanswered
from worker.core.conversation.repeated_calls import HINT_AT, STOP_AT, repeats


@dataclass(frozen=True, slots=True)
class Ask:
    """Send the conversation to the model.

    `soft` are the budgets to warn of for the first time. `final` asks for the final answer: calls
    in it are dropped. `insist` says that the final answer was asked for before and held only
    calls: now the tools go off on the wire too. `empty` nudges after an empty answer.
    """

    soft: tuple[Dimension, ...] = ()
    final: tuple[Dimension, ...] = ()
    insist: bool = False
    empty: bool = False


@dataclass(frozen=True, slots=True)
class Act:
    """Run these calls and append their results.

    `repeated` calls were made again and again: they are answered with a hint instead.
    """

    calls: tuple[ToolCall, ...]
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Stop:
    """The turn is over."""

    outcome: Outcome


Next = Ask | Act | Stop


def decide(context: Context, limits: Limits, now: float) -> Next:
    """The next step of `context`; `now` is in epoch seconds."""
    spent = context.spent
    if spent.halt:
        return _stop(context, spent.halt)
    if pending := unanswered(context.messages):
        return _act(context, pending)
    if isinstance(context.messages[-1], Assistant):
        return _finished(context)
    if spent.broken >= MAX_BROKEN:
        return _stop(context, _flaw(spent))
    if spent.empties > MAX_EMPTY_RETRIES:
        return _stop(context, "the model gave no answer, also after two reminders")
    return _ask(context, limits, now)


def _act(context: Context, pending: tuple[ToolCall, ...]) -> Next:
    count = repeats(context.messages)
    if count >= STOP_AT:
        return _stop(context, f"the model made the same calls {count} times in a row")
    return Act(pending, repeated=count >= HINT_AT)


def _ask(context: Context, limits: Limits, now: float) -> Next:
    spent = context.spent
    # A last iteration that was spent on calls alone is made good by a single extra request: the
    # price, paid by few runs, of leaving the tools in every other final request.
    if spent.iterations >= limits.max_iterations + spent.defied:
        return _stop(context, "all iterations are used up and the model gave no final answer")
    final = reached(limits, spent, now, 1.0)
    if spent.final and not final:
        final = tuple(sorted(spent.final))
    soft = () if final else _unwarned(limits, spent, now)
    return Ask(soft=soft, final=final, insist=spent.defied, empty=spent.empties > 0)


def _unwarned(limits: Limits, spent: Spent, now: float) -> tuple[Dimension, ...]:
    return tuple(name for name in reached(limits, spent, now, SOFT) if name not in spent.warned)


def _finished(context: Context) -> Stop:
    text = context.last_text()
    if context.spent.truncated or context.spent.broken:
        return Stop(Outcome(Status.PARTIAL, text, _flaw(context.spent)))
    if context.spent.final:
        used_up = " and ".join(sorted(context.spent.final))
        return Stop(Outcome(Status.PARTIAL, text, f"stopped at its limit of {used_up}"))
    return Stop(Outcome(Status.DONE, text))


def _flaw(spent: Spent) -> str:
    what = "was cut at its length limit" if spent.truncated else "came out broken"
    often = f", {spent.broken} times in a row" if spent.broken > 1 else ""
    return f"the model's answer {what}{often}"


def _stop(context: Context, reason: str) -> Stop:
    return Stop(_cut_short(context, reason))


def conclude(context: Context) -> Outcome:
    """The outcome of a context that was halted."""
    return _cut_short(context, context.spent.halt)


def _cut_short(context: Context, reason: str) -> Outcome:
    text = context.last_text()
    return Outcome(Status.PARTIAL if text else Status.FAILED, text, reason)


def asked(spent: Spent, ask: Ask) -> Spent:
    """`spent` after the request of `ask` was sent: warnings count once."""
    return replace(spent, warned=spent.warned.union(ask.soft), final=frozenset(ask.final))
