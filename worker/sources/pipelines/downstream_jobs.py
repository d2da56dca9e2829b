"""The jobs of the pipelines that a pipeline's trigger jobs have started, to compare runs of them.

A job is called there by its trigger job and its own name: children of one pipeline may have jobs
of the same name. Only what the pipeline itself has started is followed, not what that has started.
"""

from collections.abc import Collection, Iterator

from worker.core.failure.facts import Unknown
from worker.errors import SourceError
from worker.sources.api import wire
from worker.sources.pipelines.pipeline_jobs import all_jobs
from worker.sources.session_reader import Reader

MOST = 4
"""Trigger jobs of one pipeline that are followed: two requests for each."""

BEYOND = "\0"
"""Between the two names. No name has one in it, so that no job can pass for another."""


def project_of(pipeline: wire.Pipeline, reader: Reader) -> int:
    """The project that a pipeline ran in: not every answer of GitLab's says it."""
    return pipeline.project_id or reader.subject.pipeline_project_id


def started(
    pipeline: wire.Pipeline, reader: Reader, triggers: Collection[str] = ()
) -> list[wire.Job] | Unknown:
    """The jobs behind the trigger jobs of these names; without names, behind those whose pipeline
    did not pass. Unknown if any of it cannot be read."""
    path = f"/projects/{project_of(pipeline, reader)}/pipelines/{pipeline.id}/bridges"
    what = f"the trigger jobs of pipeline {pipeline.id}"
    try:
        bridges = reader.client.many(path, wire.Bridge, what).items
        return [
            job
            for bridge in [each for each in bridges if _wanted(each, triggers)][:MOST]
            for job in _behind(bridge, reader, skip=not triggers)
        ]
    except SourceError as error:
        return Unknown(str(error))


def trigger_of(job: wire.Job) -> str:
    """The name of the trigger job that a job of `started` is behind."""
    return job.name.partition(BEYOND)[0]


def shown(name: str) -> str:
    """A job's name as people read it."""
    return name.replace(BEYOND, " > ")


def _wanted(bridge: wire.Bridge, triggers: Collection[str]) -> bool:
    if bridge.downstream_pipeline is None:
        return False
    return bridge.name in triggers if triggers else bridge.downstream_pipeline.status != "success"


def _behind(bridge: wire.Bridge, reader: Reader, *, skip: bool) -> Iterator[wire.Job]:
    """The jobs of what was started; `skip` says that what may not be read is nothing to miss."""
    child = bridge.downstream_pipeline
    if child is None:
        return
    project = project_of(child, reader)
    if not reader.may_read(project):
        if skip:
            return
        raise SourceError(f"project {project} is not one this session may read")
    path = f"/projects/{project}/pipelines/{child.id}"
    for job in all_jobs(path, child.id, reader).items:
        yield job.model_copy(update={"name": f"{bridge.name}{BEYOND}{job.name}"})
