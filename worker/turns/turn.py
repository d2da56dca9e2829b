"""One turn of a session: the placeholder, the sandbox, the loop, the note, the files."""

import logging
from dataclasses import dataclass, replace

from worker.core import finding
from worker.core.conversation.context import ASKED, Context, NoteRef, Outcome, Status
from worker.core.conversation.repair import close_calls
from worker.core.events import Milestone, Stage, Watcher
from worker.core.text import redaction_counts
from worker.errors import (
    ForgeError,
)
from worker.forge.defence.finish import finish
from worker.forge.defence.lint import hosts_of
from worker.forge.text import note
from worker.turns import first_note, report, triage
from worker.turns.investigate import Checkpoints, end_with, investigate
from worker.turns.parts import Deps, Kit, Turn
from worker.turns.progress_note import ticking
from worker.turns.sandbox import discard, open_kit
from worker.turns.trials import Trials

log = logging.getLogger("sandpiper.turn")


@dataclass(frozen=True, slots=True)
class Taken:
    """A turn that was taken: its final context, the body of its note, and what it has found."""

    context: Context
    body: str
    found: finding.Finding | None


def take(turn: Turn, deps: Deps, watch: Watcher) -> Taken:
    """Post a placeholder, run the loop, store the files, edit the note to the result.

    Raises ForgeError and StoreError: without a note or a store there is nothing to end in.
    """
    started = deps.clock.monotonic()
    deps = replace(deps, hosts=hosts_of(turn.context.subject, deps.hosts))
    context = _announced(turn, deps, watch)
    kit = open_kit(turn.key, context, deps)
    if deps.gives_up:
        discard(turn.key.session_id, deps)
        context = close_calls(end_with(context, deps.gives_up), deps.gives_up)
    else:
        context = _surveyed(replace(turn, context=context), kit, deps, watch)
        context = _afforded(context, deps)
    if not turn.begun:
        context = triage.with_tools(context, deps)
    trials: Trials = {}
    if not context.outcome:
        with ticking(turn.marker, context, deps, watch, turn.lease.is_surely_held) as ticked:
            context, trials = investigate(replace(turn, context=context), kit, deps, ticked)
    context = _counted(context, kit)
    found = report.read_finding(context, kit, deps)
    seconds = deps.clock.monotonic() - started
    made, of_finding = report.write_bodies(
        *(turn.marker, context, found, trials, kit, deps), private=turn.private
    )
    body = finish(made, deps.hosts, deps.redact).body
    turn.lease.confirm_held()
    context = _published(replace(context, said=body), body, deps, watch)
    if found and context.turn:
        context = replace(context, found_by=ASKED)
        first_note.revise(turn.key, context, found, of_finding, deps)
    _charged(context, deps)
    verdict = found.verdict if found else ""
    return Taken(replace(context, verdict=verdict, seconds=seconds), body, found)


def unaffordable(turn: Turn, deps: Deps) -> str:
    """Why a turn that nobody has asked for is not taken, or "": the day's budget is used up,
    the merge request was told so today, and nothing is known that would answer for a model.

    Raises StoreError.
    """
    context, subject = turn.context, turn.context.subject
    reason = _used_up(context, deps)
    if not reason or not deps.budget or not deps.budget.told(subject.project_id, subject.mr_iid):
        return ""
    kit = deps.kit(subject, deps.playbook.get(context.workflow))
    looked = triage.surveyed(context, kit, deps)
    return "" if triage.answered(looked, deps, by_known=turn.unasked) else reason


def _used_up(context: Context, deps: Deps) -> str:
    """Why no model may be asked; a run that has asked one goes on. Raises StoreError."""
    if not deps.budget or context.spent.iterations:
        return ""
    return deps.budget.used_up(context.subject.project_id)


def _afforded(context: Context, deps: Deps) -> Context:
    """The context, with its outcome if it needs a model that its project cannot pay for today."""
    if context.outcome or not (reason := _used_up(context, deps)):
        return context
    return end_with(context, reason)


def _charged(context: Context, deps: Deps) -> None:
    """Count what the turn has cost, or that it was told there was nothing left."""
    if not deps.budget:
        return
    project, iid = context.subject.project_id, context.subject.mr_iid
    reason = context.outcome.reason if context.outcome else ""
    if reason in deps.budget.reasons:
        deps.budget.tell(project, iid)
    cost = context.spent.cost_usd or 0.0
    deps.budget.spend(project, context.session_id, context.turn, cost)


def _counted(context: Context, kit: Kit) -> Context:
    """The context with how much was redacted of what the turn has read."""
    found = redaction_counts.counts(kit.redactions())
    if found:
        log.info("session %s: redacted %s", context.session_id, redaction_counts.words(found))
    return replace(context, redacted=found)


def _surveyed(turn: Turn, kit: Kit, deps: Deps, watch: Watcher) -> Context:
    """The context with what the host knows of the failure; with its outcome, if that is enough."""
    context = turn.context
    try:
        context = triage.surveyed(context, kit, deps)
    except Exception:  # it saves work, so whatever is wrong with it must not cost the analysis
        log.exception("session %s: no survey", turn.key.session_id)
    if context.survey is not turn.context.survey:
        Checkpoints(turn, deps).checkpoint(context)
        watch(Stage(f"surveyed: {_causes(context)}"))
    return triage.answered(context, deps, by_known=turn.unasked) or context


def _causes(context: Context) -> str:
    count = len(context.survey.groups) if context.survey else 0
    return "1 cause" if count == 1 else f"{count} causes"


def _announced(turn: Turn, deps: Deps, watch: Watcher) -> Context:
    """The context with its note: the one a dead worker posted, or a new placeholder."""
    context = turn.context
    place = context.note or NoteRef(0)
    posted = deps.forge.find(context.subject, turn.marker, place.discussion_id)
    if posted is None or (place.internal and not posted.internal):
        body = note.placeholder(turn.marker, context.subject, resumed=context.turn > 0)
        turn.lease.confirm_held()
        posted = _post(context, body, deps)
        told = f"placeholder posted: {posted.url or posted.note_id}"
        watch(Stage(told, Milestone.PLACEHOLDER))
    return replace(context, note=posted)


def _post(context: Context, body: str, deps: Deps) -> NoteRef:
    place = context.note or NoteRef(0)
    thread = place.discussion_id
    begins = deps.note.thread and context.turn == 0 and not thread
    internal = place.internal and not thread
    return deps.forge.post(context.subject, body, thread, thread=begins, internal=internal)


def _published(context: Context, body: str, deps: Deps, watch: Watcher) -> Context:
    """The result in place of the placeholder, or anew if somebody has deleted that.

    Where GitLab takes no note any more (403, 404) the outcome says so, and the work is kept: to
    begin again would end in the same refusal. Raises transient ForgeErrors.
    """
    posted = context.note or NoteRef(0)
    try:
        try:
            deps.forge.edit(context.subject, posted, body)
        except ForgeError as error:
            if error.status != 404:
                raise
            log.info("note %d was deleted: the result is posted anew", posted.note_id)
            posted = _post(context, body, deps)
    except ForgeError as error:
        if error.status not in (403, 404):
            raise
        log.warning("session %s: %s", context.session_id, error)
        return _unpublished(context, f"the note could not be posted: {error}")
    watch(Stage(f"note posted: {posted.url or posted.note_id}", Milestone.NOTE))
    return replace(context, note=posted)


def _unpublished(context: Context, reason: str) -> Context:
    text = context.outcome.text if context.outcome else ""
    return replace(context, outcome=Outcome(Status.FAILED, text, reason), said="")
