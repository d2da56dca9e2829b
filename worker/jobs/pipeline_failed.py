"""A pipeline failed: wait for the debounce, skip what was looked at, analyse the rest."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from worker.core.conversation.context import Status, Subject
from worker.core.events import Watcher
from worker.core.triggers import PipelineFailed
from worker.errors import SourceError
from worker.jobs.results import Early
from worker.playbook import Workflow
from worker.turns.parts import Deps
from worker.turns.results import Busy, Ended, Skipped
from worker.turns.session import analyse, key_of, load

log = logging.getLogger("sandpiper.job")

MOST_SKEW = 60.0
"""Seconds that GitLab's clock may be ahead of ours."""


def analyse_pipeline(trigger: PipelineFailed, deps: Deps, watch: Watcher) -> Ended:
    """Analyse the failure, unless there is a reason not to. Raises Early, Busy and others."""
    if deps.debounce and not trigger.by_job:
        _let_rest(trigger, deps)
    subject = deps.desk.subject(trigger)
    if isinstance(subject, str):
        return Skipped(subject)
    workflow = deps.playbook.for_trigger("pipeline_failed")
    if told := _told_already(subject, workflow, deps):
        return Skipped(told)
    return analyse(
        subject,
        workflow,
        deps,
        watch,
        superseded=lambda: deps.desk.superseded(subject),
        unasked=True,
    )


def _let_rest(trigger: PipelineFailed, deps: Deps) -> None:
    """Raise Early while the failure is younger than the debounce.

    By GitLab's own time of it, so that a restart of the worker begins no second wait. A time that
    is far in the future says nothing.
    """
    age = deps.clock.now() - deps.desk.ended(trigger)
    if -MOST_SKEW <= age < deps.debounce:
        raise Early(min(deps.debounce - age, deps.debounce))


def _others(subject: Subject, deps: Deps) -> Sequence[int]:
    """The commit's other pipelines; not to know of them must not cost the analysis."""
    try:
        return deps.desk.same_commit(subject)
    except SourceError as error:
        if error.transient:
            raise
        log.warning("pipeline %d: %s", subject.pipeline_id, error)
        return ()


def _told_already(subject: Subject, workflow: Workflow, deps: Deps) -> str:
    """One run for each commit: why another pipeline on it needs none, or "". Raises Busy."""
    for pipeline in _others(subject, deps):
        key = key_of(replace(subject, pipeline_id=pipeline), workflow, deps)
        latest = deps.store.latest(key)
        if latest is not None:
            outcome = load(key, latest, deps).outcome
            if outcome and outcome.status is not Status.FAILED:
                return f"commit {subject.sha} was looked at with pipeline {pipeline}"
        elif deps.leases.find_holder(key, 0):
            raise Busy(f"commit {subject.sha} is being looked at with pipeline {pipeline}")
    return ""
