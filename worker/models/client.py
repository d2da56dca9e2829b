"""`HttpModel`: one model behind one provider, over HTTP, with retries and a deadline."""

import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypedDict

import httpx

from worker.clock import Clock
from worker.conversation.messages import Usage, add_cost
from worker.conversation.model import Reply, Request, StopReason
from worker.errors import ContextOverflow, ModelError
from worker.models.base import MAX_TOKENS, Cause, Decoded, Provider, Target
from worker.models.catalogue import Catalogue
from worker.models.codec import dump_json
from worker.models.connection import Connection, Received
from worker.models.refusals import BoundElsewhere, ChangeWanted, RateLimited, RefusedForLength
from worker.models.thoughts import remove_thoughts

_log = logging.getLogger(__name__)

READ_TIMEOUT = 600.0
MAX_ATTEMPTS = 6
MAX_ANSWER = 32 * 1024 * 1024
BYTES_PER_TOKEN = 4

PATIENCE = 120.0
"""The longest wait in seconds; a provider that asks for a longer one counts as down."""

MAX_CONTINUATIONS = 16
"""The most continuations that are fetched for one answer: many times what the longest needs."""
_MOST_CHANGES = 4
"""The most fields of a request that a server may want to be others."""

_FINAL = frozenset(
    {
        Cause.SPEND_LIMIT,
        Cause.QUOTA,
        Cause.OVERFLOW,
        Cause.BOUND,
        Cause.NO_TOOLS,
        Cause.TOO_LARGE,
        Cause.RATE_TOO_LOW,
        Cause.UNWANTED,
    }
)

_RUNNABLE = frozenset({StopReason.END, StopReason.TOOL_CALLS, StopReason.PAUSED})
_DROPPED = frozenset({StopReason.MALFORMED, StopReason.BLOCKED, StopReason.REFUSED})

_ANSWER_SHARE = 0.25
"""The share of a window that is left for the answer if more of it was asked for than half."""


OnFailure = Callable[[str, ModelError, bool], None]
"""Called at each failed attempt with the model's name, the error, and whether another follows."""


def ignore_failure(model: str, error: ModelError, again: bool) -> None:
    """Do nothing."""


class HttpOptions(TypedDict, total=False):
    """The options of `HttpModel` that have defaults there."""

    transport: httpx.BaseTransport | None
    timeout: float
    max_attempts: int
    jitter: Callable[[], float]
    dialect: Mapping[str, Any]
    on_failure: OnFailure
    answer_tokens: int


