"""Decides what happens next: a pure function of the transcript, the limits and the clock.

A first run, a reply and a restart after a crash all enter here.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile

from worker.conversation.context import Context, Outcome, Status
from worker.conversation.fold_plan import choose_fold
from worker.conversation.folds import Fold
from worker.conversation.limits import (
    SOFT,
    Limits,
    Spending,
    TurnUsage,
    find_reached_limits,
)
from worker.conversation.messages import Assistant, Message, ToolCall, ToolResult, find_open_calls
from worker.conversation.model_switch import Escalate, find_escalation


@dataclass(frozen=True, slots=True)
class Ask:
    """Send the conversation to the model.

    `soft` are the budgets to warn of. `final` names the used-up budgets for which this asks for the
    final answer: calls in it are dropped. `insist` says that the final answer was asked for before
    and held only calls: now the tools are switched off on the wire too. `empty` reminds after an
    empty answer.
    """

    soft: tuple[Spending, ...] = ()
    final: tuple[str, ...] = ()
    insist: bool = False
    empty: bool = False


@dataclass(frozen=True, slots=True)
class Act:
    """Run these calls and append their results.

    If `is_repetition`, the model has made the same calls several times: it gets a hint instead.
    """

    calls: tuple[ToolCall, ...]
    is_repetition: bool = False


@dataclass(frozen=True, slots=True)
class Stop:
    """The turn is over."""

    outcome: Outcome


Next = Ask | Act | Fold | Escalate | Stop


def decide(context: Context, limits: Limits, now: float) -> Next:
    """The next step of `context`; `now` is in epoch seconds."""
    spent, loop = context.turn_usage, limits.loop
    if spent.halt:
        return _stop(context, spent.halt)
    if pending := find_open_calls(context.messages):
        count = count_repeats(context.messages, limits.most_same_calls)
        if count >= limits.most_same_calls:
            return _stop(context, f"the model made the same calls {count} times in a row")
        return Act(pending, is_repetition=count >= limits.max_identical_calls)
    if isinstance(context.messages[-1], Assistant):
        text = context.last_text()
        if spent.last_was_cut or spent.broken_answers:
            return Stop(Outcome(Status.PARTIAL, text, _describe_flaw(spent)))
        if spent.final:
            used_up = " and ".join(sorted(spent.final))
            return Stop(Outcome(Status.PARTIAL, text, f"stopped at its limit of {used_up}"))
        return Stop(Outcome(Status.DONE, text))
    if spent.broken_answers >= loop.broken_answers:
        return _stop(context, _describe_flaw(spent))
    if spent.empty_answers > loop.empty_retries:
        reminders = loop.empty_retries
        often = {1: "a reminder", 2: "two reminders"}.get(reminders, f"{reminders} reminders")
        also = f", also after {often}" if reminders else ""
        return _stop(context, f"the model gave no answer{also}")
    return _ask(context, limits, now)


def _ask(context: Context, limits: Limits, now: float) -> Next:
    spent = context.turn_usage
    if escalation := find_escalation(context, limits):
        return escalation
    if fold := choose_fold(context, limits, now):
        return fold
    # If the last iteration held only calls, a single extra request makes up for it. Few runs need
    # it, and it lets every other final request keep its tools.
    if spent.iterations >= limits.max_iterations + spent.final_was_only_calls:
        return _stop(context, "all iterations are used up and the model gave no final answer")
    used_up = find_reached_limits(limits, spent, now, 1.0)
    final = tuple(each.budget.name for each in used_up) or tuple(sorted(spent.final))
    near = () if final else find_reached_limits(limits, spent, now, SOFT)
    return Ask(
        soft=near if spent.needs_warning(near) else (),
        final=final,
        insist=spent.final_was_only_calls,
        empty=spent.empty_answers > 0,
    )


def _describe_flaw(spent: TurnUsage) -> str:
    what = "was cut at its length limit" if spent.last_was_cut else "came out broken"
    often = f", {spent.broken_answers} times in a row" if spent.broken_answers > 1 else ""
    return f"the model's answer {what}{often}"


def conclude_halted_turn(context: Context) -> Outcome:
    """The outcome of a turn that was halted: partial if the model has written a text."""
    return _stop(context, context.turn_usage.halt).outcome


def _stop(context: Context, reason: str) -> Stop:
    text = context.last_text()
    return Stop(Outcome(Status.PARTIAL if text else Status.FAILED, text, reason))


LONGEST_CYCLE = 3
"""The most answers in a repeated cycle; A-B-A-B has a cycle of two."""

HINT = (
    "you made exactly these calls before and nothing has changed since. Use the results "
    "you have, try something else, or write your final answer."
)


def count_repeats(messages: Sequence[Message], most: int) -> int:
    """How many times in a row the same calls were made, up to `most`.

    These are the calls of one answer or of a cycle of a few, the last answer included. Arguments
    are compared as JSON values.
    """
    batches = _list_batches(messages)
    newest = list(islice(batches, LONGEST_CYCLE + 1))
    if newest and newest[0] not in newest[1:]:
        return 1
    newest += islice(batches, LONGEST_CYCLE * most - len(newest))
    counts = [0]
    for size in range(1, LONGEST_CYCLE + 1):
        pairs = zip(newest, newest[size:], strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        counts.append(min((same + size) // size, len(newest), most))
    return max(counts)


def _list_batches(messages: Sequence[Message]) -> Iterator[list[tuple[str, str]]]:
    """The calls of each answer since the last user message or text-only answer, newest first."""
    for message in reversed(messages):
        if isinstance(message, ToolResult):
            continue
        if not isinstance(message, Assistant) or not message.calls:
            return
        yield sorted((call.name, normalise_arguments(call.arguments)) for call in message.calls)


def normalise_arguments(arguments: str) -> str:
    """Return JSON text with one spacing and order of keys; text that is no JSON as it is."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments
