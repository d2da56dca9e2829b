"""TODO."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from worker.errors import SourceError
from worker.gitlab.read import wire
from worker.gitlab.read.pipeline_jobs import find_retried_ids
from worker.gitlab.read.session_reader import Reader
from worker.gitlab.read.wire import get_family
from worker.safety.untrusted import one_line
from worker.verdict.gitlab_reasons import NO_RUNNER, WAITED
from worker.verdict.jobs import FailingJob

MOST_NAMED = 30
"""Most failed jobs that are named in each line."""

MOST_PASSED = 12

NAME_SHOWN = 80


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
        where = one_line(runner.description or "", NAME_SHOWN) or f"runner {runner.id}"
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
    return f"job {job['id']} ({one_line(str(job['name']), NAME_SHOWN)})"


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
    return f"job {job.id} ({one_line(job.name, NAME_SHOWN)})"


def _join_names(names: Sequence[str], most: int) -> str:
    more = f"; and {len(names) - most} more" if len(names) > most else ""
    return "; ".join(names[:most]) + more


MOST_ASKED = 3
"""Sets of tags that are asked about."""

RUNNERS_NAMED = 6


def add_runners(jobs: Iterable[FailingJob], reader: Reader) -> Iterator[FailingJob]:
    """Yield the jobs; those that no runner took with what GitLab says of the runners that have
    their tags, if it does: it tells only maintainers of the project. Raises nothing."""
    found: dict[tuple[str, ...], str] = {}
    for job in jobs:
        if job.reason not in NO_RUNNER | WAITED or job.has_started:
            yield job
            continue
        if job.tags not in found and len(found) < MOST_ASKED:
            found[job.tags] = _describe_runners(job.tags, reader)
        yield replace(job, runners=found.get(job.tags, ""))


def _describe_runners(tags: Sequence[str], reader: Reader) -> str:
    path = f"{reader.pipeline_project}/runners"
    query = {"tag_list": ",".join(tags)} if tags else None
    with suppress(SourceError):
        runners = reader.client.many(path, wire.Runner, "the runners", query, pages=1).items
        if not runners:
            return "GitLab knows no such runner for the project."
        named = ", ".join(map(_name_runner, runners[:RUNNERS_NAMED]))
        more = f" and {len(runners) - RUNNERS_NAMED} more" if len(runners) > RUNNERS_NAMED else ""
        return f"GitLab knows these for the project: {named}{more}."
    return ""


def _name_runner(runner: wire.Runner) -> str:
    state = (
        "paused" if runner.active is False else runner.status.replace("_", " ") or "state not known"
    )
    return f"{one_line(runner.description or '', 60) or f'runner {runner.id}'} ({state})"
