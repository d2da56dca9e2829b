"""Finds failed pipelines whose webhook was lost. Beginning one twice does no harm."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice

from worker.conversation.context import SessionKey, Subject
from worker.conversation.triggers import PipelineFailed, Reacted, Replied, Trigger, trigger_id
from worker.errors import SandpiperError
from worker.jobs.pipeline_failed import find_looked_at
from worker.queue.journal import Journal
from worker.turns.parts import Deps, FailedPipeline
from worker.turns.run_again import explain_nothing_new
from worker.turns.stored_turns import make_key, read_turn

MOST_LOOKED_AT = 1000
"""Failed pipelines that one sweep compares with the store."""


@dataclass(frozen=True, slots=True)
class MissedPipeline:
    """A failed pipeline that the sweep looked at; `reason` says why it was not begun.

    With `is_gap`, GitLab did not say which pipelines there are, and `reason` is why.
    """

    what: str
    was_begun: bool
    reason: str = ""
    is_gap: bool = False


def begin_missed_pipelines(
    deps: Deps, since: float, most: int, begin: Callable[[PipelineFailed], None]
) -> Iterator[MissedPipeline]:
    """Call `begin` for at most `most` failures that no session knows, and yield all looked at.

    `since` is in epoch seconds. Raises StoreError and what `begin` raises.
    """
    begun = 0
    for found in islice(deps.gitlab.pipelines.find_failed_pipelines(since), MOST_LOOKED_AT):
        if isinstance(found, str):
            yield MissedPipeline("GitLab", False, found, is_gap=True)
            continue
        what = f"pipeline {found.pipeline_id} of project {found.mr_project_id}!{found.mr_iid}"
        reason = _explain_skipped(found, deps)
        if not reason:
            begin(found)
            begun += 1
        yield MissedPipeline(what, not reason, reason)
        if begun >= most:
            return


def list_parked(journal: Journal, most: int | None = None) -> Iterator[str]:
    """Yield a line for each parked trigger among the first `most` of the journal, and for each
    whose damaged record was set aside.

    Raises StoreError.
    """
    for stored in journal.find_parked(most):
        entry = stored.entry
        at = datetime.fromtimestamp(entry.accepted_at, UTC).strftime("%Y-%m-%d %H:%M")
        about = _describe_trigger(entry.trigger)
        yield f"{trigger_id(entry.trigger)}  {at}Z  {about}: {entry.reason}"
    for kept in islice(journal.list_set_aside(), most):
        yield f"{kept}: set aside, as it could not be read; --retry with this name puts it back"


def _describe_trigger(trigger: Trigger) -> str:
    if isinstance(trigger, Replied | Reacted):
        return f"note {trigger.note_id} on {trigger.project_id}!{trigger.mr_iid}"
    return f"pipeline {trigger.pipeline_id} of project {trigger.project_id}"


def _explain_skipped(found: PipelineFailed, deps: Deps) -> str:
    """Return why a pipeline is not begun, or ""."""
    place = Subject(
        deps.gitlab.url,
        *(found.mr_project_id, "", found.mr_iid, found.project_id, found.pipeline_id),
        *(found.sha, ""),
    )
    workflow = deps.runtime.playbook.for_trigger("pipeline_failed")
    key = make_key(place, workflow, deps)
    failure = FailedPipeline(place, found.finished_at)
    if reason := _explain_known(key, failure, deps):
        return reason
    if deps.queue.leases.find_holder(key, 0):
        return "it is being looked at"
    if deps.queue.journal.has_failure(found):
        return "its trigger is in the journal"
    try:
        subject = deps.gitlab.pipelines.find_failed_subject(found)
        if isinstance(subject, str):
            return subject
        looked = find_looked_at(subject, workflow, deps)
        return _explain_known(looked, replace(failure, subject=subject), deps) if looked else ""
    except SandpiperError as error:
        return str(error)


def _explain_known(key: SessionKey, failure: FailedPipeline, deps: Deps) -> str:
    """Return why a session knows a failure; "" if there is no session, or it may not."""
    latest = deps.storage.sessions.find_latest_turn(key)
    if latest is None:
        return ""
    stored = read_turn(deps.storage.sessions, key, latest)
    is_own = stored is None or stored.subject.pipeline_id == failure.subject.pipeline_id
    if stored is None or (is_own and not failure.ended_at):
        return "it has its session"
    return explain_nothing_new(stored, failure)
