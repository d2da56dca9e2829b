"""The runs of a job that are compared with each other."""

from collections.abc import Callable, Iterable, Mapping

from worker.gitlab.read.api import wire
from worker.verdict.facts import Facts, Run, Unknown
from worker.verdict.jobs import FailingJob

NAMED = 3
"""Errors that a comparison names."""


def make_failing_run(
    job: FailingJob, errors: frozenset[str], listed: wire.Job | None, pipeline: wire.Pipeline
) -> Run:
    """Return a failing job as a run; less is known of a job that its pipeline does not list."""
    return Run(
        job_id=job.job_id,
        pipeline_id=pipeline.id if listed else 0,
        status="failed",
        sha=pipeline.sha,
        reason=job.reason,
        errors=errors,
        url=job.url,
        started_at=(listed.started_at if listed else "") or pipeline.created_at or "",
        source=pipeline.source,
        has_started=listed is None or listed.started_at is not None,
        seconds=(listed.duration or 0.0) if listed else 0.0,
    )


def describe_run(
    job: wire.Job,
    pipeline: wire.Pipeline,
    errors: frozenset[str],
    ours: Run,
    words: Mapping[str, str],
) -> Run:
    """Describe a job with these errors as a run beside `ours`; `words` are those of the failing
    job's log for each of its errors."""
    of_mr = wire.OF_MR.match(pipeline.ref)
    lacked = ours.errors - errors if ours.errors & errors else frozenset()
    lacked = ours.failures & lacked or lacked
    return Run(
        job_id=job.id,
        pipeline_id=pipeline.id,
        status=job.status,
        sha=pipeline.sha,
        reason=(job.failure_reason or "") if job.status == "failed" else "",
        errors=errors,
        url=job.web_url,
        started_at=job.started_at or pipeline.created_at or "",
        place=f"!{of_mr[1]}" if of_mr else pipeline.ref,
        source=pipeline.source,
        has_started=job.started_at is not None,
        missing_errors=tuple(words.get(each, each) for each in sorted(lacked)[:NAMED]),
        seconds=job.duration or 0.0,
    )


def select_runs(
    runs: tuple[Run, ...] | Unknown, wanted: Callable[[Run], bool]
) -> tuple[Run, ...] | Unknown:
    """Return the `wanted` ones of the runs, if they are known."""
    return runs if isinstance(runs, Unknown) else tuple(filter(wanted, runs))


def find_breaking_commit(found: Iterable[Facts], base: str) -> str:
    """Return the target branch's newest commit with the same error, except the change's `base`; ""
    if there is none."""
    failed = (
        run.sha
        for facts in found
        for run in facts.known_target.runs
        if facts.has_same_error(run) and run.sha != base
    )
    return next(failed, "")
