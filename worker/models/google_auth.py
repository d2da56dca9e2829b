"""Access tokens for Vertex AI, from google-auth's default chain of credentials.

The only module that imports google-auth, which itself reads the environment, gcloud's file or the
metadata server.
"""

import threading
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

import google.auth
import httpx
from google.auth import exceptions, transport
from google.auth.credentials import Credentials

from worker.errors import ModelError
from worker.models.connection import clean_text
from worker.transport.failures import describe_failure
from worker.transport.httpx_clients import BoundedClient

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
TIMEOUT = 10.0
"""Seconds for one call of a token endpoint; google-auth makes at most a few."""
LOCK_TIMEOUT = 60.0
MAX_ANSWER = 1024 * 1024
_UNREADABLE = (OSError, AttributeError, LookupError, TypeError, ValueError)
"""Errors that google-auth lets through: a file that is a folder, or JSON that is not an object."""


class GoogleAuth(httpx.Auth):
    """A bearer token, renewed shortly before it expires, and once if it is refused.

    Credentials are looked up at the first request. Safe to use from several threads. Raises
    ModelError if there is no token.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._credentials: Credentials | None = None

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the token; after a 401 try once more with a new one."""
        token = self._get_token()
        request.headers["authorization"] = f"Bearer {token}"
        response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED:
            request.headers["authorization"] = f"Bearer {self._get_token(refused=token)}"
            yield request

    def _get_token(self, refused: str = "") -> str:
        """Return a token other than `refused`. If several threads need a new one, only the first
        fetches it."""
        if not self._lock.acquire(timeout=LOCK_TIMEOUT):
            raise ModelError("Google credentials: the token endpoint is silent", transient=True)
        try:
            fetch = _Fetch()
            if self._credentials is None:
                self._credentials, _ = google.auth.default(scopes=[SCOPE], request=fetch)
            if not self._credentials.valid or self._credentials.token == refused:
                self._credentials.refresh(fetch)  # type: ignore[no-untyped-call]
            return str(self._credentials.token)
        except (exceptions.DefaultCredentialsError, *_UNREADABLE) as error:
            raise ModelError(
                "no usable Google credentials: run `gcloud auth application-default login`, or set "
                f"GOOGLE_APPLICATION_CREDENTIALS; google-auth says: {clean_text(str(error))}"
            ) from error
        except exceptions.GoogleAuthError as error:
            message = f"Google credentials: no access token: {clean_text(str(error))}"
            raise ModelError(message, transient=error.retryable) from error
        finally:
            self._lock.release()


@dataclass(frozen=True, slots=True)
class _Answer:
    """The parts of an HTTP answer that google-auth reads."""

    status: int
    headers: Mapping[str, str]
    data: bytes


class _Fetch(transport.Request):
    """An HTTP transport for google-auth that uses httpx, so that it needs no other client."""

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
        received = bytearray()
        try:
            with (
                BoundedClient(total=limit, timeout=limit) as client,
                client.stream(method, url, content=body, headers=headers) as response,
            ):
                for chunk in response.iter_bytes():
                    received += chunk
                    if len(received) > MAX_ANSWER:
                        raise _make_error("the answer is larger than 1 MB")
                return _Answer(response.status_code, response.headers, bytes(received))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _make_error(describe_failure(error, url)) from error


def _make_error(why: str) -> exceptions.TransportError:
    return exceptions.TransportError(why, retryable=True)  # type: ignore[no-untyped-call]
