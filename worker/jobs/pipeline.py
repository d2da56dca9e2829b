"""What pipelines ask for: to look at a failure, or to mark the notes on older ones when one passes.

A failure is looked at when the debounce is over, or looked at again where its commit was looked at
before.
"""

import logging
from dataclasses import replace

from worker.conversation.context import SessionKey, Subject
from worker.conversation.triggers import PipelineFailed, PipelinePassed
from worker.errors import Busy, DebounceNotOver, SourceError
from worker.jobs.branch import watch_requests
from worker.jobs.ledger import record_turn
from worker.settings.playbook import Workflow
from worker.turns import earlier_notes
from worker.turns.branch_explainer import may_tell, note_passed_request
from worker.turns.incident_notes import tell_cars_behind
from worker.turns.outcomes import update_judgement
from worker.turns.parts import Attempt, Deps, Ended, FailedPipeline, Finished, NotesMarked, Skipped
from worker.turns.retries import record_end
from worker.turns.run_again import look_again
from worker.turns.session import analyse_failure
from worker.turns.stored_turns import find_next_turn, is_unexplained, load_turn, make_key
from worker.verdict.aftermath import load_aftermath

log = logging.getLogger("sandpiper.job")

MOST_SKEW = 60.0
"""Seconds that GitLab's clock may be ahead of ours."""


def analyse_pipeline(trigger: PipelineFailed, deps: Deps, run: Attempt) -> Ended:
    """Analyse the failure, unless there is a reason not to.

    Raises DebounceNotOver, Busy and others.
    """
    with deps.gitlab.pipelines.remember_answers():
        return _analyse_now(trigger, deps, run)


def _analyse_now(trigger: PipelineFailed, deps: Deps, run: Attempt) -> Ended:
    debounce = deps.options.debounce
    if debounce and not trigger.by_job:
        # A restarted worker does not wait again. A time far in the future is ignored.
        ended_at = deps.gitlab.pipelines.find_end_time(trigger)
        age = deps.runtime.clock.now() - ended_at
        if -MOST_SKEW <= age < debounce:
            raise DebounceNotOver(min(debounce - age, debounce))
    found = deps.gitlab.pipelines.find_failure(trigger)
    if isinstance(found, str):
        return Skipped(found)
    subject, ended_at = found
    if trigger.by_job:  # it still runs
        ended_at = 0.0
    workflow = deps.runtime.playbook.for_trigger("pipeline_failed")
    key = find_looked_at(subject, workflow, deps)

    def explain_superseded() -> str:
        return deps.gitlab.pipelines.explain_superseded(subject)

    ended: Ended
    if key:
        failure = FailedPipeline(subject, ended_at)
        ended = look_again(key, failure, deps, run, superseded=explain_superseded)
    else:
        ended = analyse_failure(
            subject,
            workflow,
            deps,
            run,
            superseded=explain_superseded,
            unasked=True,
            ended_at=ended_at,
        )
    watch_requests(subject, deps, run)
    tell_cars_behind(subject.project_id, subject.mr_iid, deps)
    if isinstance(ended, Finished) and not trigger.by_job:
        record_turn(ended, subject, deps)
    return ended


def find_looked_at(subject: Subject, workflow: Workflow, deps: Deps) -> SessionKey | None:
    """Return the session that has looked at the pipeline's commit, None if there is none.

    It is the pipeline's own, or that of another pipeline of the commit if something was found
    there and its note is still the commit's. Raises Busy while it is at its first turn.
    """
    own = make_key(subject, workflow, deps)
    if deps.storage.sessions.find_latest_turn(own) is not None:
        return own
    if deps.queue.leases.find_holder(own, 0):
        return None  # the same trigger's turn, perhaps to be taken over
    listed = deps.storage.sessions.list_sessions(subject.project_id, subject.mr_iid)
    if all(key == own for key in listed):
        return None
    try:
        pipelines = deps.gitlab.pipelines.list_same_commit(subject)
    except SourceError as error:
        if error.transient:
            raise
        log.warning("pipeline %d: %s", subject.pipeline_id, error)
        return None  # the analysis goes on
    for pipeline in pipelines:
        key = make_key(replace(subject, pipeline_id=pipeline), workflow, deps)
        latest = deps.storage.sessions.find_latest_turn(key)
        if latest is not None:
            stored = load_turn(deps.storage.sessions, key, latest)
            after = load_aftermath(deps.storage.sessions.read_aftermath(key, 0))
            has_moved_on = after is not None and after.became in ("superseded", "fixed")
            if not (has_moved_on or is_unexplained(key, stored, deps)):
                return key
        elif deps.queue.leases.find_holder(key, 0):
            raise Busy(f"commit {subject.sha} is being looked at with pipeline {pipeline}")
    return None


_NO_FAILURE = "pipeline {} passed, and no failure was looked at before"


def mark_notes(trigger: PipelinePassed, deps: Deps, run: Attempt) -> Skipped | NotesMarked:
    """Add to the notes of older failures that a later pipeline passed.

    Most merge requests had no failure before: the store shows that, and GitLab is not asked unless
    the target branch may be red, which this one may mend. A branch pipeline names no merge request,
    and that of a fork may be in another project.
    Raises Busy while one of the merge request's sessions is at work.
    """
    project, iid = trigger.mr_project_id or trigger.project_id, trigger.mr_iid
    listed = deps.storage.sessions.list_sessions(project if iid else 0, iid)
    is_new = not any(True for _ in listed)
    if is_new and not may_tell(project, deps):
        return Skipped(_NO_FAILURE.format(trigger.pipeline_id))
    if iid:
        tell_cars_behind(project, iid, deps)
    subject = deps.gitlab.pipelines.find_passed_subject(trigger)
    if isinstance(subject, str):
        return Skipped(subject)
    note_passed_request(subject, deps)
    watch_requests(subject, deps, run)
    if is_new:
        return Skipped(_NO_FAILURE.format(trigger.pipeline_id))
    for key in deps.storage.sessions.list_sessions(subject.project_id, subject.mr_iid):
        if deps.storage.sessions.find_latest_turn(key) is None and deps.queue.leases.find_holder(
            key, 0
        ):
            raise Busy(f"session {key.session_id} is still at work on !{subject.mr_iid}")
    done = earlier_notes.mark_passed(subject, deps)
    for name in done.sessions:
        key = subject.make_key(name)
        record_end(subject, key, deps, run.watch, passed=True)
        for turn in range(find_next_turn(key, deps)):
            update_judgement(key, turn, deps, run.watch)
    return done
