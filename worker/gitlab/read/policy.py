"""Decides by the operator's settings which projects are served, and which merge requests are left
alone; finds the failed pipelines of the others, in case their webhooks were lost.

Members of a project are asked of GitLab, inherited and invited ones included.
"""

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from urllib.parse import quote

from worker.conversation.triggers import PipelineFailed
from worker.errors import SourceError
from worker.gitlab.read import wire
from worker.gitlab.read.api import NotFound, ReadClient
from worker.verdict.facts import parse_time

MEMBER_SECONDS, REFUSAL_SECONDS = 300.0, 30.0
"""Seconds for which a membership of the bot is cached, and for which its absence is."""

MOST = 2_000
"""Projects whose answers are kept."""

_DIFF_PAGES = 10


@dataclass(frozen=True, slots=True)
class Policy:
    """Which merge requests are not looked at unless a human asks.

    Labels are compared without regard to case. `skip_paths` are globs of file paths (`*` also
    matches slashes): a merge request that changes only such files is left alone. `fork_min_access`
    is the lowest access level in the target project at which an author counts as a member,
    `tier_min_access` the lowest at which somebody may choose a tier that costs more.
    """

    skip_labels: tuple[str, ...] = ()
    skip_drafts: bool = False
    skip_paths: tuple[str, ...] = ()
    bot_merge_requests: bool = False
    fork_min_access: int = 30
    tier_min_access: int = 40


DEFAULT = Policy()

_MOST_ACCOUNTS = 10_000


def explain_unwanted(client: ReadClient, mr: wire.MergeRequest, policy: Policy, ran_in: int) -> str:
    """Return the reason to leave a merge request alone, or "". Raises SourceError.

    `ran_in` is the project its pipeline ran in: for a fork, only a member can start a pipeline in
    the target project.
    """
    name = f"merge request !{mr.iid}"
    in_fork = mr.is_from_fork and ran_in != mr.target_project_id
    if in_fork and not is_members(client, mr, policy):
        return (
            f"{name} comes from a fork of somebody below gitlab.fork_min_access; a member may ask "
            "for a look: /sandpiper analyze"
        )
    if policy.skip_drafts and mr.draft:
        return f"{name} is a draft (gitlab.skip_drafts)"
    unwelcome = {label.casefold() for label in policy.skip_labels}
    if label := next((each for each in mr.labels if each.casefold() in unwelcome), None):
        return f"{name} has the label {label} (gitlab.skip_labels)"
    if not policy.bot_merge_requests and mr.author and is_bot(client, mr.author.id):
        return f"{name} is by a bot (gitlab.bot_merge_requests)"
    if policy.skip_paths:
        path = f"/projects/{mr.target_project_id}/merge_requests/{mr.iid}/diffs"
        listed = client.many(path, wire.DiffFile, f"the diff of !{mr.iid}", pages=_DIFF_PAGES)
        paths = {path for each in listed.items for path in (each.old_path, each.new_path)}
        covered = all(any(fnmatchcase(path, glob) for glob in policy.skip_paths) for path in paths)
        if paths and covered and not listed.more:
            return f"{name} changes only files that are left alone (gitlab.skip_paths)"
    return ""


def is_members(client: ReadClient, mr: wire.MergeRequest, policy: Policy) -> bool:
    """Whether its author is a member of the target project. Raises SourceError."""
    author = mr.author.id if mr.author else 0
    level = read_access_level(client, mr.target_project_id, author) if author else 0
    return level >= policy.fork_min_access


def is_bot(client: ReadClient, user_id: int) -> bool:
    """Whether GitLab says that the account is a bot, whatever its name. Raises SourceError.

    That never changes, so GitLab is asked once for each account.
    """
    if user_id not in client.bots:
        try:
            account = client.one(f"/users/{user_id}", wire.Account, f"user {user_id}")
        except NotFound:
            return False
        if len(client.bots) >= _MOST_ACCOUNTS:
            client.bots.clear()
        client.bots[user_id] = account.bot
    return client.bots.get(user_id, False)


class _Member(wire.Answer):
    access_level: int
    state: str = "active"


def read_access_level(client: ReadClient, project_id: int, user_id: int) -> int:
    """Return the access level of an active member, 0 for anybody else. Raises SourceError."""
    path = f"/projects/{project_id}/members/all/{user_id}"
    try:
        member = client.one(path, _Member, f"member {user_id} of project {project_id}")
    except NotFound:
        return 0
    return member.access_level if member.state == "active" else 0


