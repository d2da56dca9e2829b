"""Connections to GitLab that cannot hang, and explanations of its errors in plain words.

Used by `sources` with the read token and by `gitlab` with the write token, which they pass in.
"""

import json
import math
import re
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, cast

import requests
import urllib3
from gitlab import Gitlab
from gitlab.exceptions import GitlabError, GitlabParsingError

from worker.transport.failures import (
    describe_failure,
    explain_proxy_status,
    explain_tls_port,
    read_retry_after,
    show_address,
)
from worker.transport.urllib3_connections import (
    BoundedAdapter,
    RefusedAnswer,
    bind_session,
    read_chunk,
)

TIMEOUT = (5.0, 30.0)
"""Seconds to connect, and between two reads."""

MAX_WAIT = 15
"""The most seconds to wait before a retry, whatever GitLab asks for."""

RETRIES = 2
"""Attempts after the first one."""

DEADLINE = 120.0
"""Seconds to read one answer, even if data keeps arriving; its headers have one silence."""

_NUMBER = re.compile(r"[0-9]{1,19}")

FOREIGN = (GitlabError, requests.RequestException, urllib3.exceptions.HTTPError)
"""What python-gitlab and requests raise or let through; `explain_failure` handles them all."""


class Connections:
    """One python-gitlab client per thread: its session is not thread-safe.

    `close` it at the end, where the process goes on.
    """

    def __init__(self, url: str, token: str, timeout: tuple[float, float]) -> None:
        self.url = url.rstrip("/")
        self._token = token
        self._timeout = timeout
        self._local = threading.local()
        self._sessions: weakref.WeakSet[requests.Session] = weakref.WeakSet()
        self._lock = threading.Lock()

    def get(self) -> Gitlab:
        """Return this thread's client."""
        client: Gitlab | None = getattr(self._local, "client", None)
        if client is None:
            session = requests.Session()
            bind_session(session, BoundedAdapter(DEADLINE))
            with self._lock:
                self._sessions.add(session)
            # Requests would carry the PRIVATE-TOKEN header to whatever host a redirect names.
            session.max_redirects = 0
            session.hooks["response"].append(_limit_wait)
            client = self._local.client = Gitlab(
                self.url,
                private_token=self._token,
                # Typed as one number, but handed to requests, which takes (connect, read).
                timeout=cast(float, self._timeout),
                keep_base_url=True,
                session=session,
            )
        return client

    def close(self) -> None:
        """Close the connections of all threads."""
        with self._lock:
            sessions = list(self._sessions)
        for session in sessions:
            session.close()


def _limit_wait(response: requests.Response, **_: Any) -> None:
    """Limit the wait that python-gitlab reads from headers.

    Otherwise it obeys any number and fails on a date. What cannot be read counts as the longest
    wait. `RateLimit-Reset` is a time in epoch seconds.
    """
    wait = response.headers.pop("Retry-After", None)
    reset = response.headers.pop("RateLimit-Reset", None)
    if wait is not None:
        date = response.headers.get("Date", "")
        asked = read_retry_after(wait, date, time.time())
        seconds = MAX_WAIT if asked is None else math.ceil(min(asked, MAX_WAIT))
    elif response.status_code == 429 and reset is not None and _NUMBER.fullmatch(reset):
        seconds = max(0, math.ceil(int(reset) - time.time()))
    else:
        return
    response.headers["Retry-After"] = str(min(seconds, MAX_WAIT))


def read_date(response: requests.Response) -> float | None:
    """Return the server's time, in epoch seconds; None if the answer has no valid Date header."""
    try:
        return parsedate_to_datetime(response.headers.get("Date", "")).timestamp()
    except ValueError:
        return None


class Refused(requests.RequestException):
    """An answer that we do not accept; the message says why."""


class TooMuch(Refused):
    """An answer that is larger than our cap, or still arriving after DEADLINE."""


def read_chunks(response: requests.Response) -> Iterator[bytes]:
    """Yield the body of a streamed answer. Raises TooMuch past DEADLINE, and requests' errors."""
    deadline = time.monotonic() + DEADLINE
    while chunk := read_chunk(response):
        if time.monotonic() > deadline:
            raise TooMuch(f"still sending after {DEADLINE:.0f} s")
        yield chunk


