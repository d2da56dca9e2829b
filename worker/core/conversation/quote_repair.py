"""One chance to repair quotes that could not be proven, and parts that a note must not hold.

Pure; the transcript is the state.

The request is a user message in the history, after the answer it is about: so a run that is taken
up again after a crash sees that the chance was given, the cached prefix stays as it is, and in a
later turn the model knows what became of its quotes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from worker.core.conversation import prompts
from worker.core.conversation.context import Context, Outcome, Status
from worker.core.conversation.limits import Limits, find_reached_limits
from worker.core.conversation.messages import Assistant, User
from worker.core.finding import (
    Finding,
    Unproven,
    WithheldPart,
    find_unproven,
    parse_finding,
    prove_finding,
)
from worker.core.ports import Captures
from worker.core.text.redacted_values import redact_values
from worker.core.text.sentences import ASKED, SHOWN, before_code, split_sentences


def may_repair(context: Context, outcome: Outcome, limits: Limits, now: float) -> bool:
    """Whether the model may be asked again: a whole finding, and budget for one request."""
    return (
        context.investigates
        and outcome.status is Status.DONE
        and _asked_at(context) is None
        and not find_reached_limits(limits, context.turn_usage, now, 1.0)
    )


@dataclass(frozen=True, slots=True)
class Objections:
    """What is wrong with an answer: quotes that are not there, parts that must not be posted,
    sections whose first sentence is too long to be shown whole."""

    unproven: tuple[Unproven, ...] = ()
    kept_back: tuple[WithheldPart, ...] = ()
    too_long: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.unproven or self.kept_back or self.too_long)


def find_objections(
    answer: str,
    captures: Captures,
    redact: Callable[[str], str],
    kept_back: Callable[[str], tuple[WithheldPart, ...]],
) -> Objections:
    """What is wrong with an `answer`; `kept_back` finds what must not be posted of it redacted."""
    answer = redact(answer)
    found = parse_finding(answer)
    # The reasons hold names that others gave.
    unproven = redact_values(find_unproven(found, captures), redact)
    parts = kept_back(answer)
    return Objections(unproven, parts, _too_long(found, SHOWN if not unproven + parts else ASKED))


def _too_long(found: Finding, most: int) -> tuple[str, ...]:
    """The sections whose first sentence has more than `most` characters."""
    sections = (("Cause", found.cause), ("What to do", found.to_do))
    return tuple(
        title
        for title, text in sections
        if len(next(iter(split_sentences(before_code(text))), "")) > most
    )


def ask_for_repair(context: Context, wrong: Objections) -> Context:
    """Return `context` with the request to repair what is wrong."""
    return context.add(
        User(prompts.write_repair_request(wrong.unproven, wrong.kept_back, wrong.too_long))
    )


def choose_outcome(context: Context, outcome: Outcome) -> Outcome:
    """Return the outcome of a turn in which the model may have been asked for a repair, or another
    one may have taken over.

    If that did not end in an answer, the answer before it still counts: it was complete.
    """
    first = find_first_answer(context) or _find_answer_before_takeover(context)
    return outcome if not first or outcome.status is Status.DONE else Outcome(Status.DONE, first)


def find_first_answer(context: Context) -> str:
    """The answer that the model was asked to repair, "" if it was not."""
    at = _asked_at(context)
    before = context.messages[at - 1] if at else None
    return before.text if isinstance(before, Assistant) else ""


def make_finding(
    context: Context, outcome: Outcome, captures: Captures, redact: Callable[[str], str]
) -> Finding:
    """The finding of a turn that ended in `outcome`, redacted and proven.

    After a repair that gives nothing but quotes, they join what was proven before.
    """
    text, first = redact(outcome.text), redact(find_first_answer(context))
    latest = prove_finding(parse_finding(text), captures)
    if not first or latest.cause or latest.what_failed or latest.to_do or latest.missing_evidence:
        return latest
    before = parse_finding(first)
    repaired = parse_finding(f"## Evidence\n{text}")
    if not repaired.evidence:
        return prove_finding(before, captures)
    kept = prove_finding(before, captures).evidence
    merged = replace(before, evidence=kept + repaired.evidence, unproven=repaired.unproven)
    return prove_finding(merged, captures)


def _find_answer_before_takeover(context: Context) -> str:
    at = _find_last(context, (prompts.TAKEOVER,), context.turn_start)
    before = context.messages[at - 1] if at else None
    return before.text if isinstance(before, Assistant) else ""


def _asked_at(context: Context) -> int | None:
    """Where in this turn the request to repair stands that the present model was given."""
    began = _find_last(context, (prompts.TAKEOVER,), context.turn_start)
    return _find_last(context, prompts.REPAIRS, began or context.turn_start)


def _find_last(context: Context, beginnings: tuple[str, ...], after: int) -> int | None:
    """The newest message of ours after that one which begins so."""
    for at in range(len(context.messages) - 1, after, -1):
        message = context.messages[at]
        if isinstance(message, User) and message.text.startswith(beginnings):
            return at
    return None
