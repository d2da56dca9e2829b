"""Reads from systems other than GitLab over HTTP: time-outs, caps, no redirects, one error type."""

import json
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, ValidationError

from worker.errors import ConfigError, SourceError
from worker.gitlab.read.api import NotFound
from worker.gitlab.read.blobs import Blob
from worker.logs import trace
from worker.transport.failures import describe_failure
from worker.transport.httpx_clients import BoundedClient, EncodedAnswer

TIMEOUT = httpx.Timeout(20.0, connect=5.0)
DEADLINE = 60.0
"""Seconds for one whole answer."""

MAX_JSON = 16 * 1024 * 1024

_PLAIN = {"Accept": "application/json, text/plain, */*"}

_FOREIGN = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, httpx.CookieConflict)

T = TypeVar("T", bound=BaseModel)
Query = Mapping[str, str | int]


class WebReader:
    """GET requests to one base URL. Safe to share between threads.

    `name` is the system's name in errors, `variable` the environment variable of its token.
    """

    def __init__(
        self,
        url: str,
        name: str,
        *,
        token: str = "",
        variable: str = "",
        ca_file: str = "",
        total: float = DEADLINE,
    ) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._name = name
        self._variable = variable
        self._url = url.rstrip("/")
        self._http = BoundedClient(
            total=total,
            headers=_PLAIN | headers,
            verify=_make_ssl_context(ca_file, name),
            timeout=TIMEOUT,
            follow_redirects=False,
        )

    def one(self, path: str, model: type[T], what: str, query: Query | None = None) -> T:
        """Return the JSON object at `path`. Raises SourceError, NotFound on 404."""
        body = b"".join(self.chunks(path, what, MAX_JSON, query))
        try:
            return model.model_validate(json.loads(body))
        except (ValidationError, ValueError, RecursionError) as error:
            raise SourceError(f"{what}: the answer of {self._name} is not as expected") from error

    def chunks(self, path: str, what: str, cap: int, query: Query | None = None) -> Iterator[bytes]:
        """Yield the bytes at `path`. Raises SourceError, also for more than `cap` bytes."""
        size, until = 0, time.monotonic() + DEADLINE
        with translate_errors(what, self._name, self._url):
            url = self._url + path
            with self._http.stream("GET", url, params=dict(query or {})) as response:
                self._check(response, what)
                for chunk in response.iter_raw():
                    size += len(chunk)
                    if size > cap:
                        raise SourceError(f"{what}: {self._name} sends over {cap} bytes")
                    if time.monotonic() > until:
                        raise SourceError(f"{what}: {self._name} is too slow", transient=True)
                    yield chunk

    def _check(self, response: httpx.Response, what: str) -> None:
        status = response.status_code
        if status == 200:
            return
        if status == 404:
            raise NotFound(f"{what}: {self._name} does not have it (any more)")
        token = f"; is ${self._variable} right?" if self._variable else ""
        texts = {
            401: f"{self._name} refuses the token{token}",
            403: f"the token may not read this from {self._name}",
            410: f"{self._name} has deleted it",
            429: f"the rate limit of {self._name} is reached; try again later",
        }
        if 300 <= status < 400:
            texts[status] = f"{self._name} redirects elsewhere, which is refused; correct its URL"
        text = texts.get(status, f"{self._name} answered {status}")
        raise SourceError(f"{what}: {text}", transient=status == 429 or status >= 500)


@contextmanager
def translate_errors(what: str, name: str, url: str) -> Iterator[None]:
    """Turn what httpx raises into a SourceError about `what` of the system `name` at `url`."""
    try:
        yield
    except EncodedAnswer as error:
        raise SourceError(f"{what}: {name} sends it packed: {error}") from error
    except _FOREIGN as error:
        why = describe_failure(error, url, "SSL_CERT_FILE, or its ca_file,")
        raise SourceError(f"{what}: {name}: {why}", transient=True) from error


def _make_ssl_context(ca_file: str, name: str) -> ssl.SSLContext | bool:
    if not ca_file:
        return True
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{name}: the CA file {ca_file} cannot be read: {error}") from error


def clean_ends(log: Blob, what: str) -> tuple[bytes, str]:
    """Return a log's cleaned lines, with one that marks a cut, and a text on what is missing.

    `what` names the log in words.
    """
    if not log.omitted_bytes:
        return trace.clean_trace(log.head), ""
    mark = f"[... {log.omitted_bytes} bytes of this log are left out here ...]\n".encode()
    missing = f"{log.omitted_bytes} bytes of {what}, cut from its middle"
    return trace.clean_trace(log.head) + mark + trace.clean_trace(log.tail), missing


def get_origin(url: str) -> str:
    """Return scheme://host[:port] of a URL, "" if it has no host or is not valid."""
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.netloc}".lower() if parts.netloc else ""
    except ValueError:
        return ""
