"""Reading from GitLab: typed, capped, timed out, and every error a SourceError."""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import requests
from pydantic import BaseModel, ValidationError

from worker.errors import SourceError
from worker.gitlab_client import (
    FOREIGN,
    RETRIES,
    TIMEOUT,
    Connections,
    TooMuch,
    decode_json,
    explain,
    read_chunks,
)
from worker.sources.api.downloads import Downloads

MAX_JSON = 32 * 1024 * 1024
"""Bytes of one JSON answer."""

PER_PAGE = 100

T = TypeVar("T", bound=BaseModel)
Query = Mapping[str, str | int]


class NotFound(SourceError):
    """GitLab says 404: it is not there, or the token may not see it."""


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """The items of a paged list; `more` if there are further pages."""

    items: tuple[T, ...]
    more: bool = False


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes of a file or log of `size` bytes: all in `head`, or its two ends."""

    head: bytes
    tail: bytes
    size: int

    @property
    def omitted_bytes(self) -> int:
        """Bytes left out between `head` and `tail`."""
        return self.size - len(self.head) - len(self.tail)


class ReadClient:
    """GitLab's REST API through the read token. Only GET requests; safe to share by threads.

    `what` names the thing asked for in error messages. Downloads may be kept on `download_hosts`,
    besides GitLab's own and public ones.
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
        self._connections = Connections(url, token, timeout)
        own = urlsplit(url)
        hosts = {own.hostname or "", *download_hosts}
        self._downloads = Downloads({"https", own.scheme}, hosts, timeout)
        self._retries = retries
        self._deadline = deadline

    def with_deadline(self, deadline: float) -> "ReadClient":
        """The same client, that begins nothing and streams nothing past `deadline` (monotonic)."""
        other = copy(self)
        other._deadline = deadline
        return other

    def one(self, path: str, model: type[T], what: str, query: Query | None = None) -> T:
        """The object at `path` (below /api/v4). Raises SourceError, NotFound on 404."""
        with _translate_errors(what), self._get(path, query or {}) as response:
            return _parse_answer(model, decode_json(response, MAX_JSON), what)

    def many(
        self, path: str, model: type[T], what: str, query: Query | None = None, pages: int = 10
    ) -> Listing[T]:
        """The list at `path`, at most `pages` pages of 100, and what the deadline leaves of them.

        Raises SourceError.
        """
        items: list[T] = []
        for number in range(1, pages + 1):
            if items and self._is_past_deadline():
                break
            page = self.page(path, model, what, number, PER_PAGE, query)
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
        """Page `number` (from 1) of a list, `size` items long. Raises SourceError."""
        asked = {**(query or {}), "per_page": size, "page": number}
        with _translate_errors(what), self._get(path, asked) as response:
            found = decode_json(response, MAX_JSON)
            if not isinstance(found, list):
                raise SourceError(f"{what}: GitLab's answer is not a list")
            items = tuple(_parse_answer(model, item, what) for item in found)
            return Listing(items, more=bool(response.headers.get("X-Next-Page", "").strip()))

    def blob(self, path: str, what: str, cap: int, query: Query | None = None) -> Blob:
        """The bytes at `path`; of more than `cap` bytes, the two ends. Raises SourceError."""
        with _translate_errors(what), self._get(path, query or {}) as response:
            return keep_ends(read_chunks(response), cap)

    def stream(self, path: str, what: str, cap: int, query: Query | None = None) -> Iterator[bytes]:
        """The bytes at `path` as they come, from where GitLab keeps them. Raises SourceError.

        So it does for more than `cap` bytes.
        """
        size = 0
        with _translate_errors(what), self._download(path, query or {}) as response:
            for chunk in read_chunks(response):
                size += len(chunk)
                if size > cap:
                    raise TooMuch(f"larger than {cap} bytes")
                if self._is_past_deadline():
                    raise TooMuch("still sending when the time for it was over")
                yield chunk

    def _get(self, path: str, query: Query) -> requests.Response:
        if self._is_past_deadline():
            raise requests.Timeout
        return self._connections.get().http_request(
            "get",
            path,
            query_data=dict(query),
            streamed=True,
            retry_transient_errors=True,
            max_retries=self._retries,
        )

    def _download(self, path: str, query: Query) -> requests.Response:
        """GitLab may keep large files in an object store and redirect there, once.

        The token stays behind: a request of its own, without the session that holds it.
        """
        try:
            return self._get(path, query)
        except requests.TooManyRedirects as error:
            target = (
                error.response.headers.get("location", "") if error.response is not None else ""
            )
            if not self._downloads.has_supported_scheme(target):
                raise
        return self._downloads.get(target)

    def _is_past_deadline(self) -> bool:
        return self._deadline is not None and time.monotonic() > self._deadline


@contextmanager
def _translate_errors(what: str) -> Iterator[None]:
    try:
        yield
    except FOREIGN as error:
        failure = explain(error, what, "read")
        kind = NotFound if failure.status == 404 else SourceError
        raise kind(failure.text, transient=failure.transient) from error


def _parse_answer(model: type[T], value: Any, what: str) -> T:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        fields = ", ".join(
            ".".join(map(str, problem["loc"])) or "everything"
            for problem in error.errors(include_url=False, include_input=False)[:5]
        )
        raise SourceError(f"{what}: GitLab's answer has no usable {fields}") from error


def keep_ends(chunks: Iterable[bytes], cap: int) -> Blob:
    """The first quarter of `cap` bytes and the last three, where errors stand; all if it fits."""
    room = cap // 4
    head, rest, size = bytearray(), bytearray(), 0
    for chunk in chunks:
        size += len(chunk)
        free = room - len(head)
        head += chunk[:free]
        rest += chunk[free:]
        if len(rest) > 2 * cap:
            del rest[: room - cap]
    if size <= cap:
        return Blob(bytes(head + rest), b"", size)
    return Blob(bytes(head), bytes(rest[room - cap :]), size)
