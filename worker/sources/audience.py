"""Who may open what a project's jobs have left, and who reads the notes on a merge request."""

from dataclasses import dataclass

from worker.core.context import Subject
from worker.sources import wire
from worker.sources.client import NotFound, ReadClient

ANYONE, SIGNED_IN, MEMBERS = range(3)
"""From the widest circle to the narrowest."""

_VISIBLE_TO = {"public": ANYONE, "internal": SIGNED_IN}


@dataclass(frozen=True, slots=True)
class Audience:
    """Who reads a session's note. `internal` says that it has to be an internal note for that."""

    readers: int
    internal: bool


def find_audience(client: ReadClient, subject: Subject) -> Audience:
    """The widest circle that reads the note and may open the logs it is made from.

    Those are of the merge request's project and of the one the pipeline ran in. Raises SourceError.
    """
    target = _read(client, subject.project_id, "the merge request's project")
    readers = note_readers(target)
    logs = log_readers(target)
    if subject.pipeline_project_id != subject.project_id:
        logs = max(logs, _fork_log_readers(client, subject))
    internal = logs > readers
    return Audience(MEMBERS if internal else readers, internal)


def log_readers(project: wire.Project) -> int:
    """Who may open a job's log, by the project's visibility and its two settings for pipelines."""
    if not project.public_jobs:
        return MEMBERS
    return _circle(project, project.builds_access_level)


def note_readers(project: wire.Project) -> int:
    """Who may read a merge request and the notes on it that are not internal."""
    return _circle(project, project.merge_requests_access_level)


def _circle(project: wire.Project, level: str) -> int:
    if "private" in (level, project.repository_access_level):
        return MEMBERS
    return _VISIBLE_TO.get(project.visibility, MEMBERS)


def _fork_log_readers(client: ReadClient, subject: Subject) -> int:
    try:
        fork = _read(client, subject.pipeline_project_id, "the project the pipeline ran in")
    except NotFound:
        return MEMBERS
    return log_readers(fork)


def _read(client: ReadClient, project_id: int, what: str) -> wire.Project:
    return client.one(f"/projects/{project_id}", wire.Project, what)
