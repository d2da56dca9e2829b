"""A job's log, its runs on the target branch, and that branch's pipelines.

A job of a pipeline that another one has started is named by its trigger job too: children of one
pipeline may have jobs of the same name. Only the pipelines that a pipeline itself has started are
read, none below them.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

from pydantic import Field

from worker.errors import SourceError
from worker.gitlab.read import wire
from worker.gitlab.read.api import Listing
from worker.gitlab.read.base import OfJob, RawDocument, SourceDef, present
from worker.gitlab.read.job_logs import SECONDS
from worker.gitlab.read.merge_request import describe_pipeline
from worker.gitlab.read.pipeline_jobs import read_all_jobs
from worker.gitlab.read.session_reader import Reader
from worker.safety.redacted_values import Redacted
from worker.safety.untrusted import one_line, visible
from worker.tools.arguments import Arguments
from worker.tools.source import Document
from worker.verdict.facts import Unknown

PIPELINES = 15
"""Pipelines looked at, newest first: a request for each."""

STARTED = 20
"""Downstream pipelines looked into for a job that the pipelines themselves do not have."""

MOST = 4
"""Trigger jobs of one pipeline that are followed: two requests for each."""

_NAMED = 20
"""The most jobs that are named where there is none of a name."""

SHOWN = 30


def _read_job_log(args: OfJob, reader: Reader) -> Document:
    """Return the log as text."""
    return reader.logs.read_log(args.job_id).make_document()


JOB_LOG = SourceDef(
    name="gitlab_get_job_log",
    description=(
        "A job's log without colours, section marks and timestamps. Quote it with the file's line "
        "numbers (`grep -n`)."
    ),
    args=OfJob,
    fetch=_read_job_log,
    timeout=SECONDS,
)


class _OfBranch(Arguments):
    branch: str = Field(
        default="",
        max_length=300,
        description="Default: the target branch.",
    )


def _list_pipelines_of_branch(args: _OfBranch, reader: Reader) -> RawDocument:
    """Return the newest pipelines as JSON, newest first."""
    branch = args.branch or reader.binding.target_branch()
    found = _read_recent_pipelines(branch, SHOWN, reader)
    content = {"branch": branch, "pipelines": [describe_pipeline(each) for each in found.items]}
    missing = f"pipelines before the newest {SHOWN}" if found.more else ""
    if not found.items:
        missing = f"pipelines: branch {branch} has none, or the read token may not see them"
    return RawDocument(content, missing)


def _read_recent_pipelines(branch: str, count: int, reader: Reader) -> Listing[wire.Pipeline]:
    """Read the newest pipelines of a branch of the merge request's project. Raises SourceError."""
    what = f"the pipelines of {branch}"
    return reader.client.list_branch_pipelines(reader.target_project, branch, what, count)


BRANCH_PIPELINES = SourceDef(
    name="gitlab_list_branch_pipelines",
    description="The newest pipelines of a branch: status and commit, newest first.",
    args=_OfBranch,
    fetch=_list_pipelines_of_branch,
)


class _OfName(Arguments):
    job_name: str = Field(min_length=1, max_length=255, description="The job's whole name.")


@dataclass(frozen=True, slots=True)
class _Run:
    pipeline: wire.Pipeline
    job: wire.Job


@dataclass(slots=True)
class _Search:
    """Looks for the runs of a job on the target branch, in its newest pipelines.

    As long as none of these has the job, it looks into those that they have started: a job there
    may be named alone or with its trigger job. `jobs` are those it has read, by pipeline; `gaps`
    says what could not be read.
    """

    name: str
    branch: str
    reader: Reader
    jobs: dict[int, Sequence[wire.Job]] = field(default_factory=dict)
    gaps: list[str] = field(default_factory=list)
    _triggers: set[str] = field(default_factory=set)
    _is_direct: bool = False
    _left: int = STARTED

    def find_runs(self) -> Iterator[_Run]:
        """Yield the runs, newest first. Raises SourceError."""
        for pipeline in _read_recent_pipelines(self.branch, PIPELINES, self.reader).items:
            path = f"{self.reader.target_project}/pipelines/{pipeline.id}"
            self.jobs[pipeline.id] = read_all_jobs(path, pipeline.id, self.reader).items
            found = [job for job in self.jobs[pipeline.id] if self._is_meant(job)]
            self._is_direct |= bool(found)
            if not self._is_direct:
                found = self._find_below(pipeline)
            yield from (_Run(pipeline, job) for job in sorted(found, key=lambda job: -job.id))

    def _is_meant(self, job: wire.Job) -> bool:
        # The model has seen the names without their invisible characters.
        return visible(self.name) in map(visible, (str(job.ref), job.name))

    def _find_below(self, pipeline: wire.Pipeline) -> list[wire.Job]:
        """Find the runs in the pipelines that this one has started and the session may read."""
        started: list[wire.Job] = []
        try:
            for bridge in self._choose_bridges(pipeline):
                started += _read_jobs_behind(bridge, self.reader, skip=True)
            found = [job for job in started if self._is_meant(job)]
            for job in found:
                project = job.pipeline.project_id if job.pipeline else 0
                if project and self.reader.binding.has_name(job.name):
                    self.reader.logs.allow_job(job.id, project, (job.started_by,))
        except SourceError as error:
            self.gaps.append(f"what pipeline {pipeline.id} has started: {error}")
            return []
        finally:
            self.jobs[pipeline.id] = (*self.jobs[pipeline.id], *started)
        self._triggers |= {job.started_by for job in found}
        return found

    def _choose_bridges(self, pipeline: wire.Pipeline) -> Iterator[wire.Bridge]:
        """Yield the trigger jobs known to have started such a job; all, while none is known."""
        for bridge in _read_bridges(pipeline, self.reader) if self._left else ():
            wanted = bridge.name in self._triggers if self._triggers else True
            if wanted and bridge.downstream_pipeline and self._left:
                self._left -= 1
                yield bridge
        if not self._left and not self._triggers:
            self.gaps.append(f"what {self.branch} has started besides {STARTED} pipelines")


