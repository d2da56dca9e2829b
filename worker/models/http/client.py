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
from worker.models.catalogue.built_in import BUILT_IN
from worker.models.catalogue.model_info import Catalogue
from worker.models.http import continuation, retry
from worker.models.http.refusals import BoundElsewhere, ErrorWriter

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
"""Parts that an answer may have: many times what the longest one needs."""
_FINAL = frozenset({Cause.SPEND_LIMIT, Cause.QUOTA, Cause.OVERFLOW, Cause.BOUND})


@cache
def _get_ssl_context() -> ssl.SSLContext:
    """Returns the context shared by all clients: loading the CA bundle takes longer than a
    request."""
    return httpx.create_ssl_context()


OnFailure = Callable[[str, ModelError, bool], None]
"""Called at each failed attempt with the model's name, the error, and whether another follows."""


def ignore_failure(model: str, error: ModelError, again: bool) -> None:
    """Does nothing."""


class HttpModel:
    """A `core.ports.Model`. Safe to use from several threads; `close` it at the end.

    `timeout` is the longest silence of the provider in seconds; `jitter` gives values in [0, 1).
    `dialect` replaces the endpoint's own; `catalogue` has the model's limits and prices;
    `level` is the reasoning level that its requests state.
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
        catalogue: Catalogue = BUILT_IN,
        level: str = "",
        on_failure: OnFailure = ignore_failure,
    ) -> None:
        self._name = name
        self._on_failure = on_failure
        who, _, model = name.partition("/")
        key = _check_key(who, key, provider)
        self._catalogue = catalogue
        self._info = catalogue.get_info(name, level)
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
        self._errors = ErrorWriter(name, provider, _get_host(who, base_url, provider), key)
        self._clock = clock
        self._timeout = timeout
        self._max_attempts = max_attempts
        self._jitter = jitter
        self._client = _make_http_client(provider.auth(key), self._endpoint, transport)
        self._url = httpx.URL(self._endpoint.url)

    @property
    def name(self) -> str:
        """provider/model, as configured."""
        return self._name

    @property
    def level(self) -> str:
        """The reasoning level that its requests state; "" if they state none."""
        return self._info.effort

    @property
    def context_tokens(self) -> int:
        """The window less the longest answer."""
        return self._info.window - self._max_tokens

    @property
    def binds_thinking(self) -> bool:
        """Whether signed thinking is bound to the exact prefix."""
        return self._info.binds_thinking

    @property
    def keeps_cache_without_tools(self) -> bool:
        """Whether a request with the tools switched off still reads the cached messages."""
        return self._keeps_cache_without_tools

    def reply(self, request: Request) -> Reply:
        """Asks the model; transient failures are retried. Raises ModelError or ContextOverflow."""
        try:
            return self._ask_until_readable(self._codec.encode(request), request.deadline)
        except BoundElsewhere as error:
            _log.warning("%s; asking again without the verbatim parts", error)
            bare = self._ask_until_readable(
                self._codec.encode(request, bare=True), request.deadline
            )
            return replace(bare, bare=True)

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

    def _ask_until_readable(self, body: bytes, deadline: float | None) -> Reply:
        """Returns the answer; a broken one is asked for again, and its cost counts too."""
        cost: float | None = 0.0
        tries = 0
        while True:
            found, paid = self._ask_for_all_parts(body, deadline)
            cost = _add_cost(cost, paid)
            told = self._errors.quote_text(found.detail)
            if found.stop is StopReason.MALFORMED:
                _log.warning("%s: a broken answer (%s)", self._name, told)
            if tries >= found.max_retries:
                return self._make_reply(found, cost)
            tries += 1

    def _ask_for_all_parts(
        self, body: bytes, deadline: float | None
    ) -> tuple[Decoded, float | None]:
        """Returns the answer with all its parts, and their cost."""
        found, cost = self._ask_for_part(body, deadline)
        for _ in range(MAX_HOPS):
            if not found.continuation_fields:
                break
            rest, paid = self._ask_for_part(
                continuation.add_fields(body, found.continuation_fields), deadline
            )
            found, cost = continuation.join_answers(found, rest), _add_cost(cost, paid)
        if found.continuation_fields:
            raise self._errors.make_failure(
                f"more than {MAX_HOPS} parts in one answer", transient=False
            )
        return found, cost

    def _ask_for_part(self, body: bytes, deadline: float | None) -> tuple[Decoded, float | None]:
        found = self._ask_with_retries(body, deadline)
        usage = _estimate_usage(found, len(body))
        if usage is not found.usage:
            found = replace(found, usage=usage)
        day = datetime.fromtimestamp(self._clock.now(), UTC).date()
        return found, self._catalogue.compute_price(self._name, usage, day)

    def _ask_with_retries(self, body: bytes, deadline: float | None) -> Decoded:
        attempt = 0
        while True:
            attempt += 1
            try:
                return self._send_request(body, deadline)
            except ModelError as error:
                wait = self._choose_wait(error, attempt, deadline)
                self._on_failure(self._name, error, wait is not None)
                if wait is None:
                    raise
                _log.warning("%s; attempt %d failed, next in %.1f s", error, attempt, wait)
            self._clock.sleep(wait)

    def _choose_wait(self, error: ModelError, attempt: int, deadline: float | None) -> float | None:
        """Returns the seconds until the next attempt, or None if another is of no use."""
        if not error.transient or attempt >= self._max_attempts:
            return None
        wait = error.retry_after
        if wait is None:
            wait = retry.compute_backoff(attempt, self._jitter())
        left = retry.PATIENCE if deadline is None else deadline - self._clock.monotonic()
        return wait if wait < min(left, retry.PATIENCE) else None

    def _send_request(self, body: bytes, deadline: float | None) -> Decoded:
        timeout = self._make_timeout(deadline)
        # Not `build_request`: it would merge headers, cookies and parameters anew each time.
        request = httpx.Request(
            "POST",
            self._url,
            headers=self._client.headers,
            content=body,
            extensions={"timeout": timeout.as_dict()},
        )
        with self._translate_errors(), closing(self._client.send(request, stream=True)) as response:
            received = self._read_body(response, deadline)
        if response.status_code != httpx.codes.OK:
            raise self._make_refusal(response, received)
        try:
            found = self._codec.decode(received)
        except ValueError as error:
            told = self._errors.quote_text(str(error))
            raise self._errors.make_failure(
                f"the answer cannot be read: {told}", kind="unread"
            ) from error
        if found.needs_bare_request:
            raise BoundElsewhere(f"{self._name}: {self._errors.quote_text(found.detail)}")
        return found

    def _make_timeout(self, deadline: float | None) -> httpx.Timeout:
        left = self._timeout
        if deadline is not None:
            left = min(left, deadline - self._clock.monotonic())
        if left <= 0:
            raise self._errors.make_failure("no time is left for the answer", kind="timeout")
        connect = min(left, CONNECT_TIMEOUT)
        return httpx.Timeout(
            connect=connect, pool=connect, read=left, write=min(left, WRITE_TIMEOUT)
        )

    def _read_body(self, response: httpx.Response, deadline: float | None) -> bytes:
        """Returns the body. Raises ModelError if it is too large or not complete by the
        deadline."""
        received = bytearray()
        for chunk in response.iter_bytes():
            received += chunk
            if len(received) > MAX_ANSWER:
                raise self._errors.make_failure("the answer is larger than 32 MB", transient=False)
            if deadline is not None and self._clock.monotonic() > deadline:
                raise self._errors.make_failure(
                    "the answer was not complete in time", kind="timeout"
                )
        return bytes(received)

    def _make_refusal(self, response: httpx.Response, body: bytes) -> ModelError:
        failure = self._codec.classify(response.status_code, body)
        if failure.cause not in _FINAL:
            again = retry.is_transient(response.headers, failure.transient)
            failure = replace(failure, transient=again)
        wait = retry.get_retry_after(response.headers, self._clock.now())
        if wait is None:
            wait = failure.retry_after
        return self._errors.make_refusal(response.status_code, response.headers, failure, wait)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raises httpx's errors as ModelError. Their texts are cleaned: some hold header values."""
        try:
            yield
        except httpx.TimeoutException as error:
            said = f"no answer from {self._errors.host} in time"
            raise self._errors.make_failure(said, kind="timeout") from error
        except httpx.RequestError as error:
            told = self._errors.quote_text(str(error)) or type(error).__name__
            said = f"no answer from {self._errors.host}: {told}"
            raise self._errors.make_failure(said, kind="connection") from error

    def _make_reply(self, found: Decoded, cost: float | None) -> Reply:
        return Reply(
            text=found.text,
            calls=found.calls,
            wire=found.wire,
            stop=found.stop,
            usage=found.usage,
            cost_usd=cost,
            detail=self._errors.quote_text(found.detail),
            dropped_calls=found.cut_off_calls,
            thought=found.thought,
        )


