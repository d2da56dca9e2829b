"""Gives the model one chance to complete its answer, and one to repair what cannot be posted.

A repair is for a verdict that GitLab's record rules out, unproven quotes, parts that a note must
not contain, and sentences that a note has no room for. Pure: the transcript is the state.

The request is a user message in the history, after the answer it is about. So a run that resumes
after a crash sees that the chance was given, the cached prefix stays unchanged, and in a later turn
the model knows what became of its quotes.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from worker.answer import repair_request
from worker.answer.further_failures import list_named_failures
from worker.answer.gate.rules import Failure
from worker.answer.line_numbers import correct_line_numbers
from worker.answer.parse import is_finding, parse_finding
from worker.answer.proof import find_unproven, prove_finding
from worker.answer.repair_request import Objections, write_repair_request
from worker.answer.suggestions import split_code
from worker.conversation import prompts
from worker.conversation.answer_text import (
    find_fenced_lines,
    join_sections,
    split_lead,
    split_sections,
)
from worker.conversation.context import Context, Outcome, Status
from worker.conversation.limits import Limits, find_reached_limits
from worker.conversation.messages import Assistant, User
from worker.safety.redacted_values import redact_values
from worker.safety.untrusted import visible
from worker.verdict.finding import Captures, Evidence, Finding, HiddenPart, WithheldPart


def may_ask_again(context: Context, outcome: Outcome, limits: Limits, now: float) -> bool:
    """Whether the model may be asked again: it has answered, and the budget allows a request."""
    return outcome.status is Status.DONE and not find_reached_limits(
        limits, context.turn_usage, now, 1.0
    )


def was_stopped(context: Context) -> bool:
    """Whether the current model was told in this turn that its text is no complete answer."""
    return _find_request(context, repair_request.GATES) is not None


def was_repaired(context: Context) -> bool:
    """Whether the current model was asked for a repair in this turn."""
    beginnings = (*repair_request.REPAIRS, repair_request.GATE_AND_REPAIR)
    return _find_request(context, beginnings) is not None


def find_objections(
    answer: str,
    captures: Captures,
    redact: Callable[[str], str],
    find_withheld: Callable[[str], tuple[WithheldPart, ...]],
    hidden: tuple[HiddenPart, ...] = (),
    context_quotes: tuple[Evidence, ...] = (),
) -> Objections:
    """Find what is wrong with an `answer`.

    `find_withheld` finds the parts of the redacted answer that must not be posted; `hidden` are
    those that a note has no room for; `context_quotes` are its quotes if none proves its verdict.
    """
    finding = parse_redacted(answer, redact)
    # The reasons contain names that other people chose.
    unproven = redact_values(find_unproven(finding, captures), redact)
    context_quotes = redact_values(context_quotes, redact)
    several = bool(list_named_failures(finding.cause))
    return Objections(
        unproven,
        find_withheld(redact(answer)),
        hidden,
        several=several,
        context_quotes=context_quotes,
    )


def ask_for_repair(context: Context, objections: Objections) -> Context:
    """Return `context` with the request to repair what is wrong."""
    return context.add(User(write_repair_request(objections)))


def join_repair(context: Context, outcome: Outcome) -> Outcome:
    """Return the outcome with the whole answer, if its text only repairs sections of the first one.

    The text's sections then take the place of those of the first answer. Its details (see
    `_add_details`) and quotes are added, and code stays below advice that comes without code. What
    a reply says above its finding stays if the repair says nothing there.
    """
    answer, repaired = find_first_answer(context), split_sections(outcome.text)
    if not context.investigates and "verdict" in repaired and not repaired.get(""):
        lead = split_lead(answer)[0]
        return replace(outcome, text="\n\n".join(filter(None, (lead, outcome.text))))
    if not answer or "verdict" in repaired or not repaired.keys() & _REPAIRED:
        return outcome
    first = split_sections(answer)
    whole = first | {name: text for name, text in repaired.items() if name in _REPAIRED}
    details = _add_details(first.get("details", ""), repaired.get("details", ""))
    whole |= {"details": details} if details else {}
    added = {"evidence": repaired.get("evidence", "")}
    if (advice := repaired.get("what to do", "")) and not split_code(advice)[1]:
        added["what to do"] = split_code(first.get("what to do", ""))[1]
    for name, text in added.items():
        whole[name] = _GAPS[name].join(filter(None, (whole.get(name), text)))
    return replace(outcome, text=join_sections(whole))


def _add_details(first: str, added: str) -> str:
    """Return the details with what a repair adds, no line twice; if it repeats half of their lines
    or more, it has written them all anew."""
    stand = _list_lines(first)
    again = stand.intersection(_list_lines(added))
    if first and again and 2 * len(again) >= len(stand):
        return added
    lines = added.split("\n")
    code = find_fenced_lines(lines)
    new = [line for at, line in enumerate(lines) if at in code or _fold(line) not in again]
    return "\n\n".join(filter(None, (first, "\n".join(new).strip())))


def _list_lines(text: str) -> frozenset[str]:
    lines = text.split("\n")
    code = find_fenced_lines(lines)
    return frozenset(_fold(line) for at, line in enumerate(lines) if at not in code) - {""}


def _fold(line: str) -> str:
    return " ".join(line.strip(" \t-*+").casefold().split())


_GAPS = {"evidence": "\n", "what to do": "\n\n"}
_REPAIRED = frozenset({"failed", "cause", "what to do", "missing", "keep it next time"})
"""The sections that a repair may consist of; "evidence" alone is read by `make_finding`."""


def choose_outcome(context: Context, outcome: Outcome, failures: Sequence[Failure] = ()) -> Outcome:
    """Return the outcome of a turn that may have had a second request or a change of model.

    If no answer came of that, the complete answer before it counts. A text with `failures` becomes
    a partial outcome that names them.
    """
    if outcome.status is Status.DONE and not failures:
        return outcome
    if first := find_first_answer(context) or _find_answer_before_takeover(context):
        return Outcome(Status.DONE, first)
    return _make_partial(context, outcome, failures) if failures else outcome


def _make_partial(context: Context, outcome: Outcome, failures: Sequence[Failure]) -> Outcome:
    again = ", also when it was asked again" if was_stopped(context) else ""
    reasons = " and ".join(dict.fromkeys(each.reason for each in failures))
    first = _read_answer(context, _find_request(context, repair_request.GATES))
    text = first if is_finding(first) and not is_finding(outcome.text) else outcome.text
    return Outcome(Status.PARTIAL, text, f"the model gave no whole answer ({reasons}{again})")


def find_first_answer(context: Context) -> str:
    """The answer that the model was asked to repair, "" if it was not asked."""
    return _read_answer(context, _find_request(context, repair_request.REPAIRS))


def make_finding(
    context: Context, outcome: Outcome, captures: Captures, redact: Callable[[str], str]
) -> Finding:
    """The finding of a turn that ended in `outcome`, redacted and proven.

    If a repair contains only quotes, they are added to those proven before, and line numbers of the
    first answer's prose are corrected by them.
    """
    text, first = outcome.text, find_first_answer(context)
    latest = prove_finding(parse_redacted(text, redact), captures)
    if not first or latest.cause or latest.what_failed or latest.to_do or latest.missing_evidence:
        return latest
    first_finding = parse_redacted(first, redact)
    repaired = parse_redacted(f"## Evidence\n{text}", redact)
    if not repaired.evidence:
        return prove_finding(first_finding, captures)
    proven = prove_finding(first_finding, captures).evidence
    merged = replace(first_finding, evidence=proven + repaired.evidence, unproven=repaired.unproven)
    return correct_line_numbers(prove_finding(merged, captures), first_finding.evidence)


def parse_redacted(text: str, redact: Callable[[str], str]) -> Finding:
    """Parse an answer and redact each of its parts by itself, so that two lines that it quotes
    never enclose what looks like one secret, with the verdict in it."""
    return redact_values(parse_finding(visible(text)), redact)


def _find_answer_before_takeover(context: Context) -> str:
    return _read_answer(context, _find_last(context, (prompts.TAKEOVER,), context.turn_start))


def _read_answer(context: Context, index: int | None) -> str:
    """The answer before the message at `index`, "" if there is none."""
    before = context.messages[index - 1] if index else None
    return before.text if isinstance(before, Assistant) else ""


def _find_request(context: Context, beginnings: tuple[str, ...]) -> int | None:
    """The index of the newest request to the current model in this turn, or None.

    The request's text starts with one of `beginnings`.
    """
    takeover = _find_last(context, (prompts.TAKEOVER,), context.turn_start)
    return _find_last(context, beginnings, takeover or context.turn_start)


def _find_last(context: Context, beginnings: tuple[str, ...], after: int) -> int | None:
    """The index of the newest user message after `after` with one of `beginnings`, or None."""
    for index in range(len(context.messages) - 1, after, -1):
        message = context.messages[index]
        if isinstance(message, User) and message.text.startswith(beginnings):
            return index
    return None
