"""A small GitLab client for the doctor, with short time-outs: tokens, users, projects.

See https://docs.gitlab.com/api/personal_access_tokens/ and https://docs.gitlab.com/api/projects/.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from worker.errors import SandpiperError
from worker.gitlab.client import (
    FOREIGN,
    IN_PLACE,
    Connections,
    decode_json,
    explain_failure,
    read_date,
)
from worker.transport.failures import show_address
from worker.verdict.audience import Access

TIMEOUT = (3.0, 6.0)
"""Seconds to connect, and seconds between two reads."""

_CAP = 16 * 1024 * 1024
_PAGES = 10
_PER_PAGE = 100
_MAX_TEXT = 300

Json = Mapping[str, Any]


class Refusal(SandpiperError):
    """A request failed. `status` is the HTTP status, 0 for none; `reason` is GitLab's message."""

    def __init__(self, message: str, status: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Answer:
    """The JSON of an answer, the epoch seconds of its `Date`, and whether there is another page."""

    value: Any
    date: float | None
    more: bool


class Client:
    """A client with one token. `role` names the token in messages: "read", "write" or "setup"."""

    def __init__(self, url: str, token: str, role: str) -> None:
        self._connections = Connections(url, token, TIMEOUT)
        self.role = role
        self.token = token
        self.place = show_address(url)

    def request(
        self,
        verb: str,
        path: str,
        what: str,
        query: Mapping[str, str | int] | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> Answer:
        """Send one request without retries. Raises Refusal; `what` names the object in messages."""
        try:
            response = self._connections.get().http_request(
                verb,
                path,
                query_data=dict(query or {}),
                post_data=dict(fields) if fields is not None else None,
                streamed=True,
                obey_rate_limit=False,
                retry_transient_errors=False,
                max_retries=0,
            )
            with response:
                date, more = read_date(response), response.headers.get("X-Next-Page", "")
                return Answer(decode_json(response, _CAP), date, bool(more.strip()))
        except FOREIGN as error:
            failure = explain_failure(error, what, self.role, self._connections.url)
            status = getattr(error, "response_code", None) or 0
            reason = str(getattr(error, "error_message", ""))[:_MAX_TEXT]
            raise Refusal(failure.text, status, reason) from error

    def list_all(self, path: str, what: str, query: Mapping[str, str | int]) -> Iterator[Json]:
        """Yield the objects of a list, at most 1,000. Raises Refusal."""
        for page in range(1, _PAGES + 1):
            whole_query = {**query, "page": page, "per_page": _PER_PAGE}
            answer = self.request("get", path, what, whole_query)
            yield from list_objects(answer.value)
            if not answer.more:
                return


def list_objects(value: object) -> Iterator[Json]:
    """Yield the objects of a JSON list."""
    return (each for each in (value if isinstance(value, list) else []) if isinstance(each, dict))


@dataclass(frozen=True, slots=True)
class Account:
    """A token and its user. `expires` is an ISO day, "" for never; unknown scopes are None."""

    user_id: int
    username: str
    bot: bool
    scopes: frozenset[str] | None
    expires: str


@dataclass(frozen=True, slots=True)
class Project:
    """A project that the read token's user is a member of.

    `internal` says whether notes in it are internal, because fewer people may see its job logs than
    its merge requests.
    """

    id: int
    path: str
    internal: bool = False


@dataclass(frozen=True, slots=True)
class Connection:
    """GitLab's answer. `version` is "" if unknown; `ahead` is its clock minus ours in seconds."""

    version: str
    ahead: float | None


@dataclass(frozen=True, slots=True)
class Accounts:
    """A client for each of our tokens, and facts that are requested only once.

    `setup` is the client that lists and creates webhooks. All callables raise Refusal.
    """

    read: Client
    write: Client
    setup: Client
    connection: Callable[[], Connection]
    reader: Callable[[], Account]
    writer: Callable[[], Account]
    projects: Callable[[], Sequence[Project]]


def check_connection(client: Client, now: Callable[[], float]) -> Connection:
    """Check that GitLab answers; a refused token is an answer too. Raises Refusal."""
    before = now()
    try:
        answer = client.request("get", "/version", "GitLab's version")
    except Refusal as error:
        if error.status in (401, 403):
            return Connection("", None)
        if error.status == 404 and "web page" not in str(error):
            text = f"GitLab's version: {client.place} has no GitLab API (404){IN_PLACE}"
            raise Refusal(text, 404) from error
        raise
    ahead = None if answer.date is None else answer.date - (before + now()) / 2
    version = answer.value.get("version") if isinstance(answer.value, dict) else None
    if not isinstance(version, str):
        raise Refusal(f"GitLab's version: {client.place} answers as no GitLab does{IN_PLACE}")
    return Connection(version[:40], ahead)


def get_account(client: Client) -> Account:
    """Return the properties of the token and its user. Raises Refusal."""
    user = client.request("get", "/user", f"the {client.role} token's user").value
    if not isinstance(user, dict) or not isinstance(user.get("id"), int):
        raise Refusal(f"the {client.role} token's user: the answer is not GitLab's")
    return Account(
        user_id=user["id"],
        username=str(user.get("username", ""))[:_MAX_TEXT],
        bot=user.get("bot") is True,
        **_get_token(client),
    )


def _get_token(client: Client) -> dict[str, Any]:
    try:
        own = client.request("get", "/personal_access_tokens/self", "the token").value
    except Refusal as error:
        if error.status in (400, 404):  # an OAuth token, which this endpoint does not describe
            return {"scopes": None, "expires": ""}
        raise
    scopes, expires = own.get("scopes"), own.get("expires_at")
    day = expires if isinstance(expires, str) and re.match(r"\d{4}-\d\d-\d\d", expires) else ""
    return {
        "scopes": frozenset(map(str, scopes)) if isinstance(scopes, list) else None,
        "expires": day[:10],
    }


def list_member_projects(client: Client) -> tuple[Project, ...]:
    """Return the projects of the token's user, at most 1,000. Raises Refusal."""
    query = {"membership": "true", "archived": "false", "order_by": "id", "sort": "asc"}
    return tuple(
        Project(each["id"], str(each.get("path_with_namespace", "")), _hides_logs(each))
        for each in client.list_all("/projects", "the projects", query)
        if isinstance(each.get("id"), int)
    )


def _hides_logs(project: Json) -> bool:
    levels = ("builds", "merge_requests", "repository")
    access = Access(
        project["id"] if isinstance(project.get("id"), int) else 0,
        str(project.get("visibility", "")),
        project.get("public_jobs") is not False,
        *(str(project.get(f"{each}_access_level", "")) for each in levels),
    )
    return not access.log_readers.include(access.note_readers)
