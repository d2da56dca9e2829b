"""A circuit breaker for each provider: while one is down, requests fail at once.

While the circuit is closed, requests pass. It opens after FAILURES transient failures in a row,
each at most WINDOW seconds after the one before; a request counts as failed after all its retries.
While the circuit is open, requests are refused at once. After PAUSE seconds one request may pass;
its result closes the circuit or opens it again.
"""

import logging
import threading
from collections.abc import Callable
from enum import StrEnum

from worker.clock import Clock
from worker.conversation.model import Model, Reply, Request
from worker.errors import CIRCUIT_OPEN, ModelError
from worker.models.wrapper import ModelWrapper

_log = logging.getLogger(__name__)

FAILURES = 3
WINDOW = 120.0
PAUSE = 30.0


class Circuit(StrEnum):
    """What a breaker lets pass: everything, one request, or nothing."""

    CLOSED = "closed"
    PROBING = "probing"
    OPEN = "open"


OnChange = Callable[[str, Circuit], None]
"""Called at each change with the provider and its circuit."""


def ignore_change(provider: str, circuit: Circuit) -> None:
    """Do nothing."""


class Breaker:
    """The breaker of one provider, for all threads of this process."""

    def __init__(self, provider: str, clock: Clock, on_change: OnChange = ignore_change) -> None:
        self.circuit = Circuit.CLOSED
        self._provider, self._clock, self._on_change = provider, clock, on_change
        self._lock = threading.Lock()
        self._failures = 0
        self._failed_at = 0.0

    def request_entry(self) -> float:
        """Return the seconds to wait before a request. After 0.0, send it, and call `report_end`
        at its end."""
        with self._lock:
            if self.circuit is Circuit.CLOSED:
                return 0.0
            left = self._failed_at + PAUSE - self._clock.monotonic()
            if self.circuit is Circuit.PROBING or left > 0:
                return max(left, 1.0)
            self._set_circuit(Circuit.PROBING)
            return 0.0

    def report_end(self, *, failed: bool) -> None:
        """Record the end of a request; `failed` says that it failed for a transient reason."""
        with self._lock:
            if not failed:
                self._failures = 0
                self._set_circuit(Circuit.CLOSED)
                return
            now = self._clock.monotonic()
            recent = now - self._failed_at <= WINDOW
            self._failures = self._failures + 1 if recent else 1
            self._failed_at = now
            if self._failures >= FAILURES or self.circuit is not Circuit.CLOSED:
                self._set_circuit(Circuit.OPEN)

    def _set_circuit(self, circuit: Circuit) -> None:
        if circuit is self.circuit:
            return
        self.circuit = circuit
        _log.warning("%s: circuit %s", self._provider, circuit)
        self._on_change(self._provider, circuit)


class GuardedModel(ModelWrapper):
    """A `conversation.model.Model` behind its provider's breaker. As safe to share as the model."""

    def __init__(self, model: Model, breaker: Breaker) -> None:
        super().__init__(model)
        self._breaker = breaker

    def reply(self, request: Request) -> Reply:
        """See Model. If the breaker refuses, raises a transient ModelError of kind CIRCUIT_OPEN."""
        if wait := self._breaker.request_entry():
            raise ModelError(
                f"{self.name}: the provider has not answered for a while and is not asked now",
                transient=True,
                retry_after=wait,
                kind=CIRCUIT_OPEN,
            )
        failed = True
        try:
            reply = super().reply(request)
            failed = False
        except ModelError as error:
            failed = error.transient
            raise
        finally:
            self._breaker.report_end(failed=failed)
        return reply


class Breakers:
    """The breakers of a process, one for each provider."""

    def __init__(self, clock: Clock, on_change: OnChange = ignore_change) -> None:
        self._clock, self._on_change = clock, on_change
        self._breakers: dict[str, Breaker] = {}

    def guard(self, model: Model) -> GuardedModel:
        """Put a model behind its provider's breaker."""
        provider = model.name.partition("/")[0]
        breaker = Breaker(provider, self._clock, self._on_change)
        return GuardedModel(model, self._breakers.setdefault(provider, breaker))
