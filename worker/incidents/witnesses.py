"""What a merge request's own runs tell of a branch. Pure.

Only members' merge requests are witnesses: what strangers run proves nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from worker.incidents.record import JobEnd, JobOutcome, Landing, PipelineKind, RequestRecord
from worker.incidents.sightings import History, is_silent, strip_part
from worker.incidents.spans import Span


def fails_alike(request: RequestRecord, key: str, names: Iterable[str]) -> bool:
    """Whether a merge request's run fails with an error in one of the jobs; for a failure without a
    known error, whether its error is not known either."""
    parts = frozenset(map(strip_part, names))
    return any(strip_part(job.name) in parts and _shows(job, key) for job in request.jobs)


def _shows(job: JobEnd, key: str) -> bool:
    is_alike = key in job.keys or (is_silent(key) and not job.errors)
    return job.outcome is JobOutcome.FAILED and is_alike


def is_one_of(name: str, names: Iterable[str]) -> bool:
    """Whether a job is one of the branch's jobs, or another part of one."""
    return strip_part(name) in map(strip_part, names)


def contains_landing(request: RequestRecord, landing: Landing) -> bool:
    """Whether a merge request's run brought the change of a landing by itself, in whatever way."""
    return (
        (landing.mr_iid != 0 and landing.mr_iid in (request.mr_iid, *request.cars))
        or (landing.mr_sha != "" and landing.mr_sha in request.contains)
        or landing.sha in request.contains
    )


def is_revert(reverts: Sequence[str], landing: Landing) -> bool:
    """Whether what is taken back, commits and merge requests (`!12`), is that of a landing."""
    names = {landing.sha, landing.mr_sha or landing.sha}
    return not names.isdisjoint(reverts) or (
        landing.mr_iid != 0 and f"!{landing.mr_iid}" in reverts
    )


def has_seen(request: RequestRecord, span: Span, history: History) -> bool:
    """Whether a merge request on the red code failed alike before that code passed. Two errors of
    which none is known are not the same."""
    rank = history.ranks.get(request.base)
    return (
        rank is not None
        and not is_silent(span.key)
        and (span.covers(rank) or any(each.rank == rank for each in span.reds))
        and fails_alike(request, span.key, span.names)
    )


def reduce_run(
    request: RequestRecord, key: str, names: Iterable[str], shas: frozenset[str]
) -> RequestRecord:
    """Return what a merge request's run proves of an error, to be kept: the one job that failed so,
    and which of the landings' commits, `shas`, were in it."""
    jobs = [job for job in request.jobs if _shows(job, key)]
    job = next((job for job in jobs if is_one_of(job.name, names)), jobs[0])
    return replace(
        request,
        contains=tuple(sha for sha in request.contains if sha in shas),
        jobs=(replace(job, errors=((key, ""),), url=""),),
        author="",
        is_over=False,
        session_id="",
        told_incidents=(),
        told_text="",
        run_again=(),
        ran_for=(),
    )


def heals(request: RequestRecord, span: Span, suspect: Landing | None, history: History) -> bool:
    """Whether a member's merge request contains the red code and passes the job, or takes the
    suspect back and passes."""
    last = {job.name: job.outcome for job in sorted(request.jobs, key=lambda each: each.job_id)}
    ran = [outcome for name, outcome in last.items() if is_one_of(name, span.names)]
    if not request.is_member or not ran or set(ran) != {JobOutcome.PASSED}:
        return False
    if suspect and is_revert(request.reverts, suspect):
        return JobOutcome.FAILED not in last.values()
    rank = history.ranks.get(request.base)
    in_train = request.kind is PipelineKind.MERGE_TRAIN and request.cars
    return (
        rank is not None
        and span.covers(rank)
        and request.ended_at > span.first.ended_at
        and not in_train
    )
