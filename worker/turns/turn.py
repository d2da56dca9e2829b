"""One turn of a session: the placeholder, the sandbox, the loop, the note, the files."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from worker.answer.finish import finish_body
from worker.answer.note import note
from worker.answer.note.older_note import fold_earlier
from worker.conversation.absorb import close_calls
from worker.conversation.context import ASKED, OF_OTHERS, Context, NoteRef, Outcome, Status
from worker.conversation.events import Milestone, NotePlaced, Stage
from worker.conversation.limits import count_cost
from worker.errors import ForgeError, StoreError
from worker.incidents.sentences import replace_block
from worker.safety import redacted_values
from worker.safety.markdown import Marker
from worker.turns import earlier_notes, incident_notes, report, train_notes, triage
from worker.turns.branch_explainer import may_be_explained
from worker.turns.investigate import Checkpoints, end_context, run_investigation
from worker.turns.memory import write_fact
from worker.turns.parts import Attempt, Deps, Toolset, Turn
from worker.turns.placeholder import keep_note_up_to_date
from worker.turns.sandbox import open_toolset, remove_sandbox
from worker.turns.suggestions import tell_later_runs
from worker.turns.trials import Trials
from worker.verdict.finding import Finding

log = logging.getLogger("sandpiper.turn")

PATIENCE, PAUSE = 45.0, 5.0
"""Seconds for which a result is written again while somebody else answers in GitLab's place, and
between two attempts."""


@dataclass(frozen=True, slots=True)
class TurnResult:
    """A turn that was taken: its final context, the body of its note, and what it has found."""

    context: Context
    body: str
    finding: Finding | None


def take_turn(turn: Turn, deps: Deps, run: Attempt) -> TurnResult:
    """Post a placeholder, run the loop, store the files, edit the note to the result.

    Raises ForgeError and StoreError: without a note or a store, there is no place for the result.
    """
    started = deps.runtime.clock.monotonic()
    toolset = open_toolset(turn.key, turn.context, turn.terms, deps)
    if run.give_up_reason:
        context = _post_placeholder(turn, deps, run)
        remove_sandbox(turn.key.session_id, deps)
        context = close_calls(end_context(context, run.give_up_reason), run.give_up_reason)
    else:
        context = _begin_turn(turn, toolset, deps, run)
        deps.gitlab.pipelines.forget_answers()
        if not context.outcome and (reason := _explain_used_up(context, deps)):
            context = end_context(context, reason)
    trials: Trials = {}
    if not context.outcome:
        with keep_note_up_to_date(
            turn.marker, context, deps, run.watch, turn.lease.is_surely_held
        ) as watch:
            context, trials = run_investigation(
                replace(turn, context=context), toolset, deps, replace(run, watch=watch)
            )
    if not (context.investigates or turn.is_private):
        tell_later_runs(context, trials, deps)
    redactions = redacted_values.sort_counts(toolset.count_redactions())
    if redactions:
        said = redacted_values.describe_counts(redactions)
        log.info("session %s: redacted %s", context.session_id, said)
    context = replace(context, redactions=redactions)
    found = report.read_finding(context, toolset, deps)
    seconds = deps.runtime.clock.monotonic() - started
    bodies, of_finding = report.write_bodies(
        replace(turn, context=context),
        found,
        trials,
        toolset,
        deps,
        give_up_reason=run.give_up_reason,
    )
    if context.is_look and context.survey and context.found_by not in OF_OTHERS:
        bodies = replace_block(bodies, context.survey.branch_lines)
        bodies = train_notes.replace_retry(bodies) if context.survey.is_train else bodies
    bodies = fold_earlier(bodies, context.earlier_note)
    body = finish_body(bodies, turn.terms.hosts, deps.runtime.redact).body
    turn.lease.confirm_held()
    context = _publish_result(replace(context, note_text=body), body, deps, run)
    if found and not context.is_look:
        context = replace(context, found_by=ASKED)
        earlier_notes.revise_first_note(replace(turn, context=context), found, of_finding, deps)
    if found or context.is_look:
        incident_notes.record_told(context, deps)
    _record_cost(context, deps)
    verdict = found.verdict if found else ""
    fact = write_fact(context, found, deps) if found and not turn.is_private else ""
    context = replace(context, verdict=verdict, seconds=seconds, fact=fact)
    return TurnResult(context, body, found)


def explain_unaffordable(turn: Turn, deps: Deps) -> str:
    """Return why a turn that nobody has asked for is not taken, or "".

    It is not taken if the day's budget is used up, the merge request was told so today (a branch
    is not told), and neither rules nor known failures can answer without a model. Raises
    StoreError.
    """
    context, subject = turn.context, turn.context.subject
    reason, budget = _explain_used_up(context, deps), deps.storage.budget
    if not reason or not (subject.branch or budget.was_told(subject.project_id, subject.mr_iid)):
        return ""
    toolset = deps.runtime.toolset(subject, turn.terms.workflow)
    surveyed = triage.add_survey(context, toolset, turn.terms, deps, settles=turn.is_unasked)
    return "" if triage.answer_without_model(surveyed, deps, by_known=turn.is_unasked) else reason


def _explain_used_up(context: Context, deps: Deps) -> str:
    """Return why no model may be asked; "" if the run has asked one. Raises StoreError."""
    if context.turn_usage.iterations:
        return ""
    return deps.storage.budget.explain_used_up(context.subject.project_id)


def _record_cost(context: Context, deps: Deps) -> None:
    """Record the turn's cost, and that its note says the budget is used up, if it does."""
    project, iid = context.subject.project_id, context.subject.mr_iid
    reason = context.outcome.reason if context.outcome else ""
    if reason in deps.storage.budget.reasons:
        deps.storage.budget.record_told(project, iid)
    cost = count_cost(deps.runtime.limits, context.turn_usage.cost_usd)
    deps.storage.budget.add_cost(project, context.session_id, context.turn, cost)


