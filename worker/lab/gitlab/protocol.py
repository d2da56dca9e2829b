"""Reads and answers requests: routing, strict checks, access, paging. Without an HTTP library."""

import json
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NoReturn
from urllib.parse import parse_qsl, unquote

from worker.lab.gitlab.state import Access, Job, MergeRequest, Pipeline, Project, Token, User
from worker.lab.gitlab.world import World

PREFIX = "/api/v4/"
GRAPH = "graphql"
"""The path of the one endpoint that is not REST's: `/api/graphql`."""

PAGING = frozenset({"page", "per_page"})


@dataclass(frozen=True, slots=True)
class Answer:
    """A response: JSON in `payload`, or `raw` bytes."""

    status: int
    payload: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None

    def body(self) -> bytes:
        """Return the bytes on the wire."""
        return self.raw if self.raw is not None else json.dumps(self.payload).encode()


class Refused(Exception):
    """A request that GitLab refuses. If it is `strange`, no client of ours should have made it."""

    def __init__(self, status: int, payload: Mapping[str, Any], *, strange: bool = False) -> None:
        super().__init__(f"{status} {payload}")
        self.answer = Answer(status, payload)
        self.strange = strange


def refuse_strange(status: int, error: str) -> NoReturn:
    """Refuse a client's mistake, also one that GitLab lets pass."""
    raise Refused(status, {"error": error}, strange=True)


def refuse_not_found(what: str) -> NoReturn:
    """Refuse with a 404, as GitLab does for what is missing and for what the user may not see."""
    raise Refused(404, {"message": f"404 {what} Not Found".replace("  ", " ")})


@dataclass(frozen=True, slots=True)
class Wire:
    """A request as received. `path` and `query` are still encoded."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Route:
    """One endpoint: the parameters it accepts and its handler.

    `:name` segments of `pattern` are parameters; a final `*name` takes the rest of the path. With
    `any_scope` a token of any scope will do.
    """

    method: str
    pattern: str
    handler: "Handler"
    query: Set[str] = frozenset()
    fields: Set[str] = frozenset()
    any_scope: bool = False

    def match(self, method: str, segments: Sequence[str]) -> dict[str, str] | None:
        """Return the path's parameters if the route matches, else None."""
        parts = self.pattern.split("/")
        if parts[-1].startswith("*") and len(segments) >= len(parts):
            head = len(parts) - 1
            segments = [*segments[:head], "/".join(segments[head:])]
            parts[-1] = ":" + parts[-1][1:]
        if method != self.method or len(parts) != len(segments):
            return None
        pairs = list(zip(parts, segments, strict=True))
        if any(part != segment for part, segment in pairs if not part.startswith(":")):
            return None
        return {part[1:]: segment for part, segment in pairs if part.startswith(":")}


@dataclass(frozen=True, slots=True)
class Call:
    """A checked request: known route, valid token, known parameters."""

    world: World
    token: Token
    params: Mapping[str, str]
    query: Mapping[str, Sequence[str]]
    fields: Mapping[str, Any]

    @property
    def user(self) -> User:
        """The user that makes the request."""
        return self.token.user

    def get_value(self, name: str, default: str = "") -> str:
        """Return a query parameter's last value."""
        return self.query.get(name, [default])[-1]

    def get_number(self, name: str) -> int:
        """Return a parameter of the path that must be a number."""
        if not self.params[name].isdigit():
            refuse_strange(400, f"{name} is invalid")
        return int(self.params[name])

    def find_project(self, need: Access = Access.GUEST) -> Project:
        """Return the path's project; 404 without access to it, 403 with less access than `need`."""
        project = self.world.find_project(self.params["id"])
        if project is None:
            refuse_not_found("Project")
        level = self.world.get_access(project, self.user)
        if project.public:
            level = max(level, int(Access.REPORTER))
        if level == 0:
            refuse_not_found("Project")
        if level < need:
            raise Refused(403, {"message": "403 Forbidden"})
        return project

    def find_merge_request(self) -> MergeRequest:
        """Return the merge request of the path."""
        mr = self.find_project(Access.REPORTER).merge_requests.get(self.get_number("iid"))
        return mr or refuse_not_found("")

    def find_pipeline(self) -> Pipeline:
        """Return the pipeline of the path."""
        project = self.find_project(Access.REPORTER)
        pipeline = self.world.pipelines.get(self.get_number("pipeline"))
        if pipeline is None or pipeline.project is not project:
            refuse_not_found("")
        return pipeline

    def find_job(self) -> Job:
        """Return the job of the path."""
        project = self.find_project(Access.REPORTER)
        job = self.world.jobs.get(self.get_number("job"))
        if job is None or job.pipeline.project is not project:
            refuse_not_found("")
        return job


