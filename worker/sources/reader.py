"""What a source is given: GitLab, the session it is bound to, and its job logs."""

from collections.abc import Callable
from dataclasses import dataclass

from worker.core.context import Subject
from worker.sources.client import ReadClient
from worker.sources.logs import JobLogs


@dataclass(frozen=True, slots=True)
class Reader:
    """One session's view of GitLab. `redact` cleans a document of secrets (law 12)."""

    client: ReadClient
    subject: Subject
    redact: Callable[[bytes], bytes]
    logs: JobLogs

    @classmethod
    def open(
        cls, client: ReadClient, subject: Subject, redact: Callable[[bytes], bytes]
    ) -> "Reader":
        """A reader with an empty cache of logs."""
        return cls(client, subject, redact, JobLogs(client, subject, redact))

    @property
    def merge_request(self) -> str:
        """The API path of the session's merge request."""
        return f"/projects/{self.subject.project_id}/merge_requests/{self.subject.mr_iid}"

    @property
    def pipeline_project(self) -> str:
        """The API path of the project the pipeline ran in: the fork, for a fork's."""
        return f"/projects/{self.subject.pipeline_project_id}"
