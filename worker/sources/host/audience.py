"""Compares who may read a session's note with who may open the logs that it is made from."""

from dataclasses import dataclass

from worker.core.conversation.context import Subject
from worker.core.failure.audience import Readers
from worker.sources.api import wire
from worker.sources.api.client import NotFound, ReadClient


@dataclass(frozen=True, slots=True)
class Audience:
    """Who may read a session's note. `internal` says that it must be an internal note."""

    readers: Readers
    internal: bool


def find_audience(client: ReadClient, subject: Subject) -> Audience:
    """Return the widest audience for the note that may also open the logs it is made from.

    The logs are of the merge request's project and of the one the pipeline ran in. Raises
    SourceError.
    """
    what = "the merge request's project"
    target = client.one(f"/projects/{subject.project_id}", wire.Project, what).access
    logs = target.log_readers
    if subject.pipeline_project_id != subject.project_id:
        logs = max(logs, _find_fork_log_readers(client, subject))
    internal = logs > target.note_readers
    return Audience(Readers.MEMBERS if internal else target.note_readers, internal)


def _find_fork_log_readers(client: ReadClient, subject: Subject) -> Readers:
    path, what = f"/projects/{subject.pipeline_project_id}", "the project the pipeline ran in"
    try:
        return client.one(path, wire.Project, what).access.log_readers
    except NotFound:
        return Readers.MEMBERS
