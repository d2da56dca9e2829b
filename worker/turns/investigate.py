"""The investigation of a turn: the sandbox, the loop, a checkpoint after each step, the files."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from sandbox.base import SandboxError
from worker.answer import repair
from worker.conversation import context_json
from worker.conversation.absorb import close_calls, close_lost_calls, halt_turn
from worker.conversation.context import Context
from worker.conversation.decide import conclude_halted_turn
from worker.conversation.messages import ToolCall, count_results
from worker.conversation.plan import has_plan, list_planned_files, write_step_reminder
from worker.conversation.questions import Route
from worker.errors import (
    HandedOver,
    LeaseLost,
    NotFinished,
    Postponed,
    SandpiperError,
    StoreError,
    TurnTaken,
)
from worker.turns import triage
from worker.turns.examination import Examiner, fail_without_answer
from worker.turns.loop import LoopParts, run_loop
from worker.turns.parts import Attempt, Deps, Terms, Toolset, Turn
from worker.turns.report import find_objections, read_verdict
from worker.turns.sandbox import Workspace
from worker.turns.tiers import change_model, find_signal, open_model
from worker.turns.trials import Trials, find_trials

log = logging.getLogger("sandpiper.turn")


class Checkpoints:
    """The run's newest context, also after an exception has ended the loop."""

    def __init__(self, turn: Turn, deps: Deps) -> None:
        self.context = turn.context
        self.is_continued = turn.is_continued
        self._key, self._lease = turn.key, turn.lease
        self._store, self._dumper = deps.storage.sessions, context_json.Dumper()

    def write_checkpoint(self, context: Context) -> None:
        """Store the context; end here if this worker shuts down. Raises NotFinished, StoreError."""
        self.context = context
        try:
            self._lease.check_held()
            self._store.write_checkpoint(self._key, context.turn, self._dumper.dump(context))
        except StoreError as error:
            if not error.transient:
                raise
            # An unavailable store does not end the run: a later step is stored again.
            log.warning("session %s: step not kept: %s", context.session_id, error)
            return
        try:
            self._lease.raise_if_stopping()
        except HandedOver:
            self.write_handover()
            raise

    def write_handover(self, since: float = 0.0) -> None:
        """Store that no open call was begun, so that the next run has nothing to repair, and since
        when this one has only waited, if it has."""
        spent = replace(self.context.turn_usage, paused_at=since)
        data = self._dumper.dump(replace(self.context, turn_usage=spent, handed_over=True))
        self._store.write_checkpoint(self._key, self.context.turn, data)

    def resume(self, repeatable: Callable[[ToolCall], bool]) -> None:
        """Continue from another run's context. Calls that it may have begun are run again only if
        `repeatable`; this is stored first, because this run may die too."""
        found = self.context
        context = replace(found, handed_over=False)
        if not found.handed_over:
            context = close_lost_calls(context, repeatable)
        if found.handed_over or context.messages != found.messages:
            self.write_checkpoint(context)
        self.context = context


def end_context(context: Context, reason: str) -> Context:
    """Return the context with an outcome: what there is so far, and `reason`, why not more."""
    if context.outcome:
        return context
    outcome = conclude_halted_turn(halt_turn(context, reason))
    text = repair.find_first_answer(context) or outcome.text
    outcome = fail_without_answer(context, replace(outcome, text=text))
    return replace(context, outcome=outcome)


