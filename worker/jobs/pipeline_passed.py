"""Handles passed pipelines: the notes on older failures of the merge request then say so."""

from worker.conversation.context import SessionKey
from worker.conversation.events import Watcher
from worker.conversation.triggers import PipelinePassed
from worker.errors import Busy
from worker.turns import earlier_notes
from worker.turns.outcomes import update_judgement
from worker.turns.parts import Deps, NotesMarked, Skipped
from worker.turns.stored_turns import find_next_turn


def mark_notes(trigger: PipelinePassed, deps: Deps, watch: Watcher) -> Skipped | NotesMarked:
    """Add to the notes of older failures that a later pipeline passed.

    Most merge requests had no failure before: the store shows that, and GitLab is not asked. A
    branch pipeline names no merge request, and that of a fork may be in another project.
    Raises Busy while one of the merge request's sessions is at work.
    """
    project, iid = trigger.mr_project_id or trigger.project_id, trigger.mr_iid
    listed = deps.storage.sessions.list_sessions(project if iid else 0, iid)
    if not any(True for _ in listed):
        return Skipped(
            f"pipeline {trigger.pipeline_id} passed, and no failure was looked at before"
        )
    subject = deps.gitlab.pipelines.find_passed_subject(trigger)
    if isinstance(subject, str):
        return Skipped(subject)
    for key in deps.storage.sessions.list_sessions(subject.project_id, subject.mr_iid):
        if deps.storage.sessions.find_latest_turn(key) is None and deps.queue.leases.find_holder(
            key, 0
        ):
            raise Busy(f"session {key.session_id} is still at work on !{subject.mr_iid}")
    done = earlier_notes.mark_passed(subject, deps)
    for name in done.sessions:
        key = SessionKey(subject.project_id, subject.mr_iid, name)
        for turn in range(find_next_turn(key, deps)):
            update_judgement(key, turn, deps, watch)
    return done
