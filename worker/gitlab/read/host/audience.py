"""Compares who may read a session's note with who may open the logs that it is made from."""

from dataclasses import dataclass

from worker.conversation.context import Subject
from worker.gitlab.read.api import wire
from worker.gitlab.read.api.client import NotFound, ReadClient
from worker.verdict.audience import Access, Level, Readers

_UNKNOWN = ("", False, "", "", "")
"""The access of a project that the token does not see: it counts as private."""


@dataclass(frozen=True, slots=True)
class Audience:
    """Who may read a session's note. `internal` says that it must be an internal note.

    `sees_fork` is False if the code of the fork that the pipeline ran in is not for all of them.
    """

    readers: Readers
    internal: bool
    sees_fork: bool = True


def find_audience(client: ReadClient, subject: Subject) -> Audience:
    """Return the widest audience for the note that may also open the logs it is made from.

    The logs are of the merge request's project and of the one the pipeline ran in. Those of a
    private fork may be told to the members of the merge request's project and to nobody else:
    somebody who may write to the fork has opened the merge request, and so has submitted to them
    what its own pipelines run. Nothing else of the fork has been. Raises SourceError.
    """
    what = "the merge request's project"
    target = client.one(f"/projects/{subject.project_id}", wire.Project, what).access
    is_fork = subject.pipeline_project_id != subject.project_id
    ran_in = _read_fork(client, subject) if is_fork else target
    fork_logs = ran_in.log_readers
    if is_fork and fork_logs.level is Level.MEMBERS:
        fork_logs = target.members
    readers = target.note_readers
    internal = not (target.log_readers.include(readers) and fork_logs.include(readers))
    readers = target.members if internal else readers
    return Audience(readers, internal, not is_fork or ran_in.code_readers.include(readers))


def _read_fork(client: ReadClient, subject: Subject) -> Access:
    number, what = subject.pipeline_project_id, "the project the pipeline ran in"
    try:
        return client.one(f"/projects/{number}", wire.Project, what).access
    except NotFound:
        return Access(number, *_UNKNOWN)
