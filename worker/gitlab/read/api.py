"""Reads from GitLab: typed, with size caps and time-outs; every error becomes a SourceError."""

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import requests
from gitlab.exceptions import GitlabParsingError
from pydantic import BaseModel, ValidationError

from worker.errors import SourceError
from worker.gitlab.client import (
    FOREIGN,
    RETRIES,
    TIMEOUT,
    Connections,
    TooMuch,
    decode_json,
    explain_failure,
    read_chunks,
    read_date,
)
from worker.gitlab.read import wire
from worker.gitlab.read.blobs import Blob, keep_ends
from worker.gitlab.read.downloads import Downloads
from worker.gitlab.read.remembered import MOST_REMEMBERED, Answered, get_remembered

MAX_JSON = 32 * 1024 * 1024
"""Bytes of one JSON answer."""

PER_PAGE = 100

_MOST_PAGES = 3

_PROJECT = re.compile(r"/projects/(?!\d+(?:/|$))[^/]+")
"""The start of an API path that names a project by its path."""

A = TypeVar("A")

P = TypeVar("P")

T = TypeVar("T", bound=BaseModel)

Query = Mapping[str, str | int | Sequence[int]]


class NotFound(SourceError):
    """The answer was 404: the object does not exist, or the token may not see it."""


class NoSuchFile(NotFound):
    """The commit is there and the token may read it, but it has no file of this name."""


class NoSuchRef(NotFound):
    """The project is there and the token may read it, but it has no commit of this name."""


_MESSAGES: Mapping[str, type[NotFound]] = {
    "404 File Not Found": NoSuchFile,
    "404 Commit Not Found": NoSuchRef,
    "404 Ref Not Found": NoSuchRef,
    "404 Tree Not Found": NoSuchRef,
}
"""What GitLab says of what is missing (lib/api/files.rb, lib/api/repositories.rb)."""


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """The items of a paged list; `more` if there are further pages."""

    items: tuple[T, ...]
    more: bool = False