class Memberships:
    """The projects in which the read token's user is a member. Safe to share between threads."""

    def __init__(self, client: ReadClient, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._answers: OrderedDict[int, tuple[float, str]] = OrderedDict()
        self._me = 0

    def explain_refusal(self, project_id: int) -> str:
        """Return why the bot does not count as a member of a project, or "". Raises SourceError.

        If GitLab refuses to say, the bot is no member: the operator must not pay for a refusal.
        """
        now = self._monotonic()
        with self._lock:
            until, answer = self._answers.get(project_id, (0.0, ""))
        if now < until:
            return answer
        self._me = self._me or self._client.one("/user", wire.User, "the read token's user").id
        try:
            level = read_access_level(self._client, project_id, self._me)
            answer = "" if level else "the bot is no member there, and gitlab.projects is empty"
        except SourceError as error:
            if error.transient:
                raise
            answer = f"whether the bot is a member cannot be told: {error}"
        with self._lock:
            self._answers.pop(project_id, None)
            seconds = REFUSAL_SECONDS if answer else MEMBER_SECONDS
            self._answers[project_id] = (now + seconds, answer)
            if len(self._answers) > MOST:
                self._answers.popitem(last=False)
        return answer


PAUSE = 0.1
"""Seconds between two merge requests: a sweep is not urgent, and GitLab has a rate limit."""

_PROJECT_PAGES = 10
_MR_PAGES = 3
_MOST_UNREAD = 3
"""Unreadable merge requests of a project that are skipped before the project is given up."""

_WILD = re.compile(r"[*?\[]")


def find_failed_pipelines(
    client: ReadClient, globs: Sequence[str], since: float, sleep: Callable[[float], None]
) -> Iterator[PipelineFailed | str]:
    """Find failed pipelines of open merge requests, in case their webhooks were lost: see
    `GitLabReader.find_failed_pipelines`.

    `globs` are in lower case; without any, all projects of which the bot is a member are searched.
    """
    for project in list_projects(client, globs):
        if isinstance(project, str):
            yield project
            continue
        try:
            yield from _find_in_project(client, project, since, sleep)
        except SourceError as error:
            yield str(error)


def list_projects(client: ReadClient, globs: Sequence[str]) -> Iterator[wire.Project | str]:
    """Yield the projects that are served, and the reason for each part that cannot be read."""
    for path in globs:
        if not _WILD.search(path):
            try:
                where = f"/projects/{quote(path, safe='')}"
                project = client.one(where, wire.Project, f"the project {path}")
            except SourceError as error:
                yield str(error)
                continue
            present = project.path_with_namespace
            renamed = f"the project {path} is {present} now: correct gitlab.projects"
            yield project if present.lower() == path.lower() else renamed
    if not globs or any(_WILD.search(glob) for glob in globs):
        try:
            yield from _list_member_projects(client, globs)
        except SourceError as error:
            yield str(error)


def _list_member_projects(client: ReadClient, globs: Sequence[str]) -> Iterator[wire.Project | str]:
    """Yield the projects where the bot is a member and that a wildcard names; all without globs."""
    query = {"membership": "true", "archived": "false", "order_by": "id", "sort": "asc"}
    listed = client.many("/projects", wire.Project, "the projects", query, _PROJECT_PAGES)
    wild = [glob for glob in globs if _WILD.search(glob)]
    plain = set(globs) - set(wild)
    for project in listed.items:
        path = project.path_with_namespace.lower()
        named = not globs or any(fnmatchcase(path, glob) for glob in wild)
        if named and path not in plain:
            yield project
    if listed.more:
        yield f"only the first {len(listed.items)} projects were looked at: name fewer"


def _find_in_project(
    client: ReadClient, project: wire.Project, since: float, sleep: Callable[[float], None]
) -> Iterator[PipelineFailed | str]:
    path = f"/projects/{project.id}/merge_requests"
    query = {
        "state": "opened",
        "updated_after": datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "order_by": "updated_at",
        "sort": "desc",
    }
    what = f"the merge requests of {project.path_with_namespace}"
    listed = client.many(path, wire.MergeRequest, what, query, _MR_PAGES)
    unread = 0
    for each in listed.items:
        sleep(PAUSE)
        try:
            one = f"{path}/{each.iid}"
            mr = client.one(one, wire.MergeRequest, f"merge request !{each.iid}")
        except SourceError as error:
            unread += 1
            if unread > _MOST_UNREAD:
                raise
            yield str(error)
            continue
        head = mr.head_pipeline
        if head is not None and head.status == "failed":
            yield PipelineFailed(
                project_id=head.project_id or mr.source_project_id or project.id,
                pipeline_id=head.id,
                sha=head.sha,
                ref=mr.source_branch,
                mr_iid=mr.iid,
                mr_project_id=project.id,
                finished_at=int(parse_time(head.finished_at or "") or 0),
            )
    if listed.more:
        yield f"{what}: only the newest {len(listed.items)} were looked at"
