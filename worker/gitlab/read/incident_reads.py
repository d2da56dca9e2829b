"""What is asked of GitLab about watched branches: their history, the merge requests into them; and
before something is done about a red one, whether a job may run again, who reads the project's
issues, who owns its files, and what is in front in a merge train."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from urllib.parse import quote

from worker.conversation.context import Subject
from worker.gitlab.ports import EndedRun
from worker.gitlab.read import wire
from worker.gitlab.read.api import NotFound, Query
from worker.gitlab.read.branch import ENDED, LISTED, BranchReader, explain_end
from worker.gitlab.read.branch_ends import find_ended_runs
from worker.gitlab.read.job_ends import find_deploying, find_manual_jobs
from worker.gitlab.read.job_logs import JobLogs
from worker.gitlab.read.policy import Policy, is_members
from worker.gitlab.read.remembered import remember_answers
from worker.gitlab.read.request import RequestReader
from worker.gitlab.read.served import ServedReads
from worker.gitlab.read.subjects import AT_WORK, explain_outdated, read_merge_request
from worker.gitlab.read.train import TrainReader, TrainRuns
from worker.incidents.owners import MOST_CHARACTERS, PLACES
from worker.incidents.record import BranchRecord, RequestRecord
from worker.incidents.watched import is_of_branch, is_watched
from worker.verdict.jobs import FailingJob

_JOB_PAGES = 5


class _Project(wire.Project):
    """A project with who reads its issues."""

    issues_access_level: str = ""


class IncidentReads(ServedReads):
    """The part of GitLabReader for watched branches. All methods raise SourceError."""

    _policy: Policy
    _redact: Callable[[str], str]
    _sleep: Callable[[float], None]

    def find_ended_runs(
        self, watched: Sequence[str], since: float
    ) -> Iterator[Sequence[EndedRun] | str]:
        """Find the pipelines of each watched branch that have ended, the newest first, among those
        that GitLab has touched `since` (epoch seconds).

        Where and how is as in `find_failed_pipelines`.
        """
        return find_ended_runs(self._client, self._globs, watched, since, self._sleep)

    def explain_over(self, subject: Subject) -> str:
        """Say that the merge request is merged or closed, or "" if it is open."""
        mr = read_merge_request(self._client, subject.project_id, subject.mr_iid)
        return "" if mr.state == "opened" else f"merge request !{mr.iid} is {mr.state}"

    def list_open(self, project_id: int, iids: Collection[int]) -> frozenset[int]:
        """Return which of the merge requests, at most 100, are open: in one request."""
        path, what = f"/projects/{project_id}/merge_requests", "which merge requests are open"
        query: Query = {"state": "opened", "iids[]": sorted(iids)}
        found = self._client.page(path, wire.MergeRequest, what, 1, 100, query)
        return frozenset(each.iid for each in found.items)

    def find_target_branch(self, subject: Subject) -> str:
        """Return the merge request's target branch. Raises SourceError."""
        mr = read_merge_request(self._client, subject.project_id, subject.mr_iid)
        return mr.target_branch

    def is_watched(self, project_id: int, ref: str, globs: Sequence[str]) -> bool:
        """Whether a branch of a served project is named by one of the globs; `default` names the
        default branch. A merge request's ref is no branch; neither is a tag, see `find_branch`."""
        served = self._read_served(project_id)
        if isinstance(served, str) or project_id not in served:
            return False
        return is_watched(ref, served[project_id].default_branch or "", globs) is True

    def find_branch(
        self, project_id: int, pipeline_id: int, globs: Sequence[str]
    ) -> BranchRecord | str:
        """Return the empty record of the watched branch that a pipeline ran on, or say why there is
        nothing to do: it is a merge request's, a tag's, a child's, or on another branch."""
        served = self._read_served(project_id)
        if isinstance(served, str):
            return served
        pipeline, project = self._read_pipeline(project_id, pipeline_id), served[project_id]
        if isinstance(pipeline, str):
            return pipeline
        if pipeline.tag or not is_of_branch(pipeline.source):
            return f"pipeline {pipeline.id} is not a branch's own"
        if not is_watched(pipeline.ref, project.default_branch or "", globs):
            return f"branch {pipeline.ref} is not watched (incidents.branches)"
        return BranchRecord(project_id, project.path_with_namespace, pipeline.ref)

    def read_branch(self, record: BranchRecord, *, only_news: bool = False) -> BranchRecord:
        """Return the record with the branch's newer landings and pipelines; bounded."""
        return BranchReader(self._client, self._redact).read(record, only_news=only_news)

    def read_new_failures(self, record: BranchRecord) -> BranchRecord:
        """Return the record as `read_branch` does if the branch has failed since: in a pipeline
        that the record does not have, or has as it was before its jobs ran again; else the record
        itself. That is seen by one request. Where nothing is known, the newest pipeline counts."""
        path, what = f"/projects/{record.project_id}", f"the pipelines of {record.branch}"
        with remember_answers():  # it is listed once
            listed = self._client.list_branch_pipelines(path, record.branch, what, LISTED).items
            has_failed = _has_failed_since(listed, record)
            return self.read_branch(record, only_news=True) if has_failed else record

    def read_request(
        self,
        subject: Subject,
        jobs: Sequence[FailingJob] = (),
        logs: JobLogs | None = None,
        *,
        runs_again: bool = True,
    ) -> RequestRecord:
        """Return what incidents have to know of the subject's pipeline, which has ended; see
        `RequestReader.read`."""
        return RequestReader(self._client, self._policy, self._redact).read(
            subject, jobs, logs, runs_again=runs_again
        )

    def find_branch_state(self, project_id: int, branch: str) -> str:
        """Say that a branch or its project is gone or archived, or "" if it is there."""
        return explain_end(self._client, project_id, branch)

    def is_at_work(self, project_id: int, pipeline_id: int) -> bool:
        """Whether a pipeline has not come to its end."""
        found = self._read_pipeline(project_id, pipeline_id)
        return not isinstance(found, str) and found.status in AT_WORK

    def read_train(
        self, record: BranchRecord, request: RequestRecord, known: Iterable[RequestRecord]
    ) -> TrainRuns:
        """Return the runs of what is in front of a car that has failed; those that are `known` are
        not read again."""
        return TrainReader(self._client, record, self._redact).read(request, known)

    def read_own_runs(
        self, record: BranchRecord, request: RequestRecord
    ) -> tuple[RequestRecord, ...]:
        """Return other runs of a car's merge request that have passed with the same commits."""
        return TrainReader(self._client, record, self._redact).read_own(request)

    def explain_no_run(
        self, project_id: int, mr_iid: int, pipeline_id: int, job_id: int, ran: Collection[int]
    ) -> str:
        """Say why a failed job of a merge request's pipeline must not be run again now, or "".

        `ran` are the jobs that were run again before: what came of one of them is not run again.
        That a job deploys is not asked: the caller knows it.
        """
        project = self._read_place(project_id)
        if project.is_archived:
            return f"project {project_id} is archived"
        mr = read_merge_request(self._client, project_id, mr_iid)
        if mr.state != "opened":
            return f"merge request !{mr_iid} is {mr.state}"
        head = mr.head_pipeline
        if head is None or head.id != pipeline_id:
            return f"pipeline {pipeline_id} is not the newest of !{mr_iid}"
        if (head.project_id or project_id) != project_id:
            return f"pipeline {pipeline_id} ran in a fork"
        if (kind := wire.OF_MR.fullmatch(head.ref)) and kind[2] == "train":
            return f"pipeline {pipeline_id} is a merge train's"
        if reason := explain_outdated(mr, head):
            return reason
        path = f"/projects/{project_id}/pipelines/{pipeline_id}/jobs"
        what, query = f"the jobs of pipeline {pipeline_id}", {"include_retried": "true"}
        listed = self._client.many(path, wire.Job, what, query, _JOB_PAGES)
        if reason := _explain_job(listed.items, job_id, ran):
            return reason
        return self._explain_manual(project.path_with_namespace, pipeline_id, job_id)

    def explain_no_retry(self, subject: Subject, job_id: int) -> str:
        """Say why a failed job of a merge request's pipeline is not run again by itself, or "": it
        was the first attempt of a job that neither deploys nor waits for a person."""
        mr = read_merge_request(self._client, subject.project_id, subject.mr_iid)
        if not is_members(self._client, mr, self._policy):
            return f"the author of !{subject.mr_iid} is no member"
        project, number = subject.project_id, subject.pipeline_id
        if reason := self.explain_no_run(project, subject.mr_iid, number, job_id, ran=()):
            return reason
        path, what = f"/projects/{project}/pipelines/{number}", f"the jobs of pipeline {number}"
        query = {"include_retried": "true"}
        jobs = self._client.many(f"{path}/jobs", wire.Job, what, query, _JOB_PAGES).items
        name = next((each.name for each in jobs if each.id == job_id), "")
        if sum(each.name == name for each in jobs) > 1:
            return f"job {job_id} is not the first attempt"
        pipeline = self._client.one(path, wire.Pipeline, f"pipeline {number}")
        deploying = find_deploying(self._client, project, pipeline.created_at or "")
        if deploying is None:
            return "GitLab does not tell which jobs deploy"
        return f"job {job_id} deploys" if job_id in deploying else ""

    def _explain_manual(self, project: str, pipeline_id: int, job_id: int) -> str:
        """Say that a job is manual, or that GitLab does not tell; "" if it is not. GitLab would
        start a manual one at once, without a click."""
        found = find_manual_jobs(self._client, project, pipeline_id)
        if found is None:
            return f"GitLab does not tell the manual jobs of pipeline {pipeline_id}"
        return f"job {job_id} is manual" if job_id in found else ""

    def needs_confidential_issue(self, project_id: int) -> bool | str:
        """Whether more people can read the project's issues than may open its job logs, or why
        nobody can write an issue there."""
        project = self._read_place(project_id)
        if project.is_archived:
            return f"project {project_id} is archived"
        if project.issues_access_level == "disabled":
            return f"project {project_id} has no issues"
        # Who reads issues hangs on their own access level, and not on the repository's.
        level = project.issues_access_level or "enabled"
        issues = replace(project.access, merge_requests=level, repository="enabled")
        return not project.access.log_readers.include(issues.note_readers)

    def read_owners_file(self, project_id: int, ref: str) -> str:
        """Read the CODEOWNERS file that holds at a branch or commit, "" if there is none."""
        for path in PLACES:
            place = f"/projects/{project_id}/repository/files/{quote(path, safe='')}/raw"
            with suppress(NotFound):
                blob = self._client.blob(place, f"{path} at {ref}", MOST_CHARACTERS, {"ref": ref})
                # A file that is larger has lost its middle, and so its order.
                return "" if blob.omitted_bytes else blob.head.decode("utf-8", "replace")
        return ""

    def _read_place(self, project_id: int) -> _Project:
        return self._client.one(f"/projects/{project_id}", _Project, f"project {project_id}")


def _has_failed_since(listed: Sequence[wire.Pipeline], record: BranchRecord) -> bool:
    known = {each.pipeline_id: each.updated_at for each in record.pipelines}
    ended = [each for each in listed if each.status in ENDED and is_of_branch(each.source)]
    if not known:
        return any(each.status == "failed" for each in ended[:1])
    oldest = min(known)  # what is older is too old to be kept
    news = (each for each in ended if each.status == "failed" and each.id >= oldest)
    return any(
        each.id not in known or bool(known[each.id] and known[each.id] != each.updated_at)
        for each in news
    )


def _explain_job(jobs: Sequence[wire.Job], job_id: int, ran: Collection[int]) -> str:
    job = next((each for each in jobs if each.id == job_id), None)
    if job is None:
        return f"job {job_id} is not among those of the pipeline"
    attempts = [each.id for each in jobs if each.name == job.name]
    if max(attempts) != job_id:
        return f"job {job_id} was run again already"
    if any(each in ran for each in attempts):
        return f"job {job_id} is what came of a job that was run again"
    if job.status != "failed" or job.allow_failure:
        return f"job {job_id} is {job.status}{' and may fail' if job.allow_failure else ''}"
    return ""