def _add_cost(total: float | None, cost: float | None) -> float | None:
    return None if total is None or cost is None else total + cost


def _estimate_usage(found: Decoded, asked: int) -> Usage:
    """Returns the usage that the server states, else an estimate from the bytes sent and received.

    Budgets depend on it, and some servers count no tokens.
    """
    usage = found.usage
    if not usage.input:
        usage = replace(usage, uncached_input=asked // BYTES_PER_TOKEN)
    if not usage.output:
        usage = replace(usage, output=len(found.wire.encode(errors="replace")) // BYTES_PER_TOKEN)
    return usage


def _make_http_client(
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
        # All sessions of a worker share it: none may wait for the connection of another.
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=MOST_IDLE),
        verify=_get_ssl_context(),
    )


def _get_host(who: str, base_url: str, provider: Provider) -> str:
    """Returns scheme and host of a base URL, for messages. Raises ConfigError, which does not show
    the URL."""
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


def _check_key(who: str, key: str, provider: Provider) -> str:
    """Returns the key as a header can hold it. Raises ConfigError, which does not show the key."""
    stripped = key.strip()
    if provider.key_env and not stripped and not provider.key_optional:
        raise ConfigError(f"{who}: no API key: set {provider.key_env}")
    if not (stripped.isascii() and stripped.isprintable()) or " " in stripped:
        raise ConfigError(f"{who}: {provider.key_env} holds characters no API key has")
    return stripped
