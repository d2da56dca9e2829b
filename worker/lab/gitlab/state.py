"""The records of the simulated GitLab, which `World` holds, and the quick actions in notes' texts.

See https://docs.gitlab.com/user/project/quick_actions/.
"""

import re
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from typing import Any

from markdown_it import MarkdownIt


class Access(IntEnum):
    """The access levels of members, with GitLab's numbers."""

    GUEST = 10
    REPORTER = 20
    DEVELOPER = 30
    MAINTAINER = 40
    OWNER = 50


@dataclass(slots=True)
class User:
    """An account; `bot` for project access tokens and service accounts."""

    id: int
    username: str
    name: str
    bot: bool = False
    state: str = "active"


@dataclass(slots=True)
class Token:
    """An access token. `name` identifies it in `GitLabSim.requests`: "read", "write", …"""

    value: str
    name: str
    user: User
    scopes: tuple[str, ...]
    id: int = 0
    active: bool = True
    expires_at: str | None = "2027-09-30"


_SHORT = re.compile(r"[0-9a-f]{7,39}")


@dataclass(slots=True)
class Project:
    """A project; `commits` maps a sha to its whole tree, `refs` a branch to its sha.

    `records` maps a sha to what else is known of the commit. `history` holds commits of its default
    branch, oldest first, each on top of the one before. `runners` are its runners' names with their
    tags; one whose name ends in "?" is offline. `protected_branches` says who may push to each of
    them and run its jobs again.
    """

    id: int
    path: str
    web_url: str
    default_branch: str = "main"
    public: bool = False
    members: dict[int, Access] = field(default_factory=dict)
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    parent: "Project | None" = None
    merge_requests: dict[int, "MergeRequest"] = field(default_factory=dict)
    statuses: dict[str, list["CommitStatus"]] = field(default_factory=dict)
    ci_errors: list[str] = field(default_factory=list)
    history: list["Commit"] = field(default_factory=list)
    runners: dict[str, tuple[str, ...]] = field(default_factory=dict)
    public_jobs: bool = True
    builds_access: str = "enabled"
    issues_access: str = "enabled"
    records: dict[str, "Commit"] = field(default_factory=dict)
    protected_branches: dict[str, Access] = field(default_factory=dict)
    archived: bool = False

    def find_commit(self, name: str) -> str:
        """Return the id of the commit that `name` (a branch, HEAD for the default one, an id or the
        beginning of an id) stands for; `name` itself if there is none."""
        name = self.default_branch if name == "HEAD" else name.removeprefix("refs/heads/")
        if name in self.refs or not _SHORT.fullmatch(name):
            return self.refs.get(name, name)
        alike = [each for each in self.commits if each.startswith(name)]
        return alike[0] if len(alike) == 1 else name


@dataclass(slots=True)
class CommitStatus:
    """A status that an external system reported on a commit."""

    name: str
    state: str
    created_at: str
    description: str | None = None
    target_url: str | None = None
    allow_failure: bool = False


@dataclass(slots=True)
class DiffFile:
    """One file of a merge request's diff; `diff` holds hunks only, as GitLab gives them."""

    new_path: str
    diff: str
    old_path: str = ""
    new_file: bool = False
    deleted_file: bool = False
    renamed_file: bool = False
    too_large: bool = False
    collapsed: bool = False
    generated_file: bool = False


@dataclass(slots=True)
class Commit:
    """A commit. Without `parents` it stands on the one before it in its list."""

    sha: str
    title: str
    author: User
    created_at: str
    message: str = ""
    parents: tuple[str, ...] = ()


