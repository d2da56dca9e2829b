"""Repair: failed pipelines that nobody told us of. The same ones again and again do no harm."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from worker.conversation import key_of
from worker.core.context import Subject
from worker.core.triggers import PipelineFailed, Reacted, Replied, Trigger, trigger_id
from worker.deps import Deps
from worker.errors import SandpiperError
from worker.queue.journal import Journal

log = logging.getLogger("sandpiper.sweep")

MOST_LOOKED_AT = 1000
"""Failed pipelines that one sweep compares with the store."""


@dataclass(frozen=True, slots=True)
class Swept:
    """One thing a sweep came upon. `begun` says that it was handed on, `reason` why not."""

    what: str
    begun: bool
    reason: str = ""


def sweep(
    deps: Deps, since: float, most: int, begin: Callable[[PipelineFailed], None]
) -> Iterator[Swept]:
    """Hand at most `most` failed pipelines without a session to `begin`, as they are found.

    `since` is in epoch seconds. Raises QueueError, StoreError.
    """
    begun = 0
    for found in islice(deps.desk.failing(since), MOST_LOOKED_AT):
        if isinstance(found, str):
            yield Swept("GitLab", False, found)
            continue
        what = f"pipeline {found.pipeline_id} of project {found.mr_project_id}!{found.mr_iid}"
        reason = _left_alone(found, deps)
        if not reason:
            begin(found)
            begun += 1
        yield Swept(what, not reason, reason)
        if begun >= most:
            return


def parked(journal: Journal, most: int | None = None) -> Iterator[str]:
    """A line for each trigger that could not be brought to an end, of the first `most` triggers
    that have not ended. Raises StoreError."""
    for noted in journal.parked(most):
        entry = noted.entry
        at = datetime.fromtimestamp(entry.accepted_at, UTC).strftime("%Y-%m-%d %H:%M")
        yield f"{trigger_id(entry.trigger)}  {at}Z  {_described(entry.trigger)}: {entry.reason}"


def _described(trigger: Trigger) -> str:
    if isinstance(trigger, Replied | Reacted):
        return f"note {trigger.note_id} on {trigger.project_id}!{trigger.mr_iid}"
    return f"pipeline {trigger.pipeline_id} of project {trigger.project_id}"


def _left_alone(found: PipelineFailed, deps: Deps) -> str:
    """Why there is nothing to begin: a session, or the desk's reason."""
    place = Subject(
        deps.gitlab_url,
        *(found.mr_project_id, "", found.mr_iid, found.project_id, found.pipeline_id),
        *(found.sha, ""),
    )
    key = key_of(place, deps.playbook.for_trigger("pipeline_failed"), deps)
    if deps.store.latest(key) is not None:
        return "it has its session"
    if deps.leases.holder(key, 0):
        return "it is being looked at"
    try:
        subject = deps.desk.subject(found)
    except SandpiperError as error:
        return str(error)
    return subject if isinstance(subject, str) else ""
