"""Takes the turn of a session whose commit has failed again: in the same pipeline, of which jobs
were run again, or in a new one."""

import logging
from collections.abc import Callable
from dataclasses import replace

from worker.answer.finish import add_subject_hosts, finish_body
from worker.answer.note import older_note
from worker.answer.note.note import is_placeholder
from worker.conversation import prompts
from worker.conversation.context import (
    ASKED,
    KNOWN,
    OF_OTHERS,
    Context,
    NoteRef,
    Outcome,
    SessionKey,
    Status,
    Subject,
    find_last_tool_turn,
)
from worker.conversation.messages import Assistant, User
from worker.conversation.tiers import TierChoice
from worker.errors import Busy, ForgeError
from worker.gitlab.ports import OwnNote
from worker.safety.markdown import Marker
from worker.turns import contexts, session, stored_turns, tiers, triage
from worker.turns.branch_explainer import BranchExplainer
from worker.turns.incident_notes import is_left_alone
from worker.turns.memory import tell_memory
from worker.turns.parts import Attempt, Deps, Ended, FailedPipeline, Skipped, Turn
from worker.turns.retries import record_end
from worker.turns.turn import TurnResult, explain_unaffordable, take_turn
from worker.verdict.aftermath import Aftermath, dump_aftermath
from worker.verdict.grouping import Difference, compare_failures
from worker.verdict.jobs import Survey
from worker.verdict.survey_text import tell_leads, tell_survey, tell_time
from worker.verdict.verdict import Verdict

log = logging.getLogger("sandpiper.notes")

_PASSES = frozenset({Verdict.FLAKY, Verdict.INFRASTRUCTURE})
"""Verdicts that say: run it again. The same failure after that ends them."""

_SAME = """\
(GitLab says that {which} has failed again on this commit, in the same way: the same jobs with the
same errors. The note says so.{ended})
"""
_ENDED = (
    ' So it does not pass by itself: the verdict "{}" has ended, and nothing takes its place yet.'
)


def explain_nothing_new(stored: Context, failure: FailedPipeline) -> str:
    """Return why a session, of which `stored` is the newest turn, knows this failure; "" if it may
    be another one."""
    ours, theirs = stored.subject, failure.subject
    number = theirs.pipeline_id
    if number < ours.pipeline_id:
        return f"commit {theirs.sha} was looked at with pipeline {ours.pipeline_id}, a newer one"
    if number > ours.pipeline_id:
        return ""
    known = int(stored.ended_at)
    if known and known == int(failure.ended_at):
        return f"this failure of pipeline {number} was looked at already"
    # What began after the pipeline's end has seen it, where there is nothing to compare it with.
    is_blind = stored.survey is None or not stored.survey.groups
    if is_blind and failure.ended_at <= stored.turn_usage.started_at:
        return f"pipeline {number} was looked at"
    return ""


def _is_looked_into_now(
    key: SessionKey, stored: Context, failure: FailedPipeline, deps: Deps
) -> bool:
    """Whether a failure that the session knows is to be looked into all the same, or somebody has
    begun it: the target branch does not explain it any more. Not if its note was deleted."""
    has_begun = stored.found_by in OF_OTHERS and contexts.read_unfinished_look(
        key, stored, failure, deps
    )
    is_wanted = has_begun or is_left_alone(stored, deps)
    return bool(is_wanted and _find_living_note(key, stored, failure.subject, deps))


def _find_living_note(
    key: SessionKey, stored: Context, subject: Subject, deps: Deps
) -> OwnNote | None:
    """Return the note of the session's looks, with what was found last; None if somebody deleted
    it. Raises ForgeError and StoreError."""
    marker = Marker(key.session_id, 0)
    own = (each for each in deps.gitlab.notes.list_own_notes(subject) if each.marker == marker)
    note = next(own, None)
    if note is None or not is_placeholder(note.body):
        return note
    # A look that was not finished has left its promise there.
    look = stored_turns.find_newest_look(key, stored.turn, deps)
    return replace(note, body=look.note_text) if look and look.note_text else note


