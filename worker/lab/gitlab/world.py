"""The simulated GitLab's state and the ways to change it: builders for tests and the demo."""

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from worker.lab.gitlab import state
from worker.lab.gitlab.state import (
    Access,
    Commit,
    DiffFile,
    Discussion,
    Job,
    MergeRequest,
    Note,
    Pipeline,
    Project,
    QuickAction,
    Token,
    User,
)

NOTE_MAX = 1_000_000
"""The most characters in a note's body."""


ROOT = User(1, "root", "Administrator")
"""Who makes the commits of which nobody is said to be the author."""


class NoteInvalid(ValueError):
    """GitLab's validation refuses the note."""


class World:
    """Users, projects, merge requests, pipelines, notes. Ids and times are deterministic."""

    def __init__(self) -> None:
        self.url = "http://gitlab.invalid"
        self.version = (19, 2)
        self.lock = threading.RLock()
        self.start = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
        self.users: dict[int, User] = {}
        self.tokens: dict[str, Token] = {}
        self.projects: dict[int, Project] = {}
        self.pipelines: dict[int, Pipeline] = {}
        self.jobs: dict[int, Job] = {}
        self.quick_actions: list[QuickAction] = []
        self.note_listeners: list[Callable[[Note, str], None]] = []
        self._ids = {
            kind: count(start)
            for kind, start in {
                "user": 101,
                "token": 11,
                "project": 501,
                "mr": 70_001,
                "pipeline": 90_001,
                "job": 500_001,
                "note": 1_000_001,
                "award": 1,
                "discussion": 1,
                "second": 0,
            }.items()
        }

    def make_id(self, kind: str) -> int:
        """Return a fresh id of `kind`."""
        return next(self._ids[kind])

    def advance_clock(self) -> str:
        """Return the simulated time, which advances by a second from `start` with each call."""
        return show_time(self.start + timedelta(seconds=self.make_id("second")))

    def set_clock(self, moment: datetime) -> None:
        """Let the simulated time go on from `moment`, also from an earlier one."""
        self.start, self._ids["second"] = moment, count(0)

    # ------------------------------------------------------------------------ people and projects

    def add_user(self, username: str, name: str = "", *, bot: bool = False) -> User:
        """Add an account."""
        user = User(self.make_id("user"), username, name or username.title(), bot)
        self.users[user.id] = user
        return user

    def add_token(self, name: str, user: User, *scopes: str) -> str:
        """Add a token of `user`; returns its value. `name` identifies it in the request log."""
        number = self.make_id("token")
        value = f"glpat-simulated-{name}-{number:04d}"
        self.tokens[value] = Token(value, name, user, scopes or ("api",), number)
        return value

    def add_project(
        self,
        path: str,
        files: Mapping[str, bytes] | None = None,
        *,
        public: bool = False,
        parent: Project | None = None,
        default_branch: str = "main",
    ) -> Project:
        """Add a project with one commit on its default branch; a fork if it has a `parent`."""
        project = Project(
            self.make_id("project"), path, f"{self.url}/{path}", default_branch, public
        )
        project.parent = parent
        self.projects[project.id] = project
        self.commit(project, default_branch, files or {"README.md": b"# " + path.encode() + b"\n"})
        return project

    def commit(
        self, project: Project, branch: str, files: Mapping[str, bytes], title: str = ""
    ) -> str:
        """Commit `files` to a branch (made from the default branch if new); returns the sha."""
        base = project.refs.get(branch) or project.refs.get(project.default_branch, "")
        tree = {**project.commits.get(base, {}), **files}
        digest = hashlib.sha1(f"{project.path}\n{branch}\n{base}\n".encode())
        for path, content in sorted(tree.items()):
            digest.update(path.encode() + b"\0" + content)
        sha, parents = digest.hexdigest(), (base,) if base else ()
        project.commits[sha], project.refs[branch] = tree, sha
        title = title or f"Work on {branch}"
        project.records[sha] = Commit(sha, title, ROOT, show_time(self.start), parents=parents)
        return sha

    def find_project(self, id_or_path: str) -> Project | None:
        """Find a project by number or by full path."""
        if id_or_path.isdigit():
            return self.projects.get(int(id_or_path))
        wanted = id_or_path.lower()
        matches = (each for each in self.projects.values() if each.path.lower() == wanted)
        return next(matches, None)

    # ---------------------------------------------------------------- merge requests and pipelines

    def open_merge_request(
        self,
        project: Project,
        author: User,
        *,
        title: str,
        branch: str,
        files: Mapping[str, bytes] | None = None,
        diffs: Sequence[DiffFile] = (),
        description: str = "",
        source: Project | None = None,
        target_branch: str = "",
    ) -> MergeRequest:
        """Commit `files` to `branch` (of the fork `source`) and open a merge request for it."""
        origin = source or project
        target = target_branch or project.default_branch
        sha = self.commit(origin, branch, files or {}, title)
        mr = MergeRequest(
            id=self.make_id("mr"),
            iid=len(project.merge_requests) + 1,
            project=project,
            source_project=origin,
            author=author,
            title=title,
            source_branch=branch,
            target_branch=target,
            sha=sha,
            base_sha=project.refs.get(target, ""),
            created_at=self.advance_clock(),
            description=description,
            diffs=list(diffs),
        )
        parents = origin.records[sha].parents
        mr.commits.append(Commit(sha, title, author, self.advance_clock(), parents=parents))
        origin.records[sha] = mr.commits[-1]
        project.merge_requests[mr.iid] = mr
        return mr

    def run_pipeline(
        self,
        mr: MergeRequest,
        *,
        status: str = "failed",
        kind: str = "head",
        project: Project | None = None,
        yaml_errors: str | None = None,
    ) -> Pipeline:
        """Start a pipeline of the merge request's head and list it as the newest.

        `kind`: "head", "merge" or "train" for merge-request pipelines (the last two run on a
        synthetic commit), "branch" for a branch pipeline, "child" for a child pipeline.
        `project` is where it runs: by default the source project, as in GitLab for forks.
        """
        where = project or mr.source_project
        is_mr = kind in {"head", "merge", "train"}
        sha = mr.sha
        if kind in {"merge", "train"}:
            sha = hashlib.sha1(f"{mr.sha} into {mr.base_sha}".encode()).hexdigest()
            title, parents = f"Merge {mr.sha} into {mr.base_sha}", (mr.base_sha, mr.sha)
            made = Commit(sha, title, mr.author, show_time(self.start), parents=parents)
            mr.project.records[sha] = made
        sources = {"branch": "push", "child": "parent_pipeline"}
        pipeline = self.add_pipeline(
            where,
            mr.author,
            ref=f"refs/merge-requests/{mr.iid}/{kind}" if is_mr else mr.source_branch,
            sha=sha,
            source=sources.get(kind, "merge_request_event"),
            status=status,
        )
        pipeline.mr, pipeline.yaml_errors = mr if is_mr else None, yaml_errors
        mr.pipelines.insert(0, pipeline)
        if kind != "child":
            mr.head_pipeline = pipeline
        return pipeline

    def add_pipeline(
        self, project: Project, user: User, *, ref: str, sha: str, source: str, status: str
    ) -> Pipeline:
        """Add a pipeline, without listing it in a merge request."""
        number, iid = self.make_id("pipeline"), len(self.pipelines) + 1
        created_at = self.advance_clock()
        pipeline = Pipeline(number, iid, project, ref, sha, source, status, user, created_at)
        self.pipelines[number] = pipeline
        return pipeline

    def add_job(
        self,
        pipeline: Pipeline,
        name: str,
        *,
        stage: str = "test",
        status: str = "success",
        trace: bytes | None = b"",
        failure_reason: str | None = None,
        allow_failure: bool = False,
    ) -> Job:
        """Add a job to the pipeline; an older job of the same name becomes a retried one."""
        for older in pipeline.jobs:
            older.is_retried = older.is_retried or older.name == name
        if status == "failed" and failure_reason is None:
            failure_reason = "script_failure"
        job = Job(
            id=self.make_id("job"),
            pipeline=pipeline,
            name=name,
            stage=stage,
            status=status,
            created_at=self.advance_clock(),
            failure_reason=failure_reason,
            allow_failure=allow_failure,
            trace=trace,
        )
        pipeline.jobs.append(job)
        self.jobs[job.id] = job
        return job

    def retry_job(
        self,
        job: Job,
        *,
        status: str = "failed",
        trace: bytes | None = None,
        failure_reason: str | None = None,
    ) -> Job:
        """Run a job again; its pipeline ends anew with the new attempt.

        Without a `trace` it writes the same log again if it fails. Raises ValueError where GitLab
        refuses: a job is retried once, and only after it has ended.
        """
        if job.is_retried or job.status not in {"success", "failed", "canceled"}:
            raise ValueError("403 Forbidden - Job is not retryable")
        pipeline = job.pipeline
        pipeline.status = "running"
        log = job.trace if status == "failed" else b"Job succeeded\n"
        again = self.add_job(
            pipeline,
            job.name,
            stage=job.stage,
            status=status,
            trace=log if trace is None else trace,
            failure_reason=failure_reason,
            allow_failure=job.allow_failure,
        )
        self.end_pipeline(pipeline)
        return again

    def end_pipeline(self, pipeline: Pipeline) -> None:
        """Let a pipeline end as its newest jobs have, now: jobs allowed to fail do not count."""
        newest = (job for job in pipeline.jobs if not job.is_retried and not job.allow_failure)
        failed = any(job.status == "failed" for job in newest)
        bridges = any(
            each.status == "failed" for each in pipeline.bridges if not each.allow_failure
        )
        pipeline.status = "failed" if failed or bridges else "success"
        pipeline.finished_at = self.advance_clock()

    # ------------------------------------------------------------------------------------- notes

    def comment(
        self,
        mr: MergeRequest,
        author: User,
        body: str,
        discussion_id: str = "",
        *,
        internal: bool = False,
        system: bool = False,
        thread: bool = False,
        position: Mapping[str, Any] | None = None,
    ) -> Note | None:
        """Add a note by `author`: plain, in a thread, or (`thread`) the first of a new one.

        A new thread may be at a `position` of the diff, which the caller has checked.

        Quick actions are recorded as run and cut out; returns None if nothing else is left, as in
        GitLab. Raises NoteInvalid, or KeyError for an unknown discussion.
        """
        with self.lock:
            place = mr.discussions[discussion_id] if discussion_id else None
            text = self._run_quick_actions(check_body(body), author, 0)
            if not text.strip():
                return None
            if place is None:
                number = self.make_id("discussion")
                name = hashlib.sha1(f"discussion {number}".encode()).hexdigest()
                place = mr.discussions[name] = Discussion(name, individual=not thread)
            place.position = dict(position) if position else place.position
            note = self._append(mr, place, author, text)
            note.internal = place.notes[0].internal or internal
            note.system = system
        self.announce(note, "create")
        return note

    def edit(self, note: Note, body: str, editor: User) -> Note | None:
        """Replace a note's body; delete it and return None if the body has only quick actions."""
        with self.lock:
            text = self._run_quick_actions(check_body(body), editor, note.id)
            changed = text != note.body
            if not text.strip():
                self.delete(note)
                return None
            note.body, note.updated_at = text, self.advance_clock()
        if changed:
            self.announce(note, "update")
        return note

    def delete(self, note: Note) -> None:
        """Remove a note, and its thread if this was the last note."""
        thread = note.merge_request.discussions[note.discussion_id]
        thread.notes.remove(note)
        if not thread.notes:
            del note.merge_request.discussions[thread.id]

    def announce(self, note: Note, action: str) -> None:
        """Notify the listeners, when GitLab would fire its hooks."""
        for listener in self.note_listeners:
            listener(note, action)

    def _append(self, mr: MergeRequest, place: Discussion, author: User, text: str) -> Note:
        if place.notes:
            place.individual = False
        on_diff = place.position is not None
        kind = None if place.individual else "DiffNote" if on_diff else "DiscussionNote"
        now = self.advance_clock()
        note = Note(self.make_id("note"), text, author, mr, place.id, now, now, kind)
        place.notes.append(note)
        for each in place.notes:
            each.type = kind
        return note

    def _run_quick_actions(self, body: str, user: User, note_id: int) -> str:
        text, extracted = state.extract_commands(body)
        self.quick_actions += [QuickAction(*each, user.username, note_id) for each in extracted]
        return text

    def get_access(self, project: Project, user: User) -> int:
        """Return the user's access level, 0 for a non-member."""
        return int(project.members.get(user.id, 0))

    def add_member(self, project: Project, user: User, access: Access) -> None:
        """Make the user a member."""
        project.members[user.id] = access


def show_time(moment: datetime) -> str:
    """Return a time as GitLab writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def check_body(body: str) -> str:
    """Return `body` if it passes GitLab's validation. Raises NoteInvalid."""
    if not body.strip():
        raise NoteInvalid('400 Bad request - Note {:note=>["can\'t be blank"]}')
    if len(body) > NOTE_MAX:
        raise NoteInvalid(
            f'400 Bad request - Note {{:note=>["is too long (maximum is {NOTE_MAX} characters)"]}}'
        )
    return body
