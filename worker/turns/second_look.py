"""Takes the turn of a session whose commit has failed again: in the same pipeline, of which jobs
were run again, or in a new one."""

from collections.abc import Callable
from dataclasses import replace

from worker.conversation.context import Context
from worker.conversation.session_id import SessionKey
from worker.conversation.tiers import TierChoice
from worker.turns import contexts, kept_prompts, run_again, session, stored_turns, tiers, triage
from worker.turns.parts import Deps, Run, Turn
from worker.turns.results import Busy, Ended, Skipped
from worker.turns.run_again import Failure
from worker.turns.turn import TurnResult, explain_unaffordable, take_turn
from worker.verdict.grouping import Difference, compare_failures


def look_again(
    key: SessionKey,
    failure: Failure,
    deps: Deps,
    run: Run,
    *,
    superseded: Callable[[], str] = lambda: "",
    on_request: bool = False,
) -> Ended:
    """Take the next turn of a session whose commit has failed again, unless it knows this failure.

    If other jobs or other errors have failed than what was looked at, it is a look at the failure
    in the session's first note, as it is in any case `on_request`. If they are the same, a line
    there says so, and no model is asked. Raises Busy while another turn of the session is at work.
    """
    latest = deps.storage.sessions.find_latest_turn(key) or 0
    subject = failure.subject
    name = f"failed {subject.pipeline_id} {int(failure.ended_at)}"
    if on_request:
        name = f"terminal:{deps.queue.owner}"
    with session.claim_turn(key, latest + 1, name, deps) as lease:
        if isinstance(lease, Skipped):
            if lease.at_work:
                return lease
            raise Busy(f"session {key.session_id} has gone on meanwhile")
        stored = contexts.load_session(key, latest, deps)
        if isinstance(stored, str):
            return Skipped(stored)
        if not on_request and (reason := run_again.explain_nothing_new(stored, failure)):
            if latest == 0:
                session.complete_analysis(key, deps)
            return Skipped(reason, is_certain=True)
        stored = kept_prompts.restore_prompt(session.check_address(key, stored, deps), deps)
        hidden, is_internal = (
            deps.gitlab.permissions.needs_internal_note(subject),
            session.is_internal(key, stored, deps),
        )
        if hidden and not is_internal:
            return Skipped(session.BEGAN_IN_PUBLIC)
        run = session.make_stoppable(run, key, latest + 1, deps, superseded)
        files_of = stored_turns.find_files(key, latest, deps)
        unfinished = contexts.read_unfinished_look(key, stored, failure, deps)
        tier, deps = tiers.prepare_tier(
            *(subject, stored.workflow, deps, run), unfinished=unfinished, before=stored
        )
        turn = Turn(
            *(key, unfinished or stored, files_of, lease, unfinished is not None),
            is_unasked=not on_request,
            is_private=hidden or is_internal,
        )
        if unfinished is None:
            begun = _begin_look(turn, failure, tier, deps, run)
            if isinstance(begun, Skipped):
                return begun
            turn, told = begun, begun.context
            if told.outcome:
                return session.commit_turn(turn, TurnResult(told, told.note_text, None), deps, run)
        session.list_turn(key, turn.context, deps)
        return session.commit_turn(turn, take_turn(turn, deps, run), deps, run)


def _begin_look(
    turn: Turn, failure: Failure, tier: TierChoice | None, deps: Deps, run: Run
) -> Turn | Skipped:
    """Return the turn after that of `turn`, or why there is none."""
    if run.gives_up:  # its note still says what was found before
        return Skipped(run.gives_up)
    found = _compare_failure(turn, failure, tier, deps)
    if isinstance(found, Skipped):
        return found
    turn = replace(turn, context=found)
    if turn.is_unasked and not found.outcome and (reason := explain_unaffordable(turn, deps)):
        return Skipped(reason)
    return turn


def _compare_failure(
    turn: Turn, failure: Failure, tier: TierChoice | None, deps: Deps
) -> Context | Skipped:
    """Return the turn after that of `turn`, with an outcome if the failure is the same again and
    nobody has asked."""
    key, stored, subject = turn.key, turn.context, failure.subject
    toolset = deps.runtime.toolset(subject, deps.runtime.playbook.get(stored.workflow))
    about = replace(stored, subject=subject)
    survey = triage.make_survey(about, toolset, deps)
    is_same_pipeline = subject.pipeline_id == stored.subject.pipeline_id
    before = None if stored_turns.is_unexplained(key, stored, deps, stored.look) else stored.survey
    difference = compare_failures(before, survey, same_pipeline=is_same_pipeline)
    match difference if turn.is_unasked else None:
        case Difference.NONE:
            return Skipped(f"the failed jobs of pipeline {subject.pipeline_id} were looked at")
        case Difference.SAME_WAY:
            turn.lease.confirm_held()
            return run_again.tell_same_failure(key, stored, failure, survey, deps)
    files = next(iter(turn.files_of), None)
    look = run_again.make_look(
        stored,
        failure,
        survey,
        deps,
        files=files,
        tier=tier,
        on_request=not turn.is_unasked,
    )
    note = run_again.find_living_note(key, stored, subject, deps)
    return replace(look, earlier_note=note.body if note else "")
