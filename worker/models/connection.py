"""`Connection`: HTTP to one provider, with its key, its time-outs and caps, and its errors.

A message says which provider, what happened, the status, and what to do. None ever holds the key or
a header that we sent.
"""

import re
import ssl
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx

from worker.clock import Clock
from worker.errors import SILENT, ConfigError, ContextOverflow, ModelError
from worker.models.base import Cause, Provider, Refusal, WantedChange
from worker.models.refusal_words import StatedSize
from worker.transport.failures import (
    describe_failure,
    explain_proxy_status,
    explain_tls_port,
    parse_seconds,
    read_retry_after,
)
from worker.transport.httpx_clients import BoundedClient, make_timeouts

CONNECT_TIMEOUT = 5.0
WRITE_TIMEOUT = 60.0
MOST_IDLE = 64
"""The most connections that are kept open between requests."""

_MAX_REASON = 300
_SHORTEST_KEY = 8
_TOKEN = re.compile(r"ya29\.[A-Za-z0-9_.-]+|(?i:(?<=x-amz-security-token:)\S+)")
"""Google's access tokens, and Amazon's as its refusals of a signature repeat them."""
_REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_REQUEST_IDS = ("request-id", "x-request-id", "x-amzn-requestid", "apim-request-id")
_TOO_LONG = frozenset({Cause.OVERFLOW, Cause.TOO_LARGE, Cause.RATE_TOO_LOW})
_STREAM = re.compile(rb"\s*(?:(?:data|event|id|retry):|:)")
_PAGE = re.compile(rb"\s*<(?:!doctype|html|head|body)\b", re.IGNORECASE)

_ADVICE = {
    Cause.BAD_KEY: ("the API key was refused", "set {key_env}"),
    Cause.BILLING: ("the account has a billing problem", "settle it with the provider"),
    Cause.FORBIDDEN: ("the key may not use {model}", "allow it, or choose another model"),
    Cause.NOT_FOUND: ("{model} is not served at {host}", "check the model's name and {url_env}"),
    Cause.TOO_LARGE: ("the request has more bytes than the API takes", "shorten the conversation"),
    Cause.OVERFLOW: ("the conversation is longer than the context window", "use a larger model"),
    Cause.SPEND_LIMIT: ("the spend limit is reached", "raise it, or wait for the next period"),
    Cause.QUOTA: ("the quota is used up", "raise it, or wait until it is renewed"),
    Cause.RATE_LIMIT: ("too many requests", "try again later"),
    Cause.OVERLOADED: ("the API is overloaded or failing", "try again later"),
    Cause.RATE_TOO_LOW: (
        "the request has more tokens than the account may use in a minute, so waiting is no help",
        "ask the provider for a higher limit, or use another model",
    ),
    Cause.INVALID: ("the request was refused", ""),
    Cause.BOUND: ("an earlier answer was refused when sent back", "start a new session"),
    Cause.UNWANTED: ("the server wants the request to be another", ""),
    Cause.NO_TOOLS: ("{model} is served without native tools", "its calls are asked for as text"),
}


class RefusedForLength(ContextOverflow):
    """A ContextOverflow with all that the provider states, as it states it."""

    def __init__(self, message: str, kind: str, size: StatedSize) -> None:
        super().__init__(message, kind=kind, limit=size.limit, count=size.count)
        self.size = size


class RateLimited(ModelError):
    """The account has used up `token_rate`, its input tokens of a minute; or the request alone has
    more of them."""

    def __init__(self, message: str, kind: str, retry_after: float | None, token_rate: int) -> None:
        super().__init__(message, transient=True, retry_after=retry_after, kind=kind)
        self.token_rate = token_rate


class BoundElsewhere(ModelError):
    """The provider refused a verbatim part of the history; a bare request may be accepted."""


class ChangeWanted(ModelError):
    """The provider wants a field of the request to be another; a changed request may be
    accepted."""

    def __init__(self, message: str, change: WantedChange, kind: str) -> None:
        super().__init__(message, kind=kind)
        self.change = change


