"""What a source is given: GitLab, the session it is bound to, and its job logs."""

import fnmatch
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TypeVar
from urllib.parse import quote

from worker.conversation.context import Subject
from worker.errors import ArgumentError, SourceError
from worker.gitlab.read import wire
from worker.gitlab.read.access import Audience, Binding, find_audience
from worker.gitlab.read.api import NoSuchFile, NoSuchRef, NotFound, ReadClient, ask_in_turn
from worker.gitlab.read.evidence import Evidence
from worker.gitlab.read.job_logs import JobLogs
from worker.gitlab.read.redactions import Redactions
from worker.safety.redact import Redaction

T = TypeVar("T")
COMMIT = re.compile(r"[0-9a-f]{7,64}")
"""What is a commit's id, and not the name of a branch or tag."""

_WHOLE = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
"""A whole commit id, which GitLab or a log has named; a shorter one may be a guess."""


@dataclass(frozen=True, slots=True)
class Reader:
    """One session's view of GitLab."""

    client: ReadClient
    subject: Subject
    redact: Redactions
    """Removes secrets from a document."""
    logs: JobLogs
    binding: Binding
    """Decides which pipelines and jobs the session may read."""
    audience: Callable[[], Audience]
    """Says who will read the session's note."""
    also: tuple[str, ...] = ()
    """Globs of the project paths that the operator lets every session read."""
    bot_ids: Callable[[], frozenset[int]] = field(default=frozenset)
    """Returns the ids of the bot's own users."""
    evidence: Evidence = field(default_factory=Evidence)
    """Keeps documents of systems other than GitLab."""

    @classmethod
    def open(
        cls,
        client: ReadClient,
        subject: Subject,
        remove_secrets: Callable[[bytes], Redaction],
        also: Sequence[str] = (),
        bot_ids: Callable[[], frozenset[int]] = frozenset,
    ) -> "Reader":
        """Return a reader with an empty cache of logs."""
        counted = Redactions(remove_secrets)
        globs = tuple(glob.lower() for glob in also)
        binding = Binding(client, subject)
        logs = JobLogs(client, subject, counted, binding=binding)
        audience = cache(partial(find_audience, client, subject))
        return cls(client, subject, counted, logs, binding, audience, globs, bot_ids)

    def with_deadline(self, deadline: float) -> "Reader":
        """Return a copy that begins no request after `deadline` (monotonic seconds)."""
        return replace(self, client=self.client.with_deadline(deadline))

    @property
    def merge_request(self) -> str:
        """The API path of the session's merge request, which a branch has not."""
        return f"{self.target_project}/merge_requests/{self.subject.mr_iid}"

    @property
    def pipeline_project(self) -> str:
        """The API path of the project the pipeline ran in, which may be a fork."""
        return f"/projects/{self.subject.pipeline_project_id}"

    @property
    def target_project(self) -> str:
        """The API path of the merge request's project."""
        return f"/projects/{self.subject.project_id}"

    @property
    def projects(self) -> tuple[str, ...]:
        """The API paths of the session's projects, the pipeline's first; a fork makes two."""
        return tuple(dict.fromkeys((self.pipeline_project, self.target_project)))

    def find_projects(self, *refs: str) -> tuple[str, ...]:
        """List the API paths of the projects to look for `refs` in, in order. Raises SourceError.

        Only the merge request's project is searched if it has all the branches and tags: what is on
        a fork's branches is its author's choice. Of a fork whose code not all readers of the note
        may read, there are only the merge request's own commits.
        """
        if len(self.projects) == 1:
            return self.projects
        if not all(map(self.binding.is_own_commit, refs)) and not self.audience().sees_fork:
            return (self.target_project,)
        named = [ref for ref in refs if not COMMIT.fullmatch(ref)]
        if named and all(map(self._has_ref, named)):
            return (self.target_project,)
        return self.projects

    def read_first(self, read: Callable[[str], T], *refs: str) -> T:
        """Call `read` with the API path of each project for `refs`, until one has what it reads.

        Raises SourceError; NotFound if none of them has it; ArgumentError if the model has made up
        all of `refs`: then no evidence is missing.
        """
        *first, last = self.find_projects(*refs)
        without_file: NoSuchFile | None = None
        for project in first:
            try:
                return read(project)
            except NoSuchFile as error:
                without_file = error
            except NotFound:
                continue
        try:
            with self.name_other_refs(*refs):
                return read(last)
        except NotFound as error:
            if without_file:  # a project that has the commit has no such file
                raise without_file from error
            if isinstance(error, NoSuchRef) and refs and not any(map(_WHOLE.fullmatch, refs)):
                hint = "a ref is a branch, a tag or a whole commit id"
                raise ArgumentError(f"{error}; {hint}") from error
            raise

    @contextmanager
    def name_other_refs(self, *refs: str) -> Iterator[None]:
        """Make a NotFound for the commit of a merged-results pipeline say what to read instead.

        That commit is on no branch: GitLab may not have it any more.
        """
        try:
            yield
        except NotFound as error:
            if isinstance(error, NoSuchFile):
                raise
            hint = ""
            if self.subject.sha in refs:
                number = self.subject.pipeline_id
                path = f"{self.pipeline_project}/pipelines/{number}"
                with suppress(SourceError):
                    pipeline = self.client.one(path, wire.Pipeline, f"pipeline {number}")
                    hint = self.binding.describe_merge_result(pipeline)
            if hint:
                raise NotFound(f"{error} ({hint})") from error
            raise

    def _has_ref(self, ref: str) -> bool:
        path = f"{self.target_project}/repository/commits/{quote(ref, safe='')}"
        try:
            self.client.one(path, wire.Commit, f"the newest commit of {ref}")
        except NotFound:
            return False
        return True

    def find_pipeline(self, number: int, what: str) -> tuple[str, wire.Pipeline, bool]:
        """Return a pipeline's API path, the pipeline, and whether it is the merge request's own.

        If not, it is a pipeline of the target branch; any other pipeline raises SourceError.
        """

        def read(project: int) -> tuple[str, wire.Pipeline, bool]:
            path = f"/projects/{project}/pipelines/{number}"
            pipeline = self.client.one(path, wire.Pipeline, what)
            return path, pipeline, self.binding.is_own(project, pipeline)

        ids = dict.fromkeys((self.subject.pipeline_project_id, self.subject.project_id))
        return ask_in_turn([*ids], read)

    def may_read(self, project_id: int) -> bool:
        """Whether this session may read a project. Raises SourceError.

        Besides its own projects, these are the ones that the operator allows and whose job logs
        all readers of the note may open. Who reads it because they are members of the merge
        request's project are no members of another one: what is for its members is not read.
        """
        if self._is_own(project_id):
            return True
        if not self.also:
            return False
        what = f"project {project_id}"
        return self._is_allowed(self.client.one(f"/projects/{project_id}", wire.Project, what))

    def may_read_path(self, path: str) -> bool:
        """Like `may_read`, for a project given by its path; its id and its current path decide."""
        what = "the session's project"
        for own in self.projects:  # it may have been renamed
            present = self.client.one(own, wire.Project, what).path_with_namespace
            if path.lower() == present.lower():
                return True
        if not self.also:
            return False
        where = f"/projects/{quote(path, safe='')}"
        try:
            project = self.client.one(where, wire.Project, f"project {path}")
        except NotFound:
            return False
        return self._is_own(project.id) or self._is_allowed(project)

    def _is_own(self, project_id: int) -> bool:
        return project_id in (self.subject.project_id, self.subject.pipeline_project_id)

    def _is_allowed(self, project: wire.Project) -> bool:
        path = project.path_with_namespace.lower()
        if not any(fnmatch.fnmatchcase(path, glob) for glob in self.also):
            return False
        return project.access.log_readers.include(self.audience().readers)
