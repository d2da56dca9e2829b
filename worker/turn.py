"""One turn of a session: the placeholder, the sandbox, the loop, the note, the files."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sandbox.base import SandboxError
from worker import first_note, report, survey
from worker.core import finding, history, recheck, redacted
from worker.core.absorb import halt
from worker.core.context import ASKED, Context, NoteRef, Outcome, Status
from worker.core.decide import conclude
from worker.core.identity import Marker
from worker.core.messages import ToolCall, count_results
from worker.core.ports import SessionKey
from worker.core.progress import Milestone, Stage, Watcher
from worker.core.repair import close_calls, lost_calls
from worker.deps import Deps, Kit
from worker.errors import (
    ForgeError,
    HandedOver,
    Interrupted,
    LeaseLost,
    Postponed,
    SandpiperError,
    StoreError,
    TurnTaken,
)
from worker.forge import note
from worker.forge.finish import find_kept_back, finish
from worker.forge.lint import hosts_of
from worker.loop import Parts, drive
from worker.queue.leases import Lease
from worker.ticker import ticking
from worker.trials import Trials, find_trials
from worker.workspace import Workspace, discard, open_kit

log = logging.getLogger("sandpiper.turn")


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn about to be taken, under a lease. `files_of` are the turns whose files are restored,
    the first one that can be.

    `begun` says that its context is another run's, which ended in the middle.
    `unasked` says that nobody has asked for it, so that what is known may answer; `private` that
    its note is internal, and nothing of it may be kept for others. In which way it is internal says
    the context's note: in an internal thread, or by itself.
    """

    key: SessionKey
    context: Context
    files_of: Sequence[int]
    lease: Lease
    begun: bool = False
    unasked: bool = False
    private: bool = False

    @property
    def marker(self) -> Marker:
        """What the turn's note carries."""
        return Marker(self.context.session_id, self.context.turn)


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
        context = close_calls(_ended(context, deps.gives_up), deps.gives_up)
    else:
        context = _surveyed(replace(turn, context=context), kit, deps, watch)
        context = _afforded(context, deps)
    if not turn.begun:
        context = survey.with_tools(context, deps)
    trials: Trials = {}
    if not context.outcome:
        with ticking(turn.marker, context, deps, watch, turn.lease.is_surely_held) as ticked:
            context, trials = _investigated(replace(turn, context=context), kit, deps, ticked)
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
    looked = survey.surveyed(context, kit, deps)
    return "" if survey.answered(looked, deps, by_known=turn.unasked) else reason


def _used_up(context: Context, deps: Deps) -> str:
    """Why no model may be asked; a run that has asked one goes on. Raises StoreError."""
    if not deps.budget or context.spent.iterations:
        return ""
    return deps.budget.used_up(context.subject.project_id)


def _afforded(context: Context, deps: Deps) -> Context:
    """The context, with its outcome if it needs a model that its project cannot pay for today."""
    if context.outcome or not (reason := _used_up(context, deps)):
        return context
    return _ended(context, reason)


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
    found = redacted.counts(kit.redactions())
    if found:
        log.info("session %s: redacted %s", context.session_id, redacted.words(found))
    return replace(context, redacted=found)


def _surveyed(turn: Turn, kit: Kit, deps: Deps, watch: Watcher) -> Context:
    """The context with what the host knows of the failure; with its outcome, if that is enough."""
    context = turn.context
    try:
        context = survey.surveyed(context, kit, deps)
    except Exception:  # it saves work, so whatever is wrong with it must not cost the analysis
        log.exception("session %s: no survey", turn.key.session_id)
    if context.survey is not turn.context.survey:
        _Last(turn, deps).checkpoint(context)
        watch(Stage(f"surveyed: {_causes(context)}"))
    return survey.answered(context, deps, by_known=turn.unasked) or context


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


def _investigated(turn: Turn, kit: Kit, deps: Deps, watch: Watcher) -> tuple[Context, Trials]:
    """Run the loop in a sandbox and store its files; ends in an outcome whatever happens.

    Gives also what the sandbox has run of the changes that the answer advises.

    Raises Interrupted where another run goes on, with the sandbox's files if this worker ends.
    """
    last, work = _Last(turn, deps), _workspace(turn, deps, watch)
    try:
        context = _concluded(last, kit, work, deps, watch)
        turn.lease.confirm_held()
        trials = find_trials(context, work.sandbox, kit.captures, deps)
        work.save(context, turn.lease.retry_while_away)
    except (HandedOver, Postponed):
        work.save(last.context)
        work.close()
        raise
    except (LeaseLost, TurnTaken) as error:
        # The sandbox may be another run's by now: it is not ours to end.
        raise LeaseLost(str(error)) from error
    except StoreError:
        work.close()
        raise
    work.close()
    context = replace(context, lost=(*context.lost, *work.lost))
    return close_calls(context, "the turn ended first"), trials