@dataclass(frozen=True, slots=True)
class Received:
    """An answer as received. Header names are case-insensitive."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Connection:
    """Connections to the provider of the model `name`, "provider/model". Safe for threads.

    `timeout` is how many seconds an answer may take; `close` it at the end. Raises ConfigError for
    a URL or key that cannot work.
    """

    def __init__(
        self,
        name: str,
        provider: Provider,
        base_url: str,
        key: str,
        headers: Mapping[str, str],
        *,
        clock: Clock,
        transport: httpx.BaseTransport | None,
        timeout: float,
    ) -> None:
        self._who, _, model = name.partition("/")
        key = _check_key(self._who, key, provider)
        self._host = _get_host(self._who, base_url, provider)
        self._keys = (key, *provider.headers.values())
        self._advice = {**_ADVICE, **provider.advice}
        self._fields = {
            "who": self._who,
            "model": model,
            "host": self._host,
            "key_env": provider.key_env,
            "url_env": provider.url_env,
        }
        self._clock = clock
        self._timeout = timeout
        self._client = BoundedClient(
            total=timeout,
            auth=provider.auth(key),
            headers={
                **headers,
                **provider.headers,
                "accept": "application/json",
                "user-agent": "sandpiper",
            },
            transport=transport,
            # No answer sets a cookie for a later request.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            # All sessions of a worker share this client: none may wait for another's connection.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=MOST_IDLE),
            verify=get_ssl_context(),
        )

    def send(
        self, url: httpx.URL, body: bytes | None, deadline: float | None, max_answer: int
    ) -> Received:
        """Post a JSON body, or get a document if `body` is None. Raises ModelError if there is no
        answer, one of more than `max_answer` bytes, or one that is not complete by the deadline."""
        left = self._timeout
        if deadline is not None:
            left = min(left, deadline - self._clock.monotonic())
        if left <= 0:
            raise self.make_failure("no time is left for the answer", kind=SILENT)
        timeouts = make_timeouts(left, connect=CONNECT_TIMEOUT, write=WRITE_TIMEOUT)
        request = self._client.build_request(
            "GET" if body is None else "POST",
            url,
            headers={} if body is None else {"content-type": "application/json"},
            content=body,
            extensions={"timeout": timeouts},
        )
        received = bytearray()
        try:
            with closing(self._client.send(request, stream=True)) as response:
                for chunk in response.iter_bytes():
                    received += chunk
                    if len(received) > max_answer:
                        message = f"the answer is larger than {max_answer // (1024 * 1024)} MB"
                        raise self.make_failure(message, transient=False)
                    if deadline is not None and self._clock.monotonic() > deadline:
                        raise self.make_failure("the answer was not complete in time", kind=SILENT)
        except httpx.RequestError as error:
            # Some errors hold values of headers.
            message = self.quote_text(describe_failure(error, self._host))
            is_silent = isinstance(error, httpx.TimeoutException)
            kind = SILENT if is_silent else "connection"
            raise self.make_failure(message, kind=kind) from error
        answer = Received(response.status_code, response.headers, bytes(received))
        if cause := (
            explain_tls_port(answer.body, self._host)
            or explain_proxy_status(answer.status, self._host)
        ):
            message = f"no answer from {self._host}: {cause}"
            raise self.make_failure(message, kind="connection")
        return answer

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def make_refusal(self, received: Received, refusal: Refusal) -> ModelError:
        """Return the error for an answer other than 200."""
        cause, kind = refusal.cause, refusal.cause.name.lower()
        what, advice = self._advice[cause]
        if refusal.change:
            advice = refusal.change.advice
        what, advice = (part.format(**self._fields) for part in (what, advice))
        request_id = next(filter(None, map(received.headers.get, _REQUEST_IDS)), "")
        reference = f", {request_id}" if _REQUEST_ID.fullmatch(request_id) else ""
        text = f"{self._who}: {what} ({received.status}{reference})"
        text += f": {advice}" if advice else ""
        # The answer often quotes a part of the refused key.
        if refusal.reason and cause is not Cause.BAD_KEY:
            text += f"; the API says: {self.quote_text(refusal.reason)}"
        if cause in _TOO_LONG:
            is_in_bytes = cause is Cause.TOO_LARGE
            size = StatedSize() if is_in_bytes else StatedSize.read(refusal.reason)
            if cause is not Cause.RATE_TOO_LOW or size.limit:
                return RefusedForLength(text, kind, size)
        if cause is Cause.BOUND:
            return BoundElsewhere(text, kind=kind)
        headers, wait = received.headers, refusal.retry_after
        milliseconds = parse_seconds(headers.get("retry-after-ms", ""))
        stated = read_retry_after(
            headers.get("retry-after", ""), headers.get("date", ""), self._clock.now()
        )
        # Azure has been seen to send this one alone.
        azures = parse_seconds(headers.get("x-rate-limit-reset-tokens", ""))
        waits = (milliseconds / 1000 if milliseconds is not None else None, stated, azures, wait)
        wait = next((each for each in waits if each is not None), None)
        if refusal.token_rate and refusal.transient:
            return RateLimited(text, kind, wait, refusal.token_rate)
        if refusal.change:
            return ChangeWanted(text, refusal.change, kind)
        return ModelError(text, transient=refusal.transient, retry_after=wait, kind=kind)

    def make_failure(
        self, what: str, *, transient: bool = True, kind: str = "failed"
    ) -> ModelError:
        """Return the error for a request without a usable answer."""
        return ModelError(f"{self._who}: {what}", transient=transient, kind=kind)

    def make_unread(self, received: Received, reason: str) -> ModelError:
        """Return the error for an answer that cannot be read for this `reason`.

        A stream is what the server always answers: it would only be paid for once more.
        """
        kind, start = received.headers.get("content-type", "").lower(), received.body[:400]
        form = ""
        if "event-stream" in kind or _STREAM.match(start):
            form = "an event stream, though none was asked for: switch streaming off at {host}"
        elif "ndjson" in kind or "json-seq" in kind:
            form = (
                "a stream of JSON lines, though none was asked for: switch streaming off at {host}"
            )
        elif "text/html" in kind or _PAGE.match(start):
            form = "a page of HTML: check {url_env}, and what stands before {host}"
        what = form.format(**self._fields) or f"cannot be read: {self.quote_text(reason)}"
        is_stream = "stream" in form
        return self.make_failure(
            f"the answer {'is ' if form else ''}{what}", transient=not is_stream, kind="unread"
        )

    def quote_text(self, text: str) -> str:
        """Return foreign text on one line: printable, cut, and without the key."""
        return clean_text(text, self._keys)


def clean_text(text: str, keys: Iterable[str] = ()) -> str:
    """Return foreign text on one line: printable, cut, and without `keys` and access tokens."""
    line = "".join(char for char in " ".join(text.split()) if char.isprintable())
    for key in keys:
        if len(key) >= _SHORTEST_KEY:
            line = line.replace(key, "[key]")
    line = _TOKEN.sub("[token]", line)
    return line if len(line) <= _MAX_REASON else f"{line[:_MAX_REASON]}…"


@cache
def get_ssl_context() -> ssl.SSLContext:
    """Return the context shared by all clients: loading the CA bundle takes longer than a
    request."""
    return httpx.create_ssl_context()


def _get_host(who: str, base_url: str, provider: Provider) -> str:
    """Return the scheme and host of a base URL, for messages. Raises a ConfigError that does not
    show the URL."""
    variable = f" (${provider.url_env})" if provider.url_env else ""
    place = f"models.providers.{who}.base_url{variable}:"
    problem = f"{place} expected http(s)://host"
    if not base_url:
        raise ConfigError(f"{place} it is not set: state where the API is, as http(s)://host")
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL:
        raise ConfigError(problem) from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise ConfigError(problem)
    if url.userinfo or url.query or url.fragment:
        raise ConfigError(f"{problem} without user, password, query or fragment")
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def _check_key(who: str, key: str, provider: Provider) -> str:
    """Return the key, stripped for a header; "" for a provider that has none. Raises a ConfigError
    that does not show the key."""
    stripped = key.strip() if provider.key_env else ""
    if provider.key_env and not stripped and not provider.key_optional:
        raise ConfigError(f"{who}: no API key: set {provider.key_env}")
    if not (stripped.isascii() and stripped.isprintable()) or " " in stripped:
        raise ConfigError(f"{who}: {provider.key_env} holds characters no API key has")
    return stripped
