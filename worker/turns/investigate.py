"""The investigation of a turn: the sandbox, the loop, a checkpoint after each step, the files."""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from sandbox.base import SandboxError
from worker.core.conversation import context_json, quote_repair
from worker.core.conversation.absorb import halt
from worker.core.conversation.context import Context
from worker.core.conversation.decide import conclude
from worker.core.conversation.messages import ToolCall, count_results
from worker.core.conversation.repair import close_calls, lost_calls
from worker.core.events import Watcher
from worker.errors import (
    HandedOver,
    Interrupted,
    LeaseLost,
    Postponed,
    SandpiperError,
    StoreError,
    TurnTaken,
)
from worker.forge.defence.finish import find_kept_back
from worker.turns import triage
from worker.turns.loop import Parts, drive
from worker.turns.parts import Deps, Kit, Turn
from worker.turns.sandbox import Workspace
from worker.turns.trials import Trials, find_trials

log = logging.getLogger("sandpiper.turn")


class Checkpoints:
    """The newest context of the run, kept also when the loop is left by an exception."""

    def __init__(self, turn: Turn, deps: Deps) -> None:
        self.context = turn.context
        self._key, self._store, self._dumper = turn.key, deps.store, context_json.Dumper()
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


def end_with(context: Context, reason: str) -> Context:
    """The context with its outcome: what there is, and `reason` why it is not more."""
    if context.outcome:
        return context
    outcome = conclude(halt(context, reason))
    text = quote_repair.first_answer(context) or outcome.text
    return replace(context, outcome=replace(outcome, text=text))


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


def _driven(last: Checkpoints, kit: Kit, work: Workspace, deps: Deps, watch: Watcher) -> Context:
    model = deps.model()
    first = model.name
    toolbox = kit.open(work.sandbox, triage.error_text(last.context))
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
        object_to=lambda answer: quote_repair.find_objections(
            *(answer, kit.captures, deps.redact),
            partial(find_kept_back, deps.hosts, deps.redact),
        ),
    )
    ended = drive(last.context, deps.limits_for(last.context.workflow, model), parts)
    gave_way = first if model.name != first else ""
    last.context = replace(ended, model=model.name, gave_way=gave_way)
    return last.context


def _concluded(last: Checkpoints, kit: Kit, work: Workspace, deps: Deps, watch: Watcher) -> Context:
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
        return end_with(last.context, deps.redact(str(error)))
    except Exception as error:  # an unexpected error keeps what was found
        log.exception("session %s: unexpected error", last.context.session_id)
        return end_with(last.context, f"an internal error ({type(error).__name__})")


def investigate(turn: Turn, kit: Kit, deps: Deps, watch: Watcher) -> tuple[Context, Trials]:
    """Run the loop in a sandbox and store its files; ends in an outcome whatever happens.

    Gives also what the sandbox has run of the changes that the answer advises.

    Raises Interrupted where another run goes on, with the sandbox's files if this worker ends.
    """
    last, work = Checkpoints(turn, deps), _workspace(turn, deps, watch)
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
