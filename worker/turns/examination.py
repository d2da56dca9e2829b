"""Examines the answer that would end a turn, and chooses the turn's outcome."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from worker.answer.gate import (
    MOST_TOKENS,
    TASK,
    Candidate,
    Failure,
    find_failures,
    is_no_answer,
    read_judgement,
    write_case,
)
from worker.answer.parse import find_unavailable
from worker.answer.repair import (
    Objections,
    choose_outcome,
    find_first_answer,
    may_ask_again,
    was_repaired,
    was_stopped,
)
from worker.conversation.absorb import charge_helper
from worker.conversation.context import Context, Outcome, Status
from worker.conversation.limits import Limits
from worker.conversation.messages import Assistant, User, find_results
from worker.conversation.model import Helper
from worker.conversation.model_switch import SET_TIER
from worker.conversation.questions import read_parts
from worker.settings.runs import Gate

_FINDING = "## Verdict"
"""A workflow that names this section asks for a finding."""

_WRITTEN_CALL = "the model wrote its tool calls as text"


@dataclass(frozen=True, slots=True)
class Examiner:
    """Examines answers. `gate` says who judges whether a text is an answer; `find_objections`
    returns what is wrong with an outcome's text."""

    gate: Gate = Gate.OFF
    helper: Helper | None = None
    find_objections: Callable[[Context, Outcome], Objections] = lambda context, outcome: (
        Objections()
    )

    def examine(
        self, context: Context, outcome: Outcome, limits: Limits, now: float
    ) -> tuple[Context, Objections]:
        """Return the context, charged for any judge, and what the model must correct."""
        if not may_ask_again(context, outcome, limits, now):
            return context, Objections()
        again = was_repaired(context)
        wrong = Objections() if again else self.find_objections(context, outcome)
        if not context.investigates:  # a reply's text stands, but for a verdict that is ruled out
            wrong = Objections(refutation=wrong.refutation, retry_verdict=wrong.retry_verdict)
        if was_stopped(context):
            return context, wrong
        failures = self._find_failures(context, outcome)
        if not failures and not wrong and self.gate is Gate.JUDGE:
            context, failures = self._ask_judge(context, outcome.text)
        return context, replace(wrong, failures=failures)

    def conclude(self, context: Context, outcome: Outcome) -> Context:
        """Return the context with the outcome of its turn."""
        chosen = choose_outcome(context, outcome, self._find_failures(context, outcome))
        return replace(context, outcome=fail_without_answer(context, chosen))

    def _find_failures(self, context: Context, outcome: Outcome) -> tuple[Failure, ...]:
        # The reply to a repair may be only quotes, which are joined to the answer before it.
        checked = outcome.status is Status.DONE and not find_first_answer(context)
        if self.gate is Gate.OFF or not checked:
            return ()
        return find_failures(_make_candidate(context, outcome.text))

    def _ask_judge(self, context: Context, text: str) -> tuple[Context, tuple[Failure, ...]]:
        if self.helper is None:
            return context, ()
        results = find_results(context.messages[context.turn_start :])
        case = write_case(_read_request(context), tuple(results), text)
        answer = self.helper.ask(TASK, case, MOST_TOKENS)
        if answer is None:
            return context, ()
        missing = read_judgement(answer.text)
        failure = Failure(
            f"Another model that has read it says: {missing}", "it left something out"
        )
        return charge_helper(context, "gate", [answer]), (failure,) if missing else ()


def fail_without_answer(context: Context, outcome: Outcome) -> Outcome:
    """Return the outcome of a turn, FAILED if its text must not be shown as an answer.

    A call written as text never is. Where a finding is asked for, a text without sections is only
    if it is the model's last word, whole, and says what was found.
    """
    if not outcome.text:
        return outcome
    candidate = _make_candidate(context, outcome.text)
    spent, last = context.turn_usage, context.messages[-1]
    is_flawed = spent.last_was_cut or spent.broken_answers > 0
    is_last_word = isinstance(last, Assistant) and not last.calls and not is_flawed
    is_answer = (
        outcome.status is Status.DONE
        or candidate.has_sections
        or not candidate.is_finding_asked
        or (is_last_word and not is_no_answer(candidate))
    )
    if is_answer and not candidate.tells_by_call:
        return outcome
    return Outcome(Status.FAILED, "", outcome.reason or _WRITTEN_CALL)


def _make_candidate(context: Context, text: str) -> Candidate:
    results = find_results(context.messages)
    # A failing job that GitLab's record does not settle has a readable log.
    can_look = context.survey is None or any(
        job.read and job.excerpt
        for group in context.survey.groups
        if not group.hard_verdict
        for job in group.jobs
    )
    return Candidate(
        text,
        is_finding_asked=context.investigates and _FINDING in context.system,
        has_looked=not can_look or any(each.name != SET_TIER for each in results),
        can_quote=can_look,
        tools=tuple(tool.name for tool in context.tools),
        knows_missing=bool(find_unavailable(context)),
        parts=() if context.investigates else read_parts(_read_request(context)),
    )


def _read_request(context: Context) -> str:
    """Return what the turn was asked for."""
    first = context.messages[context.turn_start]
    return first.text if isinstance(first, User) else ""
