"""The story of one trigger: prepare → run → report → save."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from worker import replies
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
from worker.core.triggers import PipelineFailed, Replied, Trigger
from worker.deps import Deps
from worker.errors import SourceError
from worker.playbook import Workflow
from worker.replies import Told

log = logging.getLogger("sandpiper.job")

__all__ = [
    "CLAIM_MARGIN",
    "Busy",
    "Ended",
    "Finished",
    "Skipped",
    "Told",
    "analyse",
    "answer",
    "key_of",
    "run",
]


def run(trigger: Trigger, deps: Deps, watch: Watcher = unwatched) -> Ended | Told:
    """Deal with one trigger. Raises SandpiperError; `transient` ones may be run again."""
    match trigger:
        case PipelineFailed():
            return _failed(trigger, deps, watch)
        case Replied():
            return replies.handle(trigger, deps, watch)


def _failed(trigger: PipelineFailed, deps: Deps, watch: Watcher) -> Ended:
    subject = deps.desk.subject(trigger)
    if isinstance(subject, str):
        return Skipped(subject)
    workflow = deps.playbook.for_trigger("pipeline_failed")
    if told := _told_already(subject, workflow, deps):
        return Skipped(told)
    return analyse(subject, workflow, deps, watch, superseded=lambda: deps.desk.superseded(subject))


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
        elif deps.store.holder(key, 0, deps.clock.now()):
            raise Busy(f"commit {subject.sha} is being looked at with pipeline {pipeline}")
    return ""
