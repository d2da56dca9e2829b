"""Handles failed pipelines: waits for the debounce, skips analysed commits, analyses the rest."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from worker.core.conversation.context import Status, Subject
from worker.core.triggers import PipelineFailed
from worker.errors import SourceError
from worker.jobs.results import DebounceNotOver
from worker.playbook import Workflow
from worker.turns.parts import Deps, Run
from worker.turns.results import Busy, Ended, Skipped
from worker.turns.session import analyse_failure, make_key
from worker.turns.stored_turns import load_turn

log = logging.getLogger("sandpiper.job")

MOST_SKEW = 60.0
"""Seconds that GitLab's clock may be ahead of ours."""


def analyse_pipeline(trigger: PipelineFailed, deps: Deps, run: Run) -> Ended:
    """Analyse the failure, unless there is a reason not to.

    Raises DebounceNotOver, Busy and others.
    """
    if deps.options.debounce and not trigger.by_job:
        _wait_for_debounce(trigger, deps)
    subject = deps.gitlab.pipelines.find_failed_subject(trigger)
    if isinstance(subject, str):
        return Skipped(subject)
    workflow = deps.runtime.playbook.for_trigger("pipeline_failed")
    if reason := explain_looked_at(subject, workflow, deps):
        return Skipped(reason)
    return analyse_failure(
        subject,
        workflow,
        deps,
        run,
        superseded=lambda: deps.gitlab.pipelines.explain_superseded(subject),
        unasked=True,
    )


def _wait_for_debounce(trigger: PipelineFailed, deps: Deps) -> None:
    """Raise DebounceNotOver while the failure is younger than the debounce.

    Its age is counted from GitLab's end time, so that a restarted worker does not wait again. A
    time far in the future is ignored.
    """
    age = deps.runtime.clock.now() - deps.gitlab.pipelines.find_end_time(trigger)
    if -MOST_SKEW <= age < deps.options.debounce:
        raise DebounceNotOver(min(deps.options.debounce - age, deps.options.debounce))


def _list_pipelines_of_commit(subject: Subject, deps: Deps) -> Sequence[int]:
    """List the commit's other pipelines; if GitLab cannot tell, none, so the analysis goes on."""
    try:
        return deps.gitlab.pipelines.list_same_commit(subject)
    except SourceError as error:
        if error.transient:
            raise
        log.warning("pipeline %d: %s", subject.pipeline_id, error)
        return ()


def explain_looked_at(subject: Subject, workflow: Workflow, deps: Deps) -> str:
    """Return why another pipeline of the commit makes a run needless, or "". Raises Busy."""
    for pipeline in _list_pipelines_of_commit(subject, deps):
        key = make_key(replace(subject, pipeline_id=pipeline), workflow, deps)
        latest = deps.storage.sessions.find_latest_turn(key)
        if latest is not None:
            outcome = load_turn(deps.storage.sessions, key, latest).outcome
            if outcome and outcome.status is not Status.FAILED:
                return f"commit {subject.sha} was looked at with pipeline {pipeline}"
        elif deps.queue.leases.find_holder(key, 0):
            raise Busy(f"commit {subject.sha} is being looked at with pipeline {pipeline}")
    return ""
