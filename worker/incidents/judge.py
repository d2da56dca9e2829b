"""What a branch's history proves: the incidents that hold now. Pure.

`judge_branch` looks at all that is known each time, so the order in which it came does not matter:
what was judged before only gives the incidents their names, and keeps what has been learnt of them
and what has left the kept history.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from worker.incidents.explain import list_hits
from worker.incidents.failures import Evidence, JudgedFailure, judge_failures, set_end
from worker.incidents.record import (
    GONE,
    MOST_INCIDENTS,
    NOBODY,
    BranchFailure,
    BranchRecord,
    Incident,
    IncidentState,
    RequestRecord,
    name_branch,
)
from worker.incidents.sightings import Sight, Sighting, is_silent
from worker.incidents.witnesses import heals

_STANDING = (IncidentState.OPEN, IncidentState.SUSPECTED)
_TOLD = (IncidentState.OPEN, IncidentState.CLOSED)


def judge_branch(
    record: BranchRecord, requests: Sequence[RequestRecord], now: float
) -> BranchRecord:
    """Return the record with the incidents that hold at `now`.

    `requests` are the newest runs of merge requests into the branch, passed and failed ones, also
    of those that are merged or closed.
    """
    evidence = Evidence(record, requests, now)
    stored = [failure for each in record.incidents for failure in each.failures]
    found = [_continue(evidence, each) for each in judge_failures(evidence, stored)]
    incidents = _name_groups(evidence, _group_failures(found))
    judged_record = replace(record, incidents=_keep_newest(incidents))
    hits = list_hits(judged_record, requests)
    return replace(
        judged_record,
        incidents=tuple(
            replace(each, hits=_join_hits(each, hits.get(each.incident_id, ())))
            for each in judged_record.incidents
        ),
    )


def _group_failures(found: Sequence[JudgedFailure]) -> dict[int, list[JudgedFailure]]:
    """Return the failures of each incident, by the pipeline in which they turned red.

    That a job fails without a known error is no news while it fails with one of which people are
    told; and one that becomes known later, before the job has passed, belongs to it.
    """
    told = [each for each in found if not is_silent(each.failure.key) and each.state in _TOLD]
    silent = [
        each
        for each in found
        if is_silent(each.failure.key) and not any(map(each.has_begun_in, told))
    ]
    groups: dict[int, list[JudgedFailure]] = {}
    for judged in found:
        since = judged.failure.since_pipeline
        if not is_silent(judged.failure.key):
            within = (each for each in silent if judged.has_begun_in(each))
            since = min((each.failure.since_pipeline for each in within), default=since)
        elif judged not in silent:
            continue
        groups.setdefault(since, []).append(judged)
    return groups


def _name_groups(
    evidence: Evidence, groups: Mapping[int, Sequence[JudgedFailure]]
) -> list[Incident]:
    """Return the incidents: those that were stored keep their names and places."""
    left, own = dict(groups), dict[str, Sequence[JudgedFailure]]()
    for is_same in (_is_same, _has_become):
        for stored in evidence.record.incidents:
            counts = {
                since: sum(is_same(stored, judged) for judged in group)
                for since, group in left.items()
            }
            since = max(counts, key=lambda each: counts[each], default=0)
            if counts.get(since) and stored.incident_id not in own:
                own[stored.incident_id] = left.pop(since)
    incidents = [
        _describe(evidence, own[each.incident_id], each)
        if each.incident_id in own
        else _keep_stored(evidence, each)
        for each in evidence.record.incidents
    ]
    names = {each.incident_id for each in incidents}
    for since, group in left.items():
        name = f"{name_branch(evidence.record.branch)}-{since}"
        while name in names:
            name += "-again"
        found = _describe(evidence, group, Incident(name, IncidentState.SUSPECTED, ()))
        if found.state is not IncidentState.WITHDRAWN:
            names.add(name)
            incidents.append(found)
    return incidents


def _is_same(stored: Incident, judged: JudgedFailure) -> bool:
    return any(
        judged.includes(each.key, each.since_pipeline)
        or (each.key, each.since_pipeline) == (judged.failure.key, judged.failure.since_pipeline)
        for each in stored.failures
    )


def _has_become(stored: Incident, judged: JudgedFailure) -> bool:
    """Whether the error of a failure is known by now: its log has come late."""
    return any(is_silent(each.key) and judged.was_there(each) for each in stored.failures)


def _describe(evidence: Evidence, group: Sequence[JudgedFailure], before: Incident) -> Incident:
    """Return the incident of failures that turned red in one pipeline."""
    states = {each.state for each in group}
    standing = [each for each in group if each.state is not IncidentState.WITHDRAWN] or group
    if IncidentState.OPEN in states or {IncidentState.SUSPECTED, IncidentState.CLOSED} <= states:
        state = IncidentState.OPEN
    else:
        state = next(
            each
            for each in (IncidentState.SUSPECTED, IncidentState.CLOSED, IncidentState.WITHDRAWN)
            if each in states
        )
    is_over = state in (IncidentState.CLOSED, IncidentState.WITHDRAWN)
    healers = before.healers if is_over else _find_healers(evidence, standing)
    open_ones = {each.mr_iid for each in evidence.members if not each.is_over}
    return replace(
        before,
        state=state,
        failures=tuple(each.failure for each in standing),
        opened_at=before.opened_at or (evidence.judged_at if state is IncidentState.OPEN else 0.0),
        closed_at=(before.closed_at or evidence.judged_at) if is_over else 0.0,
        menders=before.menders if is_over else tuple(e for e in healers if e in open_ones),
        healers=healers,
    )


def _find_healers(evidence: Evidence, group: Sequence[JudgedFailure]) -> tuple[int, ...]:
    """Return the merge requests that pass every job that is red, on the red code or with the
    suspect taken back."""
    red = [
        (span, evidence.find_landing(each.failure.suspect))
        for each in group
        for span in each.spans
        if not span.end
    ]
    return tuple(
        sorted(
            request.mr_iid
            for request in evidence.members
            if red and all(heals(request, span, suspect, evidence.history) for span, suspect in red)
        )
    )


# ------------------------------------------------------------- what has left the kept history


def _is_shown(record: BranchRecord, failure: BranchFailure) -> bool:
    """Whether the kept history shows how a failure began. Old pipelines have left it; of others the
    errors could not be kept, or not be read again; where none was known, one may be by now."""
    return any(
        failure.key in job.keys
        or (is_silent(failure.key) and job.name in failure.jobs and bool(job.errors))
        for pipeline in record.pipelines
        if pipeline.pipeline_id == failure.since_pipeline
        for job in pipeline.jobs
    )


def _continue(evidence: Evidence, judged: JudgedFailure) -> JudgedFailure:
    """Return a failure that was red before what is kept with its beginning."""
    passes = [each.green.ended_at for each in judged.spans if each.green]
    is_red = judged.state in _STANDING
    for incident in evidence.record.incidents:
        for each in incident.failures if incident.state in _STANDING else ():
            if (
                each.key == judged.failure.key
                and not _is_shown(evidence.record, each)
                and all(at < each.since_at <= judged.failure.since_at for at in passes or [0.0])
            ):
                return replace(
                    judged,
                    state=IncidentState.OPEN if is_red else IncidentState.CLOSED,
                    failure=replace(
                        each,
                        jobs=tuple(sorted({*each.jobs, *judged.failure.jobs})),
                        until_pipeline=judged.failure.until_pipeline,
                        until_at=judged.failure.until_at,
                        until_url=judged.failure.until_url,
                        ended_by=judged.failure.ended_by,
                        witnesses=judged.failure.witnesses,
                    ),
                )
    return judged


def _keep_stored(evidence: Evidence, stored: Incident) -> Incident:
    """Return an incident that the kept history does not show any more."""
    kept = tuple(each for each in stored.failures if not _is_shown(evidence.record, each))
    if not kept:
        over = replace(stored, state=IncidentState.WITHDRAWN, menders=())
        return replace(over, closed_at=stored.closed_at or evidence.judged_at)
    if stored.state not in _STANDING:
        return stored
    ended = tuple(each if each.until_pipeline else _find_end(evidence, each) for each in kept)
    if not all(each.until_pipeline or each.ended_by for each in ended):
        return replace(stored, failures=ended)
    is_told = stored.state is IncidentState.OPEN
    state = IncidentState.CLOSED if is_told else IncidentState.WITHDRAWN
    return replace(stored, failures=ended, state=state, closed_at=evidence.judged_at, menders=())


def _find_end(evidence: Evidence, failure: BranchFailure) -> BranchFailure:
    """Return the failure with the first pass of its jobs that is kept, as it is without one."""
    if evidence.record.gone_at:
        return replace(failure, ended_by=GONE, until_at=evidence.record.gone_at)
    names = evidence.history.names
    passes = []
    for group in {names[name] for name in failure.jobs if name in names}:
        runs = evidence.history.list_sightings(failure.key, group)
        passed = next((e for e in runs if _is_end(e, failure)), None)
        if passed is None:
            return failure
        passes.append(passed)
    if not passes:
        return failure
    last = max(passes, key=lambda each: each.ended_at)
    return set_end(failure, last, NOBODY if last.pipeline.sha == failure.since_sha else "")


def _is_end(run: Sighting, failure: BranchFailure) -> bool:
    return run.sight is Sight.GREEN and run.ended_at > failure.since_at


def _keep_newest(incidents: Sequence[Incident]) -> tuple[Incident, ...]:
    """Return the newest incidents, and all that stand."""
    spare = len(incidents) - MOST_INCIDENTS
    kept = []
    for each in incidents:
        if spare > 0 and each.state not in _STANDING:
            spare -= 1
        else:
            kept.append(each)
    return tuple(kept)


def _join_hits(incident: Incident, found: Iterable[int]) -> tuple[int, ...]:
    """Return whom an incident hit; those whose runs are newer than its end stay counted."""
    if incident.state is IncidentState.CLOSED:
        return tuple(sorted({*incident.hits, *found}))
    return tuple(sorted(found))