def _begin_turn(turn: Turn, toolset: Toolset, deps: Deps, run: Attempt) -> Context:
    """Return the surveyed context with its note, with an outcome if the survey is enough.

    If the target branch may explain all of a failure, its note is posted at once as it stays, and
    no placeholder comes first: what is to be posted is stored before.
    """
    if not _may_be_explained(turn, deps):
        context = _post_placeholder(turn, deps, run)
        return _run_triage(replace(turn, context=context), toolset, deps, run)
    placed: list[NoteRef | None] = []

    def post_placeholder() -> None:
        placed.append(_post_placeholder(turn, deps, run).note)

    context = _run_triage(turn, toolset, deps, run, post_placeholder)
    if placed:
        return replace(context, note=placed[0])
    if context.found_by in OF_OTHERS and context.outcome:
        return context
    return _post_placeholder(replace(turn, context=context), deps, run)


def _may_be_explained(turn: Turn, deps: Deps) -> bool:
    context = turn.context
    if not turn.is_unasked or context.turn or (context.note and context.note.note_id):
        return False
    try:
        if context.survey:
            return context.survey.is_explained
        return may_be_explained(context.subject.project_id, deps)
    except StoreError as error:
        log.warning("session %s: incidents not read: %s", context.session_id, error)
        return False


def _run_triage(
    turn: Turn,
    toolset: Toolset,
    deps: Deps,
    run: Attempt,
    begin_rest: Callable[[], None] = lambda: None,
) -> Context:
    """Return the context with the host's survey; with an outcome if that is enough."""
    context = turn.context
    try:
        context = triage.add_survey(
            context, toolset, turn.terms, deps, settles=turn.is_unasked, begin_rest=begin_rest
        )
    except Exception:  # the survey only saves work: no error of it may end the analysis
        log.exception("session %s: no survey", turn.key.session_id)
    if context.survey is not turn.context.survey:
        Checkpoints(turn, deps).write_checkpoint(context)
        count = len(context.survey.groups) if context.survey else 0
        run.watch(Stage("surveyed: 1 cause" if count == 1 else f"surveyed: {count} causes"))
    return triage.answer_without_model(context, deps, by_known=turn.is_unasked) or context