def decode_json(response: requests.Response, cap: int) -> Any:
    """Return the JSON of a streamed answer of at most `cap` bytes. Raises one of FOREIGN."""
    body = bytearray()
    for chunk in read_chunks(response):
        body += chunk
        if len(body) > cap:
            raise TooMuch(f"larger than {cap} bytes")
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise GitlabParsingError("not JSON") from error


@dataclass(frozen=True, slots=True)
class RequestFailure:
    """A failed request, described for a model or a human.

    `doubtful` says that GitLab may not have answered at all, or is about to answer otherwise: it
    restarts, or something in front of it does. `status` is 0 if the answer is not GitLab's.
    """

    text: str
    transient: bool
    status: int = 0
    doubtful: bool = False


def explain_failure(error: Exception, what: str, token: str, url: str) -> RequestFailure:
    """Explain `error` (one of FOREIGN) of the request `what`.

    `token` is "read" or "write", `url` is GitLab's.
    """
    if isinstance(error, GitlabParsingError):
        text = f"{what}: {show_address(url)} answers with something else than JSON{IN_PLACE}"
        return RequestFailure(text, True, doubtful=True)
    if isinstance(error, GitlabError) and error.response_code:
        return _explain_status(error, error.response_code, what, token, url)
    if isinstance(error, requests.TooManyRedirects):
        target = error.response.headers.get("location", "") if error.response is not None else ""
        text = (
            f"{what}: {show_address(url)} redirects to {show_address(target)}: set gitlab.url to "
            "where GitLab itself answers"
        )
        return RequestFailure(text, True, doubtful=True)
    if isinstance(error, Refused | RefusedAnswer):
        odd = isinstance(error, RefusedAnswer)  # a proxy's, perhaps
        return RequestFailure(f"{what}: GitLab's answer is refused: {error}", odd, doubtful=odd)
    request = getattr(error, "request", None)
    tried = str(getattr(request, "url", None) or url)  # perhaps where GitLab has sent us on to
    return RequestFailure(
        f"{what}: {describe_failure(error, url if tried.startswith(url) else tried, CA_SETTING)}",
        isinstance(
            error,
            requests.Timeout | requests.ConnectionError | requests.exceptions.ChunkedEncodingError,
        ),
    )


CA_SETTING = "SSL_CERT_FILE, or for GitLab alone REQUESTS_CA_BUNDLE,"
"""What names the certificates that hold for GitLab."""

IN_PLACE = ": set gitlab.url to where GitLab itself answers, with its relative root if it has one"


def _explain_status(
    error: GitlabError, status: int, what: str, token: str, url: str
) -> RequestFailure:
    body = (error.response_body or b"").lstrip()
    if cause := explain_tls_port(body, url) or explain_proxy_status(status, url):
        return RequestFailure(
            f"{what}: no answer from {show_address(url)}: {cause}", True, doubtful=True
        )
    if body[:1] == b"<" and status < 500:  # somebody else's
        text = f"{what}: {show_address(url)} answers {status} with a web page{IN_PLACE}"
        return RequestFailure(text, True, doubtful=True)
    message: object = error.error_message
    text = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
    reason = " ".join(text.split())[:300]
    variable = f"GITLAB_{token.upper()}_TOKEN"
    texts = {
        401: f"{what}: GitLab refuses the {token} token; is {variable} revoked or expired?",
        404: f"{what}: not found, or the {token} token may not see it",
        429: f"{what}: GitLab's rate limit is reached; try again later",
    }
    if status == 403:
        why = f"the {token} token's user has too little access to the project: {reason}"
        if "insufficient_scope" in reason:
            scope = "read_api" if token == "read" else "api"
            why = f"{variable} has not the scope it needs ({scope})"
        return RequestFailure(f"{what}: {why}", False, status, doubtful=True)
    if status >= 500:
        return RequestFailure(f"{what}: GitLab answered {status}; try again later", True, status)
    text = texts.get(status, f"{what}: GitLab answered {status}: {reason}")
    return RequestFailure(text, status in (401, 409, 429), status, doubtful=status in (401, 404))