@dataclass(slots=True)
class MergeRequest:
    """A merge request, kept by its target project."""

    id: int
    iid: int
    project: Project
    source_project: Project
    author: User
    title: str
    source_branch: str
    target_branch: str
    sha: str
    base_sha: str
    created_at: str
    updated_at: str = ""
    description: str = ""
    state: str = "opened"
    draft: bool = False
    discussion_locked: bool = False
    labels: list[str] = field(default_factory=list)
    diffs: list[DiffFile] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    discussions: dict[str, "Discussion"] = field(default_factory=dict)
    pipelines: list["Pipeline"] = field(default_factory=list)
    head_pipeline: "Pipeline | None" = None
    squash: bool = False
    merge_commit_sha: str | None = None
    squash_commit_sha: str | None = None
    merged_commit_sha: str | None = None
    """What the branch was moved forward to, without a merge commit. GitLab does not show it."""
    merged_at: str | None = None
    closed_at: str | None = None

    @property
    def web_url(self) -> str:
        """Its page."""
        return f"{self.project.web_url}/-/merge_requests/{self.iid}"

    def list_notes(self) -> list["Note"]:
        """All notes of all threads, oldest first."""
        notes = (note for thread in self.discussions.values() for note in thread.notes)
        return sorted(notes, key=lambda note: note.id)


@dataclass(slots=True)
class Pipeline:
    """A pipeline. `ref` is as the REST API shows it: `refs/merge-requests/IID/head` for an MR's.

    `mr` is set for merge-request pipelines only, as in the webhook's payload. `finished_at` is when
    it last ended, "" for when it was created; None is shown of one that has not ended. `updated_at`
    is when it was last changed, "" for when it ended. `test_suites` are reports without jobs;
    `shown_report` is the one that was last asked for, and when.
    """

    id: int
    iid: int
    project: Project
    ref: str
    sha: str
    source: str
    status: str
    user: User
    created_at: str
    mr: MergeRequest | None = None
    jobs: list["Job"] = field(default_factory=list)
    yaml_errors: str | None = None
    bridges: list["Bridge"] = field(default_factory=list)
    test_suites: list[dict[str, Any]] = field(default_factory=list)
    finished_at: str = ""
    updated_at: str = ""
    shown_report: tuple[datetime, dict[str, Any]] | None = None

    @property
    def web_url(self) -> str:
        """Its page."""
        return f"{self.project.web_url}/-/pipelines/{self.id}"

    @property
    def has_ended(self) -> bool:
        """Whether it has passed, failed, or been cancelled or skipped."""
        return self.status in ENDED

    @property
    def touched_at(self) -> str:
        """When it was last changed."""
        return self.updated_at or self.finished_at or self.created_at


ENDED = frozenset({"success", "failed", "canceled", "skipped"})
"""The statuses of pipelines and jobs that have ended."""


@dataclass(slots=True)
class Bridge:
    """A trigger job; `downstream` is the pipeline that it started, if any."""

    id: int
    name: str
    status: str
    downstream: Pipeline | None = None
    allow_failure: bool = False
    manual: bool = False


@dataclass(slots=True)
class Job:
    """A job. `trace` is None if there is no log (yet); `erased` is set if the log was removed.

    `started_at` is "" for a job that started when it was created, None for one that never started,
    which no runner has taken. `archive` is the zip of its artifacts, None if there are none (any
    more). `tags` select its runners. `finished_at` is "" for a job that ended when it started.
    `manual` and `environment` are told by webhooks and the CI configuration alone. `started_by` is
    who has run it again, None for a job that its pipeline's user has started. `tests` are those of
    its JUnit report as GitLab shows them, None without a report; `report_error` is why GitLab could
    not parse it. `is_report_kept` is False for one that has expired, `is_summarised` for one that
    GitLab has not counted yet.
    """

    id: int
    pipeline: Pipeline
    name: str
    stage: str
    status: str
    created_at: str
    failure_reason: str | None = None
    allow_failure: bool = False
    is_retried: bool = False
    trace: bytes | None = None
    erased: bool = False
    duration: float | None = 42.5
    archive: bytes | None = None
    artifacts_expire_at: str | None = None
    started_at: str | None = ""
    tags: tuple[str, ...] = ()
    finished_at: str = ""
    manual: bool = False
    environment: str = ""
    started_by: User | None = None
    tests: list[dict[str, Any]] | None = None
    report_error: str | None = None
    is_report_kept: bool = True
    is_summarised: bool = True

    @property
    def web_url(self) -> str:
        """Its page."""
        return f"{self.pipeline.project.web_url}/-/jobs/{self.id}"

    @property
    def suite(self) -> str:
        """The name of its test suite: that of all shards, but of one variant of a matrix."""
        return self.name if _MATRIX.search(self.name) else _SHARD.sub("", self.name).strip()