def _post_placeholder(turn: Turn, deps: Deps, run: Attempt) -> Context:
    """Return the context with its note: the one a dead worker posted, or a new placeholder."""
    context = turn.context
    place = context.note or NoteRef(0)
    posted = deps.gitlab.notes.find_note(context.subject, turn.marker, place.discussion_id)
    if posted is None or (place.internal and not posted.internal):
        turn.lease.confirm_held()
        posted = _post_note(context, _write_placeholder(turn), deps)
        text = f"placeholder posted: {posted.url or posted.note_id}"
        run.watch(Stage(text, Milestone.PLACEHOLDER))
    elif context.earlier_note and not turn.is_continued:
        turn.lease.confirm_held()
        deps.gitlab.notes.edit_note(context.subject, posted, _write_placeholder(turn))
    run.watch(NotePlaced(context.subject, turn.marker, posted, context.earlier_note))
    return replace(context, note=posted)


def _write_placeholder(turn: Turn) -> str:
    context = turn.context
    return note.write_placeholder(
        turn.marker,
        context.subject,
        resumed=not context.is_look,
        earlier=context.earlier_note,
        on_request=context.on_request,
    )


def _post_note(context: Context, body: str, deps: Deps) -> NoteRef:
    place = context.note or NoteRef(0)
    thread = place.discussion_id
    begins = deps.options.note.thread and context.is_look and not thread
    internal = place.internal and not thread
    return deps.gitlab.notes.post_note(
        context.subject, body, thread, thread=begins, internal=internal
    )


def _publish_result(context: Context, body: str, deps: Deps, run: Attempt) -> Context:
    """Replace the placeholder by the result, or post the result anew if somebody deleted it.

    If GitLab accepts no note any more (403, 404) at the last look, the outcome says so, and the
    work is kept. Raises other ForgeErrors; the next run posts what the checkpoint has.
    """
    until = deps.runtime.clock.monotonic() + PATIENCE
    while True:
        try:
            posted = _edit_or_post(context, body, deps)
        except ForgeError as error:
            is_late = deps.queue.leases.is_stopping or deps.runtime.clock.monotonic() > until
            if error.doubtful and error.transient and not is_late:
                # The answer was not GitLab's: a finished analysis need not be taken up again.
                log.warning("session %s: its note is written again: %s", context.session_id, error)
                deps.runtime.clock.sleep(PAUSE)
                continue
            if error.status not in (403, 404) or not run.is_last_look:
                raise
            log.warning("session %s: %s", context.session_id, error)
            text = context.outcome.text if context.outcome else ""
            unposted = Outcome(Status.FAILED, text, f"the note could not be posted: {error}")
            return replace(context, outcome=unposted, note_text="", unposted_note=body)
        run.watch(Stage(f"note posted: {posted.url or posted.note_id}", Milestone.NOTE))
        return replace(context, note=posted)


def _edit_or_post(context: Context, body: str, deps: Deps) -> NoteRef:
    posted = context.note or NoteRef(0)
    if not posted.note_id:  # no placeholder: a run that died may have posted it all the same
        marker = Marker(context.session_id, context.note_turn)
        found = deps.gitlab.notes.find_note(context.subject, marker, posted.discussion_id)
        if found is None or (posted.internal and not found.internal):
            return _post_note(context, body, deps)
        posted = found
    try:
        deps.gitlab.notes.edit_note(context.subject, posted, body)
    except ForgeError as error:
        if error.status != 404:
            raise
        # It is not gone because one answer says so: then there would be two notes.
        marker = Marker(context.session_id, context.note_turn)
        found = deps.gitlab.notes.find_note(context.subject, marker, posted.discussion_id)
        if found is not None:
            deps.gitlab.notes.edit_note(context.subject, found, body)
            return found
        log.info("note %d was deleted: the result is posted anew", posted.note_id)
        return _post_note(context, body, deps)
    return posted
