"""`gitlab_list_job_runs` and `gitlab_get_last_green_log`: the same job on the target branch."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

from pydantic import Field

from worker.arguments import Arguments
from worker.core.ports import Document
from worker.core.text.redacted_values import Redacted
from worker.core.text.untrusted import one_line, visible
from worker.errors import SourceError
from worker.sources.api import wire
from worker.sources.base import RawDocument, SourceDef, present
from worker.sources.pipelines.branch_pipelines import read_recent_pipelines, read_target_branch
from worker.sources.pipelines.pipeline_jobs import read_all_jobs
from worker.sources.session_reader import Reader

PIPELINES = 15
"""Pipelines looked at, newest first: a request for each."""

_NAMED = 20
"""The most jobs that are named where there is none of a name."""


class JobRuns(Arguments):
    """Of which job."""

    job_name: str = Field(min_length=1, max_length=255, description="The job's whole name.")


@dataclass(frozen=True, slots=True)
class _Run:
    pipeline: wire.Pipeline
    job: wire.Job


def list_runs(args: JobRuns, reader: Reader) -> RawDocument:
    """The runs of the job as JSON, newest first, every attempt."""
    branch = read_target_branch(reader)
    looked_at: dict[int, Sequence[wire.Job]] = {}
    missing: list[str] = []
    runs: list[_Run] = []
    try:
        for run in _find_runs(args.job_name, branch, reader, looked_at):
            runs.append(run)
    except SourceError as error:
        if not looked_at:
            raise
        missing.append(f"older runs: {error}")
    if not runs:
        where = f"{len(looked_at)} pipelines of {branch}{_name_all(looked_at.values())}"
        missing.append(f"runs: no job {args.job_name!r} in {where}")
    content = {
        "branch": branch,
        "pipelines_looked_at": len(looked_at),
        "runs": list(map(_describe_run, runs)),
    }
    return RawDocument(content, "; ".join(missing))


def read_last_green_log(args: JobRuns, reader: Reader) -> Document:
    """The log of the newest run that passed; its last line says which run that is."""
    branch = read_target_branch(reader)
    looked_at: dict[int, Sequence[wire.Job]] = {}
    for run in _find_runs(args.job_name, branch, reader, looked_at):
        if run.job.status == "success":
            return _make_log_document(run, branch, reader)
    raise SourceError(
        f"job {args.job_name!r} has not passed in the newest {len(looked_at)} pipelines of {branch}"
    )


def _name_all(pipelines: Iterable[Sequence[wire.Job]]) -> str:
    """The names of the jobs that there are, which may show a misspelt one."""
    names = dict.fromkeys(one_line(visible(job.name), 80) for jobs in pipelines for job in jobs)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f", which have: {', '.join(islice(names, _NAMED))}{more}" if names else ""


def _find_runs(
    name: str, branch: str, reader: Reader, looked_at: dict[int, Sequence[wire.Job]]
) -> Iterator[_Run]:
    for pipeline in read_recent_pipelines(branch, PIPELINES, reader).items:
        path = f"{reader.target_project}/pipelines/{pipeline.id}"
        jobs = read_all_jobs(path, pipeline.id, reader).items
        looked_at[pipeline.id] = jobs
        # The model has seen the names without their invisible characters.
        found = [job for job in jobs if visible(job.name) == visible(name)]
        yield from (_Run(pipeline, job) for job in sorted(found, key=lambda job: -job.id))


def _describe_run(run: _Run) -> dict[str, Any]:
    return present(
        job_id=run.job.id,
        status=run.job.status,
        failure_reason=run.job.failure_reason,
        pipeline=run.pipeline.id,
        sha=run.pipeline.sha,
        started_at=run.job.started_at,
        seconds=run.job.duration,
        runner=run.job.runner.description if run.job.runner else None,
        web_url=run.job.web_url,
    )


def _make_log_document(run: _Run, branch: str, reader: Reader) -> Document:
    document = reader.logs.document(run.job.id)
    # At its end, so that line N of the file is line N of the job's log.
    where = f"job {run.job.id}, passed on {branch} at {run.pipeline.sha}, {run.job.web_url}"
    last = reader.redact(f"[this is the log of {where}]\n".encode(errors="replace"))
    chunks = document.chunks
    if chunks is None:
        return replace(document, data=Redacted.join_all([document.data, last]))
    return replace(document, chunks=lambda: chain(chunks(), [last]))


JOB_RUNS = SourceDef(
    name="gitlab_list_job_runs",
    description=(
        "The newest runs of a job of this name on the target branch, every attempt: status, "
        "failure reason, commit, duration, runner."
    ),
    args=JobRuns,
    fetch=list_runs,
    note="whether the same job fails, or fails now and then, without this change",
)

LAST_GREEN_LOG = SourceDef(
    name="gitlab_get_last_green_log",
    description=(
        "The log of the newest run of a job of this name that passed on the target branch, to "
        "compare with the failed one. Its last line says which run it is."
    ),
    args=JobRuns,
    fetch=read_last_green_log,
    note="the log of the same job when it last passed: what is new in the failed log",
)
