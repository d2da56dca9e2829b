"""`HttpModel`: one model behind one provider, over HTTP, with retries and a deadline."""

import logging
import random
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache

import httpx

from worker.core.conversation.messages import Usage
from worker.core.ports import Clock, Reply, Request, StopReason
from worker.errors import ConfigError, ModelError
from worker.models.base import MAX_TOKENS, Cause, Decoded, Dialect, Endpoint, Provider, Target
from worker.models.catalogue.built_in import BUILT_IN, Catalogue
from worker.models.http import continuation, retry
from worker.models.http.refusals import BoundElsewhere, Spokesman

_log = logging.getLogger(__name__)

CONNECT_TIMEOUT = 5.0
READ_TIMEOUT = 600.0
WRITE_TIMEOUT = 60.0
MAX_ATTEMPTS = 6
MAX_ANSWER = 32 * 1024 * 1024
BYTES_PER_TOKEN = 4
MOST_IDLE = 64
"""Connections kept open between requests."""

MAX_HOPS = 16
"""Parts an answer may come in: many times what the longest one needs."""
_FINAL = frozenset({Cause.SPEND_LIMIT, Cause.QUOTA, Cause.OVERFLOW, Cause.BOUND})


@cache
def _ssl_context() -> ssl.SSLContext:
    """Shared by all clients: loading the CA bundle costs more than a request."""
    return httpx.create_ssl_context()


Told = Callable[[str, ModelError, bool], None]
"""Hears of each failed attempt: the model's name, the error, and whether another one follows."""


def untold(model: str, error: ModelError, again: bool) -> None:
    """Nobody wants to know."""


