"""Decides what a session may read, whatever ids the model gives, and who may read its note."""

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from worker.conversation.context import Subject
from worker.errors import SourceError
from worker.gitlab.read import wire
from worker.gitlab.read.api import NotFound, ReadClient
from worker.gitlab.read.wire import parse_dimensions
from worker.verdict.audience import Access, Level, Readers

_MR_PAGES = 3
_JOB_PAGES = 20
_SHORT_ID = 7
"""Digits of a commit's id by which it may be named."""

_ALLOWED = (
    "what may be read are the merge request's pipelines with their children, and on its target "
    "branch the jobs of the same names"
)
_ALLOWED_OF_BRANCH = (
    "what may be read are the branch's pipelines at this commit with their children, and in its "
    "others the jobs of the same names"
)


class Binding:
    """Tells the merge request's own pipelines and jobs from other ones of the project.

    Of a branch without a merge request, the own pipelines are those at the session's commit; its
    others stand where those of a target branch do.

    A pipeline is an own one if GitLab lists it for the merge request, or if such a pipeline has
    started it in the same project. In pipelines of the target branch, those jobs may be read whose
    names an own pipeline has. GitLab's answers are kept. Safe to share between threads.
    """

    def __init__(self, client: ReadClient, subject: Subject) -> None:
        self._client = client
        self._subject = subject
        self._lock = threading.RLock()
        self._own = {subject.pipeline_id}
        self._runs: set[tuple[int, str, str]] = set()
        self._newest = 0
        self._names: set[str] = set()
        self._names_listed = False
        self._mr: wire.MergeRequest | None = None
        self._commits: tuple[str, ...] | None = None

    def target_branch(self) -> str:
        """Return the merge request's target branch, or the session's own branch. Raises
        SourceError."""
        return self._subject.branch or self._get_merge_request().target_branch

    def describe_merge_result(self, pipeline: wire.Pipeline) -> str:
        """Say what a pipeline of merged results ran on, and what to read in its place; "" for a
        pipeline of any other kind. Raises SourceError."""
        if not pipeline.is_merge_result:
            return ""
        mr = self._get_merge_request()
        return (
            f"the pipeline ran on {pipeline.ref}, a merge with the target branch that GitLab made "
            "for it and may not have any more; where its commit cannot be read, read with "
            f"ref={mr.sha} (head_sha, the change's newest commit) or ref={mr.target_branch}"
        )

    def learn_jobs(self, pipeline_id: int, jobs: Iterable[wire.Job]) -> None:
        """Remember the names of the jobs that GitLab lists for a pipeline, if it is an own one."""
        with self._lock:
            if pipeline_id in self._own:
                self._names.update(job.name for job in jobs)
                self._names_listed |= pipeline_id == self._subject.pipeline_id

    def learn_name(self, name: str) -> None:
        """Remember the name of a job in a pipeline that an own pipeline has started."""
        with self._lock:
            self._names.add(name)

    def check_job(self, project_id: int, job: wire.Job) -> None:
        """Raises SourceError for a job that the session may not read."""
        pipeline = job.pipeline
        if pipeline is not None:
            if self._is_plainly_own(project_id, pipeline):
                return
            if self._is_on_target_branch(project_id, pipeline) and self.has_name(job.name):
                return
            if self._is_listed(project_id, pipeline):
                return
        raise SourceError(f"job {job.id} is not of {self._name_bounds()}")

    def is_own(self, project_id: int, pipeline: wire.Pipeline) -> bool:
        """Whether it is an own pipeline; False for a pipeline of the target branch.

        Raises SourceError for any other.
        """
        if self._is_plainly_own(project_id, pipeline):
            return True
        if self._is_on_target_branch(project_id, pipeline):
            return False
        if self._is_listed(project_id, pipeline):
            return True
        raise SourceError(f"pipeline {pipeline.id} is not of {self._name_bounds()}")

    def is_own_commit(self, ref: str) -> bool:
        """Whether `ref` is the merge request's source branch or one of its commits, by at least
        seven digits of its id. Raises SourceError."""
        subject = self._subject
        if len(ref) >= _SHORT_ID and subject.sha.startswith(ref):
            return True
        if ref == self._get_merge_request().source_branch:
            return True
        if len(ref) < _SHORT_ID:
            return False
        with self._lock:
            if self._commits is None:
                path, what = f"{self._make_path()}/commits", "the merge request's commits"
                listed = self._client.many(path, wire.Commit, what, pages=_MR_PAGES)
                self._commits = tuple(each.id for each in listed.items)
            return any(each.startswith(ref) for each in self._commits)

    def has_name(self, name: str) -> bool:
        """Whether an own pipeline has a job of this name, as far as its jobs were listed.

        Raises SourceError.
        """
        return name in self._get_known_names()

    def has_suite(self, name: str) -> bool:
        """Whether a test suite of this name comes from a job that `has_name` knows.

        GitLab makes one suite of all parts of a parallel job. Raises SourceError.
        """
        names = self._get_known_names()
        return name in names or any(name == parse_dimensions(each).get("group") for each in names)

    def _name_bounds(self) -> str:
        of_branch = f"this branch: {_ALLOWED_OF_BRANCH}"
        return of_branch if self._subject.branch else f"this merge request: {_ALLOWED}"

    def _is_plainly_own(self, project_id: int, pipeline: wire.Pipeline) -> bool:
        """Whether it is an own pipeline, as far as that is known without asking GitLab.

        Only GitLab makes merge request refs. In a fork, they are also numbered by the fork's own
        merge requests, so they prove nothing there.
        """
        of_mr = wire.OF_MR.fullmatch(pipeline.ref)
        here = project_id == self._subject.project_id
        named, branch = of_mr[1] if of_mr else "", self._subject.branch
        is_of_branch = not pipeline.tag and pipeline.ref == branch
        with self._lock:
            if here and branch and is_of_branch and pipeline.sha == self._subject.sha:
                self._own.add(pipeline.id)
            if here and not branch and named == str(self._subject.mr_iid):
                self._own.add(pipeline.id)
            return pipeline.id in self._own

    def _is_on_target_branch(self, project_id: int, pipeline: wire.Pipeline) -> bool:
        return project_id == self._subject.project_id and pipeline.ref == self.target_branch()

    def _is_listed(self, project_id: int, pipeline: wire.Pipeline) -> bool:
        """Whether GitLab lists the pipeline, or its parent, for the merge request.

        A child pipeline is not listed, but runs on the same ref and commit as its parent.
        """
        if self._subject.branch:
            return False
        run = (project_id, pipeline.ref, pipeline.sha)
        with self._lock:
            if run not in self._runs and pipeline.id > self._newest:
                mr, path = self._get_merge_request(), f"{self._make_path()}/pipelines"
                what = "the merge request's pipelines"
                listed = self._client.many(path, wire.Pipeline, what, pages=_MR_PAGES).items
                source = mr.source_project_id or 0
                for each in listed:
                    self._own.add(each.id)
                    self._runs.add((each.project_id, each.ref, each.sha))
                    self._runs.add((source, mr.source_branch, each.sha))
                self._newest = max(pipeline.id, *(each.id for each in listed), 0)
            if run in self._runs:
                self._own.add(pipeline.id)
            return pipeline.id in self._own

    def _get_known_names(self) -> frozenset[str]:
        with self._lock:
            if not self._names_listed:
                subject = self._subject
                run = f"/projects/{subject.pipeline_project_id}/pipelines/{subject.pipeline_id}"
                what = f"the jobs of pipeline {subject.pipeline_id}"
                found = self._client.many(f"{run}/jobs", wire.Job, what, pages=_JOB_PAGES)
                self.learn_jobs(subject.pipeline_id, found.items)
            return frozenset(self._names)

    def _get_merge_request(self) -> wire.MergeRequest:
        if self._subject.branch:
            raise SourceError("there is no merge request: the pipeline is a branch's")
        with self._lock:
            if self._mr is None:
                what = "the merge request"
                self._mr = self._client.one(self._make_path(), wire.MergeRequest, what)
            return self._mr

    def _make_path(self) -> str:
        return f"/projects/{self._subject.project_id}/merge_requests/{self._subject.mr_iid}"


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
    ran_in = target
    if is_fork:
        number, what = subject.pipeline_project_id, "the project the pipeline ran in"
        try:
            ran_in = client.one(f"/projects/{number}", wire.Project, what).access
        except NotFound:  # what the token does not see counts as private
            ran_in = Access(number, "", False, "", "", "")
    fork_logs = ran_in.log_readers
    if is_fork and fork_logs.level is Level.MEMBERS:
        fork_logs = target.members
    readers = target.note_readers
    internal = not (target.log_readers.include(readers) and fork_logs.include(readers))
    readers = target.members if internal else readers
    return Audience(readers, internal, not is_fork or ran_in.code_readers.include(readers))
