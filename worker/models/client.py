"""`HttpModel`: one model behind one provider, over HTTP, with retries and a deadline."""

import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypedDict

import httpx

from worker.clock import Clock
from worker.conversation.messages import add_cost
from worker.conversation.model import Reply, Request, StopReason
from worker.errors import ContextOverflow, ModelError
from worker.models.base import MAX_TOKENS, Cause, Decoded, Provider, WireTarget
from worker.models.catalogue import Catalogue
from worker.models.codec import dump_json
from worker.models.connection import (
    BoundElsewhere,
    ChangeWanted,
    Connection,
    RateLimited,
    RefusedForLength,
)
from worker.models.written_forms import remove_thoughts

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
        self._target = WireTarget(
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
        self._clock = clock
        self._max_attempts = max_attempts
        self._jitter = jitter
        self._url = httpx.URL(endpoint.url)

    def reply(self, request: Request) -> Reply:
        """Ask the model; transient failures are retried. Raises ModelError or ContextOverflow.

        If the answer asked for leaves no room for the conversation, this and all later requests
        ask for a shorter one. A server that wants a field of the request to be another is asked so
        from then on. One that refuses verbatim parts is asked once more without them.
        """
        changes, bare = 0, False
        while True:
            target, body = self._target, self._codec.encode(request, bare=bare)
            try:
                return replace(self._ask_until_readable(body, request.deadline), bare=bare)
            except BoundElsewhere as error:
                if bare:
                    raise
                _log.warning("%s; asking again without the verbatim parts", error)
                bare = True
            except ChangeWanted as error:
                adapted = target.adapt(error.change)
                if adapted == target or changes == _MOST_CHANGES:
                    raise
                _log.warning("%s; asking so from now on", error)
                changes, bare = changes + 1, False
                self._target, self._codec = adapted, self._make_codec(adapted)
            except RefusedForLength as error:
                shorter = self._choose_shorter_answer(error, target.choose_max_tokens(request))
                changes, bare = 0, False
                self._target = replace(self._target, max_tokens=shorter)
                self._codec = self._make_codec(self._target)

    def _choose_shorter_answer(self, error: RefusedForLength, asked: int) -> int:
        """Return how many tokens an answer may have if `asked` were too many. Raises
        ContextOverflow if it is the conversation that is too long."""
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
        return shorter

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
            reason = self._connection.quote_text(answer.detail)
            if answer.stop is StopReason.MALFORMED:
                _log.warning("%s: a broken answer (%s)", self.name, reason)
            if tries >= answer.max_retries:
                return Reply(
                    text=remove_thoughts(answer.text),
                    calls=answer.calls,
                    wire=answer.wire,
                    stop=answer.stop,
                    usage=answer.usage,
                    cost_usd=cost,
                    detail=reason,
                    dropped_calls=answer.dropped_calls,
                    thought=answer.thought,
                )
            tries += 1

    def _ask_for_all_parts(
        self, body: bytes, deadline: float | None
    ) -> tuple[Decoded, float | None]:
        answer, cost = self._ask_for_part(body, deadline)
        for _ in range(MAX_CONTINUATIONS):
            if not answer.continuation_fields:
                return answer, cost
            fields = dump_json(dict(answer.continuation_fields))
            rest, paid = self._ask_for_part(body[:-1] + b"," + fields[1:], deadline)
            answer, cost = join_answers(answer, rest), add_cost(cost, paid)
        if answer.continuation_fields:
            raise self._connection.make_failure(
                f"more than {MAX_CONTINUATIONS + 1} parts in one answer", transient=False
            )
        return answer, cost

    def _ask_for_part(self, body: bytes, deadline: float | None) -> tuple[Decoded, float | None]:
        """Return what the server answers, after the attempts that this takes, and its cost.

        Budgets depend on the usage, but some servers do not report it: then it is estimated from
        the bytes sent and received.
        """
        answer = self._ask_with_retries(body, deadline)
        usage = answer.usage
        if not usage.input:
            usage = replace(usage, uncached_input=len(body) // BYTES_PER_TOKEN)
        if not usage.output:
            received = len(answer.wire.encode(errors="replace"))
            usage = replace(usage, output=received // BYTES_PER_TOKEN)
        day = datetime.fromtimestamp(self._clock.now(), UTC).date()
        cost = self._catalogue.compute_price(self.name, usage, day)
        return replace(answer, usage=usage), cost

    def _ask_with_retries(self, body: bytes, deadline: float | None) -> Decoded:
        attempt = 0
        while True:
            attempt += 1
            try:
                return self._send_request(body, deadline)
            except ModelError as error:
                wait = self._choose_wait(error, attempt, deadline)
                self._on_failure(self.name, error, wait is not None)
                if wait is None:
                    is_last, alone = attempt >= self._max_attempts, len(body) // BYTES_PER_TOKEN
                    if is_last and isinstance(error, RateLimited) and alone > error.token_rate:
                        # All waits were in vain: alone it has more tokens than a minute may have.
                        raise ContextOverflow(
                            str(error), kind=error.kind, limit=error.token_rate
                        ) from error
                    raise
                _log.warning("%s; attempt %d failed, next in %.1f s", error, attempt, wait)
            self._clock.sleep(wait)

    def _choose_wait(self, error: ModelError, attempt: int, deadline: float | None) -> float | None:
        """Return the seconds until the next attempt, or None if no further one is made."""
        if not error.transient or attempt >= self._max_attempts:
            return None
        wait = error.retry_after
        if wait is None:
            wait = min(0.5 * 2.0 ** (attempt - 1), 8.0) * (1.0 - 0.25 * self._jitter())
        left = PATIENCE if deadline is None else deadline - self._clock.monotonic()
        return wait if wait < min(left, PATIENCE) else None

    def _send_request(self, body: bytes, deadline: float | None) -> Decoded:
        received = self._connection.send(self._url, body, deadline, MAX_ANSWER)
        if received.status != httpx.codes.OK:
            refusal = self._codec.classify(received.status, received.body)
            said = received.headers.get("x-should-retry", "").strip().lower()
            if refusal.cause not in _FINAL and said in ("true", "false"):
                refusal = replace(refusal, transient=said == "true")
            raise self._connection.make_refusal(received, refusal)
        try:
            answer = self._codec.decode(received.body)
        except ValueError as error:
            raise self._connection.make_unread(received, str(error)) from error
        if answer.needs_bare_request:
            raise BoundElsewhere(f"{self.name}: {self._connection.quote_text(answer.detail)}")
        return answer


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
    elements = [inner for wire in (first.wire, rest.wire) if (inner := wire.strip()[1:-1].strip())]
    calls = first.calls + rest.calls if runs else ()
    return replace(
        rest,
        text=first.text + rest.text,
        calls=calls,
        wire=f"[{','.join(elements)}]" if runs else "[]",
        stop=StopReason.TOOL_CALLS if calls and rest.stop is StopReason.END else rest.stop,
        usage=usage,
        dropped_calls=first.dropped_calls + rest.dropped_calls + (0 if runs else len(first.calls)),
        thought=runs and (first.thought or rest.thought),
    )
