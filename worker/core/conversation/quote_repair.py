"""Gives the model one chance to complete its answer, and one to repair what cannot be posted.

A repair is for unproven quotes, parts that a note must not contain, first sentences that are too
long, and a second cause that would be cut. Pure; the transcript is the state.

The request is a user message in the history, after the answer it is about. So a run that resumes
after a crash sees that the chance was given, the cached prefix stays unchanged, and in a later turn
the model knows what became of its quotes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil

from worker.core.conversation import prompts
from worker.core.conversation.context import Context, Outcome, Status
from worker.core.conversation.limits import Limits, find_reached_limits
from worker.core.conversation.messages import Assistant, User
from worker.core.finding import (
    Finding,
    Unproven,
    Verdict,
    WithheldPart,
    correct_line_numbers,
    find_unproven,
    is_finding,
    parse_finding,
    prove_finding,
)
from worker.core.finding.further_failures import count_named_failures
from worker.core.gate.rules import Failure
from worker.core.ports import Captures
from worker.core.text.redacted_values import redact_values
from worker.core.text.sentences import ASKED, SHOWN, before_code, split_sentences

LINES, WIDTH = 5, 100
"""The lines of a note that cause and advice may take beside the headline, what failed and a quote,
and about how many characters are on one."""

_CAUSE, _TO_DO = len("Cause: "), len("What to do: ")
_LINK = len(" Apply on the diff: checkout.py:123.")


def may_ask_again(context: Context, outcome: Outcome, limits: Limits, now: float) -> bool:
    """Whether the model may be asked again: it has answered, and the budget allows a request."""
    return outcome.status is Status.DONE and not find_reached_limits(
        limits, context.turn_usage, now, 1.0
    )


def was_stopped(context: Context) -> bool:
    """Whether the current model was told in this turn that its text is no complete answer."""
    return _asked_at(context, prompts.GATES) is not None


def was_repaired(context: Context) -> bool:
    """Whether the current model was asked for a repair in this turn."""
    return _asked_at(context, (*prompts.REPAIRS, prompts.GATE_AND_REPAIR)) is not None


@dataclass(frozen=True, slots=True)
class Objections:
    """What is wrong with an answer.

    `kept_back` are parts that must not be posted, `too_long` sections whose first sentence is too
    long to be shown whole, `failures` the reasons why the text is no complete answer. `is_crowded`:
    there are several causes, and they do not fit into the note together.
    """

    unproven: tuple[Unproven, ...] = ()
    kept_back: tuple[WithheldPart, ...] = ()
    too_long: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    is_crowded: bool = False

    def __bool__(self) -> bool:
        too_much = self.too_long or self.is_crowded
        return bool(self.unproven or self.kept_back or too_much or self.failures)


def find_objections(
    answer: str,
    captures: Captures,
    redact: Callable[[str], str],
    kept_back: Callable[[str], tuple[WithheldPart, ...]],
) -> Objections:
    """What is wrong with an `answer`.

    `kept_back` finds the parts of the redacted answer that must not be posted.
    """
    answer = redact(answer)
    found = parse_finding(answer)
    # The reasons contain names that other people chose.
    unproven = redact_values(find_unproven(found, captures), redact)
    parts = kept_back(answer)
    too_long = _too_long(found, SHOWN if not unproven + parts else ASKED)
    return Objections(unproven, parts, too_long, is_crowded=_is_crowded(found))


def _too_long(found: Finding, most: int) -> tuple[str, ...]:
    """The sections whose first sentence has more than `most` characters."""
    sections = (("Cause", found.cause), ("What to do", found.to_do))
    return tuple(
        title
        for title, text in sections
        if len(next(iter(split_sentences(before_code(text))), "")) > most
    )


def _is_crowded(found: Finding) -> bool:
    """Whether the sentences that name the causes of several failures do not fit into `LINES` with
    the first two on what to do."""
    named = 0 if found.verdict is Verdict.ABSTAIN else count_named_failures(found.cause)
    link = _LINK if before_code(found.to_do) != found.to_do else 0
    sizes = (
        len(_begin(found.cause, named)) + _CAUSE,
        len(_begin(found.to_do, 2)) + _TO_DO + link,
    )
    return named > 0 and sum(ceil(size / WIDTH) for size in sizes) > LINES


def _begin(section: str, sentences: int) -> str:
    """The first sentences of a section as they are seen: without the marks of code."""
    return " ".join(split_sentences(before_code(section))[:sentences]).replace("`", "")


def ask_for_repair(context: Context, wrong: Objections) -> Context:
    """Return `context` with the request to repair what is wrong."""
    return context.add(
        User(
            prompts.write_repair_request(
                wrong.unproven,
                wrong.kept_back,
                wrong.too_long,
                wrong.failures,
                is_crowded=wrong.is_crowded,
            )
        )
    )


def choose_outcome(context: Context, outcome: Outcome, failures: Sequence[Failure] = ()) -> Outcome:
    """Return the outcome of a turn that may have had a second request or a change of model.

    If no answer came of that, the complete answer before it counts. A text with `failures` becomes
    a partial outcome that names them.
    """
    if outcome.status is Status.DONE and not failures:
        return outcome
    if first := find_first_answer(context) or _find_answer_before_takeover(context):
        return Outcome(Status.DONE, first)
    return _tell_failures(context, outcome, failures) if failures else outcome


def _tell_failures(context: Context, outcome: Outcome, failures: Sequence[Failure]) -> Outcome:
    again = ", also when it was asked again" if was_stopped(context) else ""
    reasons = " and ".join(dict.fromkeys(each.reason for each in failures))
    text, before = outcome.text, _read_answer_at(context, _asked_at(context, prompts.GATES))
    if is_finding(before) and not is_finding(text):
        text = before
    return Outcome(Status.PARTIAL, text, f"the model gave no whole answer ({reasons}{again})")


def find_first_answer(context: Context) -> str:
    """The answer that the model was asked to repair, "" if it was not asked."""
    return _read_answer_at(context, _asked_at(context, prompts.REPAIRS))


def make_finding(
    context: Context, outcome: Outcome, captures: Captures, redact: Callable[[str], str]
) -> Finding:
    """The finding of a turn that ended in `outcome`, redacted and proven.

    If a repair contains only quotes, they are added to those proven before, and line numbers of the
    first answer's prose are corrected by them.
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
    return correct_line_numbers(prove_finding(merged, captures), before.evidence)


def _find_answer_before_takeover(context: Context) -> str:
    return _read_answer_at(context, _find_last(context, (prompts.TAKEOVER,), context.turn_start))


def _read_answer_at(context: Context, asked_at: int | None) -> str:
    before = context.messages[asked_at - 1] if asked_at else None
    return before.text if isinstance(before, Assistant) else ""


def _asked_at(context: Context, beginnings: tuple[str, ...]) -> int | None:
    """The index of the newest such request to the current model in this turn, or None.

    The request's text starts with one of `beginnings`.
    """
    began = _find_last(context, (prompts.TAKEOVER,), context.turn_start)
    return _find_last(context, beginnings, began or context.turn_start)


def _find_last(context: Context, beginnings: tuple[str, ...], after: int) -> int | None:
    """The index of the newest user message after `after` with one of `beginnings`, or None."""
    for at in range(len(context.messages) - 1, after, -1):
        message = context.messages[at]
        if isinstance(message, User) and message.text.startswith(beginnings):
            return at
    return None
