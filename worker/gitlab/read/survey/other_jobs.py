"""What the survey says of the jobs that did not make the pipeline fail."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from worker.gitlab.read.api import wire
from worker.gitlab.read.pipelines.pipeline_jobs import find_retried_ids
from worker.gitlab.read.survey.matrix import get_family
from worker.safety.untrusted import one_line

MOST_NAMED = 30
"""Most failed jobs that are named in each line."""

MOST_PASSED = 12

_NAME = 80


def describe_other_jobs(jobs: Sequence[wire.Job]) -> tuple[str, ...]:
    """Return a line each on the jobs that failed but may, failed and were retried, passed, and did
    not run; and one on the runner on which all failed jobs ran and no passed one did.

    Among the passed ones, siblings of a failing job come first: other variants of its matrix.
    """
    retried = find_retried_ids(jobs)
    newest = {job.name: job for job in jobs if job.id not in retried}
    failed = {get_family(job.name) for job in newest.values() if job.status == "failed"}
    allowed = [job for job in newest.values() if job.status == "failed" and job.allow_failure]
    skipped = [job for job in newest.values() if job.status == "skipped"]
    groups = (
        ("Failed, but is allowed to", [*map(_write_name, allowed)], MOST_NAMED),
        ("Failed and was retried", [*_describe_retried(jobs, retried, newest)], MOST_NAMED),
        ("Passed", _list_passed(newest, failed), MOST_PASSED),
        ("Did not run", [*map(_write_name, skipped)], MOST_PASSED),
    )
    lines = (f"{words}: {_join_names(names, most)}" for words, names, most in groups if names)
    return (*lines, *_describe_runner(list(newest.values())))


def _describe_runner(jobs: Sequence[wire.Job]) -> Iterator[str]:
    """Tell of a runner on which all jobs ran that failed, and none that passed."""
    failed, passed = (
        [job.runner for job in jobs if job.status == status] for status in ("failed", "success")
    )
    runner = failed[0] if failed else None
    if runner is None or len(failed) < 2 or len(passed) < 2:
        return
    alone = all(each and each.id == runner.id for each in failed)
    if alone and all(each and each.id != runner.id for each in passed):
        where = one_line(runner.description or "", _NAME) or f"runner {runner.id}"
        yield f"All {len(failed)} failed jobs ran on {where}, and no job that passed did"


def describe_allowed(jobs: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return a line on the jobs of a downstream pipeline (see `downstream`) that failed but may."""
    names = [_write_below(job) for job in jobs if job.get("allow_failure")]
    return (f"Failed below, but is allowed to: {_join_names(names, MOST_NAMED)}",) if names else ()


def describe_passed_below(jobs: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return a line on jobs that passed in downstream pipelines in which others failed."""
    names = list(map(_write_below, jobs))
    return (f"Passed below: {_join_names(names, MOST_PASSED)}",) if names else ()


def _write_below(job: Mapping[str, Any]) -> str:
    return f"job {job['id']} ({one_line(str(job['name']), _NAME)})"


def _describe_retried(
    jobs: Sequence[wire.Job], retried: frozenset[int], newest: dict[str, wire.Job]
) -> Iterator[str]:
    for job in sorted(jobs, key=lambda job: job.id):
        if job.status == "failed" and job.id in retried:
            last = newest[job.name]
            reason = f", {job.failure_reason}" if job.failure_reason else ""
            ended = {"success": "passed", "failed": "failed again"}.get(last.status, last.status)
            yield f"{_write_name(job)}{reason}, then job {last.id} {ended}"


def _list_passed(newest: dict[str, wire.Job], failed: set[str]) -> list[str]:
    passed = [job for job in newest.values() if job.status == "success"]
    return [
        _write_name(job)
        for job in sorted(passed, key=lambda job: get_family(job.name) not in failed)
    ]


def _write_name(job: wire.Job) -> str:
    return f"job {job.id} ({one_line(job.name, _NAME)})"


def _join_names(names: Sequence[str], most: int) -> str:
    more = f"; and {len(names) - most} more" if len(names) > most else ""
    return "; ".join(names[:most]) + more