class ReadClient:
    """GitLab's API through the read token. It changes nothing: only GET requests, and GraphQL's
    queries; safe to share between threads.

    With the token it follows only the redirect of a renamed project to its id. In error
    messages, `what` names the thing asked for. Downloads may come from `download_hosts`, besides
    GitLab's own host and public ones.
    """

    def __init__(
        self,
        url: str,
        token: str,
        timeout: tuple[float, float] = TIMEOUT,
        retries: int = RETRIES,
        deadline: float | None = None,
        download_hosts: Collection[str] = (),
    ) -> None:
        self.connections = Connections(url, token, timeout)
        self._url = url
        projects = re.escape(f"{url.rstrip('/')}/api/v4/projects/")
        self._renamed = re.compile(projects + r"(\d{1,18})(?=[/?]|$)", re.IGNORECASE)
        own = urlsplit(url)
        hosts = {own.hostname or "", *download_hosts}
        self._downloads = Downloads({"https", own.scheme}, hosts, timeout)
        self.bots: dict[int, bool] = {}
        """Whether accounts are bots, by their ids; copies of this client share it."""
        self._retries = retries
        self._deadline = deadline
        self._dates = list[tuple[float, float]]()
        # What GitLab's versions (19.2 and later, earlier) call the list of trigger jobs, that of
        # this GitLab first once it is known. Copies of this client share it.
        self._trigger_job_names = ["trigger_jobs", "bridges"]

    def with_deadline(self, deadline: float) -> "ReadClient":
        """Return a copy that requests and streams nothing after `deadline` (monotonic)."""
        other = copy(self)
        other._deadline = deadline
        return other

    def get_time(self) -> float | None:
        """Return what GitLab's own clock shows now, in epoch seconds, by the Date header of an
        answer; None if no answer has had one."""
        if not self._dates:
            return None
        date, read_at = self._dates[-1]
        return date + time.monotonic() - read_at

    def one(self, path: str, model: type[T], what: str, query: Query | None = None) -> T:
        """Return the object at `path` (below /api/v4). Raises SourceError, NotFound on 404."""
        value, _ = self._ask(path, query or {}, what)
        with self._translate_errors(what):
            return _parse_answer(model, value, what)

    def many(
        self,
        path: str,
        model: type[T],
        what: str,
        query: Query | None = None,
        pages: int = 10,
        size: int = PER_PAGE,
    ) -> Listing[T]:
        """Return the list at `path`: at most `pages` pages, or fewer if the deadline passes.

        Raises SourceError.
        """
        items: list[T] = []
        for number in range(1, pages + 1):
            if items and self._is_past_deadline():
                break
            page = self.page(path, model, what, number, size, query)
            items += page.items
            if not page.more:
                return Listing(tuple(items))
        return Listing(tuple(items), more=True)

    def page(
        self,
        path: str,
        model: type[T],
        what: str,
        number: int,
        size: int,
        query: Query | None = None,
    ) -> Listing[T]:
        """Return page `number` (from 1) of a list, `size` items long. Raises SourceError."""
        full_query = {**(query or {}), "per_page": size, "page": number}
        found, more = self._ask(path, full_query, what)
        if not isinstance(found, list):
            text = f"{what}: GitLab's answer is not a list"
            raise SourceError(text, transient=True, doubtful=True)
        with self._translate_errors(what):
            return Listing(tuple(_parse_answer(model, item, what) for item in found), more=more)

    def _ask(self, path: str, query: Query, what: str) -> Answered:
        """Return the JSON value at `path`, and whether there is a next page."""
        known = get_remembered()
        question = f"{self._url} {path} {sorted(query.items())}"
        if known is not None and question in known:
            return known[question]
        with self._translate_errors(what), self._get(path, query) as response:
            more = bool(response.headers.get("X-Next-Page", "").strip())
            answer = decode_json(response, MAX_JSON), more
        if known is not None and len(known) < MOST_REMEMBERED:
            known[question] = answer
        return answer

    def blob(self, path: str, what: str, cap: int, query: Query | None = None) -> Blob:
        """Read the bytes at `path`; of more than `cap` bytes, the two ends. Raises SourceError."""
        with self._translate_errors(what), self._get(path, query or {}) as response:
            _refuse_page(response, path)
            return keep_ends(read_chunks(response), cap)

    def stream(self, path: str, what: str, cap: int, query: Query | None = None) -> Iterator[bytes]:
        """Stream the bytes at `path`, also if GitLab redirects to where it keeps them.

        Raises SourceError, also for more than `cap` bytes or after the deadline.
        """
        size = 0
        with self._translate_errors(what), self._download(path, query or {}) as response:
            _refuse_page(response, path)
            for chunk in read_chunks(response):
                size += len(chunk)
                if size > cap:
                    raise TooMuch(f"larger than {cap} bytes")
                if self._is_past_deadline():
                    raise TooMuch("still sending when the time for it was over")
                yield chunk

    def list_trigger_jobs(self, pipeline: str, what: str) -> Listing[wire.Bridge]:
        """Return the trigger jobs of the pipeline at the path `pipeline`. Raises SourceError."""
        first, second = self._trigger_job_names
        try:
            return self.many(f"{pipeline}/{first}", wire.Bridge, what)
        except NotFound:
            found = self.many(f"{pipeline}/{second}", wire.Bridge, what)
        self._trigger_job_names[:] = second, first
        return found

    def list_branch_pipelines(
        self, project: str, branch: str, what: str, most: int, query: Query | None = None
    ) -> Listing[wire.Pipeline]:
        """Return a branch's newest pipelines, at most `most`. Raises SourceError.

        GitLab also lists those of the merge requests whose source branch it is, which are not the
        branch's: they run by other rules, and on other commits. Where there are very many of them,
        fewer are returned.
        """
        path, asked = f"{project}/pipelines", {**(query or {}), "ref": branch}
        found: list[wire.Pipeline] = []
        for number in range(1, _MOST_PAGES + 1):
            page = self.page(path, wire.Pipeline, what, number, most, asked)
            found += [each for each in page.items if not wire.OF_MR.match(each.ref)]
            if len(found) >= most or not page.more:
                break
        return Listing(tuple(found[:most]), page.more or len(found) > most)

    def ask_graph(self, query: str, variables: Query, model: type[T], what: str) -> T:
        """Return the `data` of the answer to a GraphQL query: what REST does not tell. Raises
        SourceError. GitLab takes them by POST alone; a read token can change nothing by them."""
        if self._is_past_deadline():
            raise SourceError(f"{what}: there is no time left to ask", transient=True)
        url = f"{self.connections.url}/api/graphql"
        with self._translate_errors(what):
            response = self.connections.get().http_request(
                "post",
                url,
                post_data={"query": query, "variables": dict(variables)},
                streamed=True,
                retry_transient_errors=True,
                max_retries=self._retries,
            )
            with response:
                found = decode_json(response, MAX_JSON)
        if not isinstance(found, dict) or not isinstance(found.get("data"), dict):
            raise SourceError(f"{what}: GitLab does not answer the query", doubtful=True)
        return _parse_answer(model, found["data"], what)

    def _get(self, path: str, query: Query) -> requests.Response:
        try:
            return self._request(path, query)
        except requests.TooManyRedirects as error:
            renamed, named = self._renamed.match(_get_target(error)), _PROJECT.match(path)
            if not renamed or not named:  # not from the project's former path to its id
                raise
        return self._request(f"/projects/{renamed[1]}{path[named.end() :]}", query)

    def _request(self, path: str, query: Query) -> requests.Response:
        if self._is_past_deadline():
            raise requests.ReadTimeout
        response = self.connections.get().http_request(
            "get",
            path,
            query_data=dict(query),
            streamed=True,
            retry_transient_errors=True,
            max_retries=self._retries,
        )
        if (date := read_date(response)) is not None:
            self._dates[:] = [(date, time.monotonic())]  # copies of this client share it
        return response

    def _download(self, path: str, query: Query) -> requests.Response:
        """Get a file, following one redirect, as GitLab may keep large files in an object store.

        The token is not sent there: the redirect is followed without the session that holds it.
        """
        try:
            return self._get(path, query)
        except requests.TooManyRedirects as error:
            target = _get_target(error)
            if not self._downloads.has_supported_scheme(target):
                raise
        return self._downloads.get(target)

    @contextmanager
    def _translate_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except FOREIGN as error:
            failure = explain_failure(error, what, "read", self.connections.url)
            kind: type[SourceError] = SourceError
            if failure.status == 404:
                named = (each for text, each in _MESSAGES.items() if text in str(error))
                kind = next(named, NotFound)
            raise kind(
                failure.text, transient=failure.transient, doubtful=failure.doubtful
            ) from error

    def _is_past_deadline(self) -> bool:
        return self._deadline is not None and time.monotonic() > self._deadline