def _make_look(
    turn: Turn,
    failure: FailedPipeline,
    survey: Survey,
    deps: Deps,
    tier: TierChoice | None,
    prompt: str,
) -> Context:
    """Return the context of the turn that looks at a failure of another kind, at the same one once
    more, or for the first time: the `prompt` says which."""
    stored, parts = turn.context, [tell_survey(survey), tell_leads(survey)]
    if prompt is prompts.ON_ITS_OWN:  # so far, the model was told of no failure
        told = any(prompts.tells_tools(e.text) for e in stored.messages if isinstance(e, User))
        tools = "" if told or turn.terms.workflow.compact else deps.runtime.describe_tools(None)
        parts.append(tell_memory(stored, turn.terms, deps))
        parts.append(prompts.tell_tools(tools) if tools else "")
    text = prompt.format(
        which=_name_pipeline(stored, failure),
        files=prompts.tell_files(next(iter(turn.files_of), None), find_last_tool_turn(stored)),
        time=tell_time(deps.runtime.clock.now()),
        survey="\n\n".join(filter(None, parts)),
    )
    now = _move_on(stored, failure, deps)
    internal = bool(stored.note and stored.note.internal)
    return replace(
        now,
        look=now.turn,
        survey=survey,
        found_by=ASKED,
        note=NoteRef(0, internal=internal),
        tier=tier,
        on_request=prompt is not prompts.FAILED_AGAIN,
    ).add(User(deps.runtime.redact(text)))


def _move_on(stored: Context, failure: FailedPipeline, deps: Deps) -> Context:
    """Return the turn after `stored`, about the new failure, before anything is said in it."""
    return replace(
        contexts.move_on(stored, deps),
        subject=failure.subject,
        ended_at=failure.ended_at,
        first_pipeline=stored.first_pipeline or stored.subject.pipeline_id,
        on_request=False,
        redactions=(),
        losses=(),
    )


def _name_pipeline(stored: Context, failure: FailedPipeline) -> str:
    number = failure.subject.pipeline_id
    if number == stored.subject.pipeline_id:
        return f"pipeline {number}, in which jobs were run again,"
    return f"a new pipeline, {number},"


def _tell_same_failure(
    key: SessionKey, stored: Context, failure: FailedPipeline, survey: Survey, deps: Deps
) -> Context:
    """Say in the session's note that the failure came again in the same way, and return the turn
    that records it. No model is asked.

    Doing it twice changes nothing. Raises ForgeError and StoreError.
    """
    judged = stored_turns.find_verdict(key, stored.turn, deps)
    after = stored_turns.find_aftermath(deps.storage.sessions, key, stored.look, stored.look)
    passed_between = after is not None and after.became == "passed_again"
    is_held = judged and judged.turn >= stored.look and judged.verdict in _PASSES
    ended = judged.verdict if judged and is_held and not passed_between else ""
    if judged and ended:
        where = failure.subject
        told = Aftermath("failed_again", where.pipeline_id, where.sha, deps.runtime.clock.now())
        deps.storage.sessions.write_aftermath(key, judged.turn, dump_aftermath(told))
    said = _mark_note(key, stored, failure.subject, ended, deps, passed_between=passed_between)
    text = _SAME.format(
        which=_name_pipeline(stored, failure), ended=_ENDED.format(ended) if ended else ""
    )
    now = _move_on(stored, failure, deps)
    answer = "It failed again in the same way."
    note, body = said or (stored.note, "")
    return replace(
        now,
        survey=survey,
        note=note,
        note_text=body,
        verdict=Verdict.UNKNOWN if ended else "",
        found_by=KNOWN if ended else stored.found_by,
        outcome=Outcome(Status.DONE, answer),
    ).add(User(text), Assistant(answer))


def _mark_note(
    key: SessionKey,
    stored: Context,
    subject: Subject,
    ended: str,
    deps: Deps,
    *,
    passed_between: bool,
) -> tuple[NoteRef, str] | None:
    """Write the line into the note; None if the note is gone. Raises ForgeError."""
    note = _find_living_note(key, stored, subject, deps)
    if note is None:
        log.info("session %s: its note is gone, so nothing is said there", key.session_id)
        return None
    body = older_note.mark_failed_again(note.body, subject, ended, passed_between=passed_between)
    finished = finish_body(body, add_subject_hosts(subject, deps.gitlab.hosts), deps.runtime.redact)
    if finished.kept_back:
        log.warning("session %s: its note is left as it is", key.session_id)
        return note.ref, note.body
    if finished.body != note.body:
        try:
            deps.gitlab.notes.edit_note(subject, note.ref, finished.body)
        except ForgeError as error:
            if error.status != 404:
                raise
            log.info("note %d was deleted meanwhile", note.ref.note_id)
    return note.ref, finished.body


