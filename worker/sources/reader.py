"""What a source is given: GitLab, the session it is bound to, and its job logs."""

import fnmatch
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from worker.core.context import Subject
from worker.sources import wire
from worker.sources.client import NotFound, ReadClient
from worker.sources.logs import JobLogs

_MARK = re.compile(rb"\[redacted: ([a-z0-9-]{1,40})\]")


class Redactions:
    """Takes secrets out of documents and counts what it took, by kind. Safe to share by threads.

    A line that comes again, in a piece that overlaps or in another document, counts once.
    """

    def __init__(self, redact: Callable[[bytes], bytes]) -> None:
        self._redact = redact
        self._found: Counter[str] = Counter()
        self._seen: set[int] = set()
        self._lock = threading.Lock()

    def __call__(self, data: bytes) -> bytes:
        """`data` without its secrets."""
        clean = self._redact(data)
        if clean != data:
            with self._lock:
                self._count(data, clean)
        return clean

    def _count(self, data: bytes, clean: bytes) -> None:
        # Redaction keeps the number of lines.
        for before, after in zip(data.split(b"\n"), clean.split(b"\n"), strict=False):
            if before != after and hash(before) not in self._seen:
                self._seen.add(hash(before))
                self._found.update(_marks(after))
                self._found.subtract(_marks(before))

    @property
    def counts(self) -> Mapping[str, int]:
        """How many secrets of each kind were taken out so far."""
        with self._lock:
            return dict(+self._found)


def _marks(data: bytes) -> Counter[str]:
    return Counter(kind.decode() for kind in _MARK.findall(data))


@dataclass(frozen=True, slots=True)
class Reader:
    """One session's view of GitLab.

    `redact` cleans a document of secrets (law 12). `also` are globs of the project paths that the
    operator lets every session read. `own` gives the ids of the bot's own users.
    """

    client: ReadClient
    subject: Subject
    redact: Redactions
    logs: JobLogs
    also: tuple[str, ...] = ()
    own: Callable[[], frozenset[int]] = field(default=frozenset)

    @classmethod
    def open(
        cls,
        client: ReadClient,
        subject: Subject,
        redact: Callable[[bytes], bytes],
        also: Sequence[str] = (),
        own: Callable[[], frozenset[int]] = frozenset,
    ) -> "Reader":
        """A reader with an empty cache of logs."""
        counted = Redactions(redact)
        globs = tuple(glob.lower() for glob in also)
        return cls(client, subject, counted, JobLogs(client, subject, counted), globs, own)

    def until(self, deadline: float) -> "Reader":
        """The same reader, that begins no request past `deadline` (monotonic seconds)."""
        return replace(self, client=self.client.until(deadline))

    @property
    def merge_request(self) -> str:
        """The API path of the session's merge request."""
        return f"{self.target_project}/merge_requests/{self.subject.mr_iid}"

    @property
    def pipeline_project(self) -> str:
        """The API path of the project the pipeline ran in: the fork, for a fork's."""
        return f"/projects/{self.subject.pipeline_project_id}"

    @property
    def target_project(self) -> str:
        """The API path of the merge request's project."""
        return f"/projects/{self.subject.project_id}"

    @property
    def projects(self) -> tuple[str, ...]:
        """The API paths of the session's projects, the pipeline's first: two for a fork's."""
        return tuple(dict.fromkeys((self.pipeline_project, self.target_project)))

    def owner(self, path: str, what: str) -> str:
        """The one of `projects` that has the pipeline at `path` below it. Raises SourceError."""
        for project in self.projects[:-1]:
            try:
                self.client.one(project + path, wire.Pipeline, what)
            except NotFound:
                continue
            return project
        return self.projects[-1]

    def may_read(self, project_id: int) -> bool:
        """Whether the operator lets this session read a project. Raises SourceError."""
        if project_id in (self.subject.project_id, self.subject.pipeline_project_id):
            return True
        if not self.also:
            return False
        what = f"project {project_id}"
        project = self.client.one(f"/projects/{project_id}", wire.Project, what)
        path = project.path_with_namespace.lower()
        return any(fnmatch.fnmatchcase(path, glob) for glob in self.also)