def _concluded(last: "_Last", kit: Kit, work: Workspace, deps: Deps, watch: Watcher) -> Context:
    """The context with its outcome; what an error ends is kept. Raises Interrupted."""
    try:
        return _driven(last, kit, work, deps, watch)
    except Postponed:
        last.rest()
        raise
    except Interrupted:
        raise
    except (SandboxError, SandpiperError) as error:
        log.warning("session %s: %s", last.context.session_id, error)
        return _ended(last.context, deps.redact(str(error)))
    except Exception as error:  # seed 001, end 6: an unexpected error keeps what was found
        log.exception("session %s: unexpected error", last.context.session_id)
        return _ended(last.context, f"an internal error ({type(error).__name__})")


class _Last:
    """The newest context of the run, kept also when the loop is left by an exception."""

    def __init__(self, turn: Turn, deps: Deps) -> None:
        self.context = turn.context
        self._key, self._store, self._dumper = turn.key, deps.store, history.Dumper()
        self._lease, self.begun = turn.lease, turn.begun

    def checkpoint(self, context: Context) -> None:
        """Keep the context, and end here if this worker does. Raises Interrupted, StoreError."""
        self.context = context
        try:
            self._lease.check_held()
            self._store.checkpoint(self._key, context.turn, self._dumper.dump(context))
        except StoreError as error:
            if not error.transient:
                raise
            # A store that is away for a while costs no run: a later step is kept again.
            log.warning("session %s: step not kept: %s", context.session_id, error)
            return
        try:
            self._lease.raise_if_stopping()
        except HandedOver:
            self.rest()
            raise

    def rest(self) -> None:
        """Keep that the next run has nothing to repair: no open call has begun."""
        rested = self._dumper.dump(replace(self.context, rested=True))
        self._store.checkpoint(self._key, self.context.turn, rested)

    def resumed(self, repeatable: Callable[[ToolCall], bool]) -> None:
        """Go on from another run's context. What it may have begun is not begun again; that is
        kept before anything else, for this run may die too."""
        found = self.context
        context = replace(found, rested=False)
        if not found.rested:
            context = lost_calls(context, repeatable)
        if found.rested or context.messages != found.messages:
            self.checkpoint(context)
        self.context = context


def _workspace(turn: Turn, deps: Deps, watch: Watcher) -> Workspace:
    """A sandbox that starts while the model is asked for the first time."""
    context = turn.context
    return Workspace(
        turn.key,
        context.turn,
        turn.files_of,
        deps,
        watch,
        begun=turn.begun or turn.lease.is_takeover,
        worked=count_results(context.messages[context.turn_start :]) > 0,
    )


def _driven(last: _Last, kit: Kit, work: Workspace, deps: Deps, watch: Watcher) -> Context:
    model = deps.model()
    first = model.name
    toolbox = kit.open(work.sandbox, survey.error_text(last.context))
    last.context = replace(last.context, model=first)
    if last.begun:
        last.resumed(toolbox.repeatable)
    parts = Parts(
        model=model,
        toolbox=toolbox,
        clock=deps.clock,
        checkpoint=last.checkpoint,
        watch=watch,
        news=work.news,
        patient=deps.patient,
        object_to=lambda answer: recheck.find_objections(
            *(answer, kit.captures, deps.redact),
            partial(find_kept_back, deps.hosts, deps.redact),
        ),
    )
    ended = drive(last.context, deps.limits_for(last.context.workflow, model), parts)
    gave_way = first if model.name != first else ""
    last.context = replace(ended, model=model.name, gave_way=gave_way)
    return last.context


def _ended(context: Context, reason: str) -> Context:
    if context.outcome:
        return context
    outcome = conclude(halt(context, reason))
    text = recheck.first_answer(context) or outcome.text
    return replace(context, outcome=replace(outcome, text=text))
