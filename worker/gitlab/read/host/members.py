"""Project members according to GitLab, inherited and invited ones included."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from worker.errors import SourceError
from worker.gitlab.read.api import wire
from worker.gitlab.read.api.client import NotFound, ReadClient

MEMBER_SECONDS, REFUSAL_SECONDS = 300.0, 30.0
"""Seconds for which a membership of the bot is cached, and for which its absence is."""

MOST = 2_000
"""Projects whose answers are kept."""


def read_access_level(client: ReadClient, project_id: int, user_id: int) -> int:
    """Return the access level of an active member, 0 for anybody else. Raises SourceError."""
    path = f"/projects/{project_id}/members/all/{user_id}"
    try:
        member = client.one(path, wire.Member, f"member {user_id} of project {project_id}")
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
        answer = self._ask_gitlab(project_id)
        with self._lock:
            self._answers.pop(project_id, None)
            seconds = REFUSAL_SECONDS if answer else MEMBER_SECONDS
            self._answers[project_id] = (now + seconds, answer)
            if len(self._answers) > MOST:
                self._answers.popitem(last=False)
        return answer

    def _ask_gitlab(self, project_id: int) -> str:
        self._me = self._me or self._client.one("/user", wire.User, "the read token's user").id
        try:
            level = read_access_level(self._client, project_id, self._me)
        except SourceError as error:
            if error.transient:
                raise
            return f"whether the bot is a member cannot be told: {error}"
        return "" if level else "the bot is no member there, and gitlab.projects is empty"
