"""A merge request into a watched branch as its incidents see it: what its pipeline ran on, which of
its jobs failed with which errors, whose it is. What the turn has read already is not asked again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from worker.conversation.context import Subject
from worker.errors import SourceError
from worker.gitlab.read import policy, wire
from worker.gitlab.read.api import NotFound, ReadClient
from worker.gitlab.read.job_ends import (
    MAX_LOG,
    MOST_LOGS,
    JobEndReader,
    find_deploying,
    find_outcome,
    get_end_time,
)
from worker.gitlab.read.job_logs import JobLogs
from worker.gitlab.read.landings import LandingReader, find_reverts
from worker.gitlab.read.policy import Policy
from worker.gitlab.read.subjects import read_merge_request
from worker.gitlab.read.train import TrainReader
from worker.incidents.errors import read_errors
from worker.incidents.record import (
    BranchRecord,
    JobEnd,
    JobOutcome,
    PipelineKind,
    RequestRecord,
)
from worker.safety.untrusted import one_line
from worker.verdict.jobs import FailingJob

MOST_COMMITS = 100
"""Commits of the merge request that are read, the newest."""

_KINDS = {"merge": PipelineKind.MERGED_RESULT, "train": PipelineKind.MERGE_TRAIN}
_LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class RequestReader:
    """Reads merge requests. `redact` takes the secrets out of a text."""

    client: ReadClient
    policy: Policy
    redact: Callable[[str], str]

    def read(
        self,
        subject: Subject,
        jobs: Sequence[FailingJob] = (),
        logs: JobLogs | None = None,
        *,
        runs_again: bool = True,
    ) -> RequestRecord:
        """Return the record of the subject's pipeline. Raises SourceError. A job that failed by its
        runner's fault has failed, with no error: nothing on the branch explains it.

        `jobs` are those that were found to fail, of child pipelines too, and `logs` those that the
        session has read: a log that it has not is read here. Without both, as for a pipeline that
        has passed, all is asked of GitLab. If nothing `runs_again`, GitLab is not asked
        which jobs deploy: all are said to.
        """
        mr = read_merge_request(self.client, subject.project_id, subject.mr_iid)
        ends = JobEndReader(self.client, subject.pipeline_project_id, self.redact, by_any=True)
        found, pipeline = ends.read_newest(subject.pipeline_id, with_errors=logs is None)
        if logs is not None:
            found = self._add_failing(found, jobs, logs, ends)
        kind = _find_kind(pipeline.ref)
        commits = self._list_commits(subject)
        own = tuple(each.id for each in commits if each.id)
        base, cars = self._find_base(subject, pipeline, mr, kind)
        reverts = (sha for each in commits for sha in find_reverts(each.message or ""))
        author = mr.author.username if mr.author else ""
        return RequestRecord(
            mr_iid=mr.iid,
            pipeline_id=subject.pipeline_id,
            ended_at=get_end_time(found),
            kind=kind,
            base=base,
            contains=own,
            reverts=tuple(dict.fromkeys(reverts)),
            cars=cars,
            jobs=(
                self._add_deployments(subject, pipeline, found)
                if runs_again
                else tuple(replace(each, deploys=True) for each in found)
            ),
            author=one_line(self.redact(author), _LONGEST_NAME),
            is_member=policy.is_members(self.client, mr, self.policy),
            is_over=mr.state != "opened",
        )

    def _add_failing(
        self,
        listed: Sequence[JobEnd],
        jobs: Sequence[FailingJob],
        logs: JobLogs,
        ends: JobEndReader,
    ) -> tuple[JobEnd, ...]:
        """Return the ends with the errors of the failing jobs, and those that GitLab does not list
        as jobs: what other systems report, and trigger jobs that have started nothing."""
        by_id = {each.job_id: each for each in listed if each.job_id}
        others = [each for each in listed if not each.job_id]
        left = MOST_LOGS
        for job in sorted(jobs, key=lambda job: not job.read):
            known = by_id.get(job.job_id)
            if known is None:
                known = JobEnd(ends.clean(job.name), job.job_id, JobOutcome.FAILED, url=job.url)
            is_code = find_outcome(_make_failed(job)) is JobOutcome.FAILED
            if is_code and job.job_id and left:
                known, left = replace(known, errors=_read_log(logs, job)), left - 1
            if job.job_id:
                by_id[job.job_id] = known
            elif all(each.name != known.name for each in others):
                others.append(known)
        return (*others, *(by_id[number] for number in sorted(by_id)))

    def _list_commits(self, subject: Subject) -> Sequence[wire.Commit]:
        path = f"/projects/{subject.project_id}/merge_requests/{subject.mr_iid}/commits"
        what = f"the commits of !{subject.mr_iid}"
        return self.client.page(path, wire.Commit, what, 1, MOST_COMMITS).items

    def _find_base(
        self,
        subject: Subject,
        pipeline: wire.Pipeline,
        mr: wire.MergeRequest,
        kind: PipelineKind,
    ) -> tuple[str, tuple[int, ...]]:
        """Return the target's newest commit that the run contained, "" if it is not known, and the
        merge requests in front of it in its train."""
        if kind is PipelineKind.DETACHED:
            refs = mr.diff_refs
            is_head = pipeline.sha == mr.sha and refs is not None and refs.head_sha == mr.sha
            return (refs.base_sha if refs and is_head else ""), ()
        if kind is PipelineKind.MERGED_RESULT:
            return self._find_below(subject, pipeline.sha), ()
        landed = LandingReader(
            self.client, subject.project_id, mr.target_branch, self.redact
        ).list_newest()
        record = BranchRecord(subject.project_id, subject.project, mr.target_branch, tuple(landed))
        return TrainReader(self.client, record, self.redact).find_base(pipeline.sha)

    def _find_below(self, subject: Subject, sha: str) -> str:
        """Return what the commit that GitLab made was made onto; "" if it is gone."""
        path = f"/projects/{subject.project_id}/repository/commits"
        query, what = {"ref_name": sha, "first_parent": "true"}, f"the commits below {sha[:8]}"
        try:
            found = self.client.page(path, wire.Commit, what, 1, 2, query).items
        except NotFound:
            return ""
        return found[1].id if len(found) > 1 else ""

    def _add_deployments(
        self, subject: Subject, pipeline: wire.Pipeline, jobs: tuple[JobEnd, ...]
    ) -> tuple[JobEnd, ...]:
        """Return the jobs; failed ones say whether they deploy. Where GitLab does not tell, they
        are said to: then nobody runs them again."""
        if all(each.outcome is not JobOutcome.FAILED for each in jobs):
            return jobs
        project, since = subject.pipeline_project_id, pipeline.created_at or ""
        found = find_deploying(self.client, project, since)
        return tuple(replace(each, deploys=found is None or each.job_id in found) for each in jobs)


def _read_log(logs: JobLogs, job: FailingJob) -> tuple[tuple[str, str], ...]:
    """Return the errors of a job's log, () if it cannot be read."""
    try:
        log = logs.read_log(job.job_id)
    except SourceError:
        return ()
    if log.spool.size > MAX_LOG or log.spool.dropped_lines:
        return ()
    return read_errors(b"".join(log.spool.chunks()), job.reason)


def _make_failed(job: FailingJob) -> wire.Job:
    return wire.Job(id=job.job_id, status="failed", failure_reason=job.reason)


def _find_kind(ref: str) -> PipelineKind:
    named = wire.OF_MR.fullmatch(ref)
    return _KINDS.get(named[2], PipelineKind.DETACHED) if named else PipelineKind.DETACHED
