"""What the job itself reads from GitLab: a pipeline's merge request, threads, permissions."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from urllib.parse import quote

from worker.conversation.context import Subject
from worker.conversation.triggers import PipelineFailed, PipelinePassed
from worker.errors import SourceError
from worker.gitlab.ports import ThreadNote
from worker.gitlab.read import policy, wire
from worker.gitlab.read.access import find_audience
from worker.gitlab.read.api import NotFound, ReadClient
from worker.gitlab.read.incident_reads import IncidentReads
from worker.gitlab.read.policy import DEFAULT, Policy, read_access_level
from worker.gitlab.read.remembered import forget_answers, remember_answers
from worker.gitlab.read.subjects import (
    choose_pipeline,
    explain_outdated,
    explain_unrelated,
    find_merge_request,
    is_pipeline_of,
    list_news,
    list_pipelines,
    make_branch_subject,
    read_changes,
    read_merge_request,
)
from worker.gitlab.read.test_reports import TestReads
from worker.safety.untrusted import one_line
from worker.verdict.diffs import Changes
from worker.verdict.facts import parse_time

log = logging.getLogger("sandpiper.gitlab")

_JOB_PAGES = 2

_LONGEST_TITLE = 300
"""The most characters of a title that are kept; GitLab allows 255."""


class GitLabReader(TestReads, IncidentReads):
    """What the host itself asks GitLab, with the read token. Raises SourceError where not said.

    `projects` are globs of allowed project paths (`*` also matches slashes); without any, the
    projects of which the token's user is a member are allowed. `min_access` is the lowest access
    level (30 is Developer) at which a member may give commands. The exclusions of `policy` apply to
    what nobody asked for, not to `find_named_subject`. `redact` is applied to titles.
    """

    def __init__(
        self,
        client: ReadClient,
        gitlab_url: str,
        projects: Sequence[str],
        min_access: int,
        policy: Policy = DEFAULT,
        sleep: Callable[[float], None] = time.sleep,
        redact: Callable[[str], str] = str,
    ) -> None:
        super().__init__(client, projects)
        self._url = gitlab_url.rstrip("/")
        self._min_access = min_access
        self._policy = policy
        self._sleep = sleep
        self._redact = redact

    def remember_answers(self) -> AbstractContextManager[None]:
        """Ask nothing twice in this thread until the block ends, or until `forget_answers`."""
        return remember_answers()

    def forget_answers(self) -> None:
        """Ask again from now on: what comes next takes minutes."""
        forget_answers()

    def find_failed_subject(self, trigger: PipelineFailed) -> Subject | str:
        """Find the merge request of a failed pipeline, or say why there is nothing to do."""
        found = self.find_failure(trigger)
        return found if isinstance(found, str) else found[0]

    def find_failure(self, trigger: PipelineFailed) -> tuple[Subject, float] | str:
        """Like `find_failed_subject`, and when the pipeline ended (see `find_end_time`)."""
        targets = self._find_targets(trigger)
        if isinstance(targets, str):
            return targets
        pipeline = self._read_pipeline(trigger.project_id, trigger.pipeline_id)
        if isinstance(pipeline, str):
            return pipeline
        if pipeline.status != "failed":
            has_failed_job = False
            if trigger.by_job and pipeline.status == "running":  # a job of it has failed, perhaps
                path = f"/projects/{trigger.project_id}/pipelines/{pipeline.id}/jobs"
                what = f"the failed jobs of pipeline {pipeline.id}"
                listed = self._client.many(path, wire.Job, what, {"scope[]": "failed"}, _JOB_PAGES)
                has_failed_job = any(not job.allow_failure for job in listed.items)
            if not has_failed_job:
                return f"pipeline {pipeline.id} is {pipeline.status} by now"
        if reason := explain_unrelated(pipeline):
            return reason
        mr = find_merge_request(self._client, trigger, pipeline, targets)
        if isinstance(mr, str):
            return mr
        reason = (
            _explain_closed(mr)
            or explain_outdated(mr, pipeline)
            or policy.explain_unwanted(self._client, mr, self._policy, trigger.project_id)
        )
        if reason:
            return reason
        target = targets[mr.target_project_id]
        subject = self._make_subject(target, mr, pipeline, trigger.project_id)
        return subject, parse_time(pipeline.finished_at or "") or 0.0

    def find_end_time(self, trigger: PipelineFailed) -> float:
        """Find when the pipeline ended, in epoch seconds; 0.0 if GitLab does not say."""
        pipeline = self._read_pipeline(trigger.project_id, trigger.pipeline_id)
        return 0.0 if isinstance(pipeline, str) else parse_time(pipeline.finished_at or "") or 0.0

    def find_named_subject(
        self, project: str, mr_iid: int, pipeline_id: int | None
    ) -> Subject | str:
        """Like `find_failed_subject`, for a merge request that a human named.

        Without `pipeline_id`, its newest failed pipeline is taken, however old that is. `project`
        is a path, or an id as text. It must match `gitlab.projects` if that is not empty. The bot
        need not be a member of it, because somebody who may ask has asked.
        """
        found = self._read_project(quote(project, safe=""), f"the project {project}")
        if reason := self._explain_unlisted(found):
            return reason
        path = f"/projects/{found.id}/merge_requests/{mr_iid}"
        name = f"{found.path_with_namespace}!{mr_iid}"
        mr = self._client.one(path, wire.MergeRequest, f"merge request {name}")
        pipeline = choose_pipeline(
            list_pipelines(self._client, found.id, mr_iid), pipeline_id, name
        )
        if isinstance(pipeline, str):
            return pipeline
        return self._make_subject(found, mr, pipeline, pipeline.project_id or found.id)

    def find_branch_subject(
        self, project_id: int, branch: str, pipeline_id: int, green_sha: str = ""
    ) -> Subject | str:
        """Find the failed pipeline of a branch, or say why there is nothing to look into.

        `green_sha` is the last commit of the branch that passed before, "" if none is known.
        """
        served = self._read_served(project_id)
        if isinstance(served, str):
            return served
        pipeline = self._read_pipeline(project_id, pipeline_id)
        if isinstance(pipeline, str):
            return pipeline
        if pipeline.status != "failed":
            return f"pipeline {pipeline.id} is {pipeline.status} by now"
        return make_branch_subject(served[project_id], branch, pipeline, green_sha, self._url)

    def confirm_subject(self, subject: Subject) -> Subject | str:
        """Read again what a stored subject says of its merge request and pipeline, or say why the
        pipeline is not the merge request's.

        A pipeline, or the fork that it ran in, may have been deleted since.
        """
        if subject.branch:
            return self._confirm_branch(subject)
        mr = read_merge_request(self._client, subject.project_id, subject.mr_iid)
        project = self._read_project(str(subject.project_id))
        found = replace(
            subject,
            project=project.path_with_namespace,
            web_url=mr.web_url,
            title=self._read_title(mr),
            author=_read_author(mr),
        )
        ran_in = subject.pipeline_project_id
        foreign = f"pipeline {subject.pipeline_id} of project {ran_in} is not one of !{mr.iid}"
        if ran_in not in (mr.source_project_id, mr.target_project_id):
            with suppress(NotFound):
                self._read_project(str(ran_in))
                return foreign
        pipeline = self._read_pipeline(ran_in, subject.pipeline_id)
        if isinstance(pipeline, str):
            return replace(found, pipeline_web_url="")
        if not is_pipeline_of(self._client, mr, pipeline, ran_in):
            return foreign
        return replace(found, sha=pipeline.sha, pipeline_web_url=pipeline.web_url)

    def _confirm_branch(self, subject: Subject) -> Subject | str:
        """Do the same for the pipeline of a branch."""
        project = self._read_project(str(subject.project_id))
        pipeline = self._read_pipeline(subject.project_id, subject.pipeline_id)
        if isinstance(pipeline, str):
            return replace(subject, project=project.path_with_namespace, pipeline_web_url="")
        return make_branch_subject(project, subject.branch, pipeline, subject.green_sha, self._url)

    def read_thread(self, project_id: int, mr_iid: int, discussion_id: str) -> Sequence[ThreadNote]:
        """Return the notes of a thread, oldest first; none if it is gone."""
        path = f"/projects/{project_id}/merge_requests/{mr_iid}/discussions/"
        path, what = path + quote(discussion_id, safe=""), f"discussion {discussion_id}"
        try:
            thread = self._client.one(path, wire.Discussion, what)
        except NotFound:
            return ()
        return [
            ThreadNote(
                note_id=note.id,
                author_id=note.author.id,
                body=note.body,
                system=note.system,
                internal=note.internal,
                written_at=parse_time(note.created_at or "") or 0.0,
                author=note.author.username,
            )
            for note in thread.notes
        ]

    def may_command(self, project_id: int, user_id: int) -> bool:
        """Whether the user is an active member of the project at or above `min_access`."""
        return read_access_level(self._client, project_id, user_id) >= self._min_access

    def may_choose_tier(self, project_id: int, user_id: int) -> bool:
        """Whether the user is an active member of the project at or above `tier_min_access`."""
        level = read_access_level(self._client, project_id, user_id)
        return level >= self._policy.tier_min_access

    def explain_unserved(self, project_id: int) -> str:
        """Say why a project is not served (not listed, or no list and no membership), else ""."""
        found = self._read_served(project_id)
        return found if isinstance(found, str) else ""

    def is_members(self, subject: Subject) -> bool:
        """Whether the author is a member, by `fork_min_access`, and the branch is in no fork.

        What is on a branch of the project itself was let in by members.
        """
        if subject.branch:
            return True
        mr = read_merge_request(self._client, subject.project_id, subject.mr_iid)
        return not mr.is_from_fork and policy.is_members(self._client, mr, self._policy)

    def is_bot(self, user_id: int) -> bool:
        """Whether GitLab says that the account is a bot."""
        return policy.is_bot(self._client, user_id)

    def explain_superseded(self, subject: Subject) -> str:
        """Say why the subject's pipeline is out of date, or "" if it is not. Raises nothing."""
        try:
            mr = read_merge_request(self._client, subject.project_id, subject.mr_iid)
        except SourceError as error:
            log.warning("whether pipeline %d still matters: %s", subject.pipeline_id, error)
            return ""
        if mr.state != "opened":
            return _explain_closed(mr)
        head = mr.head_pipeline
        if head is not None and head.id > subject.pipeline_id:
            if head.sha != subject.sha:
                return f"superseded by pipeline {head.id}"
            has_passed = head.status == "success"
            return f"superseded by pipeline {head.id}, which passed" if has_passed else ""
        if head is not None and not head.is_merge_result and mr.sha and mr.sha != subject.sha:
            return f"superseded by commit {mr.sha[:8]}"
        return ""

    def list_same_commit(self, subject: Subject) -> Sequence[int]:
        """List other pipelines of the merge request on the same commit, newest first; one that has
        failed may have passed since."""
        found = [
            each.id
            for each in list_pipelines(self._client, subject.project_id, subject.mr_iid)
            if each.sha == subject.sha
            and each.source != "parent_pipeline"
            and each.id != subject.pipeline_id
        ]
        return sorted(found, reverse=True)

    def find_failed_pipelines(self, since: float) -> Iterator[PipelineFailed | str]:
        """Find failed newest pipelines of open merge requests updated `since` (epoch seconds).

        It looks at the configured projects, or at all that the token is a member of, and yields
        the reason for each part that cannot be read. Bounded, and slow on purpose. Raises nothing.
        """
        return policy.find_failed_pipelines(self._client, self._globs, since, self._sleep)

    def find_passed_subject(self, trigger: PipelinePassed) -> Subject | str:
        """Find the merge request whose newest pipeline has passed, or why there is none."""
        targets = self._find_targets(trigger)
        if isinstance(targets, str):
            return targets
        pipeline = self._read_pipeline(trigger.project_id, trigger.pipeline_id)
        if isinstance(pipeline, str):
            return pipeline
        if pipeline.status != "success":
            return f"pipeline {pipeline.id} is {pipeline.status} by now"
        mr = find_merge_request(self._client, trigger, pipeline, targets)
        if isinstance(mr, str):
            return mr
        if mr.head_pipeline is None or mr.head_pipeline.id != pipeline.id:
            return f"pipeline {pipeline.id} is not the newest of !{mr.iid}"
        return self._make_subject(targets[mr.target_project_id], mr, pipeline, trigger.project_id)

    def read_changes(self, subject: Subject) -> Changes | str:
        """Read the merge request's diff if the subject is still its head, or say why not."""
        return read_changes(self._client, subject)

    def needs_internal_note(self, subject: Subject) -> bool:
        """Whether more people can read the merge request than may open its job logs."""
        return find_audience(self._client, subject).internal

    def list_changed_paths(self, subject: Subject, new_sha: str) -> tuple[str, ...]:
        """List the files that differ between the subject's commit and another one."""
        path = f"/projects/{subject.pipeline_project_id}/repository/compare"
        query = {"from": subject.sha, "to": new_sha, "straight": "true"}
        found = self._client.one(path, wire.Comparison, "what was changed since", query)
        both = (path for each in found.diffs for path in (each.old_path, each.new_path))
        return tuple(dict.fromkeys(both))

    def list_changes_since(self, subject: Subject) -> Sequence[str]:
        """List what has changed on the merge request since the session last looked, one line each.

        Raises nothing.
        """
        return list_news(self._client, subject)

    def _find_targets(
        self, trigger: PipelineFailed | PipelinePassed
    ) -> Mapping[int, wire.Project] | str:
        """Return the served projects that the merge request may go to, or why there is none."""
        if trigger.mr_iid:
            return self._read_served(trigger.mr_project_id or trigger.project_id)
        return self._read_served(trigger.project_id, or_parent=True)

    def _make_subject(
        self, project: wire.Project, mr: wire.MergeRequest, pipeline: wire.Pipeline, ran_in: int
    ) -> Subject:
        return Subject(
            gitlab_url=self._url,
            project_id=project.id,
            project=project.path_with_namespace,
            mr_iid=mr.iid,
            pipeline_project_id=ran_in,
            pipeline_id=pipeline.id,
            sha=pipeline.sha,
            web_url=mr.web_url,
            pipeline_web_url=pipeline.web_url,
            title=self._read_title(mr),
            author=_read_author(mr),
        )

    def _read_title(self, mr: wire.MergeRequest) -> str:
        return one_line(self._redact(mr.title), _LONGEST_TITLE)


def _read_author(mr: wire.MergeRequest) -> str:
    return one_line(mr.author.username, _LONGEST_TITLE) if mr.author else ""


def _explain_closed(mr: wire.MergeRequest) -> str:
    return "" if mr.state == "opened" else f"merge request !{mr.iid} is {mr.state}"
