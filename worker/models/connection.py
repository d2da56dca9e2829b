"""`Connection`: HTTP to one provider, with its key, its time-outs and caps, and its error texts."""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx

from worker.clock import Clock
from worker.errors import SILENT, ConfigError, ModelError
from worker.models.base import Failure, Provider
from worker.models.refusals import ErrorWriter
from worker.transport.failures import describe_failure, explain_proxy_status, explain_tls_port
from worker.transport.httpx_clients import BoundedClient, make_timeouts
from worker.transport.retry_after import parse_seconds, read_retry_after

CONNECT_TIMEOUT = 5.0
WRITE_TIMEOUT = 60.0
MOST_IDLE = 64
"""The most connections that are kept open between requests."""


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
        who = name.partition("/")[0]
        key = _check_key(who, key, provider)
        host = _get_host(who, base_url, provider)
        self.errors = ErrorWriter(name, provider, host, (key, *provider.headers.values()))
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
        answer, or one of more than `max_answer` bytes."""
        request = self._client.build_request(
            "GET" if body is None else "POST",
            url,
            headers={} if body is None else {"content-type": "application/json"},
            content=body,
            extensions={"timeout": self._make_timeouts(deadline)},
        )
        with self._translate_errors(), closing(self._client.send(request, stream=True)) as response:
            received = self._read_body(response, deadline, max_answer)
        status, host = response.status_code, self.errors.host
        if cause := explain_tls_port(received, host) or explain_proxy_status(status, host):
            message = f"no answer from {host}: {cause}"
            raise self.errors.make_failure(message, kind="connection")
        return Received(status, response.headers, received)

    def make_refusal(self, received: Received, failure: Failure) -> ModelError:
        """Return the error for an answer other than 200."""
        wait = _read_wait(received.headers, self._clock.now())
        if wait is None:
            wait = failure.retry_after
        return self.errors.make_refusal(received.status, received.headers, failure, wait)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _make_timeouts(self, deadline: float | None) -> Mapping[str, float]:
        left = self._timeout
        if deadline is not None:
            left = min(left, deadline - self._clock.monotonic())
        if left <= 0:
            raise self.errors.make_failure("no time is left for the answer", kind=SILENT)
        return make_timeouts(left, connect=CONNECT_TIMEOUT, write=WRITE_TIMEOUT)

    def _read_body(
        self, response: httpx.Response, deadline: float | None, max_answer: int
    ) -> bytes:
        """Return the body. Raises ModelError if it is too large or not complete by the
        deadline."""
        received = bytearray()
        for chunk in response.iter_bytes():
            received += chunk
            if len(received) > max_answer:
                message = f"the answer is larger than {max_answer // (1024 * 1024)} MB"
                raise self.errors.make_failure(message, transient=False)
            if deadline is not None and self._clock.monotonic() > deadline:
                raise self.errors.make_failure("the answer was not complete in time", kind=SILENT)
        return bytes(received)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raises httpx's errors as ModelError. Their texts are cleaned: some hold header values."""
        try:
            yield
        except httpx.RequestError as error:
            silent = isinstance(error, httpx.TimeoutException)
            message = self.errors.quote_text(describe_failure(error, self.errors.host))
            kind = SILENT if silent else "connection"
            raise self.errors.make_failure(message, kind=kind) from error


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


def _read_wait(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds that the server asks us to wait, or None; `now` is in epoch seconds."""
    milliseconds = parse_seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    stated = read_retry_after(headers.get("retry-after", ""), headers.get("date", ""), now)
    # Azure has been seen to send this one alone.
    return parse_seconds(headers.get("x-rate-limit-reset-tokens", "")) if stated is None else stated
