"""One chance to repair quotes that could not be proven. Pure; the transcript is the state.

The request is a user message in the history, after the answer it is about: so a run that is taken
up again after a crash sees that the chance was given, the cached prefix stays as it is, and in a
later turn the model knows what became of its quotes.
"""

from collections.abc import Callable
from dataclasses import replace

from worker.core import prompts
from worker.core.context import Context, Outcome, Status
from worker.core.finding import Finding, Unproven, parse, prove
from worker.core.limits import Limits, reached
from worker.core.messages import Assistant, User
from worker.core.ports import Captures


def may_repair(context: Context, outcome: Outcome, limits: Limits, now: float) -> bool:
    """Whether the model may be asked again: a whole first finding, and budget for one request."""
    return (
        context.turn == 0
        and outcome.status is Status.DONE
        and _asked_at(context) is None
        and not reached(limits, context.spent, now, 1.0)
    )


def asked(context: Context, failed: tuple[Unproven, ...]) -> Context:
    """`context` with the request to repair these quotes."""
    return context.add(User(prompts.repair(failed)))


def settled(context: Context, outcome: Outcome) -> Outcome:
    """The outcome, if the model was asked again: a chance that came to nothing takes nothing away.

    The answer before it was whole, whatever ended the run after it.
    """
    first = first_answer(context)
    return outcome if not first or outcome.status is Status.DONE else Outcome(Status.DONE, first)


def first_answer(context: Context) -> str:
    """The answer that the model was asked to repair, "" if it was not."""
    at = _asked_at(context)
    before = context.messages[at - 1] if at else None
    return before.text if isinstance(before, Assistant) else ""


def finding(
    context: Context, outcome: Outcome, captures: Captures, redact: Callable[[str], str]
) -> Finding:
    """The finding of a turn that ended in `outcome`, redacted and proven.

    After a repair that gives nothing but quotes, they join what was proven before.
    """
    text, first = redact(outcome.text), redact(first_answer(context))
    latest = prove(parse(text), captures)
    if not first or latest.cause or latest.failed or latest.to_do or latest.missing:
        return latest
    before = parse(first)
    repaired = parse(f"## Evidence\n{text}")
    if not repaired.evidence:
        return prove(before, captures)
    kept = prove(before, captures).evidence
    merged = replace(before, evidence=kept + repaired.evidence, unproven=repaired.unproven)
    return prove(merged, captures)


def _asked_at(context: Context) -> int | None:
    """Where in this turn the request to repair stands."""
    for at in range(len(context.messages) - 1, context.turn_start, -1):
        message = context.messages[at]
        if isinstance(message, User) and message.text.startswith(prompts.REPAIR):
            return at
    return None
