"""Who broke the merge train in which a merge request failed: found, kept, and said in its note.

It is the first car whose pipeline failed while the one in front of it passed. Where a run in front
goes on, or the branch's own, the branch's record says that somebody waits for it: an event of any
of them looks again.
"""

import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from worker.errors import SourceError
from worker.incidents.explain import explain_request
from worker.incidents.record import (
    BranchRecord,
    JobEnd,
    PipelineKind,
    RequestRecord,
    TrainCause,
)
from worker.incidents.sentences import write_train
from worker.incidents.trains import find_breaker
from worker.turns.parts import Deps

log = logging.getLogger("sandpiper.incidents")

MOST_WAITING = 20
"""The most cars of which a branch's record says that they wait: the newest."""

LONGEST_WAIT = 6 * 3600.0
"""Seconds after which a run in front is not waited for any more."""

_TOLD = (TrainCause.OWN, TrainCause.CAR)


def find_train(record: BranchRecord, request: RequestRecord, deps: Deps) -> RequestRecord:
    """Return the record of a car that has failed, with who broke its train if that is proven by
    now; store that, or that it waits. `record` is the branch as GitLab shows it now. Raises
    StoreError."""
    own = explain_request(record, request).own
    if request.kind is not PipelineKind.MERGE_TRAIN or not own:
        return request
    try:
        found, is_settled = _look(record, request, own, deps)
    except SourceError as error:
        log.warning("!%d: its train is not known: %s", request.mr_iid, error)
        found, is_settled = request, not error.transient
    if found != request:
        deps.storage.incidents.change_request(
            record.project_id,
            record.branch,
            request.mr_iid,
            lambda stored: (
                replace(stored, train=found.train, base=found.base, cars=found.cars)
                if stored and stored.pipeline_id == found.pipeline_id
                else stored
            ),
        )
    if not is_settled:
        _change_waiting(record, request.mr_iid, deps, waits=True)
    elif not found.train:
        stop_waiting(record, request.mr_iid, deps)
    return found


def _look(
    record: BranchRecord,
    request: RequestRecord,
    own: Iterable[tuple[str, str]],
    deps: Deps,
) -> tuple[RequestRecord, bool]:
    """Return the car with what is known of its train, and whether no more is to be expected."""
    reader = deps.gitlab.pipelines
    requests = deps.storage.incidents.list_requests(record.project_id, record.branch)
    seen = reader.read_train(record, request, requests)
    if not seen.is_known:
        return request, True
    others = [each for each in requests if each.mr_iid != request.mr_iid]
    failed = replace(seen.request, jobs=_keep(request.jobs, frozenset(own)))
    train = find_breaker(seen.record, failed, seen.runs, others)
    if train.cause not in _TOLD:
        is_settled = seen.is_settled or train.cause is TrainCause.BRANCH
        return replace(seen.request, train=None), is_settled
    runs = (failed, *seen.runs)
    culprit = next((each for each in runs if each.pipeline_id == train.red_pipeline), None)
    if culprit is not None and culprit.cars:
        before = reader.read_own_runs(record, culprit)
        alone = find_breaker(seen.record, culprit, (*seen.runs, *before), others)
        train = replace(train, together_with=alone.together_with)
    return replace(seen.request, train=train), True


def _keep(jobs: Iterable[JobEnd], pairs: frozenset[tuple[str, str]]) -> tuple[JobEnd, ...]:
    """Return the failed jobs with those of their errors that are among the pairs."""
    kept = []
    for job in jobs:
        errors = tuple(each for each in job.errors if (job.name, each[0]) in pairs)
        if errors or (job.name, "") in pairs:
            kept.append(replace(job, errors=errors))
    return tuple(kept)


def stop_waiting(record: BranchRecord, mr_iid: int, deps: Deps) -> None:
    """Let the branch's stored record say that a car has been told, or has nothing to wait for.
    Raises StoreError."""
    _change_waiting(record, mr_iid, deps, waits=False)


def _change_waiting(record: BranchRecord, mr_iid: int, deps: Deps, *, waits: bool) -> None:
    if waits is (mr_iid in record.waiting_cars):
        return

    def change(stored: BranchRecord | None) -> BranchRecord | None:
        if stored is None and not waits:
            return None
        known = stored or BranchRecord(record.project_id, record.project, record.branch)
        others = tuple(each for each in known.waiting_cars if each != mr_iid)
        waiting = (*others, mr_iid) if waits else others
        return replace(known, waiting_cars=waiting[-MOST_WAITING:])

    deps.storage.incidents.change_branch(record.project_id, record.branch, change)


def look_at_waiting(record: BranchRecord, deps: Deps, behind: int = 0) -> Iterator[RequestRecord]:
    """Look again at the cars that wait; if a merge request is given, at its own and those `behind`
    it alone. Yield those of which it is known now who broke their train: they wait no more once the
    caller has told them and goes on. Raises SourceError, StoreError."""
    store = deps.storage.incidents
    fresh: BranchRecord | None = None
    for iid in record.waiting_cars:
        request = store.read_request(record.project_id, record.branch, iid)
        if request is None or not _may_wait(request, deps.runtime.clock.now()):
            stop_waiting(record, iid, deps)
        elif not behind or behind in (*request.cars, iid):
            if request.train is None:
                fresh = fresh or deps.gitlab.pipelines.read_branch(record)
                request = find_train(fresh, request, deps)
            if request.train:
                yield request
                stop_waiting(record, iid, deps)


def _may_wait(request: RequestRecord, now: float) -> bool:
    return (
        request.kind is PipelineKind.MERGE_TRAIN
        and not request.is_over
        and now < request.ended_at + LONGEST_WAIT
    )


def list_brought(request: RequestRecord) -> frozenset[tuple[str, str]]:
    """Return the errors that another car has brought: the job's name and the key."""
    train = request.train
    return frozenset(train.explained_errors if train and train.cause is TrainCause.CAR else ())


def write_train_lines(record: BranchRecord, request: RequestRecord, place: str) -> tuple[str, ...]:
    """Return what the note says of the merge train, as paragraphs; none if nothing is known, or if
    the branch was red under it. `place` is the project's address, without a slash at its end."""
    train = request.train
    own = set(explain_request(record, request).own)
    if train is None or own.isdisjoint(train.explained_errors or train.own):
        return ()
    failed, passed = (
        f"[pipeline {each}]({place}/-/pipelines/{each})"
        for each in (train.red_pipeline, train.green_pipeline)
    )
    partners = (train.together_with,) if train.together_with else ()
    whole = own <= set(train.explained_errors)
    text = write_train(request, train.car, partners, failed, passed, whole=whole)
    return tuple(text.split("\n\n"))


_RETRY = re.compile(
    r"^(\*\*What to do:\*\* |- [^\n]{1,400}?: )Retry (?:the jobs?|later)\b", re.MULTILINE
)


def replace_retry(body: str) -> str:
    """Return the body of a note on a train's pipeline, of which GitLab retries nothing, without the
    advice to do that."""
    return _RETRY.sub(r"\1Add this merge request to the merge train again", body)