Handler = Callable[[Call], Answer]


class Routes(list[Route]):
    """Endpoints, each added above the function that serves it."""

    def add(
        self,
        method: str,
        pattern: str,
        query: Set[str] = frozenset(),
        fields: Set[str] = frozenset(),
    ) -> Callable[[Handler], Handler]:
        """Return a decorator that adds its function as the handler of a Route."""

        def register(handler: Handler) -> Handler:
            self.append(Route(method, pattern, handler, query, fields))
            return handler

        return register


def check_request(world: World, routes: Sequence[Route], wire: Wire) -> tuple[Route, Call]:
    """Find the route; check the token, its scope, and the parameters' names. Raises Refused."""
    route, params = _find_route(routes, wire)
    token = world.tokens.get(get_token_value(wire))
    if token is None or not token.active:
        raise Refused(401, {"message": "401 Unauthorized"})
    _check_scope(route, token)
    return route, Call(world, token, params, _parse_query(route, wire), _parse_fields(route, wire))


def _find_route(routes: Sequence[Route], wire: Wire) -> tuple[Route, dict[str, str]]:
    path = f"{PREFIX}{GRAPH}" if wire.path == "/api/graphql" else wire.path
    if path.startswith(PREFIX):
        segments = [unquote(part) for part in path.removeprefix(PREFIX).split("/")]
        for route in routes:
            params = route.match(wire.method, segments)
            if params is not None:
                return route, params
    refuse_strange(404, "404 Not Found")


def get_token_value(wire: Wire) -> str:
    """Return the token that the request carries, "" for none."""
    bearer = wire.headers.get("authorization", "").removeprefix("Bearer ")
    return wire.headers.get("private-token", "") or bearer


def _check_scope(route: Route, token: Token) -> None:
    enough = {"api"} if route.method != "GET" else {"api", "read_api"}
    if route.pattern == "user":
        enough |= {"read_user"}
    if route.any_scope or enough & set(token.scopes):
        return
    raise Refused(
        403,
        {
            "error": "insufficient_scope",
            "error_description": (
                "The request requires higher privileges than provided by the access token."
            ),
            "scope": " ".join(sorted(enough)),
        },
    )


def _parse_query(route: Route, wire: Wire) -> dict[str, list[str]]:
    query: dict[str, list[str]] = {}
    for name, value in parse_qsl(wire.query, keep_blank_values=True):
        if name not in route.query:
            refuse_strange(400, f"simulator: {route.pattern} has no query parameter {name!r}")
        query.setdefault(name, []).append(value)
    return query


def _parse_fields(route: Route, wire: Wire) -> dict[str, Any]:
    if not wire.body or wire.method == "GET":
        return {}
    if not wire.headers.get("content-type", "").startswith("application/json"):
        refuse_strange(400, "simulator: the body's Content-Type is not application/json")
    try:
        fields = json.loads(wire.body)
    except ValueError:
        refuse_strange(400, "There was a problem in the JSON you submitted")
    if not isinstance(fields, dict) or set(fields) - route.fields:
        refuse_strange(
            400, f"simulator: {route.pattern} takes {sorted(route.fields)}, not {fields!r}"
        )
    return fields


def make_page(call: Call, items: Sequence[Mapping[str, Any]]) -> Answer:
    """Make a page with GitLab's header of the next one; `per_page` is 20 by default."""
    page, size = _get_positive(call, "page", 1), _get_positive(call, "per_page", 20)
    if size > 100:  # GitLab would give 100
        refuse_strange(400, "per_page does not have a valid value")
    end = page * size
    headers = {"x-next-page": str(page + 1) if end < len(items) else ""}
    return Answer(200, list(items[end - size : end]), headers)


def get_moment(call: Call, name: str) -> datetime | None:
    """Return a query parameter that must be a time, None without it."""
    if not (value := call.get_value(name)):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        refuse_strange(400, f"{name} is invalid")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _get_positive(call: Call, name: str, default: int) -> int:
    value = call.get_value(name, str(default))
    if not value.isdigit() or int(value) < 1:
        refuse_strange(400, f"{name} does not have a valid value")
    return int(value)