def _list_runs(args: _OfName, reader: Reader) -> RawDocument:
    """Return the runs of the job as JSON, newest first, every attempt."""
    branch = reader.binding.target_branch()
    search = _Search(args.job_name, branch, reader)
    missing: list[str] = []
    runs: list[_Run] = []
    try:
        for run in search.find_runs():
            runs.append(run)
    except SourceError as error:
        if not search.jobs:
            raise
        missing.append(f"older runs: {error}")
    missing += dict.fromkeys(search.gaps)
    if not runs:
        # The name may be misspelt.
        shown = (str(job.ref) for jobs in search.jobs.values() for job in jobs)
        names = dict.fromkeys(one_line(visible(name), 80) for name in shown)
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        known = f", which have: {', '.join(islice(names, _NAMED))}{more}" if names else ""
        where = f"{len(search.jobs)} pipelines of {branch}{known}"
        missing.append(f"runs: no job {args.job_name!r} in {where}")
    content = {
        "branch": branch,
        "pipelines_looked_at": len(search.jobs),
        "runs": list(map(_describe_run, runs)),
    }
    return RawDocument(content, "; ".join(missing))


def _describe_run(run: _Run) -> dict[str, Any]:
    child = run.job.pipeline if run.job.started_by else None
    return present(
        job_id=run.job.id,
        status=run.job.status,
        failure_reason=run.job.failure_reason,
        pipeline=child.id if child else run.pipeline.id,
        started_by=run.job.started_by if child else None,
        of_pipeline=run.pipeline.id if child else None,
        sha=run.pipeline.sha,
        started_at=run.job.started_at,
        seconds=run.job.duration,
        runner=run.job.runner.description if run.job.runner else None,
        web_url=run.job.web_url,
    )


JOB_RUNS = SourceDef(
    name="gitlab_list_job_runs",
    description=(
        "A job's newest runs on the target branch, every attempt: status, failure reason, commit, "
        "duration, runner."
    ),
    args=_OfName,
    fetch=_list_runs,
)


def _read_last_green_log(args: _OfName, reader: Reader) -> Document:
    """Return the log of the newest run that passed; its last line says which run that is."""
    branch = reader.binding.target_branch()
    search = _Search(args.job_name, branch, reader)
    run = next((run for run in search.find_runs() if run.job.status == "success"), None)
    if run is None:
        where = f"the newest {len(search.jobs)} pipelines of {branch}"
        unread = "".join(f"; not known: {gap}" for gap in dict.fromkeys(search.gaps))
        raise SourceError(f"job {args.job_name!r} has not passed in {where}{unread}")
    document = reader.logs.read_log(run.job.id).make_document()
    # At its end, so that line N of the file is line N of the job's log.
    where = f"job {run.job.id}, passed on {branch} at {run.pipeline.sha}, {run.job.web_url}"
    last = reader.redact(f"[this is the log of {where}]\n".encode(errors="replace"))
    chunks = document.chunks
    if chunks is None:
        return replace(document, data=Redacted.join_all([document.data, last]))
    return replace(document, chunks=lambda: chain(chunks(), [last]))


LAST_GREEN_LOG = SourceDef(
    name="gitlab_get_last_green_log",
    description=(
        "The log of a job's newest run that passed on the target branch; the last line says "
        "which run it is."
    ),
    args=_OfName,
    fetch=_read_last_green_log,
)


def read_started_jobs(
    pipeline: wire.Pipeline, reader: Reader, triggers: Collection[str] = ()
) -> list[wire.Job] | Unknown:
    """Return the jobs that the trigger jobs of these names have started; without names, those of
    all downstream pipelines that did not pass. Unknown if any of them cannot be read."""
    try:
        wanted = [
            bridge
            for bridge in _read_bridges(pipeline, reader)
            if (child := bridge.downstream_pipeline)
            and (bridge.name in triggers if triggers else child.status != "success")
        ]
        return [
            job
            for bridge in wanted[:MOST]
            for job in _read_jobs_behind(bridge, reader, skip=not triggers)
        ]
    except SourceError as error:
        return Unknown(str(error))


def _read_bridges(pipeline: wire.Pipeline, reader: Reader) -> Sequence[wire.Bridge]:
    """Return the trigger jobs of a pipeline. Raises SourceError."""
    path = f"/projects/{get_project_id(pipeline, reader)}/pipelines/{pipeline.id}"
    what = f"the trigger jobs of pipeline {pipeline.id}"
    return reader.client.list_trigger_jobs(path, what).items


def _read_jobs_behind(bridge: wire.Bridge, reader: Reader, *, skip: bool) -> Iterator[wire.Job]:
    """Yield the started pipeline's jobs. Raises SourceError unless it may be read, or `skip`."""
    child = bridge.downstream_pipeline
    if child is None:
        return
    project = get_project_id(child, reader)
    if not reader.may_read(project):
        if skip:
            return
        raise SourceError(f"project {project} is not one this session may read")
    path = f"/projects/{project}/pipelines/{child.id}"
    for job in read_all_jobs(path, child.id, reader).items:
        yield job.model_copy(update={"started_by": bridge.name})


def get_project_id(pipeline: wire.Pipeline, reader: Reader) -> int:
    """Return the project that a pipeline ran in, if GitLab says it; else the session pipeline's."""
    return pipeline.project_id or reader.subject.pipeline_project_id
