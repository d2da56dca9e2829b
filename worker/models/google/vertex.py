"""Google's access tokens by google-auth's default chain, for Vertex AI (wire-models 2, "Token").

The only module that imports google-auth, which itself reads the environment, gcloud's file or the
metadata server.
"""

import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import google.auth
import httpx
from google.auth import exceptions, transport
from google.auth.credentials import Credentials

from worker.errors import ModelError
from worker.models.http.refusals import one_line

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
TIMEOUT = 10.0
"""Seconds for one call of a token endpoint; google-auth makes at most a few."""
LOCK_TIMEOUT = 60.0
MAX_ANSWER = 1024 * 1024


class GoogleAuth(httpx.Auth):
    """A bearer token, renewed shortly before it ends, and once when it is refused.

    Credentials are looked for at the first request. Safe to use from several threads; raises
    ModelError where no token is to be had.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._credentials: Credentials | None = None

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the token; after a 401 try once more with a new one."""
        token = self._token()
        request.headers["authorization"] = f"Bearer {token}"
        response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED:
            request.headers["authorization"] = f"Bearer {self._token(refused=token)}"
            yield request

    def _token(self, refused: str = "") -> str:
        """A token other than `refused`; who comes second takes what the first one fetched."""
        with self._held(), _translated():
            fetch = _Fetch()
            if self._credentials is None:
                self._credentials, _ = google.auth.default(scopes=[SCOPE], request=fetch)
            if not self._credentials.valid or self._credentials.token == refused:
                self._credentials.refresh(fetch)  # type: ignore[no-untyped-call]
            return str(self._credentials.token)

    @contextmanager
    def _held(self) -> Iterator[None]:
        if not self._lock.acquire(timeout=LOCK_TIMEOUT):
            raise ModelError("Google credentials: the token endpoint is silent", transient=True)
        try:
            yield
        finally:
            self._lock.release()


@contextmanager
def _translated() -> Iterator[None]:
    """google-auth's errors as ours."""
    try:
        yield
    except exceptions.DefaultCredentialsError as error:
        raise ModelError(
            "no usable Google credentials: run `gcloud auth application-default login`, or set "
            f"GOOGLE_APPLICATION_CREDENTIALS; google-auth says: {one_line(str(error))}"
        ) from error
    except exceptions.GoogleAuthError as error:
        told = f"Google credentials: no access token: {one_line(str(error))}"
        raise ModelError(told, transient=error.retryable) from error


@dataclass(frozen=True, slots=True)
class _Answer:
    """What google-auth reads of an HTTP answer."""

    status: int
    headers: Mapping[str, str]
    data: bytes


class _Fetch(transport.Request):
    """google-auth's HTTP over httpx, so that it needs no client of its own."""

    def __call__(
        self,
        url: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        **_options: Any,
    ) -> _Answer:
        """Raises google.auth's TransportError."""
        limit = min(timeout or TIMEOUT, TIMEOUT)
        try:
            with httpx.stream(
                method, url, content=body, headers=headers, timeout=limit
            ) as response:
                return _Answer(response.status_code, response.headers, _read(response))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _unreachable(str(error)) from error


def _read(response: httpx.Response) -> bytes:
    received = bytearray()
    for chunk in response.iter_bytes():
        received += chunk
        if len(received) > MAX_ANSWER:
            raise _unreachable("the answer is larger than 1 MB")
    return bytes(received)


def _unreachable(why: str) -> exceptions.TransportError:
    return exceptions.TransportError(why, retryable=True)  # type: ignore[no-untyped-call]
