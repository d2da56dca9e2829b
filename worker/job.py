"""The story of one trigger: prepare → run → report → save."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from worker import feedback, living, replies
from worker.conversation import (
    CLAIM_MARGIN,
    Busy,
    Ended,
    Finished,
    Skipped,
    analyse,
    answer,
    key_of,
    load,
)
from worker.core.context import Status, Subject
from worker.core.progress import Watcher, unwatched
from worker.core.triggers import PipelineFailed, PipelinePassed, Reacted, Replied, Trigger
from worker.deps import Deps
from worker.errors import SandpiperError, SourceError
from worker.feedback import Counted
from worker.living import Settled
from worker.playbook import Workflow
from worker.replies import Told

log = logging.getLogger("sandpiper.job")

MOST_SKEW = 60.0
"""Seconds that GitLab's clock may be ahead of ours."""

__all__ = [
    "CLAIM_MARGIN",
    "Busy",
    "Counted",
    "Early",
    "Ended",
    "Finished",
    "Result",
    "Settled",
    "Skipped",
    "Told",
    "analyse",
    "answer",
    "key_of",
    "run",
]


Result = Ended | Told | Settled | Counted


def run(trigger: Trigger, deps: Deps, watch: Watcher = unwatched) -> Result:
    """Deal with one trigger. Raises SandpiperError; `transient` ones may be run again."""
    match trigger:
        case PipelineFailed():
            return _failed(trigger, deps, watch)
        case PipelinePassed():
            return _passed(trigger, deps)
        case Replied():
            return replies.handle(trigger, deps, watch)
        case Reacted():
            counted = feedback.handle(trigger, deps, watch)
            return Skipped(counted) if isinstance(counted, str) else counted


class Early(SandpiperError):
    """The failure is so fresh that a newer one may overtake it: come back in `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the failure rests for another {seconds:.1f} s (gitlab.debounce)", transient=True
        )
        self.seconds = seconds


def _failed(trigger: PipelineFailed, deps: Deps, watch: Watcher) -> Ended:
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


def _passed(trigger: PipelinePassed, deps: Deps) -> Skipped | Settled:
    """Most pipelines that pass never failed before: the store tells, and GitLab is not asked."""
    project, iid = trigger.mr_project_id or trigger.project_id, trigger.mr_iid
    if not any(True for _ in deps.store.sessions(project, iid)):
        return Skipped(
            f"pipeline {trigger.pipeline_id} passed, and no failure was looked at before"
        )
    subject = deps.desk.passed(trigger)
    if isinstance(subject, str):
        return Skipped(subject)
    for key in deps.store.sessions(subject.project_id, subject.mr_iid):
        if deps.store.latest(key) is None and deps.leases.find_holder(key, 0):
            raise Busy(f"session {key.session_id} is still at work on !{subject.mr_iid}")
    return living.passed(subject, deps)


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