def _prepare_loop(
    checkpoints: Checkpoints,
    toolset: Toolset,
    workspace: Workspace,
    terms: Terms,
    deps: Deps,
    run: Attempt,
) -> LoopParts:
    model = open_model(checkpoints.context, deps, run)
    sandbox = deps.runtime.wrap_sandbox(workspace.sandbox)
    toolbox = toolset.open_toolbox(sandbox, triage.read_error_text(checkpoints.context))
    checkpoints.context = replace(checkpoints.context, model=model.name, gave_way="")
    context = checkpoints.context
    if has_plan(context):  # the model was told that these files are there
        announced = list_planned_files(context.survey, terms.workflow.allows, context.subject)
        workspace.save_documents(announced, toolbox)
    if checkpoints.is_continued:
        checkpoints.resume(toolbox.is_repeatable)
    return LoopParts(
        model=model,
        toolbox=toolbox,
        clock=deps.runtime.clock,
        checkpoint=checkpoints.write_checkpoint,
        watch=run.watch,
        news=workspace.tell_news,
        may_postpone=run.may_postpone,
        prepare_tools=workspace.prepare_tools,
        replace_sandbox=workspace.replace_sandbox,
        after_tools=workspace.save_now_and_then,
        helper=deps.runtime.helper,
        redact=deps.runtime.redact,
        change_model=partial(change_model, terms, deps, run),
        find_signal=partial(find_signal, read_verdict=partial(read_verdict, toolset, deps)),
        remind=write_step_reminder if terms.workflow.leads else lambda context: "",
        examiner=make_examiner(terms, toolset, deps),
    )


def make_examiner(terms: Terms, toolset: Toolset, deps: Deps) -> Examiner:
    """Make the examiner of the answers in a workflow's turns."""
    return Examiner(
        gate=terms.workflow.gate or deps.runtime.gate,
        helper=deps.runtime.helper,
        find_objections=partial(find_objections, terms, toolset, deps),
    )


@contextmanager
def _keep_outcome(checkpoints: Checkpoints, deps: Deps) -> Iterator[None]:
    """Give the context an outcome if an error ends the run. Raises NotFinished."""
    try:
        yield
    except Postponed as error:
        checkpoints.write_handover(error.waits_since)
        raise
    except NotFinished:
        raise
    except (SandboxError, SandpiperError) as error:
        log.warning("session %s: %s", checkpoints.context.session_id, error)
        checkpoints.context = end_context(checkpoints.context, deps.runtime.redact(str(error)))
    except Exception as error:  # an unexpected error keeps what was found
        log.exception("session %s: unexpected error", checkpoints.context.session_id)
        reason = f"an internal error ({type(error).__name__})"
        checkpoints.context = end_context(checkpoints.context, reason)


def run_investigation(
    turn: Turn, toolset: Toolset, deps: Deps, run: Attempt
) -> tuple[Context, Trials]:
    """Run the loop in a sandbox and store its files; an error becomes the turn's outcome.

    Returns also which of the changes that the answer advises were run in the sandbox.

    Raises NotFinished if another run is to continue; if this worker shuts down, the sandbox's files
    are stored first.
    """
    context, begun = turn.context, turn.is_continued or turn.lease.is_takeover
    checkpoints = Checkpoints(turn, deps)
    workspace = Workspace(
        turn.key,
        context.turn,
        turn.files_of,
        deps,
        run.watch,
        begun=begun,
        worked=count_results(context.messages[context.turn_start :]) > 0,
        # A question about what was said may need no sandbox.
        at_first_use=not begun and run.reply_route.route is Route.QUESTION,
    )
    try:
        with _keep_outcome(checkpoints, deps):
            if not turn.is_continued:
                told = triage.complete_first_message(
                    context, workspace.running_sandbox, turn.terms, deps
                )
                if told.calls is not context.calls:  # a helper's cost is stored before its answer
                    checkpoints.write_checkpoint(told)
                checkpoints.context = told
            parts = _prepare_loop(checkpoints, toolset, workspace, turn.terms, deps, run)
            limits = turn.terms.limits_for(parts.model)
            checkpoints.context = run_loop(checkpoints.context, limits, parts)
        context = checkpoints.context
        turn.lease.confirm_held()
        trials = find_trials(context, workspace.sandbox, toolset.captures, deps)
        workspace.save_files(context, turn.lease.retry_while_away)
    except (HandedOver, Postponed):
        workspace.save_files(checkpoints.context)
        workspace.close()
        raise
    except (LeaseLost, TurnTaken) as error:
        # The sandbox may belong to another run by now, so it is not closed here.
        raise LeaseLost(str(error)) from error
    except (StoreError, KeyboardInterrupt):  # the latter: whoever began the run has stopped it
        workspace.close()
        raise
    workspace.close()
    context = replace(context, losses=(*context.losses, *workspace.losses))
    return close_calls(context, "the turn ended first"), trials