def look_again(
    key: SessionKey,
    failure: FailedPipeline,
    deps: Deps,
    run: Attempt,
    *,
    superseded: Callable[[], str] = lambda: "",
    on_request: bool = False,
) -> Ended:
    """Take the next turn of a session whose commit has failed again, unless it knows this failure.

    If other jobs or other errors have failed than what was looked at, it is a look at the failure
    in the session's first note, as it is in any case `on_request`, and if the target branch does
    not explain any more what was not looked into therefore. If they are the same, a line there says
    so, and no model is asked. Raises Busy while another turn of the session is at work.
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
        if isinstance(stored, Skipped):
            return stored
        if not on_request and (reason := explain_nothing_new(stored, failure)):
            if latest == 0:
                session.complete_analysis(key, deps)
            if not _is_looked_into_now(key, stored, failure, deps):
                return Skipped(reason, is_certain=True)
        stored = stored_turns.restore_prompt(stored_turns.check_address(key, stored, deps), deps)
        hidden = deps.gitlab.permissions.needs_internal_note(subject)
        is_internal = stored_turns.is_internal(key, stored, deps)
        if hidden and not is_internal:
            return Skipped(session.BEGAN_IN_PUBLIC)
        run = session.make_stoppable(run, key, latest + 1, deps, superseded)
        files_of = stored_turns.find_files(key, latest, deps)
        unfinished = contexts.read_unfinished_look(key, stored, failure, deps)
        tier, terms = tiers.choose_tier(
            subject, stored.workflow, deps, run, unfinished=unfinished, before=stored
        )
        turn = Turn(
            key,
            unfinished or stored,
            terms,
            files_of,
            lease,
            is_continued=unfinished is not None,
            is_unasked=not on_request,
            is_private=hidden or is_internal,
        )
        if unfinished is None:
            begun = _begin_look(turn, failure, tier, deps, run)
            if isinstance(begun, Skipped):
                return begun
            turn, told = begun, begun.context
            if told.outcome:  # it failed in the same way
                record_end(subject, key, deps, run.watch, passed=False)
                return session.commit_turn(turn, TurnResult(told, told.note_text, None), deps, run)
        session.list_turn(key, turn.context, deps)
        return session.commit_turn(turn, take_turn(turn, deps, run), deps, run)


def _begin_look(
    turn: Turn, failure: FailedPipeline, tier: TierChoice | None, deps: Deps, run: Attempt
) -> Turn | Skipped:
    """Return the turn after that of `turn`, or why there is none."""
    if run.give_up_reason:  # its note still says what was found before
        return Skipped(run.give_up_reason)
    found = _compare_failure(turn, failure, tier, deps)
    if isinstance(found, Skipped):
        return found
    turn = replace(turn, context=found)
    if turn.is_unasked and not found.outcome and (reason := explain_unaffordable(turn, deps)):
        return Skipped(reason)
    return turn


def _compare_failure(
    turn: Turn, failure: FailedPipeline, tier: TierChoice | None, deps: Deps
) -> Context | Skipped:
    """Return the turn after that of `turn`, with an outcome if the failure is the same again and
    nobody has asked."""
    key, stored, subject = turn.key, turn.context, failure.subject
    toolset = deps.runtime.toolset(subject, turn.terms.workflow)
    about = replace(stored, subject=subject)
    explainer = BranchExplainer(about, deps, settles=turn.is_unasked)
    survey = triage.make_survey(about, toolset, turn.terms, deps, 0, explainer)
    is_same_pipeline = subject.pipeline_id == stored.subject.pipeline_id
    before = None if stored_turns.is_unexplained(key, stored, deps, stored.look) else stored.survey
    difference = compare_failures(before, survey, same_pipeline=is_same_pipeline)
    is_untold = stored.found_by in OF_OTHERS and not survey.is_explained
    match difference if turn.is_unasked else None:
        case Difference.NONE | Difference.SAME_WAY if is_untold:
            return _make_look(turn, failure, survey, deps, tier, prompts.ON_ITS_OWN)
        case Difference.NONE:
            return Skipped(f"the failed jobs of pipeline {subject.pipeline_id} were looked at")
        case Difference.SAME_WAY:
            turn.lease.confirm_held()
            return _tell_same_failure(key, stored, failure, survey, deps)
    prompt = prompts.FAILED_AGAIN if turn.is_unasked else prompts.ASKED_AGAIN
    look = _make_look(turn, failure, survey, deps, tier, prompt)
    note = _find_living_note(key, stored, subject, deps)
    return replace(look, earlier_note=note.body if note else "")