class HttpModel:
    """A `core.ports.Model`. Safe to use from several threads; `close` it at the end.

    `timeout` is the longest silence of the provider in seconds; `jitter` gives values in [0, 1).
    `dialect` replaces the endpoint's own; `known` says what the model can and costs.
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
        dialect: Dialect | None = None,
        known: Catalogue = BUILT_IN,
        told: Told = untold,
    ) -> None:
        self._name = name
        self._told = told
        who, _, model = name.partition("/")
        key = _checked(who, key, provider)
        self._known = known
        self._info = known.info(name)
        self._keeps_cache_without_tools = provider.keeps_cache_without_tools
        self._max_tokens = min(MAX_TOKENS, self._info.max_output)
        self._endpoint = provider.endpoint(base_url, model)
        self._codec = provider.codec(
            Target(
                origin=name,
                max_tokens=self._max_tokens,
                head=self._endpoint.head,
                dialect=dialect or self._endpoint.dialect,
                info=self._info,
            )
        )
        self._says = Spokesman(name, provider, _host(who, base_url, provider), key)
        self._clock = clock
        self._timeout = timeout
        self._max_attempts = max_attempts
        self._jitter = jitter
        self._client = _http_client(provider.auth(key), self._endpoint, transport)
        self._url = httpx.URL(self._endpoint.url)

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

    @property
    def keeps_cache_without_tools(self) -> bool:
        """Whether a request with the tools switched off still reads the cached messages."""
        return self._keeps_cache_without_tools

    def reply(self, request: Request) -> Reply:
        """Ask once, retrying what is transient. Raises ModelError or ContextOverflow."""
        try:
            return self._answer(self._codec.encode(request), request.deadline)
        except BoundElsewhere as error:
            _log.warning("%s; asking again without the verbatim parts", error)
            bare = self._answer(self._codec.encode(request, bare=True), request.deadline)
            return replace(bare, bare=True)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _answer(self, body: bytes, deadline: float | None) -> Reply:
        """The answer; one that comes out broken is asked for again, and paid for all the same."""
        cost: float | None = 0.0
        tries = 0
        while True:
            found, paid = self._whole(body, deadline)
            cost = _sum(cost, paid)
            told = self._says.quoted(found.detail)
            if found.stop is StopReason.MALFORMED:
                _log.warning("%s: a broken answer (%s)", self._name, told)
            if tries >= found.tries:
                return self._reply(found, cost)
            tries += 1

    def _whole(self, body: bytes, deadline: float | None) -> tuple[Decoded, float | None]:
        """The answer with all its parts, and what they cost."""
        found, cost = self._part(body, deadline)
        for _ in range(MAX_HOPS):
            if not found.more:
                break
            rest, paid = self._part(continuation.extended(body, found.more), deadline)
            found, cost = continuation.joined(found, rest), _sum(cost, paid)
        if found.more:
            raise self._says.failed(f"more than {MAX_HOPS} parts in one answer", transient=False)
        return found, cost

    def _part(self, body: bytes, deadline: float | None) -> tuple[Decoded, float | None]:
        found = self._ask(body, deadline)
        usage = _estimated(found, len(body))
        if usage is not found.usage:
            found = replace(found, usage=usage)
        day = datetime.fromtimestamp(self._clock.now(), UTC).date()
        return found, self._known.price(self._name, usage, day)

    def _ask(self, body: bytes, deadline: float | None) -> Decoded:
        attempt = 0
        while True:
            attempt += 1
            try:
                return self._attempt(body, deadline)
            except ModelError as error:
                wait = self._wait(error, attempt, deadline)
                self._told(self._name, error, wait is not None)
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
        # Made by hand: the client would merge its headers, cookies and parameters anew each time.
        request = httpx.Request(
            "POST",
            self._url,
            headers=self._client.headers,
            content=body,
            extensions={"timeout": timeout.as_dict()},
        )
        with self._translated(), closing(self._client.send(request, stream=True)) as response:
            received = self._read(response, deadline)
        if response.status_code != httpx.codes.OK:
            raise self._refused(response, received)
        try:
            found = self._codec.decode(received)
        except ValueError as error:
            told = self._says.quoted(str(error))
            raise self._says.failed(f"the answer cannot be read: {told}", kind="unread") from error
        if found.bound:
            raise BoundElsewhere(f"{self._name}: {self._says.quoted(found.detail)}")
        return found

    def _time_left(self, deadline: float | None) -> httpx.Timeout:
        left = self._timeout
        if deadline is not None:
            left = min(left, deadline - self._clock.monotonic())
        if left <= 0:
            raise self._says.failed("no time is left for the answer", kind="timeout")
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
                raise self._says.failed("the answer was not complete in time", kind="timeout")
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
            said = f"no answer from {self._says.host} in time"
            raise self._says.failed(said, kind="timeout") from error
        except httpx.RequestError as error:
            told = self._says.quoted(str(error)) or type(error).__name__
            said = f"no answer from {self._says.host}: {told}"
            raise self._says.failed(said, kind="connection") from error

    def _reply(self, found: Decoded, cost: float | None) -> Reply:
        return Reply(
            text=found.text,
            calls=found.calls,
            wire=found.wire,
            stop=found.stop,
            usage=found.usage,
            cost_usd=cost,
            detail=self._says.quoted(found.detail),
            dropped=found.dropped,
            thought=found.thought,
        )


def _sum(total: float | None, cost: float | None) -> float | None:
    return None if total is None or cost is None else total + cost


def _estimated(found: Decoded, asked: int) -> Usage:
    """The usage as told, else as the bytes of question and answer suggest (wire-models 4.4).

    Budgets are kept with it, so a server that counts no tokens gives none away.
    """
    usage = found.usage
    if not usage.input:
        usage = replace(usage, uncached_input=asked // BYTES_PER_TOKEN)
    if not usage.output:
        usage = replace(usage, output=len(found.wire.encode(errors="replace")) // BYTES_PER_TOKEN)
    return usage


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
        # The sessions of a worker share it: none may wait for another one's connection.
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=MOST_IDLE),
        verify=_ssl_context(),
    )


def _host(who: str, base_url: str, provider: Provider) -> str:
    """Scheme and host of a base URL, to be shown. Raises ConfigError without showing the URL."""
    variable = f" (${provider.url_env})" if provider.url_env else ""
    wanted = f"models.providers.{who}.base_url{variable}: expected http(s)://host"
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
    if provider.key_env and not stripped and not provider.key_optional:
        raise ConfigError(f"{who}: no API key: set {provider.key_env}")
    if not (stripped.isascii() and stripped.isprintable()) or " " in stripped:
        raise ConfigError(f"{who}: {provider.key_env} holds characters no API key has")
    return stripped