_MATRIX = re.compile(r": \[.*\]\s*$")
_SHARD = re.compile(r"([\s:]+\d+[\s:/\\]+\d+){1,3}\s*$")


@dataclass(slots=True)
class Note:
    """A comment. `awards` maps an award's id to (user id, emoji)."""

    id: int
    body: str
    author: User
    merge_request: MergeRequest
    discussion_id: str
    created_at: str
    updated_at: str
    type: str | None = None
    system: bool = False
    internal: bool = False
    awards: dict[int, tuple[int, str]] = field(default_factory=dict)

    @property
    def web_url(self) -> str:
        """The anchor on the merge request's page."""
        return f"{self.merge_request.web_url}#note_{self.id}"


@dataclass(slots=True)
class Discussion:
    """A thread; a plain note is a thread with `individual` set, until somebody replies.

    `position` is set for a thread on a line of the diff.
    """

    id: str
    individual: bool
    notes: list[Note] = field(default_factory=list)
    position: dict[str, Any] | None = None
    resolved: bool = False


@dataclass(frozen=True, slots=True)
class QuickAction:
    """A command that GitLab would have run with the author's rights."""

    command: str
    arguments: str
    username: str
    note_id: int


_NAMES = """
add_contacts approve assign assign_reviewer award board_move cc child_task clear_health_status
clear_weight clone close confidential convert_to_ticket copy_metadata create_merge_request done
draft due duplicate epic estimate estimate_time invite_email iteration label labels link lock
mark mention merge milestone move page parent promote promote_to promote_to_incident publish
ready reassign reassign_reviewer rebase relabel relate remove_assignee remove_child
remove_contacts remove_due_date remove_email remove_epic remove_estimate remove_iteration
remove_label remove_milestone remove_parent remove_reviewer remove_time_spent
remove_zoom reopen request_changes request_review run_pipeline shrug severity ship spend
spend_time spent submit_review subscribe switch_type tableflip tag target_branch timeline title
todo type unapprove unassign unassign_reviewer unlabel unlink unlock unsubscribe weight wip
zoom
"""
KNOWN = frozenset(_NAMES.split())
_LINE = re.compile(r"^[ \t]{0,3}/([a-z_]+)(?:[ \t]+(.*))?$", re.IGNORECASE)
_BREAKS = re.compile("\r\n?|[\u0085\u2028\u2029]")


def extract_commands(body: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the body without its commands, and the commands with their arguments.

    As in GitLab, only paragraphs at the top level of the Markdown count. To be safe, this finds
    more than GitLab: up to three blanks may precede the slash, and every character that some
    version treats as a line break is one.
    """
    lines = _BREAKS.sub("\n", body).split("\n")
    live = _find_paragraph_lines("\n".join(lines))
    kept: list[str] = []
    commands: list[tuple[str, str]] = []
    for number, line in enumerate(lines):
        match = _LINE.match(line) if number in live else None
        if match and match[1].lower() in KNOWN:
            commands.append((match[1].lower(), (match[2] or "").strip()))
        else:
            kept.append(line)
    return ("\n".join(kept), commands) if commands else (body, commands)


def _find_paragraph_lines(text: str) -> set[int]:
    tokens = MarkdownIt("commonmark").parse(text)
    tops = [token.map for token in tokens if token.type == "paragraph_open" and token.level == 0]
    return {line for span in tops if span for line in range(*span)}