class HttpModel:
    """A `conversation.model.Model`. Safe to use from several threads; `close` it at the end.

    `timeout` is how many seconds an answer may take; `jitter` returns values in [0, 1).
    `dialect` replaces these fields of the endpoint's dialect; `catalogue` has the model's limits
    and prices. `level` is the reasoning level that requests state; "" stands for the catalogue's
    `effort`, if any. `answer_tokens` is the most that one answer may have.
    """

    def __init__(
        self,
        name: str,
        provider: Provider,
        base_url: str,
        key: str,
        *,
        clock: Clock,
        catalogue: Catalogue,
        level: str,
        transport: httpx.BaseTransport | None = None,
        timeout: float = READ_TIMEOUT,
        max_attempts: int = MAX_ATTEMPTS,
        jitter: Callable[[], float] = random.random,
        dialect: Mapping[str, Any] | None = None,
        on_failure: OnFailure = ignore_failure,
        answer_tokens: int = MAX_TOKENS,
    ) -> None:
        info = catalogue.get_info(name, level)
        max_tokens = min(answer_tokens, info.max_output)
        self.name, self.level = name, info.effort
        self.context_tokens = info.window - max_tokens
        self.binds_thinking = info.binds_thinking
        self.keeps_cache_without_tools = provider.keeps_cache_without_tools
        self.is_any_server = provider.is_any_server
        self._on_failure = on_failure
        self._catalogue = catalogue
        endpoint = provider.endpoint(base_url, name.partition("/")[2])
        self._make_codec = provider.codec
        self._target = Target(
            origin=name,
            max_tokens=max_tokens,
            head=endpoint.head,
            dialect=replace(endpoint.dialect, **(dialect or {})),
            info=info,
        )
        self._codec = provider.codec(self._target)
        self._connection = Connection(
            name,
            provider,
            base_url,
            key,
            endpoint.headers,
            clock=clock,
            transport=transport,
            timeout=timeout,
        )
        self._errors = self._connection.errors
        self._clock = clock
        self._max_attempts = max_attempts
        self._jitter = jitter
        self._url = httpx.URL(endpoint.url)

    def reply(self, request: Request) -> Reply:
        """Ask the model; transient failures are retried. Raises ModelError or ContextOverflow.

        If the answer asked for leaves no room for the conversation, this and all later requests
        ask for a shorter one. A server that wants a field of the request to be another is asked so
        from then on.
        """
        while True:
            asked = self._target.choose_max_tokens(request)
            try:
                return self._ask_as_wanted(request)
            except RefusedForLength as error:
                answer = asked if error.size.counts_answer else error.size.answer
                shorter = int(error.size.limit * _ANSWER_SHARE)
                # Half at least: whatever a server says, the loop ends after a few rounds.
                if 2 * answer <= error.size.limit or 2 * shorter > asked:
                    size = error.size.subtract_answer(asked)
                    raise ContextOverflow(
                        str(error), kind=error.kind, limit=size.limit, count=size.count
                    ) from error
                _log.warning(
                    "%s; its answers may have %d tokens from now on, not %d: set "
                    "models.catalogue.%s.max_output",
                    error,
                    shorter,
                    asked,
                    self.name,
                )
                self._target = replace(self._target, max_tokens=shorter)
                self._codec = self._make_codec(self._target)

    def _ask_as_wanted(self, request: Request) -> Reply:
        for _ in range(_MOST_CHANGES):
            target = self._target
            try:
                return self._ask_or_ask_bare(request)
            except ChangeWanted as error:
                adapted = target.adapt(error.change)
                if adapted == target:
                    raise
                _log.warning("%s; asking so from now on", error)
                self._target, self._codec = adapted, self._make_codec(adapted)
        return self._ask_or_ask_bare(request)

    def _ask_or_ask_bare(self, request: Request) -> Reply:
        try:
            return self._ask_until_readable(self._codec.encode(request), request.deadline)
        except BoundElsewhere as error:
            _log.warning("%s; asking again without the verbatim parts", error)
            bare = self._ask_until_readable(
                self._codec.encode(request, bare=True), request.deadline
            )
            return replace(bare, bare=True)

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def _ask_until_readable(self, body: bytes, deadline: float | None) -> Reply:
        """Return the answer, with the cost of all tries. After a broken answer it asks again."""
        cost: float | None = 0.0
        tries = 0
        while True:
            answer, paid = self._ask_for_all_parts(body, deadline)
            cost = add_cost(cost, paid)
            reason = self._errors.quote_text(answer.detail)
            if answer.stop is StopReason.MALFORMED:
                _log.warning("%s: a broken answer (%s)", self.name, reason)
            if tries >= answer.max_retries:
                return self._make_reply(answer, cost)
            tries += 1

    def _ask_for_all_parts(
        self, body: bytes, deadline: float | None
    ) -> tuple[Decoded, float | None]:
        """Return the answer with all its parts, and their cost."""
        answer, cost = self._ask_for_part(body, deadline)
        for _ in range(MAX_CONTINUATIONS):
            if not answer.continuation_fields:
                break
            rest, paid = self._ask_for_part(add_fields(body, answer.continuation_fields), deadline)
            answer, cost = join_answers(answer, rest), add_cost(cost, paid)
        if answer.continuation_fields:
            raise self._errors.make_failure(
                f"more than {MAX_CONTINUATIONS + 1} parts in one answer", transient=False
            )
        return answer, cost

    def _ask_for_part(self, body: bytes, deadline: float | None) -> tuple[Decoded, float | None]:
        answer = self._ask_with_retries(body, deadline)
        answer = replace(answer, usage=_estimate_usage(answer, len(body)))
        day = datetime.fromtimestamp(self._clock.now(), UTC).date()
        return answer, self._catalogue.compute_price(self.name, answer.usage, day)

    def _ask_with_retries(self, body: bytes, deadline: float | None) -> Decoded:
        attempt = 0
        while True:
            attempt += 1
            try:
                return self._send_request(body, deadline)
            except ModelError as error:
                wait = self._choose_wait(error, attempt, deadline)
                self._on_failure(self.name, error, wait is not None)
                if wait is None and attempt >= self._max_attempts:
                    _raise_for_length(error, len(body))
                if wait is None:
                    raise
                _log.warning("%s; attempt %d failed, next in %.1f s", error, attempt, wait)
            self._clock.sleep(wait)

    def _choose_wait(self, error: ModelError, attempt: int, deadline: float | None) -> float | None:
        """Return the seconds until the next attempt, or None if no further one is made."""
        if not error.transient or attempt >= self._max_attempts:
            return None
        wait = error.retry_after
        if wait is None:
            wait = _compute_backoff(attempt, self._jitter())
        left = PATIENCE if deadline is None else deadline - self._clock.monotonic()
        return wait if wait < min(left, PATIENCE) else None

    def _send_request(self, body: bytes, deadline: float | None) -> Decoded:
        received = self._connection.send(self._url, body, deadline, MAX_ANSWER)
        if received.status != httpx.codes.OK:
            raise self._make_refusal(received)
        try:
            answer = self._codec.decode(received.body)
        except ValueError as error:
            raise self._errors.make_unread(received.headers, received.body, str(error)) from error
        if answer.needs_bare_request:
            raise BoundElsewhere(f"{self.name}: {self._errors.quote_text(answer.detail)}")
        return answer

    def _make_refusal(self, received: Received) -> ModelError:
        failure = self._codec.classify(received.status, received.body)
        if failure.cause not in _FINAL:
            said = received.headers.get("x-should-retry", "").strip().lower()
            if said in ("true", "false"):
                failure = replace(failure, transient=said == "true")
        return self._connection.make_refusal(received, failure)

    def _make_reply(self, answer: Decoded, cost: float | None) -> Reply:
        return Reply(
            text=remove_thoughts(answer.text),
            calls=answer.calls,
            wire=answer.wire,
            stop=answer.stop,
            usage=answer.usage,
            cost_usd=cost,
            detail=self._errors.quote_text(answer.detail),
            dropped_calls=answer.dropped_calls,
            thought=answer.thought,
        )