@contextmanager
def skip_refused() -> Iterator[None]:
    """Leave the block where GitLab does not have something or does not show it; what may be had
    later still raises SourceError."""
    try:
        yield
    except SourceError as error:
        if error.transient:
            raise


def _get_target(error: requests.TooManyRedirects) -> str:
    return error.response.headers.get("location", "") if error.response is not None else ""


def _refuse_page(response: requests.Response, path: str) -> None:
    """Raise GitlabParsingError for a page that came in place of a file's bytes.

    GitLab sends logs and files as plain text, and as pages only what lies in artifacts.
    """
    media = response.headers.get("Content-Type", "")
    if media.startswith("text/html") and "/artifacts/" not in path:
        response.close()
        raise GitlabParsingError("a page came")


def _parse_answer(model: type[T], value: Any, what: str) -> T:
    if value == {}:
        raise GitlabParsingError("an empty object")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        fields = ", ".join(
            ".".join(map(str, problem["loc"])) or "everything"
            for problem in error.errors(include_url=False, include_input=False)[:5]
        )
        text = f"{what}: GitLab's answer has no usable {fields}"
        raise SourceError(text, doubtful=True) from error


def ask_in_turn(places: Sequence[P], ask: Callable[[P], A]) -> A:
    """Return the answer of the first place that does not raise NotFound; the last one may."""
    *first, last = places
    for place in first:
        with suppress(NotFound):
            return ask(place)
    return ask(last)
