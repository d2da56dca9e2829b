"""What the runs of a failing job have failed with: their logs, read alike, so that they compare."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor

from worker.core.failure.facts import Unknown
from worker.core.logs import trace
from worker.core.logs.signature import find_exact_errors, find_last_words
from worker.sources.api import wire
from worker.sources.pipelines.downstream_jobs import get_project_id
from worker.sources.session_reader import Reader
from worker.sources.survey.compared_pipelines import read_or_unknown

MAX_LOG = 8 * 1024 * 1024
"""Bytes of a log that is compared; of a larger one the error is not known."""

COMPARED = 4096
"""Bytes of a log's excerpt that errors are taken from. Of every log in the same way: a survey's
excerpt is chosen with a green run beside it."""

_END = 80
"""Lines of a log's end in which a script's last words are looked for."""

_NOTHING: Mapping[str, str] = {}

Errors = Mapping[str, str]
"""The errors of a run by what two runs of one failure have in common, with the log's own words."""


def read_errors(
    runs: Sequence[tuple[wire.Job, wire.Pipeline]], reader: Reader, pool: Executor
) -> dict[int, Errors]:
    """What each of these jobs of other pipelines failed with; nothing where it is not known."""
    read = pool.map(lambda run: read_or_unknown(lambda: _read_other(run[0], run[1], reader)), runs)
    return {job.id: _drop_unknown(found) for (job, _), found in zip(runs, read, strict=True)}


def read_own_errors(jobs: Sequence[wire.Job], reader: Reader, pool: Executor) -> dict[int, Errors]:
    """The same of jobs of this pipeline, whose logs were read for the survey."""
    read = pool.map(lambda job: read_or_unknown(lambda: _read_own(job, reader)), jobs)
    return {job.id: _drop_unknown(found) for job, found in zip(jobs, read, strict=True)}


def make_key(found: Collection[str]) -> str:
    """One word for all errors of a run, "" for none."""
    joined = "\n".join(sorted(found)).encode()
    return hashlib.sha256(joined).hexdigest()[:16] if found else ""


def _read_own(job: wire.Job, reader: Reader) -> Errors:
    spool = reader.logs.log(job.id).spool
    if spool.size > MAX_LOG or spool.dropped_lines:
        return _NOTHING
    return _find_errors(job, b"".join(spool.chunks()))


def _read_other(job: wire.Job, pipeline: wire.Pipeline, reader: Reader) -> Errors:
    path = f"/projects/{get_project_id(pipeline, reader)}/jobs/{job.id}/trace"
    raw = b"".join(reader.client.stream(path, f"the log of job {job.id}", MAX_LOG))
    return _find_errors(job, reader.redact(trace.clean_trace(raw)))


def _find_errors(job: wire.Job, cleaned: bytes) -> Errors:
    """The errors of a log; of a job that met its time limit also where that was."""
    found = find_exact_errors(trace.preview_log(cleaned, COMPARED).split("\n"))
    if job.failure_reason != "job_execution_timeout":
        return found
    place = find_last_words(trace.split_lines(cleaned)[-_END:])
    return {**found, **place} if place else _NOTHING


def _drop_unknown(found: Errors | Unknown) -> Errors:
    return _NOTHING if isinstance(found, Unknown) else found