def _raise_for_length(error: ModelError, request_bytes: int) -> None:
    """Raise ContextOverflow if all waits were in vain for a request that alone has more tokens than
    the account may use in a minute."""
    if isinstance(error, RateLimited) and request_bytes // BYTES_PER_TOKEN > error.token_rate:
        raise ContextOverflow(str(error), kind=error.kind, limit=error.token_rate) from error


def _estimate_usage(answer: Decoded, request_bytes: int) -> Usage:
    """Return the usage that the server states, else an estimate from the bytes sent and received.

    Budgets depend on the usage, but some servers do not report it.
    """
    usage = answer.usage
    if not usage.input:
        usage = replace(usage, uncached_input=request_bytes // BYTES_PER_TOKEN)
    if not usage.output:
        usage = replace(usage, output=len(answer.wire.encode(errors="replace")) // BYTES_PER_TOKEN)
    return usage


def _compute_backoff(attempt: int, jitter: float) -> float:
    """Return the wait in seconds after attempt `attempt` (from 1); `jitter` is in [0, 1)."""
    return min(0.5 * 2.0 ** (attempt - 1), 8.0) * (1.0 - 0.25 * jitter)


# ------------------------------------------------------------------------ answers in several parts


def add_fields(body: bytes, fields: Mapping[str, Any]) -> bytes:
    """Return the JSON object `body` with `fields` added at its end."""
    return body[:-1] + b"," + dump_json(dict(fields))[1:]


def join_answers(first: Decoded, rest: Decoded) -> Decoded:
    """Join both parts into one answer that ends as `rest` does.

    The input tokens are those of `rest`, whose request contained the whole conversation. The client
    adds up the costs.
    """
    usage = replace(
        rest.usage,
        output=first.usage.output + rest.usage.output,
        reasoning=first.usage.reasoning + rest.usage.reasoning,
    )
    if rest.stop in _DROPPED:
        return replace(rest, usage=usage, dropped_calls=rest.dropped_calls + len(first.calls))
    runs = rest.stop in _RUNNABLE
    calls = first.calls + rest.calls if runs else ()
    return replace(
        rest,
        text=first.text + rest.text,
        calls=calls,
        wire=_join_arrays(first.wire, rest.wire) if runs else "[]",
        stop=StopReason.TOOL_CALLS if calls and rest.stop is StopReason.END else rest.stop,
        usage=usage,
        dropped_calls=first.dropped_calls + rest.dropped_calls + (0 if runs else len(first.calls)),
        thought=runs and (first.thought or rest.thought),
    )


def _join_arrays(first: str, rest: str) -> str:
    inner = [part for part in (first.strip()[1:-1].strip(), rest.strip()[1:-1].strip()) if part]
    return f"[{','.join(inner)}]"
