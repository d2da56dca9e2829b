"""The jobs of the pipelines that a pipeline's trigger jobs have started, to compare their runs.

A job's name here is that of its trigger job plus its own, as children of one pipeline may have jobs
of the same name. Only the pipelines that the pipeline itself has started are read, none below them.
"""

from collections.abc import Collection, Iterator, Sequence

from worker.errors import SourceError
from worker.gitlab.read.api import wire
from worker.gitlab.read.api.lists import list_trigger_jobs
from worker.gitlab.read.pipelines.pipeline_jobs import read_all_jobs
from worker.gitlab.read.session_reader import Reader
from worker.verdict.facts import Unknown

MOST = 4
"""Trigger jobs of one pipeline that are followed: two requests for each."""

BEYOND = "\0"
"""Separates the two names. No name contains it, so no job can be mistaken for another."""


def get_project_id(pipeline: wire.Pipeline, reader: Reader) -> int:
    """Return the project that a pipeline ran in, if GitLab says it; else the session pipeline's."""
    return pipeline.project_id or reader.subject.pipeline_project_id


def read_started_jobs(
    pipeline: wire.Pipeline, reader: Reader, triggers: Collection[str] = ()
) -> list[wire.Job] | Unknown:
    """Return the jobs that the trigger jobs of these names have started; without names, those of
    all downstream pipelines that did not pass. Unknown if any of them cannot be read."""
    try:
        bridges = read_bridges(pipeline, reader)
        return [
            job
            for bridge in [each for each in bridges if _is_wanted(each, triggers)][:MOST]
            for job in read_jobs_behind(bridge, reader, skip=not triggers)
        ]
    except SourceError as error:
        return Unknown(str(error))


def read_bridges(pipeline: wire.Pipeline, reader: Reader) -> Sequence[wire.Bridge]:
    """Return the trigger jobs of a pipeline. Raises SourceError."""
    path = f"/projects/{get_project_id(pipeline, reader)}/pipelines/{pipeline.id}"
    what = f"the trigger jobs of pipeline {pipeline.id}"
    return list_trigger_jobs(reader.client, path, what).items


def get_trigger_name(job: wire.Job) -> str:
    """Return the name of the trigger job that has started a job of `read_started_jobs`."""
    return job.name.partition(BEYOND)[0]


def get_plain_name(job: wire.Job) -> str:
    """Return the name that the started pipeline's own configuration gives such a job."""
    return job.name.rpartition(BEYOND)[2]


def write_job_name(name: str) -> str:
    """Return a job's name as it is shown to people."""
    return name.replace(BEYOND, " > ")


def _is_wanted(bridge: wire.Bridge, triggers: Collection[str]) -> bool:
    if bridge.downstream_pipeline is None:
        return False
    return bridge.name in triggers if triggers else bridge.downstream_pipeline.status != "success"


def read_jobs_behind(bridge: wire.Bridge, reader: Reader, *, skip: bool) -> Iterator[wire.Job]:
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
        yield job.model_copy(update={"name": f"{bridge.name}{BEYOND}{job.name}"})
