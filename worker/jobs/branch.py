"""What a watched branch asks for: its record is brought up to date with GitLab and judged, and what
follows is done.

Each step does the difference between what holds and what was done before, so that an event that
comes late, twice or never, and a worker that dies at any point, change nothing in the end.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace

from worker.conversation.context import Subject
from worker.conversation.events import IncidentClosed, IncidentOpened
from worker.conversation.triggers import BranchEnded
from worker.errors import DebounceNotOver, SourceError
from worker.incidents.explain import explain_request
from worker.incidents.judge import judge_branch
from worker.incidents.record import BranchRecord, Incident, IncidentState, RequestRecord
from worker.jobs.branch_follow_up import RED, BranchWatched, follow_up, is_waiting
from worker.jobs.ledger import record_tests
from worker.turns import incident_actions
from worker.turns.incident_notes import stands_alone, tell_request
from worker.turns.parts import Attempt, Deps, Skipped

log = logging.getLogger("sandpiper.incidents")

_ASKED_EARLY = 30.0
"""Seconds until a pipeline is looked at again that has not ended."""

_ROUNDS = 3
"""How often a branch is judged anew at most because merge requests have failed meanwhile."""


def watch_branch(trigger: BranchEnded, deps: Deps, run: Attempt) -> Skipped | BranchWatched:
    """Bring the record of a branch up to date with GitLab, and do what follows from it.

    Raises SourceError, ForgeError, StoreError and what a turn raises; after a transient error, it
    is done again from the beginning.
    """
    if run.give_up_reason:
        return Skipped(run.give_up_reason)
    reader = deps.gitlab.pipelines
    if not trigger.finished_at and reader.is_at_work(trigger.project_id, trigger.pipeline_id):
        raise DebounceNotOver(_ASKED_EARLY)  # one of its own jobs asks
    branches = deps.options.incident_settings.branches
    found = reader.find_branch(trigger.project_id, trigger.pipeline_id, branches)
    branch = trigger.ref if isinstance(found, str) else found.branch
    known = deps.storage.incidents.read_branch(trigger.project_id, branch)
    is_red = known is not None and any(each.state in RED for each in known.incidents)
    gone = reader.find_branch_state(trigger.project_id, branch) if is_red else ""
    if gone and known:
        if not run.is_last_look:
            raise SourceError(gone, doubtful=True)
        log.info("%s: what is open there is over", gone)
        observed = replace(known, gone_at=known.gone_at or deps.runtime.clock.now())
    elif isinstance(found, str):
        return Skipped(found)
    else:
        before = replace(known or found, project=found.project, gone_at=0.0)
        observed = reader.read_branch(before)
    record, requests = _judge(observed, deps, run)
    watched = follow_up(record, requests, deps, run)
    if not isinstance(found, str):
        record_tests(trigger.project_id, trigger.pipeline_id, deps, found.project)
    return watched


def watch_requests(subject: Subject, deps: Deps, run: Attempt) -> None:
    """Judge the branches of a merge request's project anew if its pipeline shows something of
    their incidents, and do what follows: also of one that is over, as the run may clear a suspect.
    The branch is not read. Raises as `watch_branch` does.

    A run that shows nothing but that it is hit, too, is counted: that costs the same however many
    others are hit.
    """
    store = deps.storage.incidents
    for record in list(store.list_branches(subject.project_id)):
        shown = store.read_request(subject.project_id, record.branch, subject.mr_iid)
        if shown is None:
            continue
        if _shows_news(record, shown, deps.runtime.clock.now()):
            judged, requests = _judge(record, deps, run)
            follow_up(judged, requests, deps, run)
            continue
        if stands_alone(record, shown, deps.runtime.clock.now()):  # since its note was written
            tell_request(record, shown, deps, run.begin)
        if all(each.state not in RED for each in record.incidents):
            continue
        counted = _count_hit(record, shown, deps)
        if is_waiting(counted, deps) and not _is_queued(counted, deps):
            # Whoever opened the incident has died before it was looked into.
            judged, requests = _judge(counted, deps, run)
            follow_up(judged, requests, deps, run)


# ------------------------------------------------------------------------------------ judging


def _judge(
    observed: BranchRecord, deps: Deps, run: Attempt
) -> tuple[BranchRecord, tuple[RequestRecord, ...]]:
    """Store the judgement of what was observed; return what is stored now, and the merge requests.

    They are listed once more after the judgement is stored: one that failed in between has not seen
    it, so it has to be seen here.
    """
    store = deps.storage.incidents
    requests = store.list_requests(observed.project_id, observed.branch)
    requests = incident_actions.confirm_requests(observed, requests, deps)
    record = observed
    for _ in range(_ROUNDS):
        record = _store_judgement(record, requests, deps, run)
        listed = store.list_requests(observed.project_id, observed.branch)
        if listed == requests:
            break
        requests = listed
    return record, requests


def _store_judgement(
    observed: BranchRecord, requests: Sequence[RequestRecord], deps: Deps, run: Attempt
) -> BranchRecord:
    store, now = deps.storage.incidents, deps.runtime.clock.now()
    before: Sequence[Incident] = ()

    def change(stored: BranchRecord | None) -> BranchRecord:
        nonlocal before
        before = stored.incidents if stored else ()
        joined = observed.join(stored) if stored else observed
        return judge_branch(joined, requests, now).add_told(requests)

    record = store.change_branch(observed.project_id, observed.branch, change) or observed
    states = {each.incident_id: each.state for each in before}
    for incident in record.incidents:
        was = states.get(incident.incident_id, IncidentState.SUSPECTED)
        if was is incident.state:
            continue
        log.info("incident %s: %s", incident.incident_id, incident.state)
        if incident.is_open:
            run.watch(IncidentOpened(incident))
        elif was is IncidentState.OPEN:
            run.watch(IncidentClosed(incident))
    return record


def _shows_news(record: BranchRecord, shown: RequestRecord, now: float) -> bool:
    """Whether a merge request's run changes what holds of the incidents of a branch, besides whom
    they hit."""
    judged = judge_branch(record, (shown,), now)
    return _outline(judged, shown.mr_iid) != _outline(record, shown.mr_iid)


def _outline(record: BranchRecord, mr_iid: int) -> Sequence[object]:
    return [
        (
            each.incident_id,
            each.state,
            mr_iid in each.menders,
            {
                (one.key, one.since_pipeline, one.suspect, one.jobs, one.until_pipeline)
                for one in each.failures
            },
        )
        for each in record.incidents
        if each.state is not IncidentState.WITHDRAWN
    ]


def _count_hit(record: BranchRecord, shown: RequestRecord, deps: Deps) -> BranchRecord:
    """Store which open incidents hit a merge request; return what is stored now."""

    def change(stored: BranchRecord | None) -> BranchRecord | None:
        if stored is None:
            return None
        hitting = {each.incident_id for each in explain_request(stored, shown).incidents}
        for each in stored.open_incidents:
            is_hit = each.incident_id in hitting and not shown.is_over
            hits = {*each.hits, shown.mr_iid} if is_hit else {*each.hits} - {shown.mr_iid}
            hits -= {*each.menders}
            stored = stored.put(replace(each, hits=tuple(sorted(hits))))
        return stored.add_told([shown])

    store = deps.storage.incidents
    return store.change_branch(record.project_id, record.branch, change) or record


def _is_queued(record: BranchRecord, deps: Deps) -> bool:
    """Whether a trigger of the branch itself is still to be dealt with, since it is red."""
    since = min((each.first.since_pipeline for each in record.open_incidents), default=0)
    return any(
        deps.queue.journal.has_pipeline(
            BranchEnded(record.project_id, each.pipeline_id, each.sha, record.branch)
        )
        for each in record.pipelines
        if each.pipeline_id >= since
    )
