"""Puts a case on the simulated GitLab."""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import unified_diff

from worker.lab.cases import Case, JobEntry, PipelineEntry
from worker.lab.gitlab.state import (
    Access,
    Bridge,
    Commit,
    DiffFile,
    MergeRequest,
    Pipeline,
    Project,
    User,
)
from worker.lab.gitlab.world import World
from worker.logs.trace import parse_stamp
from worker.settings import GitLabSettings, Settings

SECRET = "simulated-webhook-secret"
_STAMP = len("2026-11-20T09:00:00")
_BEFORE = 60
"""Seconds before the newest log at which the simulated time begins."""


@dataclass(frozen=True, slots=True)
class Staged:
    """A case on a simulated GitLab. The tokens belong to the bot."""

    mr: MergeRequest
    pipeline: Pipeline
    author: User
    bot: User
    read_token: str
    write_token: str


def stage_case(world: World, case: Case) -> Staged:
    """Put the case into `world`. Raises ConfigError if one of its files cannot be read."""
    return _Stage(world, case).build()


def make_staged_settings(settings: Settings, world: World, staged: Staged, folder: str) -> Settings:
    """Return the operator's settings with the staged case's GitLab (webhook secret: `SECRET`), an
    embedded broker, and a store in `folder`."""
    own = GitLabSettings(
        url=world.url,
        read_token=staged.read_token,
        write_token=staged.write_token,
        webhook_secret=SECRET,
    )
    changes = {"gitlab": own, "broker": "memory://", "store": f"file://{folder}"}
    return settings.model_copy(update=changes)


class _Stage:
    """Builds one case."""

    def __init__(self, world: World, case: Case) -> None:
        self._world, self._case = world, case

    def build(self) -> Staged:
        world, content = self._world, self._case.content
        if at := self._find_time():
            world.start = datetime.fromtimestamp(at - _BEFORE, UTC)
        wanted = content.merge_request
        author = world.add_user(wanted.author, wanted.author_name)
        bot = world.add_user("project_501_bot_9d1e", "Sandpiper", bot=True)
        base = self._case.read_tree("base")
        project = world.add_project(
            content.project.path, base or None, default_branch=content.project.default_branch
        )
        for who in (author, bot):
            world.add_member(project, who, Access.DEVELOPER)
        for entry in content.target_runs:
            self._add_target_run(project, author, entry)
        mr = self._open_merge_request(project, author, base)
        for entry in content.earlier_runs:
            self._run_pipeline(mr, entry)
        pipeline = self._run_pipeline(mr, content.pipeline)
        return Staged(
            *(mr, pipeline, author, bot),
            read_token=world.add_token("read", bot, "read_api"),
            write_token=world.add_token("write", bot, "api"),
        )

    def _find_time(self) -> int:
        """Return the time at which the pipeline's newest log begins, for GitLab's clock to agree
        with it; 0 if no log has times."""
        logs = (self._case.read_log(job) or b"" for job in self._case.content.pipeline.jobs)
        return max((parse_stamp(log[:_STAMP]) for log in logs), default=0)

    def _open_merge_request(
        self, project: Project, author: User, base: dict[str, bytes]
    ) -> MergeRequest:
        wanted, head = self._case.content.merge_request, self._case.read_tree("head")
        diffs = [_make_diff(path, base.get(path), head[path]) for path in sorted(head)]
        diffs += [_make_diff(path, base.get(path), None) for path in wanted.deleted_files]
        mr = self._world.open_merge_request(
            project,
            author,
            title=wanted.title,
            branch=wanted.source_branch,
            files=head,
            diffs=diffs,
            description=wanted.description,
        )
        for path in wanted.deleted_files:
            project.commits[mr.sha].pop(path, None)
        self._add_commits(mr)
        return mr

    def _add_commits(self, mr: MergeRequest) -> None:
        """Set the newest commit's message, and add the earlier commits to the merge request."""
        *earlier, newest = self._case.content.merge_request.commits or ("",)
        if newest:
            mr.commits[-1].title, mr.commits[-1].message = newest.partition("\n")[0], newest
        mr.commits[:0] = [
            Commit(_make_sha(text), text.partition("\n")[0], mr.author, mr.created_at, text)
            for text in earlier
        ]

    def _run_pipeline(self, mr: MergeRequest, entry: PipelineEntry) -> Pipeline:
        pipeline = self._world.run_pipeline(
            mr, status=entry.status, kind=entry.source, yaml_errors=entry.yaml_errors
        )
        if entry.commit:
            pipeline.sha = _add_commit(mr.project, entry.commit, mr.sha)
        self._fill(pipeline, entry)
        return pipeline

    def _add_target_run(self, project: Project, author: User, entry: PipelineEntry) -> None:
        branch = project.default_branch
        pipeline = self._world.add_pipeline(
            project,
            author,
            ref=branch,
            sha=project.refs[branch],
            source="push",
            status=entry.status,
        )
        if entry.commit:
            pipeline.sha = _add_commit(project, entry.commit, pipeline.sha)
        self._fill(pipeline, entry)

    def _fill(self, pipeline: Pipeline, entry: PipelineEntry) -> None:
        for job in entry.jobs:
            self._add_job(pipeline, job)
        for child in entry.children:
            below = self._world.add_pipeline(
                pipeline.project,
                pipeline.user,
                ref=pipeline.ref,
                sha=pipeline.sha,
                source="parent_pipeline",
                status=child.status,
            )
            number = len(pipeline.bridges) + 1
            pipeline.bridges.append(Bridge(number, child.name, child.status, below))
            for job in child.jobs:
                self._add_job(below, job)
        if entry.tests:
            cases = [each.model_dump() | {"execution_time": 0.1} for each in entry.tests]
            pipeline.test_suites = [{"name": "tests", "test_cases": cases}]

    def _add_job(self, pipeline: Pipeline, entry: JobEntry) -> None:
        job = self._world.add_job(
            pipeline,
            entry.name,
            stage=entry.stage,
            status=entry.status,
            trace=self._case.read_log(entry),
            failure_reason=entry.failure_reason,
            allow_failure=entry.allow_failure,
        )
        job.erased = entry.is_erased


def _make_diff(path: str, before: bytes | None, after: bytes | None) -> DiffFile:
    """Return the change of a file from `before` to `after`; None means that there is no file."""
    old, new = ((content or b"").decode().splitlines(keepends=True) for content in (before, after))
    hunks = "".join(list(unified_diff(old, new))[2:])
    return DiffFile(path, hunks, new_file=before is None, deleted_file=after is None)


def _add_commit(project: Project, word: str, like: str) -> str:
    """Add a commit with the files of commit `like`; return its sha, a hash of `word`."""
    sha = _make_sha(word)
    project.commits.setdefault(sha, project.commits.get(like, {}))
    return sha


def _make_sha(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
