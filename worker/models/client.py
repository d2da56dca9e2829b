"""`HttpModel`: one model behind one provider, over HTTP, with retries and a deadline."""

import logging
import random
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache

import httpx

from worker.core.ports import Clock, Reply, Request
from worker.errors import ConfigError, ModelError
from worker.models import catalogue, retry
from worker.models.base import MAX_TOKENS, Cause, Decoded, Endpoint, Provider, Target
from worker.models.refusals import BoundElsewhere, Spokesman

_log = logging.getLogger(__name__)

CONNECT_TIMEOUT = 5.0
READ_TIMEOUT = 600.0
WRITE_TIMEOUT = 60.0
MAX_ATTEMPTS = 6
MAX_ANSWER = 32 * 1024 * 1024
_FINAL = frozenset({Cause.SPEND_LIMIT, Cause.OVERFLOW, Cause.BOUND})


@cache
def _ssl_context() -> ssl.SSLContext:
    """Shared by all clients: loading the CA bundle costs more than a request."""
    return httpx.create_ssl_context()


class HttpModel:
    """A `core.ports.Model`. Safe to use from several threads; `close` it at the end.

    `timeout` is the longest silence of the provider in seconds; `jitter` gives values in [0, 1).
    """

    def __init__(
        self,
        name: str,
        provider: Provider,
        base_url: str,
        key: str,
        *,
        clock: Clock,
        transport: httpx.BaseTransport | None = None,
        timeout: float = READ_TIMEOUT,
        max_attempts: int = MAX_ATTEMPTS,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._name = name
        who, _, self._model = name.partition("/")
        key = _checked(who, key, provider)
        self._info = catalogue.info(self._model)
        self._max_tokens = min(MAX_TOKENS, self._info.max_output)
        self._endpoint = provider.endpoint(base_url, self._model)
        self._codec = provider.codec(Target(name, self._max_tokens, self._endpoint.head))
        self._says = Spokesman(name, provider, _host(who, base_url, provider), key)
        self._clock = clock
        self._timeout = timeout
        self._max_attempts = max_attempts
        self._jitter = jitter
        self._client = _http_client(provider.auth(key), self._endpoint, transport)

    @property
    def name(self) -> str:
        """provider/model, as configured."""
        return self._name

    @property
    def context_tokens(self) -> int:
        """The window less the longest answer."""
        return self._info.window - self._max_tokens

    @property
    def binds_thinking(self) -> bool:
        """Whether signed thinking is bound to the exact prefix (wire-models 1.6)."""
        return self._info.binds_thinking

    def reply(self, request: Request) -> Reply:
        """Ask once, retrying what is transient. Raises ModelError or ContextOverflow."""
        try:
            found = self._ask(self._codec.encode(request), request.deadline)
        except BoundElsewhere as error:
            _log.warning("%s; asking again without the verbatim parts", error)
            found = self._ask(self._codec.encode(request, bare=True), request.deadline)
        return self._priced(found)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _ask(self, body: bytes, deadline: float | None) -> Decoded:
        attempt = 0
        while True:
            attempt += 1
            try:
                return self._attempt(body, deadline)
            except ModelError as error:
                wait = self._wait(error, attempt, deadline)
                if wait is None:
                    raise
                _log.warning("%s; attempt %d failed, next in %.1f s", error, attempt, wait)
            self._clock.sleep(wait)

    def _wait(self, error: ModelError, attempt: int, deadline: float | None) -> float | None:
        """Seconds until the next attempt, or None if there is no sense in one."""
        if not error.transient or attempt >= self._max_attempts:
            return None
        wait = error.retry_after
        if wait is None:
            wait = retry.backoff(attempt, self._jitter())
        left = retry.PATIENCE if deadline is None else deadline - self._clock.monotonic()
        return wait if wait < min(left, retry.PATIENCE) else None

    def _attempt(self, body: bytes, deadline: float | None) -> Decoded:
        timeout = self._time_left(deadline)
        with (
            self._translated(),
            self._client.stream(
                "POST", self._endpoint.url, content=body, timeout=timeout
            ) as response,
        ):
            received = self._read(response, deadline)
        if response.status_code != httpx.codes.OK:
            raise self._refused(response, received)
        try:
            return self._codec.decode(received)
        except ValueError as error:
            told = self._says.quoted(str(error))
            raise self._says.failed(f"the answer cannot be read: {told}") from error

    def _time_left(self, deadline: float | None) -> httpx.Timeout:
        left = self._timeout
        if deadline is not None:
            left = min(left, deadline - self._clock.monotonic())
        if left <= 0:
            raise self._says.failed("no time is left for the answer")
        connect = min(left, CONNECT_TIMEOUT)
        return httpx.Timeout(
            connect=connect, pool=connect, read=left, write=min(left, WRITE_TIMEOUT)
        )

    def _read(self, response: httpx.Response, deadline: float | None) -> bytes:
        """The body, capped; one that trickles in past the deadline is given up."""
        received = bytearray()
        for chunk in response.iter_bytes():
            received += chunk
            if len(received) > MAX_ANSWER:
                raise self._says.failed("the answer is larger than 32 MB", transient=False)
            if deadline is not None and self._clock.monotonic() > deadline:
                raise self._says.failed("the answer was not complete in time")
        return bytes(received)

    def _refused(self, response: httpx.Response, body: bytes) -> ModelError:
        failure = self._codec.classify(response.status_code, body)
        if failure.cause not in _FINAL:
            again = retry.transient(response.headers, failure.transient)
            failure = replace(failure, transient=again)
        wait = retry.asked(response.headers, self._clock.now())
        if wait is None:
            wait = failure.retry_after
        return self._says.refused(response.status_code, response.headers, failure, wait)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """httpx's errors as ours. Their text is quoted with care: some hold header values."""
        try:
            yield
        except httpx.TimeoutException as error:
            raise self._says.failed(f"no answer from {self._says.host} in time") from error
        except httpx.RequestError as error:
            told = self._says.quoted(str(error)) or type(error).__name__
            raise self._says.failed(f"no answer from {self._says.host}: {told}") from error

    def _priced(self, found: Decoded) -> Reply:
        day = datetime.fromtimestamp(self._clock.now(), UTC).date()
        return Reply(
            text=found.text,
            calls=found.calls,
            wire=found.wire,
            stop=found.stop,
            usage=found.usage,
            cost_usd=catalogue.price(self._model, found.usage, day),
            detail=self._says.quoted(found.detail),
            dropped=found.dropped,
            thought=found.thought,
        )


def _http_client(
    auth: httpx.Auth, endpoint: Endpoint, transport: httpx.BaseTransport | None
) -> httpx.Client:
    return httpx.Client(
        auth=auth,
        headers={
            **endpoint.headers,
            "content-type": "application/json",
            "accept": "application/json",
            # Uncompressed, so that the cap on an answer counts what arrives.
            "accept-encoding": "identity",
            "user-agent": "sandpiper",
        },
        transport=transport,
        verify=_ssl_context(),
    )


def _host(who: str, base_url: str, provider: Provider) -> str:
    """Scheme and host of a base URL, to be shown. Raises ConfigError without showing the URL."""
    wanted = f"models.providers.{who}.base_url (${provider.url_env}): expected http(s)://host"
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL:
        raise ConfigError(wanted) from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise ConfigError(wanted)
    if url.userinfo or url.query or url.fragment:
        raise ConfigError(f"{wanted} without user, password, query or fragment")
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def _checked(who: str, key: str, provider: Provider) -> str:
    """The key as a header can carry it. Raises ConfigError without showing the key."""
    stripped = key.strip()
    if provider.key_env and not stripped:
        raise ConfigError(f"{who}: no API key: set {provider.key_env}")
    if not (stripped.isascii() and stripped.isprintable()) or " " in stripped:
        raise ConfigError(f"{who}: {provider.key_env} holds characters no API key has")
    return stripped
